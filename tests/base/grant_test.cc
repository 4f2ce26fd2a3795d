#include "base/grant.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/checksum.h"
#include "base/random.h"

namespace tiercel {
namespace {

GrantKey KeyFrom(uint64_t seed, uint32_t id) {
  GrantKey key{.id = id};
  Random random(seed);
  for (std::byte& b : key.key) b = static_cast<std::byte>(random.Next());
  return key;
}

Grant SealedGrant(const GrantKey& key, uint32_t extents) {
  Grant grant{.right = Right::kRead,
              .user = 0x1122334455667788,
              .version = {(uint64_t{3} << kCounterBits) | 77},
              .store = {0x9f3c20aa},
              .place = {2, 41},
              .expiry_ms = 1'234'567};
  for (uint32_t i = 0; i < extents; ++i) grant.extents.push_back({uint64_t{i} * 8192, 4096});
  Seal(key, &grant);
  return grant;
}

// Every bit of every field in turn.
template <typename T>
void FlipEach(const GrantKey& key, const T& sealed, const std::function<uint64_t(T*, uint64_t mask)>& flip, int bits,
              const char* field) {
  for (int bit = 0; bit < bits; ++bit) {
    T changed = sealed;
    flip(&changed, uint64_t{1} << bit);
    EXPECT_FALSE(MacIsRight(key, changed)) << field << " bit " << bit;
  }
}

// T-39: one bit flipped in any one field.
TEST(Grant, AnyBitOfAnyFieldBreaksTheSeal) {
  const GrantKey key = KeyFrom(1, 7);
  for (const uint32_t extents : {0u, 1u, 3u, kMaxExtents}) {
    const Grant sealed = SealedGrant(key, extents);
    ASSERT_TRUE(MacIsRight(key, sealed));
    FlipEach<Grant>(key, sealed, [](Grant* g, uint64_t m) { return g->key_id ^= static_cast<uint32_t>(m); }, 32, "key");
    FlipEach<Grant>(key, sealed, [](Grant* g, uint64_t m) { return g->user ^= m; }, 64, "user");
    FlipEach<Grant>(key, sealed, [](Grant* g, uint64_t m) { return g->version.value ^= m; }, 64, "version");
    FlipEach<Grant>(key, sealed, [](Grant* g, uint64_t m) { return g->store.value ^= m; }, 64, "store");
    FlipEach<Grant>(
        key, sealed, [](Grant* g, uint64_t m) { return g->place.segment ^= static_cast<uint32_t>(m); }, 32, "segment");
    FlipEach<Grant>(
        key, sealed, [](Grant* g, uint64_t m) { return g->place.epoch ^= static_cast<uint32_t>(m); }, 32, "epoch");
    FlipEach<Grant>(
        key, sealed,
        [](Grant* g, uint64_t m) {
          g->expiry_ms = static_cast<int64_t>(static_cast<uint64_t>(g->expiry_ms) ^ m);
          return m;
        },
        64, "expiry");
    FlipEach<Grant>(
        key, sealed,
        [](Grant* g, uint64_t m) {
          g->right = static_cast<Right>(static_cast<uint8_t>(g->right) ^ static_cast<uint8_t>(m));
          return m;
        },
        8, "right");
    for (size_t byte = 0; byte < sealed.mac.size(); ++byte) {
      FlipEach<Grant>(
          key, sealed,
          [byte](Grant* g, uint64_t m) {
            g->mac[byte] ^= static_cast<std::byte>(m);
            return m;
          },
          8, "mac");
    }
    for (uint32_t which = 0; which < extents; which += extents > 3 ? 85 : 1) {
      for (const bool offset : {true, false}) {
        FlipEach<Grant>(
            key, sealed,
            [which, offset](Grant* g, uint64_t m) {
              std::vector<Extent> all(g->extents.begin(), g->extents.end());
              (offset ? all[which].offset : all[which].length) ^= m;
              g->extents = ExtentList(all);
              return m;
            },
            64, offset ? "offset" : "length");
      }
    }
  }
}

TEST(Grant, ReadIsNoWriteAndExtentsCannotBeRegrouped) {
  const GrantKey key = KeyFrom(2, 1);
  Grant grant = SealedGrant(key, 2);
  grant.right = Right::kWrite;
  EXPECT_FALSE(MacIsRight(key, grant));

  Grant more = SealedGrant(key, 1);
  more.extents.push_back({1 << 20, 64});
  EXPECT_FALSE(MacIsRight(key, more));
  Grant fewer = SealedGrant(key, 2);
  fewer.extents = ExtentList(fewer.extents[0]);
  EXPECT_FALSE(MacIsRight(key, fewer));
  Grant swapped = SealedGrant(key, 2);
  const std::vector<Extent> turned = {swapped.extents[1], swapped.extents[0]};
  swapped.extents = ExtentList(turned);
  EXPECT_FALSE(MacIsRight(key, swapped));
}

TEST(Grant, TooManyExtentsAreRefusedBeforeHashing) {
  const GrantKey key = KeyFrom(2, 1);
  Grant grant = SealedGrant(key, kMaxExtents);
  EXPECT_TRUE(MacIsRight(key, grant));
  grant.extents.push_back({0, 64});
  EXPECT_FALSE(MacIsRight(key, grant));
}

TEST(Grant, AnotherKeyWithTheSameNumberFails) {
  const Grant grant = SealedGrant(KeyFrom(3, 9), 1);
  EXPECT_TRUE(MacIsRight(KeyFrom(3, 9), grant));
  EXPECT_FALSE(MacIsRight(KeyFrom(4, 9), grant));
  EXPECT_FALSE(MacIsRight(KeyFrom(3, 8), grant));
}

TEST(Ticket, AnyBitOfAnyFieldBreaksTheSeal) {
  const GrantKey key = KeyFrom(5, 3);
  Ticket sealed{.user = 1, .client = 2, .expiry_ms = 3};
  Seal(key, &sealed);
  ASSERT_TRUE(MacIsRight(key, sealed));
  FlipEach<Ticket>(key, sealed, [](Ticket* t, uint64_t m) { return t->key_id ^= static_cast<uint32_t>(m); }, 32, "key");
  FlipEach<Ticket>(key, sealed, [](Ticket* t, uint64_t m) { return t->user ^= m; }, 64, "user");
  FlipEach<Ticket>(key, sealed, [](Ticket* t, uint64_t m) { return t->client ^= m; }, 64, "client");
  FlipEach<Ticket>(
      key, sealed,
      [](Ticket* t, uint64_t m) {
        t->expiry_ms = static_cast<int64_t>(static_cast<uint64_t>(t->expiry_ms) ^ m);
        return m;
      },
      64, "expiry");
  for (size_t byte = 0; byte < sealed.mac.size(); ++byte) {
    FlipEach<Ticket>(
        key, sealed,
        [byte](Ticket* t, uint64_t m) {
          t->mac[byte] ^= static_cast<std::byte>(m);
          return m;
        },
        8, "mac");
  }
}

TEST(Grant, TextComesBackAsItWas) {
  const GrantKey key = KeyFrom(6, 0x1a);
  const Grant grant = SealedGrant(key, 1);
  std::string text = "before ";
  AppendGrantText(grant, &text);
  EXPECT_EQ(text.substr(0, 7 + 5 + 16), "before 1a.R.1122334455667788");
  std::optional<Grant> back = ParseGrantText(std::string_view(text).substr(7));
  ASSERT_TRUE(back.has_value());
  EXPECT_FALSE(MacIsRight(key, *back)) << "the place is not in the text";
  back->store = grant.store;
  back->place = grant.place;
  back->extents = grant.extents;
  EXPECT_TRUE(MacIsRight(key, *back));
}

TEST(Grant, TextIsAppendedWithoutAllocating) {
  const Grant grant = SealedGrant(KeyFrom(6, UINT32_MAX), 1);
  std::string text;
  text.reserve(128);
  const char* before = text.data();
  AppendGrantText(grant, &text);
  EXPECT_EQ(text.data(), before);
}

TEST(Ticket, TextComesBackAsItWas) {
  const GrantKey key = KeyFrom(7, 0);
  Ticket ticket{.user = UINT64_MAX, .client = 0, .expiry_ms = INT64_MAX};
  Seal(key, &ticket);
  const std::optional<Ticket> back = ParseTicketText(TicketText(ticket));
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(MacIsRight(key, *back));
  EXPECT_EQ(back->user, ticket.user);
  EXPECT_EQ(back->client, ticket.client);
  EXPECT_EQ(back->expiry_ms, ticket.expiry_ms);
}

// A change of any one character of the text gives no grant, or one whose seal is broken.
TEST(Grant, ChangedTextNeverPasses) {
  const GrantKey key = KeyFrom(8, 0x1a);
  const Grant grant = SealedGrant(key, 1);
  std::string text;
  AppendGrantText(grant, &text);
  for (size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      std::optional<Grant> parsed = ParseGrantText(changed);
      if (!parsed) continue;
      parsed->store = grant.store;
      parsed->place = grant.place;
      parsed->extents = grant.extents;
      EXPECT_FALSE(MacIsRight(key, *parsed)) << changed;
    }
    EXPECT_FALSE(ParseGrantText(text.substr(0, at)).has_value()) << "cut at " << at;
  }
}

TEST(Grant, MalformedTextIsRefused) {
  const std::string mac(32, 'a');
  EXPECT_TRUE(ParseGrantText("0.R.0.0.0." + mac).has_value());
  for (const std::string& bad : std::vector<std::string>{
           "", ".", "0.R.0.0.0." + mac + ".", "0.R.0.0.0." + mac + "a", "0.R.0.0.0..", "0.X.0.0.0." + mac,
           "0.r.0.0.0." + mac, "100000000.R.0.0.0." + mac, "00.R.0.0.0." + mac, "A.R.0.0.0." + mac, "0.R..0.0." + mac,
           "0.R.0.0.8000000000000000." + mac, "0.R.11112222333344445.0.0." + mac, "0.R.-1.0.0." + mac, "0.R.0.0." + mac,
           " 0.R.0.0.0." + mac, "0.R.0.0.0." + std::string(32, 'g')}) {
    EXPECT_FALSE(ParseGrantText(bad).has_value()) << bad;
  }
  for (const std::string& bad :
       std::vector<std::string>{"", "0.0.0." + mac, "0.0.0.0.0." + mac, "0.0.0.8000000000000000." + mac}) {
    EXPECT_FALSE(ParseTicketText(bad).has_value()) << bad;
  }
}

// T-39: a range that is larger than the grant by one byte.
TEST(Grant, CoversExactlyItsExtents) {
  Grant grant;
  EXPECT_TRUE(CoversObjectRange(grant, 0, 0));
  EXPECT_FALSE(CoversObjectRange(grant, 0, 1));
  grant.extents.push_back({4096, 1000});
  grant.extents.push_back({0, 24});
  EXPECT_TRUE(CoversObjectRange(grant, 0, 1024));
  EXPECT_TRUE(CoversObjectRange(grant, 1023, 1));
  EXPECT_TRUE(CoversObjectRange(grant, 1024, 0));
  EXPECT_FALSE(CoversObjectRange(grant, 0, 1025));
  EXPECT_FALSE(CoversObjectRange(grant, 1024, 1));
  EXPECT_FALSE(CoversObjectRange(grant, 1025, 0));
  EXPECT_FALSE(CoversObjectRange(grant, 1, UINT64_MAX));
  EXPECT_FALSE(CoversObjectRange(grant, UINT64_MAX, 1));
  grant.extents.push_back({0, UINT64_MAX});
  EXPECT_FALSE(CoversObjectRange(grant, 0, 1)) << "the sum of the lengths overflows";
}

TEST(UserId, DependsOnTheNameAlone) {
  EXPECT_EQ(UserId("default"), UserId("default"));
  EXPECT_NE(UserId("default"), UserId("Default"));
  EXPECT_EQ(UserId(""), HashBytes({}));
}

}  // namespace
}  // namespace tiercel
