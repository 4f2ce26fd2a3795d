#include "protocol/resp/descriptor.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tiercel::resp {
namespace {

constexpr std::string_view kPlain = "dram s1.9f3c20aa00000000 2.41 1048576+1048576 -";

std::string Line(const ReplicaDescriptor& replica) {
  std::string out;
  AppendReplica(replica.tier, replica.store, replica.incarnation, replica.place, replica.extents,
                replica.has_grant ? &replica.grant : nullptr, &out);
  return out;
}

TEST(Descriptor, WritesOneReadableLine) {
  std::string out = "x ";
  AppendReplica(Tier::kDram, "s1", Incarnation{0x9f3c20aa00000000}, {2, 41}, ExtentList(Extent{1048576, 1048576}),
                nullptr, &out);
  EXPECT_EQ(out, "x " + std::string(kPlain));
}

TEST(Descriptor, ReadsWhatItWrote) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    ReplicaDescriptor replica;
    replica.tier = static_cast<Tier>(random.Below(kTierCount));
    replica.store = random.OneIn(2) ? "host.example.org-7" : "s";
    replica.incarnation = {random.Next() | 1};
    replica.place = {static_cast<uint32_t>(random.Next()), static_cast<uint32_t>(random.Next())};
    for (uint64_t extents = random.OneIn(5) ? random.Below(kMaxExtents + 1) : random.Below(3); extents > 0; --extents) {
      replica.extents.push_back({random.Next() >> 20, 1 + (random.Next() >> 30)});
    }
    replica.has_grant = random.OneIn(2);
    if (replica.has_grant) {
      replica.grant.key_id = static_cast<uint32_t>(random.Next());
      replica.grant.right = random.OneIn(2) ? Right::kRead : Right::kWrite;
      replica.grant.user = random.Next();
      replica.grant.version = {random.Next() >> 1};
      replica.grant.expiry_ms = static_cast<int64_t>(random.Next() >> 1);
    }
    const std::string line = Line(replica);
    const auto read = ParseReplica(line);
    ASSERT_TRUE(read.ok()) << line << ": " << read.error().message();
    EXPECT_EQ(read->tier, replica.tier);
    EXPECT_EQ(read->store, replica.store);
    EXPECT_EQ(read->incarnation, replica.incarnation);
    EXPECT_EQ(read->place, replica.place);
    EXPECT_EQ(read->extents, replica.extents);
    ASSERT_EQ(read->has_grant, replica.has_grant);
    EXPECT_EQ(Line(*read), line);
    if (replica.has_grant) {
      EXPECT_EQ(read->grant.store, replica.incarnation);
      EXPECT_EQ(read->grant.place, replica.place);
      EXPECT_EQ(read->grant.extents, replica.extents);
      EXPECT_EQ(read->grant.version, replica.grant.version);
    }
  }
}

TEST(Descriptor, EmptyValueHasNoExtents) {
  const auto read = ParseReplica("ssd a.b.1 0.0 0+0 -");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->extents.empty());
  EXPECT_EQ(read->store, "a.b");
}

TEST(Descriptor, RefusesWhatItWouldNotWrite) {
  ASSERT_TRUE(ParseReplica(kPlain).ok());
  for (const char* bad : {"",
                          " ",
                          "dram",
                          "tape s1.1 2.41 0+1 -",
                          "DRAM s1.1 2.41 0+1 -",
                          "dram s1 2.41 0+1 -",
                          "dram .1 2.41 0+1 -",
                          "dram s1.0 2.41 0+1 -",
                          "dram s1.g 2.41 0+1 -",
                          "dram s1.11111111111111111 2.41 0+1 -",
                          "dram s1.1 2 0+1 -",
                          "dram s1.1 2.x 0+1 -",
                          "dram s1.1 4294967296.1 0+1 -",
                          "dram s1.1 1.4294967296 0+1 -",
                          "dram s1.1 -1.1 0+1 -",
                          "dram s1.1 1.1.1 0+1 -",
                          "dram s1.1 2.41  -",
                          "dram s1.1 2.41 0 -",
                          "dram s1.1 2.41 0+0,1+1 -",
                          "dram s1.1 2.41 0+1, -",
                          "dram s1.1 2.41 ,0+1 -",
                          "dram s1.1 2.41 5+0 -",
                          "dram s1.1 2.41 -1+5 -",
                          "dram s1.1 2.41 +1+5 -",
                          "dram s1.1 2.41 1+5+6 -",
                          "dram s1.1 2.41 18446744073709551615+1 -",
                          "dram s1.1 2.41 18446744073709551616+1 -",
                          "dram s1.1 2.41 0+18446744073709551615,0+1 -",
                          "dram s1.1 2.41 0+1",
                          "dram s1.1 2.41 0+1 ",
                          "dram s1.1 2.41 0+1 - ",
                          "dram s1.1 2.41 0+1 x",
                          "dram  s1.1 2.41 0+1 -",
                          "dram s1.1 2.41 0+1 1.R.2.3.4.5"}) {
    const auto read = ParseReplica(bad);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().code(), ErrorCode::kPeerProtocol) << bad;
  }
}

TEST(Descriptor, BoundsTheExtents) {
  std::string extents = "0+1";
  for (uint32_t i = 1; i < kMaxExtents; ++i) extents += ",5+1";
  EXPECT_TRUE(ParseExtents(extents).ok());
  EXPECT_EQ(ParseExtents(extents)->size(), kMaxExtents);
  EXPECT_FALSE(ParseExtents(extents + ",5+1").ok());
}

TEST(Descriptor, EveryBytewiseDamageIsRefusedOrReadable) {
  for (size_t at = 0; at < kPlain.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged(kPlain);
      damaged[at] = static_cast<char>(byte);
      const auto read = ParseReplica(damaged);
      EXPECT_TRUE(!read.ok() || ParseReplica(Line(*read)).ok()) << damaged;
    }
  }
}

}  // namespace
}  // namespace tiercel::resp
