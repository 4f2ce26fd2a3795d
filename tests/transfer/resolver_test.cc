// Names of hosts: nobody waits long for them, and answers are kept.
#include "transfer/tcp/resolver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tests/transfer/fixture.h"

namespace tiercel::transfer::tcp {
namespace {

Resolver::Addresses Answer(const char* numeric) { return {*NumericAddress(numeric, 7)}; }
std::string First(const Result<Resolver::Addresses>& found) {
  return found.ok() ? AddressText(found->front()) : found.error().message();
}

TEST(ResolverTest, NumericAddressesAreAskedOfNobody) {
  Resolver resolver({.clock = nullptr, .look_up = [](const std::string&, uint16_t) -> Result<Resolver::Addresses> {
                       ADD_FAILURE();
                       return Error(ErrorCode::kInternal, "");
                     }});
  EXPECT_EQ(First(resolver.Find("127.0.0.1", 7)), "127.0.0.1:7");
  EXPECT_EQ(First(resolver.Find("::1", 9)), "[::1]:9");
}

TEST(ResolverTest, ANameThatTakesLongFailsTheAttemptAndIsThereLater) {
  std::promise<void> answer;
  std::atomic<int> asked{0};
  {
    Resolver resolver({.wait_ms = 1, .clock = nullptr, .look_up = [&](const std::string&, uint16_t) {
                         ++asked;
                         answer.get_future().wait();
                         return Result<Resolver::Addresses>(Answer("10.0.0.1"));
                       }});
    for (int i = 0; i < 3; ++i) {
      auto found = resolver.Find("slow.example", 7);
      ASSERT_FALSE(found.ok());
      EXPECT_EQ(found.error().code(), ErrorCode::kUnreachable);
    }
    EXPECT_LE(asked, 1);
    answer.set_value();
    ASSERT_TRUE(Eventually([&] { return resolver.Find("slow.example", 7).ok(); }));
    EXPECT_EQ(First(resolver.Find("slow.example", 7)), "10.0.0.1:7");
    EXPECT_EQ(asked, 1);
  }
  // A resolver does not wait for a look-up that hangs. What its thread touches must outlive it.
  auto never = std::make_shared<std::promise<void>>(), ended = std::make_shared<std::promise<void>>();
  auto hangs = std::make_unique<Resolver>(
      Resolver::Options{.wait_ms = 1, .clock = nullptr, .look_up = [never, ended](const std::string&, uint16_t) {
                          never->get_future().wait();
                          ended->set_value();
                          return Result<Resolver::Addresses>(Answer("10.0.0.2"));
                        }});
  EXPECT_FALSE(hangs->Find("x", 7).ok());
  hangs.reset();
  never->set_value();
  ended->get_future().wait();
}

TEST(ResolverTest, AnswersAreKeptAndAskedForAnewWhenOld) {
  ManualClock clock;
  std::atomic<int> asked{0};
  std::atomic<bool> fails{false};
  Resolver resolver(
      {.wait_ms = kGuardMs, .fresh_ms = 1000, .clock = &clock, .look_up = [&](const std::string&, uint16_t) {
         const int n = ++asked;
         if (fails) return Result<Resolver::Addresses>(Error(ErrorCode::kUnreachable, "no such name"));
         return Result<Resolver::Addresses>(Answer(n == 1 ? "10.0.0.1" : "10.0.0.2"));
       }});
  EXPECT_EQ(First(resolver.Find("a", 7)), "10.0.0.1:7");
  clock.Advance(999);
  EXPECT_EQ(First(resolver.Find("a", 7)), "10.0.0.1:7");
  EXPECT_EQ(asked, 1);
  clock.Advance(1);
  EXPECT_EQ(First(resolver.Find("a", 7)), "10.0.0.1:7") << "the old one serves meanwhile";
  EXPECT_TRUE(Eventually([&] { return First(resolver.Find("a", 7)) == "10.0.0.2:7"; }));
  EXPECT_EQ(asked, 2);
  // A name that was right stays; one that never was is asked for each time.
  fails = true;
  clock.Advance(1000);
  EXPECT_EQ(First(resolver.Find("a", 7)), "10.0.0.2:7");
  EXPECT_EQ(First(resolver.Find("b", 7)), "no such name");
  EXPECT_EQ(First(resolver.Find("b", 7)), "no such name");
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(First(resolver.Find("a", 7)), "10.0.0.2:7");
  fails = false;
  EXPECT_EQ(First(resolver.Find("b", 7)), "10.0.0.2:7");
}

}  // namespace
}  // namespace tiercel::transfer::tcp
