// Block sums of a value that arrives in pieces.
//
// A block is hashed on the way as long as its pieces come in order; the streaming state (576 bytes) exists only
// while the block is under way, and at most kMaxStreams at a time, so that a hasher of a 64 GiB value stays small.
// A block that lost its order, or found no state left, is hashed from memory in Finish.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel {
namespace {

constexpr uint32_t kMaxStreams = 64;
constexpr uint32_t kNone = UINT32_MAX;

struct Block {
  enum class State : uint8_t { kUntouched, kStreaming, kFromMemory, kDone };
  uint64_t sum = 0;
  uint32_t filled = 0;  // bytes fed in order
  uint32_t stream = kNone;
  State state = State::kUntouched;
};

}  // namespace

struct BlockHasher::Impl {
  uint64_t size;
  std::vector<Block> blocks;
  std::vector<StreamHasher> streams;
  std::vector<uint32_t> idle;

  uint64_t BytesOf(uint64_t block) const { return std::min(kBlockBytes, size - block * kBlockBytes); }

  uint32_t TakeStream() {
    if (idle.empty()) {
      if (streams.size() == kMaxStreams) return kNone;
      streams.emplace_back();
      return static_cast<uint32_t>(streams.size() - 1);
    }
    const uint32_t stream = idle.back();
    idle.pop_back();
    streams[stream].Reset();
    return stream;
  }

  void DropStream(Block* block) {
    if (block->stream == kNone) return;
    idle.push_back(std::exchange(block->stream, kNone));
  }

  void FeedBlock(uint64_t number, uint64_t offset_in_block, std::span<const std::byte> piece) {
    Block& block = blocks[number];
    const bool in_order = block.state != Block::State::kDone && block.state != Block::State::kFromMemory &&
                          block.filled == offset_in_block;
    if (in_order && offset_in_block == 0 && piece.size() == BytesOf(number)) {
      block.sum = HashBytes(piece);
      block.state = Block::State::kDone;
      return;
    }
    if (in_order && block.stream == kNone) block.stream = TakeStream();
    if (!in_order || block.stream == kNone) {
      DropStream(&block);
      block.state = Block::State::kFromMemory;
      return;
    }
    block.state = Block::State::kStreaming;
    streams[block.stream].Update(piece);
    block.filled += static_cast<uint32_t>(piece.size());
    if (block.filled == BytesOf(number)) {
      block.sum = streams[block.stream].Digest();
      block.state = Block::State::kDone;
      DropStream(&block);
    }
  }
};

BlockHasher::BlockHasher(uint64_t size)
    : impl_(new Impl{.size = size, .blocks = std::vector<Block>(BlockCount(size)), .streams = {}, .idle = {}}) {}
BlockHasher::~BlockHasher() = default;

void BlockHasher::Feed(uint64_t offset, std::span<const std::byte> piece) {
  TIERCEL_CHECK(offset <= impl_->size);
  TIERCEL_CHECK(piece.size() <= impl_->size - offset);
  while (!piece.empty()) {
    const uint64_t in_block = offset % kBlockBytes;
    const size_t n = std::min<uint64_t>(piece.size(), kBlockBytes - in_block);
    impl_->FeedBlock(offset / kBlockBytes, in_block, piece.first(n));
    offset += n;
    piece = piece.subspan(n);
  }
}

void BlockHasher::SetBlock(uint64_t block, uint64_t sum) {
  TIERCEL_CHECK(block < impl_->blocks.size());
  ResetBlock(block);
  impl_->blocks[block].sum = sum;
  impl_->blocks[block].state = Block::State::kDone;
}

void BlockHasher::ResetBlock(uint64_t block) {
  TIERCEL_CHECK(block < impl_->blocks.size());
  impl_->DropStream(&impl_->blocks[block]);
  impl_->blocks[block] = Block{};
}

std::vector<uint64_t> BlockHasher::Finish(std::span<const std::byte> value) {
  std::vector<uint64_t> sums(impl_->blocks.size());
  for (uint64_t number = 0; number < sums.size(); ++number) {
    Block& block = impl_->blocks[number];
    if (block.state != Block::State::kDone) {
      TIERCEL_CHECK(value.size() == impl_->size, "a block was not hashed on the way: its bytes are needed");
      block.sum = HashBytes(value.subspan(number * kBlockBytes, impl_->BytesOf(number)));
      block.state = Block::State::kDone;
      impl_->DropStream(&block);
    }
    sums[number] = block.sum;
  }
  return sums;
}

}  // namespace tiercel
