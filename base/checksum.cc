#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checksum_kernels.h"

namespace tiercel {
namespace {

using internal::ChecksumKernels;
using internal::StreamState;

static_assert(std::endian::native == std::endian::little, "sums are serialised as they lie in memory");

const ChecksumKernels& Kernels() {
  static const ChecksumKernels& chosen =
      __builtin_cpu_supports("avx2") ? internal::kAvx2Kernels : internal::kSse2Kernels;
  return chosen;
}

}  // namespace

uint64_t HashBytes(std::span<const std::byte> bytes) { return Kernels().hash(bytes.data(), bytes.size()); }

uint64_t CopyAndHash(void* target, const void* source, size_t n) { return Kernels().copy_and_hash(target, source, n); }

uint64_t KeySeed(uint32_t name_space, std::string_view key) {
  // One-shot: a streaming state costs more than hashing the usual key. Longer keys than the limit are refused
  // by commands, but only after they were looked at, so they must hash to something.
  constexpr size_t kOnStack = 512;
  if (key.size() <= kOnStack) {
    std::byte message[sizeof(name_space) + kOnStack];
    std::memcpy(message, &name_space, sizeof(name_space));
    if (!key.empty()) std::memcpy(message + sizeof(name_space), key.data(), key.size());
    return Kernels().hash(message, sizeof(name_space) + key.size());
  }
  StreamState state;
  Kernels().stream_reset(&state);
  Kernels().stream_update(&state, &name_space, sizeof(name_space));
  Kernels().stream_update(&state, key.data(), key.size());
  return Kernels().stream_digest(&state);
}

uint64_t ObjectSum(uint64_t key_seed, uint64_t size, std::span<const uint64_t> block_sums) {
  TIERCEL_CHECK(block_sums.size() == BlockCount(size));
  constexpr size_t kOnStack = 64;  // words: values of up to 63 MiB
  if (block_sums.size() < kOnStack) {
    uint64_t message[kOnStack];
    message[0] = size;
    for (size_t i = 0; i < block_sums.size(); ++i) message[i + 1] = block_sums[i];
    return Kernels().hash_seeded(message, (block_sums.size() + 1) * sizeof(uint64_t), key_seed);
  }
  std::vector<uint64_t> message;  // at most 512 KiB
  message.reserve(block_sums.size() + 1);
  message.push_back(size);
  message.insert(message.end(), block_sums.begin(), block_sums.end());
  return Kernels().hash_seeded(message.data(), message.size() * sizeof(uint64_t), key_seed);
}

uint64_t ObjectSumOf(uint64_t key_seed, std::span<const std::byte> value) {
  if (value.size() <= kBlockBytes) {
    const uint64_t sum = HashBytes(value);
    return ObjectSum(key_seed, value.size(), {&sum, value.empty() ? 0u : 1u});
  }
  std::vector<uint64_t> sums(BlockCount(value.size()));
  for (size_t block = 0; block < sums.size(); ++block) {
    const size_t from = block * kBlockBytes;
    sums[block] = HashBytes(value.subspan(from, std::min<size_t>(kBlockBytes, value.size() - from)));
  }
  return ObjectSum(key_seed, value.size(), sums);
}

struct StreamHasher::State : StreamState {};

StreamHasher::StreamHasher() : state_(std::make_unique<State>()) { Reset(); }
StreamHasher::~StreamHasher() = default;
StreamHasher::StreamHasher(StreamHasher&&) noexcept = default;
StreamHasher& StreamHasher::operator=(StreamHasher&&) noexcept = default;

void StreamHasher::Reset() { Kernels().stream_reset(state_.get()); }
void StreamHasher::Update(std::span<const std::byte> piece) {
  if (!piece.empty()) Kernels().stream_update(state_.get(), piece.data(), piece.size());
}
uint64_t StreamHasher::Digest() const { return Kernels().stream_digest(state_.get()); }

std::string_view ChecksumInstructionSet() { return Kernels().name; }

}  // namespace tiercel
