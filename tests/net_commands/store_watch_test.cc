#include "server/net/store_watch.h"

#include <gmock/gmock.h>

#include "command_fixture.h"

namespace tiercel::net {
namespace {

class Watch : public CommandFixture {
 protected:
  std::vector<std::string> Look() {
    std::vector<std::string> texts;
    MasterHost::Hold hold(&host);
    master.Tick(clock.Now(), 1000);
    for (const StoreWatch::Line& line : watch_.Look(master)) texts.push_back(line.text);
    return texts;
  }

 private:
  StoreWatch watch_;
};

TEST_F(Watch, EachChangeOfAStoresStateIsToldOnce) {
  EXPECT_THAT(Look(), testing::IsEmpty());
  Serve("s1", 0xabc, "h1");
  EXPECT_THAT(Look(), testing::ElementsAre("store s1 at 10.1.0.1:7380 is serving"));
  EXPECT_THAT(Look(), testing::IsEmpty());
  clock.Advance(master.options().store_timeout_ms);
  EXPECT_THAT(Look(), testing::ElementsAre("store s1 at 10.1.0.1:7380 is away, was serving"));
  EXPECT_THAT(Look(), testing::IsEmpty());
  Serve("s1", 0xabc, "h1");
  EXPECT_THAT(Look(), testing::ElementsAre("store s1 at 10.1.0.1:7380 is serving, was away"));
}

TEST_F(Watch, AnotherIncarnationIsAnotherStore) {
  Serve("s1", 0xabc, "h1");
  Serve("s2", 0xdef, "h2");
  EXPECT_THAT(Look(), testing::SizeIs(2));
  clock.Advance(master.options().store_timeout_ms);
  EXPECT_THAT(Look(), testing::SizeIs(2));
  Serve("s1", 0x123, "h1");
  EXPECT_THAT(Look(), testing::ElementsAre("store s1 at 10.1.0.1:7380 is serving"));
}

}  // namespace
}  // namespace tiercel::net
