#include "client/read_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "client/pieces.h"

namespace tiercel::client {

static_assert(std::endian::native == std::endian::little, "trailers are little-endian and are read as they lie");

transfer::Operation PieceOperation(transfer::OpKind kind, const Source& source, uint64_t place_offset,
                                   std::span<std::byte> memory, transfer::PieceObserver* observer) {
  transfer::Operation operation;
  operation.kind = kind;
  operation.peer = source.peer;
  operation.place = source.place;
  operation.offset = place_offset;
  operation.memory = memory;
  operation.grant = source.grant;
  operation.observer = observer;
  operation.registered = false;  // the caller's memory may be anything
  return operation;
}

Result<ReadPlan> ReadPlan::Make(uint64_t size, uint64_t offset, std::span<std::byte> target, BufferCache* buffers,
                                TrailerCache::Sums known_trailer) {
  const uint64_t end = offset + target.size();
  TIERCEL_CHECK(offset <= size && end <= size);
  ReadPlan plan;
  plan.size_ = size;
  if (target.empty()) return plan;

  // Whole blocks of the range are [inner, outer); the range may also lie within one block.
  const uint64_t inner = (offset + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const uint64_t outer = end == size ? size : end / kBlockBytes * kBlockBytes;
  if (offset < inner) {
    const uint64_t wanted = std::min(end, inner) - offset;
    TIERCEL_TRY(plan.AddEdge(offset / kBlockBytes, offset % kBlockBytes, target.first(wanted), buffers));
  }
  if (inner < outer) plan.AddRun(inner, target.subspan(inner - offset, outer - inner));
  if (inner <= outer && outer < end) {
    TIERCEL_TRY(plan.AddEdge(outer / kBlockBytes, 0, target.subspan(outer - offset), buffers));
  }

  uint64_t bytes = 0;
  for (const Run& run : plan.runs_) bytes += run.memory.size();
  plan.needs_trailer_ = bytes != size;
  plan.known_trailer_ = std::move(known_trailer);
  plan.StartOver();
  return plan;
}

void ReadPlan::AddRun(uint64_t offset, std::span<std::byte> memory) { runs_.push_back({offset, memory, nullptr}); }

Status ReadPlan::AddEdge(uint64_t block, uint64_t from, std::span<std::byte> target, BufferCache* buffers) {
  const uint64_t start = block * kBlockBytes;
  TIERCEL_ASSIGN(Buffer memory, buffers->Make(std::min(kBlockBytes, size_ - start)));
  AddRun(start, memory.span());
  edges_.push_back({std::move(memory), from, target});
  return Ok();
}

void ReadPlan::StartOver() {
  for (Run& run : runs_) run.hasher = std::make_unique<RunHasher>(run.memory.size());
  run_ = 0;
  run_offset_ = 0;
  arrived_bytes_ = 0;
  new_trailer_ = nullptr;
  trailer_missing_ = needs_trailer_ && known_trailer_ == nullptr;
  if (trailer_missing_) trailer_.resize(BlockCount(size_));
}

uint64_t ReadPlan::AddRunPart(const Source& source, const Run& run, uint64_t offset, uint64_t length,
                              std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers) const {
  ForEachPiece(
      *source.extents, run.offset + offset, length, [&](uint64_t place_offset, uint64_t value_offset, uint64_t bytes) {
        const uint64_t in_run = value_offset - run.offset;
        PieceHasher& hasher = hashers->emplace_back(run.hasher.get(), in_run);
        operations->push_back(
            PieceOperation(transfer::OpKind::kRead, source, place_offset, run.memory.subspan(in_run, bytes), &hasher));
      });
  return length;
}

uint64_t ReadPlan::AddTrailer(const Source& source, std::vector<transfer::Operation>* operations) {
  auto memory = std::as_writable_bytes(std::span(trailer_));
  ForEachPiece(*source.extents, size_, memory.size(), [&](uint64_t place_offset, uint64_t offset, uint64_t bytes) {
    operations->push_back(
        PieceOperation(transfer::OpKind::kRead, source, place_offset, memory.subspan(offset - size_, bytes), nullptr));
  });
  return memory.size();
}

uint64_t ReadPlan::AddStep(const Source& source, uint64_t budget, std::vector<transfer::Operation>* operations,
                           std::deque<PieceHasher>* hashers) {
  uint64_t bytes = 0;
  if (trailer_missing_) bytes += AddTrailer(source, operations);
  step_run_ = run_;
  step_offset_ = run_offset_;
  // Steps end at borders of blocks, so that taking one again spoils no other block's hash.
  uint64_t left = std::max(kBlockBytes, budget / kBlockBytes * kBlockBytes);
  while (step_run_ < runs_.size() && left > 0) {
    const Run& run = runs_[step_run_];
    const uint64_t take = std::min<uint64_t>(left, run.memory.size() - step_offset_);
    bytes += AddRunPart(source, run, step_offset_, take, operations, hashers);
    step_offset_ += take;
    left -= take;
    if (step_offset_ == run.memory.size()) {
      ++step_run_;
      step_offset_ = 0;
      left = left / kBlockBytes * kBlockBytes;  // behind a short last block
    }
  }
  return bytes;
}

void ReadPlan::StepDone(uint64_t arrived_bytes) {
  run_ = step_run_;
  run_offset_ = step_offset_;
  arrived_bytes_ += arrived_bytes;
  trailer_missing_ = false;
}

void ReadPlan::StepFailed() {
  uint64_t from = run_offset_;
  for (size_t i = run_; i < runs_.size() && i <= step_run_; ++i) {
    const uint64_t to = i == step_run_ ? step_offset_ : runs_[i].memory.size();
    runs_[i].hasher->Again(from, to - from);
    from = 0;
  }
}

Status ReadPlan::Conclude(const Expected& expected, ReadPastLease policy, int64_t now_ms) {
  TIERCEL_CHECK(complete() && expected.size == size_);
  Evidence evidence;
  std::vector<uint64_t> sums;
  for (Run& run : runs_) {
    std::vector<uint64_t> more = run.hasher->Finish(run.memory);
    sums.insert(sums.end(), more.begin(), more.end());
  }
  evidence.first_block = runs_.empty() ? 0 : runs_[0].offset / kBlockBytes;
  evidence.sums = sums;
  evidence.bytes = arrived_bytes_;
  if (needs_trailer_ && known_trailer_ != nullptr) {
    evidence.trailer = *known_trailer_;
  } else if (needs_trailer_) {
    evidence.trailer = trailer_;
    // A trailer that is short shows as a short value.
    evidence.bytes -= std::min(arrived_bytes_, TrailerBytes(size_));
  }
  // A range of no bytes asks for nothing, and nothing was read that could be wrong.
  if (runs_.empty() && size_ > 0) return Ok();
  TIERCEL_TRY(Verify(expected, evidence, policy, now_ms));
  for (const Edge& edge : edges_) std::memcpy(edge.target.data(), edge.block.data() + edge.from, edge.target.size());
  if (needs_trailer_ && known_trailer_ == nullptr) {
    new_trailer_ = std::make_shared<const std::vector<uint64_t>>(std::move(trailer_));
  }
  return Ok();
}

}  // namespace tiercel::client
