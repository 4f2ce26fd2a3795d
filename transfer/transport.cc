#include "transfer/transport.h"

namespace tiercel::transfer {

std::string_view TransportName(TransportKind kind) {
  switch (kind) {
    case TransportKind::kLocal: return "local";
    case TransportKind::kShm: return "shm";
    case TransportKind::kRdma: return "rdma";
    case TransportKind::kTcp: return "tcp";
    case TransportKind::kFaulty: return "faulty";
  }
  return "?";
}

Result<std::unique_ptr<MemoryRegion>> Transport::Register(std::span<std::byte> memory) {
  auto region = std::make_unique<MemoryRegion>();
  region->memory = memory;
  return region;
}

Result<std::unique_ptr<MemoryRegion>> Transport::Allocate(size_t bytes) {
  (void)bytes;
  return Error(ErrorCode::kNoDevice, std::string(TransportName(kind())) + " has no memory of its own");
}

}  // namespace tiercel::transfer
