#include "base/loop/loop.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>
#include <memory>

namespace tiercel {
namespace {

TEST(Loop, RunsWhatIsPostedInOrderInItsOwnThread) {
  Loop loop("a-name-longer-than-fifteen");
  std::vector<int> seen;
  bool in_loop = false;
  std::string name;
  std::promise<void> done;
  loop.Post([&] { seen.push_back(1); });  // before the start
  EXPECT_FALSE(loop.InLoop());
  loop.Start();
  loop.Post([&] {
    in_loop = loop.InLoop();
    char buffer[16];
    pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
    name = buffer;
    loop.Post([&] {
      seen.push_back(3);
      done.set_value();
    });
    seen.push_back(2);
  });
  done.get_future().wait();
  EXPECT_TRUE(in_loop);
  EXPECT_FALSE(loop.InLoop());
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(name, "a-name-longer-t");
}

TEST(Loop, StopsTwiceAndDestroysWhatNeverRan) {
  auto token = std::make_shared<int>(0);
  {
    Loop loop("test");
    loop.Start();
    loop.Stop();
    loop.Stop();
    loop.Post([token] { ++*token; });
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(*token, 0);
  const Loop never_started("idle");
}

}  // namespace
}  // namespace tiercel
