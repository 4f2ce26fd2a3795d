// Puts through the client over a fake master and a fake engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/retry.h"
#include "tests/client/harness.h"

namespace tiercel::test {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Write, O07_PuttingAKeyThatExists) {
  Harness h;
  h.MustPut("k", Bytes("AAAA"));
  auto other = h.client().Put("k", "BBBB");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), ErrorCode::kExists);
  EXPECT_THAT(other.error().message(), testing::HasSubstr("4 bytes"));
  auto longer = h.client().Put("k", "AAAAA");
  EXPECT_EQ(longer.error().code(), ErrorCode::kExists);
  auto same = h.client().Put("k", "AAAA");
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->outcome, PutOutcome::kAlreadyThere);
  EXPECT_EQ(same->version, h.master.objects["k"].version);
  EXPECT_EQ((*h.client().Get("k"))->view(), "AAAA");
  EXPECT_TRUE(h.master.puts.empty());

  // While the first put is unfinished, and after it was revoked.
  h.master.Answer({"PUTSTART", "j", "4"});
  EXPECT_EQ(h.client().Put("j", "AAAA").error().code(), ErrorCode::kInFlight);
  h.master.puts.clear();
  EXPECT_FALSE(*h.client().Exists("j"));
  EXPECT_EQ(h.client().Put("j", "AAAA")->outcome, PutOutcome::kStored);
}

TEST(Write, O07_LargeValuesAreComparedByTheirSumsToo) {
  Harness h;
  auto value = RandomBytes(3 * kBlockBytes + 1, 5);
  h.MustPut("k", value);
  EXPECT_EQ(h.client().Put("k", value)->outcome, PutOutcome::kAlreadyThere);
  value.back() ^= std::byte{1};
  EXPECT_EQ(h.client().Put("k", value).error().code(), ErrorCode::kExists);
}

TEST(Write, O37_ReplaceGivesANewVersion) {
  Harness h;
  h.MustPut("k", RandomBytes(1 << 20, 1));
  const Version before = h.master.objects["k"].version;
  auto put = h.client().Put("k", RandomBytes(1 << 20, 2), {.replace = true});
  ASSERT_TRUE(put.ok());
  EXPECT_GT(put->version, before);
  EXPECT_TRUE(Same((*h.client().Get("k"))->span(), RandomBytes(1 << 20, 2)));
}

TEST(Write, OptionsReachTheMaster) {
  Harness h;
  PutOptions options;
  options.replace = true;
  options.replicas = 3;
  options.strict_replicas = true;
  options.ttl_ms = 1000;
  options.soft_pin_ms = 0;
  options.hard_pin = true;
  options.preferred_store = "p";
  options.excluded_store = "e";
  options.parent = "mother";
  (void)h.client().Put("k", "v", options);
  FakeMaster::Args start;
  for (const auto& args : h.master.log) {
    if (args[0] == "PUTSTART") start = args;
  }
  EXPECT_EQ(start, (FakeMaster::Args{"PUTSTART", "k", "1", "REPLACE", "REPLICAS", "3", "STRICT", "PREFER", "p",
                                     "EXCLUDE", "e", "PARENT", "mother", "PX", "1000", "SOFTPIN", "0", "HARDPIN"}));
}

TEST(Write, AStoreThatHashesWhileItCopiesIsBelieved) {
  Harness h;
  h.engine->owner_hashes = true;
  for (uint64_t extent : {uint64_t{0}, uint64_t{64} * 5000}) {
    h.master.extent_bytes = extent;
    const auto value = RandomBytes(4 * kBlockBytes + 9, extent);
    const std::string key = "k" + std::to_string(extent);
    h.MustPut(key, value);
    EXPECT_TRUE(Same((*h.client().Get(key))->span(), value));
  }
}

TEST(Write, OneOfTwoReplicasFails) {
  for (const char* bad : {"s1", "s2"}) {
    Harness h;
    h.master.AddStore("s2", 64 << 20);
    h.engine->refuse = [&](const transfer::PeerAddress& peer, const auto& operation) -> std::optional<Error> {
      if (peer.name == bad && operation.kind == transfer::OpKind::kWrite) return Error(ErrorCode::kUnreachable, "gone");
      return std::nullopt;
    };
    const auto value = RandomBytes(2 * kBlockBytes + 5, 1);
    auto put = h.client().Put("k", value, {.replicas = 2});
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    EXPECT_EQ(put->replicas, 1u);
    EXPECT_TRUE(Same((*h.client().Get("k"))->span(), value));
    FakeMaster::Args end;
    for (const auto& args : h.master.log) {
      if (args[0] == "PUTEND") end = args;
    }
    ASSERT_EQ(end.size(), 6u);
    EXPECT_EQ(end[3], "FAILED");
    EXPECT_EQ(end[4], bad == std::string("s1") ? "0" : "1");
    EXPECT_EQ(end[5], "UNREACHABLE");
  }
}

TEST(Write, AStoreThatCannotBeWrittenIsLeftOutOfTheNextTry) {
  Harness h;
  h.master.AddStore("s2", 64 << 20);
  h.engine->refuse = [](const transfer::PeerAddress& peer, const auto&) -> std::optional<Error> {
    if (peer.name == "s1") return Error(ErrorCode::kUnreachable, "gone");
    return std::nullopt;
  };
  auto put = h.client().Put("k", "value");
  ASSERT_TRUE(put.ok()) << put.error().ToString();
  EXPECT_EQ(h.master.objects["k"].places[0].store, 1u);
  EXPECT_EQ(h.master.CountOf("PUTREVOKE"), 1u) << "the first try was given back";
  EXPECT_TRUE(h.master.puts.empty());
}

TEST(Write, TheReasonOfAFailureIsNotHiddenByTheLackOfOtherStores) {
  Harness h;
  h.engine->refuse = [](const auto&, const auto&) { return Error(ErrorCode::kUnreachable, "gone"); };
  EXPECT_EQ(h.client().Put("k", "value").error().code(), ErrorCode::kUnreachable);
  EXPECT_TRUE(h.master.puts.empty());
}

TEST(Write, APutThatWasTakenOverIsBegunAnew) {
  Harness h;
  int left = 1;
  h.engine->refuse = [&](const auto&, const auto&) -> std::optional<Error> {
    if (left-- > 0) return Error(ErrorCode::kStalePut, "closed");
    return std::nullopt;
  };
  h.MustPut("k", Bytes("abc"));
  EXPECT_EQ(h.master.CountOf("PUTSTART"), 2u);
  // Also when only its end shows it; and never for ever.
  h.master.intercept = [](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
    if (args[0] == "PUTEND") return ErrorReply("NOPUT taken over");
    return std::nullopt;
  };
  auto put = h.client().Put("k2", "abc");
  EXPECT_EQ(put.error().code(), ErrorCode::kNoPut);
  EXPECT_LE(h.master.CountOf("PUTSTART"), 2u + client::kMaxPutAttempts);
  EXPECT_TRUE(h.master.puts.empty());
}

TEST(Write, ALongPutShowsSignsOfLifeAndGetsFreshGrants) {
  Harness h;
  h.master.put_deadline_ms = 1;
  h.engine->hold_waits = 1;
  // A put's deadlines run on the machine's clock: the batch is held for the time that makes its renewal due.
  h.engine->on_hold = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  h.MustPut("k", RandomBytes(5000, 1));
  EXPECT_GE(h.master.CountOf("PUTRENEW"), 1u);
}

TEST(Write, ErrorsOfTheMasterComeThrough) {
  Harness h;
  std::string line;
  h.master.intercept = [&](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
    if (args[0] == "PUTSTART") return ErrorReply(line);
    return std::nullopt;
  };
  for (const auto& [text, code] :
       {std::pair("OOM needed 5, free 3", ErrorCode::kNoSpace),
        std::pair("STRICT wanted 2, got 1", ErrorCode::kTooFewHosts),
        std::pair("PINFULL budget", ErrorCode::kPinBudget), std::pair("TOOBIG it is", ErrorCode::kTooBig),
        std::pair("NOPERM no", ErrorCode::kNoPerm)}) {
    line = text;
    EXPECT_EQ(h.client().Put("k", "v").error().code(), code) << text;
  }
}

TEST(Write, AMasterThatIsLoadingOrFullOfRequestsIsWaitedFor) {
  Harness h;
  (void)h.client();
  int left = 4;
  h.master.intercept = [&](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
    if (args[0] != "PUTSTART" || left-- <= 0) return std::nullopt;
    return ErrorReply(left % 2 == 0 ? "LOADING the index" : "RETRY in 5 ms");
  };
  h.MustPut("k", Bytes("v"));
}

TEST(Write, ALostAnswerIsAskedForAgain) {
  Harness h;
  (void)h.client();
  for (const char* command : {"PUTSTART", "PUTEND", "GETREPLICAS", "EXISTS"}) {
    bool lost = false;
    h.master.intercept = [&](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
      if (args[0] != command || std::exchange(lost, true)) return std::nullopt;
      ++h.master.epoch;
      h.master.puts.clear();  // the connection closed: its puts are orphans, and give way
      return Error(ErrorCode::kUnreachable, "the connection broke");
    };
    const std::string key = command;
    auto put = h.client().Put(key, "v");
    ASSERT_TRUE(put.ok()) << command << ": " << put.error().ToString();
    EXPECT_TRUE(*h.client().Exists(key));
    EXPECT_EQ((*h.client().Get(key))->view(), "v");
    EXPECT_TRUE(lost) << command;
  }
}

TEST(Write, O08_ADamagedWriteIsFoundByTheFirstRead) {
  Harness h;
  h.engine->flip_write = true;
  h.MustPut("k", RandomBytes(1000, 1));
  EXPECT_EQ(h.client().Get("k").error().code(), ErrorCode::kChecksum);
}

TEST(Write, BatchesHaveOneResultPerKey) {
  ClientOptions options;
  options.batch_parallel = 5;
  Harness h(options);
  h.MustPut("k3", Bytes("there"));
  h.MustPut("k4", Bytes("v4"));
  std::vector<std::string> names, values;
  for (int i = 0; i < 17; ++i) {
    names.push_back(i == 6 ? "" : "k" + std::to_string(i));
    values.push_back("v" + std::to_string(i));
  }
  std::vector<PutItem> items;
  for (int i = 0; i < 17; ++i) items.push_back({names[i], Bytes(values[i])});
  auto puts = h.client().PutBatch(items);
  for (int i = 0; i < 17; ++i) {
    if (i == 3) {
      EXPECT_EQ(puts[i].error().code(), ErrorCode::kExists);
    } else if (i == 6) {
      EXPECT_EQ(puts[i].error().code(), ErrorCode::kInvalid);
    } else {
      ASSERT_TRUE(puts[i].ok());
      EXPECT_EQ(puts[i]->outcome, i == 4 ? PutOutcome::kAlreadyThere : PutOutcome::kStored);
    }
  }
  EXPECT_TRUE(h.master.puts.empty());
}

}  // namespace
}  // namespace tiercel::test
