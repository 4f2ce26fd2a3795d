#include "client/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel::client {
namespace {

// Why the bytes are wrong, or kInternal when they are right.
struct Finding {
  bool good = true;
  ErrorCode code = ErrorCode::kChecksum;
  std::string what;
};

Finding Bad(ErrorCode code, std::string what) { return {false, code, std::move(what)}; }

Finding Examine(const Expected& expected, const Evidence& evidence) {
  const uint64_t blocks = BlockCount(expected.size);
  const uint64_t end_block = evidence.first_block + evidence.sums.size();
  TIERCEL_CHECK(end_block <= blocks);
  const uint64_t wanted = std::min(end_block * kBlockBytes, expected.size) - evidence.first_block * kBlockBytes;
  if (evidence.bytes != wanted) {
    return Bad(ErrorCode::kLength, fmt::format("{} bytes arrived of {}", evidence.bytes, wanted));
  }

  const bool whole = evidence.sums.size() == blocks;
  std::span<const uint64_t> all = whole ? evidence.sums : evidence.trailer;
  if (all.size() != blocks) return Bad(ErrorCode::kLength, "the list of block sums is not whole");
  if (ObjectSum(expected.key_seed, expected.size, all) != expected.sum) {
    return Bad(ErrorCode::kChecksum, whole ? "the bytes do not match the object's checksum"
                                           : "the list of block sums does not match the object's checksum");
  }
  auto claimed = all.subspan(evidence.first_block, evidence.sums.size());
  auto bad = std::mismatch(claimed.begin(), claimed.end(), evidence.sums.begin());
  if (bad.first != claimed.end()) {
    return Bad(ErrorCode::kChecksum, fmt::format("block {} does not match its checksum",
                                                 evidence.first_block + (bad.first - claimed.begin())));
  }
  return {};
}

}  // namespace

Status Verify(const Expected& expected, const Evidence& evidence, ReadPastLease policy, int64_t now_ms) {
  const bool past_lease = now_ms >= expected.lease_until_ms;
  Finding finding = Examine(expected, evidence);
  if (finding.good && past_lease && policy == ReadPastLease::kDiscard) {
    finding = Bad(ErrorCode::kLeaseExpired, "right bytes are discarded");
  }
  if (finding.good) return Ok();
  return Error(past_lease ? ErrorCode::kLeaseExpired : finding.code,
               fmt::format("{} (version {}, {} bytes, {})", finding.what, expected.version.value, expected.size,
                           past_lease ? "read past its lease" : "within its lease"));
}

}  // namespace tiercel::client
