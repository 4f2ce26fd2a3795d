// The checks that need no table: T-07, T-15, T-36, T-39, P-13 at the level of one request.
#include "server/node/grant_checker.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/random.h"

namespace tiercel::node {
namespace {

using Kind = transfer::AccessRequest::Kind;

constexpr uint64_t kSegmentBytes = 0x2000;
constexpr int64_t kNowMs = 5'000;
const Incarnation kStore{0xABCD};

GrantKey Key(uint32_t id, uint8_t fill) {
  GrantKey key;
  key.id = id;
  key.key.fill(std::byte{fill});
  return key;
}

ErrorCode CodeOf(const Status& status) { return status.ok() ? ErrorCode::kInternal : status.error().code(); }

class GrantCheckerTest : public testing::Test {
 protected:
  GrantCheckerTest() {
    grant_.right = Right::kRead;
    grant_.user = 11;
    grant_.version = Version{77};
    grant_.store = kStore;
    grant_.place = {2, 41};
    grant_.extents = ExtentList(Extent{0x100, 0x200});
    grant_.expiry_ms = kNowMs + 1;
    Seal(keys_[0], &grant_);
    request_.place = {2, 41};
    request_.offset = 0x100;
    request_.length = 0x200;
    request_.grant = &grant_;
  }
  Status Check() { return CheckGrant(request_, peer_, keys_, kStore, now_ms_); }
  void Reseal() { Seal(keys_[0], &grant_); }

  std::vector<GrantKey> keys_{Key(2, 0x22), Key(1, 0x11)};
  transfer::PeerIdentity peer_{.user = 11, .client = 5, .address = "test"};
  Grant grant_;
  transfer::AccessRequest request_;
  int64_t now_ms_ = kNowMs;
};

// T-15, P-13: no sum wraps around, and no range runs on into what lies behind.
TEST_F(GrantCheckerTest, RangeArithmetic) {
  const SegmentState segment{41, kSegmentBytes};
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  const struct {
    uint64_t offset, length;
    ErrorCode wanted;  // kInternal: ok
  } cases[] = {
      {0x1FFF, 1, ErrorCode::kInternal},       {0x2000, 1, ErrorCode::kOutOfRange},
      {0x1F00, 0x200, ErrorCode::kOutOfRange}, {0, 0, ErrorCode::kInvalid},
      {max, 1, ErrorCode::kOutOfRange},        {max - 10, 100, ErrorCode::kOutOfRange},
      {1, max, ErrorCode::kOutOfRange},        {0x1FFF, 2, ErrorCode::kOutOfRange},
      {max - 7, 16, ErrorCode::kOutOfRange},   {0, uint64_t{1} << 40, ErrorCode::kOutOfRange},
      {0, 0x2000, ErrorCode::kInternal},       {max, max, ErrorCode::kOutOfRange},
  };
  for (const auto& c : cases) {
    request_.offset = c.offset;
    request_.length = c.length;
    EXPECT_EQ(CodeOf(CheckPlace(request_, &segment)), c.wanted) << c.offset << "+" << c.length;
  }
}

TEST_F(GrantCheckerTest, SegmentThenEpochThenRange) {
  request_.offset = kSegmentBytes;  // wrong as well
  EXPECT_EQ(CodeOf(CheckPlace(request_, nullptr)), ErrorCode::kUnknownSegment);
  const SegmentState older{40, kSegmentBytes};
  EXPECT_EQ(CodeOf(CheckPlace(request_, &older)), ErrorCode::kOldEpoch);
  const SegmentState same{41, kSegmentBytes};
  EXPECT_EQ(CodeOf(CheckPlace(request_, &same)), ErrorCode::kOutOfRange);
}

TEST_F(GrantCheckerTest, AGoodGrantPasses) {
  EXPECT_TRUE(Check().ok());
  request_.kind = Kind::kView;
  EXPECT_TRUE(Check().ok());
  Seal(keys_[1], &grant_);  // the older of the two live keys
  EXPECT_TRUE(Check().ok());
}

// T-07
TEST_F(GrantCheckerTest, NoGrantOrOneForAnotherPlace) {
  request_.grant = nullptr;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
  request_.grant = &grant_;
  grant_.place.segment = 3;
  Reseal();
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
}

// T-39: one bit flipped in any one field, and what else is not allowed.
TEST_F(GrantCheckerTest, AnyFlippedBitIsRefused) {
  const Grant good = grant_;
  const auto flips = [&](const char* field, int bits, const std::function<void(Grant*, int)>& flip) {
    for (int bit = 0; bit < bits; ++bit) {
      grant_ = good;
      flip(&grant_, bit);
      EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant) << field << " bit " << bit;
    }
    grant_ = good;
  };
  flips("key", 32, [](Grant* g, int bit) { g->key_id ^= uint32_t{1} << bit; });
  flips("right", 8, [](Grant* g, int bit) { g->right = static_cast<Right>(static_cast<int>(g->right) ^ (1 << bit)); });
  flips("user", 64, [](Grant* g, int bit) { g->user ^= uint64_t{1} << bit; });
  flips("version", 64, [](Grant* g, int bit) { g->version.value ^= uint64_t{1} << bit; });
  flips("store", 64, [](Grant* g, int bit) { g->store.value ^= uint64_t{1} << bit; });
  flips("segment", 32, [](Grant* g, int bit) { g->place.segment ^= uint32_t{1} << bit; });
  flips("epoch", 32, [](Grant* g, int bit) { g->place.epoch ^= uint32_t{1} << bit; });
  flips("offset", 64, [](Grant* g, int bit) { g->extents = ExtentList(Extent{0x100 ^ (uint64_t{1} << bit), 0x200}); });
  flips("length", 64, [](Grant* g, int bit) { g->extents = ExtentList(Extent{0x100, 0x200 ^ (uint64_t{1} << bit)}); });
  flips("expiry", 63, [](Grant* g, int bit) { g->expiry_ms ^= int64_t{1} << bit; });
  flips("mac", 128,
        [](Grant* g, int bit) { g->mac[static_cast<size_t>(bit / 8)] ^= static_cast<std::byte>(1 << bit % 8); });
}

TEST_F(GrantCheckerTest, AnotherUsersGrant) {
  peer_.user = 12;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
}

TEST_F(GrantCheckerTest, RightsDoNotIncludeEachOther) {
  request_.kind = Kind::kWrite;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
  grant_.right = Right::kWrite;
  Reseal();
  EXPECT_TRUE(Check().ok());
  request_.kind = Kind::kRead;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
  request_.kind = Kind::kView;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
}

TEST_F(GrantCheckerTest, OneByteMoreThanGranted) {
  request_.length = 0x201;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
  request_.offset = 0xFF;
  request_.length = 0x200;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
}

TEST_F(GrantCheckerTest, Expiry) {
  now_ms_ = grant_.expiry_ms - 1;
  EXPECT_TRUE(Check().ok());
  now_ms_ = grant_.expiry_ms;
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kGrantExpired);
}

// T-36: the grant of a former life of the store, sealed with a key that is still in use, and with one that is not.
TEST_F(GrantCheckerTest, FormerLifeOfTheStore) {
  grant_.store = Incarnation{0xABCC};
  Reseal();
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kStaleIncarnation);
  Seal(Key(9, 0x99), &grant_);
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kStaleIncarnation);
  grant_.store = kStore;
  Seal(Key(9, 0x99), &grant_);
  EXPECT_EQ(CodeOf(Check()), ErrorCode::kBadGrant);
}

TEST_F(GrantCheckerTest, Tickets) {
  Ticket ticket{.key_id = 0, .user = 11, .client = 5, .expiry_ms = kNowMs + 1, .mac = {}};
  Seal(keys_[1], &ticket);
  const auto peer = CheckTicket(ticket, keys_, kNowMs, "here");
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->user, 11u);
  EXPECT_EQ(peer->client, 5u);
  EXPECT_EQ(peer->address, "here");
  const auto code = [&](const Ticket& t, int64_t now_ms) {
    const auto checked = CheckTicket(t, keys_, now_ms, "here");
    return checked.ok() ? ErrorCode::kInternal : checked.error().code();
  };
  EXPECT_EQ(code(ticket, kNowMs + 1), ErrorCode::kUnauthenticated);
  Ticket forged = ticket;
  forged.user = 12;
  EXPECT_EQ(code(forged, kNowMs), ErrorCode::kUnauthenticated);
  forged = ticket;
  forged.expiry_ms += 1000;
  EXPECT_EQ(code(forged, kNowMs), ErrorCode::kUnauthenticated);
  forged = ticket;
  forged.key_id = 9;
  EXPECT_EQ(code(forged, kNowMs), ErrorCode::kUnauthenticated);
}

TEST(ExtentsCoverTest, AgainstBytes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    ExtentList extents;
    bool covered[64] = {};
    for (uint64_t n = random.Below(5); n > 0; --n) {
      const Extent extent{random.Below(56), 1 + random.Below(8)};
      extents.push_back(extent);
      for (uint64_t i = 0; i < extent.length; ++i) covered[extent.offset + i] = true;
    }
    for (uint64_t offset = 0; offset < 60; ++offset) {
      for (uint64_t length = 1; length <= 4; ++length) {
        bool all = true;
        for (uint64_t i = 0; i < length; ++i) all = all && covered[offset + i];
        ASSERT_EQ(ExtentsCover(extents, {offset, length}), all) << "seed " << seed << " " << offset << "+" << length;
      }
    }
  }
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(ExtentsCover(ExtentList(Extent{0, 100}), {max - 3, 8}));
  EXPECT_FALSE(ExtentsCover(ExtentList(Extent{max - 3, 8}), {2, 1}));
  EXPECT_FALSE(ExtentsCover(ExtentList(), {0, 1}));
}

}  // namespace
}  // namespace tiercel::node
