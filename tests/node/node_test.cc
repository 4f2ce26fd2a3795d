// A whole node: segments, servers that are played, a master that is played.
#include "server/node/node.h"

#include <gtest/gtest.h>

#include "tests/node/fake_master.h"
#include "tests/node/store_fixture.h"

namespace tiercel::node {
namespace {

using Script = FakeMaster::Script;
using Seen = FakeMaster::Seen;

class FakeServer final : public transfer::Server {
 public:
  FakeServer(std::string address, int* stopped) : address_(std::move(address)), stopped_(stopped) {}
  std::string address() const override { return address_; }
  void Stop() override { ++*stopped_; }

 private:
  const std::string address_;
  int* const stopped_;
};

class NodeTest : public testing::Test {
 protected:
  NodeOptions Options() {
    resp::ConnectionOptions master;
    master.host = "127.0.0.1";
    master.port = master_.port();
    NodeOptions options;
    options.store_name = "s1";
    options.host = "h1";
    options.masters = {{master, master}};
    return options;
  }
  static std::vector<std::unique_ptr<tiers::Segment>> OneSegment() {
    std::vector<std::unique_ptr<tiers::Segment>> segments;
    segments.push_back(std::make_unique<TestSegment>(0, 1, 1 << 20));
    return segments;
  }
  std::unique_ptr<Node> Make(NodeOptions options) {
    auto node = Node::Create(std::move(options), OneSegment());
    EXPECT_TRUE(node.ok());
    return std::move(node).value();
  }

  FakeMaster master_;
  int stopped_ = 0;
};

TEST_F(NodeTest, FromStartToStop) {
  auto node = Make(Options());
  node->AddDataServer(std::make_unique<FakeServer>("0.0.0.0:7380", &stopped_));
  node->SetSocketServer(std::make_unique<FakeServer>("/run/s1", &stopped_), "/run/s1");
  ASSERT_TRUE(node->Start().ok());
  ASSERT_TRUE(node->WaitServing(60'000));
  master_.With([&](Script&, Seen& seen) {
    // The wildcard became the address on the way to the master, with the data port's number.
    EXPECT_EQ(seen.joins[0][6], "127.0.0.1:7380");
    EXPECT_EQ(seen.joins[0][7], "/run/s1");
    EXPECT_EQ(seen.joins[0][3].size(), 16u);
    EXPECT_EQ(seen.joins[0][4].size(), 16u);  // a storage id of its own
  });
  const NodeFigures figures = node->Figures();
  EXPECT_EQ(figures.store_name, "s1");
  EXPECT_EQ(figures.segments, 1u);
  EXPECT_EQ(figures.segment_bytes, uint64_t{1} << 20);
  EXPECT_EQ(figures.control.state, ControlState::kServing);
  EXPECT_GE(figures.heard_ms_ago, 0);
  node->Stop(10'000);
  EXPECT_EQ(stopped_, 2);
  master_.With([](Script&, Seen& seen) { EXPECT_EQ(seen.leaves.size(), 2u); });  // with notice, then for good
  node->Stop(10'000);
  EXPECT_EQ(stopped_, 2);
  EXPECT_EQ(node->Figures().control.state, ControlState::kStopped);
}

TEST_F(NodeTest, GivenAddressWins) {
  NodeOptions options = Options();
  options.data_advertise = "store-7.example";
  auto node = Make(std::move(options));
  node->AddDataServer(std::make_unique<FakeServer>("[::]:7380", &stopped_));
  ASSERT_TRUE(node->Start().ok());
  ASSERT_TRUE(node->WaitServing(60'000));
  master_.With([&](Script&, Seen& seen) {
    EXPECT_EQ(seen.joins[0][6], "store-7.example:7380");
    EXPECT_EQ(seen.joins[0][7], "-");
  });
}

TEST_F(NodeTest, WhatCannotWorkIsRefusedAtOnce) {
  const auto refused = [](NodeOptions options, std::vector<std::unique_ptr<tiers::Segment>> segments) {
    auto node = Node::Create(std::move(options), std::move(segments));
    return !node.ok() && node.error().code() == ErrorCode::kInvalid;
  };
  NodeOptions options = Options();
  options.store_name = "";
  EXPECT_TRUE(refused(options, OneSegment()));
  options.store_name = "two words";
  EXPECT_TRUE(refused(options, OneSegment()));
  options = Options();
  options.masters.clear();
  EXPECT_TRUE(refused(options, OneSegment()));
  options = Options();
  options.data_advertise = "0.0.0.0";
  EXPECT_TRUE(refused(options, OneSegment()));
  auto twice = OneSegment();
  twice.push_back(std::make_unique<TestSegment>(0, 1, 4096));
  EXPECT_TRUE(refused(Options(), std::move(twice)));

  auto node = Make(Options());
  EXPECT_FALSE(node->Start().ok());  // no data port
}

TEST_F(NodeTest, IncarnationsAreRandom) {
  auto a = Make(Options()), b = Make(Options());
  EXPECT_NE(a->incarnation(), b->incarnation());
}

}  // namespace
}  // namespace tiercel::node
