#include "transfer/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace tiercel::transfer::shm {

Result<std::unique_ptr<SharedMemory>> SharedMemory::Create(size_t bytes, std::function<void(uint32_t)> on_end) {
  static std::atomic<uint32_t> next_id{1};
  auto memory = std::unique_ptr<SharedMemory>(new SharedMemory);
  memory->file_ = UniqueFd(memfd_create("tiercel-registered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory->file_) return SystemError("create shared memory", errno);
  if (ftruncate(memory->file_.get(), static_cast<off_t>(bytes)) != 0) return SystemError("size shared memory", errno);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->file_.get(), 0);
  if (p == MAP_FAILED) return SystemError("map shared memory", errno);
  memory->mapping_ = Mapping(p, bytes);
  if (fcntl(memory->file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("seal shared memory", errno);
  }
  memory->memory = memory->mapping_.bytes();
  memory->id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  memory->on_end_ = std::move(on_end);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (on_end_) on_end_(id_);
}

}  // namespace tiercel::transfer::shm
