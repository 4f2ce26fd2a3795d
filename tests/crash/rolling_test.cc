// A rolling restart of every process by SIGTERM while writers are at work.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/crash/load.h"

namespace tiercel::test {
namespace {

class Rolling : public testing::TestWithParam<size_t> {};

TEST_P(Rolling, RestartOfEveryProcessKeepsWhatWasAcknowledged) {
  if (!MemoryDir::Fits(Deployment::Shape::Bytes(GetParam()))) GTEST_SKIP() << "no tmpfs with room for the stores";
  const uint64_t seed = RandomId();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Deployment system({.stores = GetParam(), .more = {"--lease-ttl", "100ms"}});
  ASSERT_TRUE(system.ok()) << system.error();
  // A cache that is being read: what must still be hit afterwards.
  constexpr int kSteady = 400;
  const auto client = system.ConnectClient();
  ASSERT_NE(client, nullptr);
  const auto key_of = [](int i) { return "steady" + std::to_string(i); };
  for (int i = 0; i < kSteady; ++i) {
    const auto put = client->Put(key_of(i), ValueOf(static_cast<uint64_t>(i) + 1, 100 + i * 97));
    ASSERT_TRUE(put.ok()) << put.error().ToString();
  }
  const auto hits = [&] {
    int count = 0;
    for (int i = 0; i < kSteady; ++i) {
      const auto got = client->Get(key_of(i));
      EXPECT_TRUE(got.ok()) << got.error().ToString();
      if (!got.ok() || !got->has_value()) continue;
      EXPECT_EQ((*got)->view(), ValueOf(static_cast<uint64_t>(i) + 1, 100 + i * 97)) << key_of(i);
      ++count;
    }
    return count;
  };
  const int before = hits();
  ASSERT_EQ(before, kSteady);

  Load load(&system, seed);
  load.Run();
  ASSERT_TRUE(load.journal().AwaitMore(200));
  for (size_t i = 0; i < system.size(); ++i) {
    EXPECT_EQ(system.Stop(i), 0) << "a clean end of process " << i;
    const Status started = system.Start(i);
    ASSERT_TRUE(started.ok()) << started.error().ToString();
    EXPECT_TRUE(system.AwaitSettled());
    EXPECT_TRUE(load.journal().AwaitMore(50)) << "writers go on by themselves";
  }
  load.Stop();
  ASSERT_TRUE(system.AwaitSettled());
  load.CheckAll();
  const int after = hits();
  std::cout << "hits " << before << " before, " << after << " after" << std::endl;
  EXPECT_GE(after * 100, before * 99);
  for (const std::string& fault : load.journal().faults()) ADD_FAILURE() << fault;
  if (HasFailure()) std::cerr << system.Logs();
}

INSTANTIATE_TEST_SUITE_P(Shapes, Rolling, testing::Values(0, 2), [](const auto& param_info) {
  return param_info.param == 0 ? std::string("OneProcess") : "MasterAndTwoStores";
});

}  // namespace
}  // namespace tiercel::test
