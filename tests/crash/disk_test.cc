// The index's disk under a real server: a torn log, a damaged table, no room, another format, another owner.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>

#include "server/index/record_codec.h"
#include "server/index/rocks_index.h"
#include "tests/crash/load.h"

namespace tiercel::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string LargestFile(const fs::path& dir, const std::string& suffix) {
  std::string found;
  uintmax_t size = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (!entry.path().string().ends_with(suffix) || entry.file_size() <= size) continue;
    size = entry.file_size();
    found = entry.path().string();
  }
  return found;
}

std::string NewestLog(const fs::path& dir) {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".log") && entry.file_size() > 0) newest = std::max(newest, path);
  }
  return newest;
}

void Flip(const std::string& file, uint64_t at) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(at));
  const char old = static_cast<char>(bytes.get());
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.put(static_cast<char>(old ^ 0x55));
  ASSERT_TRUE(bytes.good());
}

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    if (!MemoryDir::Fits(Deployment::Shape::Bytes(1))) GTEST_SKIP() << "no tmpfs with room for a store";
  }
};

// ---- the log

// One connection, so that commands have an order. After a torn end the keys are as after some prefix of them; a value
// whose place was used again by a command that is lost may be a miss, never other bytes.
struct Script {
  struct Step {
    std::string key;
    std::optional<uint64_t> number;  // nullopt: deleted
  };
  std::vector<Step> steps;

  static size_t SizeOf(uint64_t number) { return 1 + number * 7919 % 5'000; }
  std::optional<uint64_t> After(const std::string& key, size_t steps_done) const {
    std::optional<uint64_t> number;
    for (size_t i = 0; i < steps_done; ++i) {
      if (steps[i].key == key) number = steps[i].number;
    }
    return number;
  }
};

void TearAndStart(uint64_t seed, bool cut) {
  SCOPED_TRACE("seed " + std::to_string(seed) + (cut ? ", cut" : ", garbled"));
  Random random(seed);
  Deployment system({.more = {"--lease-ttl", "100ms"}});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto key_of = [](uint64_t i) { return "k" + std::to_string(i); };
  constexpr uint64_t kKeys = 40, kSteps = 400;
  Script script;
  {
    const auto redis = system.Connect();
    for (uint64_t i = 1; i <= kSteps; ++i) {
      Script::Step step{.key = key_of(random.Below(kKeys)), .number = i};
      if (random.OneIn(4)) step.number.reset();
      const RedisReply reply = step.number.has_value() ? redis->Call({"SET", step.key, ValueOf(i, Script::SizeOf(i))})
                                                       : redis->Call({"DEL", step.key});
      ASSERT_FALSE(reply.is_error() || reply.broken()) << reply.Describe();
      script.steps.push_back(step);
    }
  }
  const int64_t version = system.Connect()->Call({"PUTSTART", "other", "10"}).Field("put").integer;
  ASSERT_GT(version, 0);
  system.Kill(0);
  const std::string log = NewestLog(system.index_dir());
  ASSERT_FALSE(log.empty());
  const uint64_t size = fs::file_size(log), at = size - 1 - random.Below(std::min<uint64_t>(size, 6'000));
  if (cut) {
    ASSERT_EQ(truncate(log.c_str(), static_cast<off_t>(at)), 0);
  } else {
    for (uint64_t i = at; i < size; ++i) Flip(log, i);
  }
  const Status started = system.Start(0);
  ASSERT_TRUE(started.ok()) << started.error().ToString();
  ASSERT_TRUE(system.AwaitSettled());
  EXPECT_GT(system.Info("index_lost_records"), 0);

  const auto redis = system.Connect();
  std::map<std::string, std::optional<std::string>> found;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const RedisReply got = redis->Call({"GET", key_of(i)});
    if (got.type == REDIS_REPLY_STRING) {
      found[key_of(i)] = got.text;
    } else {
      found[key_of(i)] = std::nullopt;
    }
  }
  const auto fits = [&](size_t done) {
    return std::ranges::all_of(found, [&](const auto& entry) {
      const auto& [key, bytes] = entry;
      const std::optional<uint64_t> then = script.After(key, done), last = script.After(key, kSteps);
      if (bytes.has_value()) return then.has_value() && *bytes == ValueOf(*then, Script::SizeOf(*then));
      return !then.has_value() || then != last;
    });
  };
  size_t prefix = kSteps;
  while (prefix > 0 && !fits(prefix)) --prefix;
  // What was torn off is at most as many commands as small records fit into it.
  EXPECT_GT(prefix, kSteps - 6'000 / 20) << "no prefix of what was written";
  std::cout << "torn at " << size - at << " bytes before the end: " << prefix << " of " << kSteps << " commands"
            << std::endl;
  // What was handed out before is not handed out again.
  EXPECT_GT(redis->Call({"PUTSTART", "next", "10"}).Field("put").integer, version);
  EXPECT_TRUE(redis->Call({"SET", "k0", "new"}).is_ok());
  EXPECT_EQ(redis->Call({"GET", "k0"}).text, "new");
}

TEST_F(Disk, ATornEndOfTheLogLosesWholeCommandsFromTheEnd) {
  const uint64_t seed = RandomId();
  for (uint64_t i = 0; i < 4 && !HasFatalFailure(); ++i) TearAndStart(seed + i, i % 2 == 0);
}

// ---- tables

TEST_F(Disk, ADamagedTableStopsTheStartAndTheRestIsServedWhenToldTo) {
  Deployment system({});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto put = [&](int from, int to) {
    const auto redis = system.Connect();
    for (int i = from; i < to; ++i) redis->Send({"SET", "k" + std::to_string(i), ValueOf(i + 1, 64)});
    for (int i = from; i < to; ++i) ASSERT_TRUE(redis->Receive().is_ok());
  };
  put(0, 3'000);
  // The start moves the log into tables.
  system.Kill(0);
  ASSERT_TRUE(system.Start(0).ok());
  put(3'000, 3'500);
  system.Kill(0);
  const std::string table = LargestFile(system.index_dir(), ".sst");
  ASSERT_FALSE(table.empty());
  Flip(table, fs::file_size(table) / 3);

  const Status refused = system.Start(0);
  ASSERT_FALSE(refused.ok()) << "an index with a hole is not served as if it were whole";
  EXPECT_THAT(refused.error().message(), testing::ContainsRegex("records lost at least: [1-9][0-9]* in 1 tables"));
  EXPECT_THAT(refused.error().message(), HasSubstr("index-repair yes"));

  const Status repaired = system.Start(0, {"--index-repair", "yes"});
  ASSERT_TRUE(repaired.ok()) << repaired.error().ToString();
  ASSERT_TRUE(system.AwaitSettled());
  const auto redis = system.Connect();
  int hits = 0;
  for (int i = 0; i < 3'500; ++i) {
    const RedisReply got = redis->Call({"GET", "k" + std::to_string(i)});
    if (got.is_nil()) continue;
    ASSERT_EQ(got.text, ValueOf(i + 1, 64)) << i;
    ++hits;
  }
  EXPECT_GE(hits, 500) << "what lay elsewhere is served";
  EXPECT_LT(hits, 3'500);
  EXPECT_GT(system.Info("index_lost_records"), 0);
  EXPECT_TRUE(redis->Call({"SET", "after", "v"}).is_ok());
}

// ---- no room

// Reads go on, changes get their typed error, and when `mend` has been called it works again by itself.
void ExpectReadOnlyUntil(Deployment& system, const std::function<void()>& harm, const std::function<void()>& mend) {
  const auto redis = system.Connect();
  ASSERT_TRUE(redis->Call({"SET", "before", "value"}).is_ok());
  ASSERT_TRUE(redis->Call({"SET", "gone", "value"}).is_ok());
  ASSERT_EQ(redis->Call({"DEL", "gone"}).integer, 1);
  harm();
  // The log has some room ahead of it.
  RedisReply reply;
  int acknowledged = 0;
  const std::string name(16'000, 'n');
  for (;; ++acknowledged) {
    reply = redis->Call({"SET", name + std::to_string(acknowledged), "v"});
    if (!reply.is_ok()) break;
    ASSERT_LT(acknowledged, 20'000) << "300 MiB were written to a disk that has no room";
  }
  EXPECT_TRUE(reply.text.starts_with("INDEXRO")) << reply.Describe();
  for (const auto& words : std::vector<std::vector<std::string_view>>{{"SET", "during", "v"},
                                                                      {"DEL", "before"},
                                                                      {"PEXPIRE", "before", "100"},
                                                                      {"PIN", "before", "HARD"},
                                                                      {"PUTSTART", "during", "100"},
                                                                      {"FLUSHDB"}}) {
    const RedisReply refused = redis->Call(words);
    EXPECT_TRUE(refused.is_error() && refused.text.starts_with("INDEXRO")) << words[0] << ": " << refused.Describe();
  }
  EXPECT_EQ(redis->Call({"GET", "before"}).text, "value");
  EXPECT_EQ(redis->Call({"EXISTS", "before"}).integer, 1);
  EXPECT_TRUE(redis->Call({"GET", name + std::to_string(acknowledged)}).is_nil()) << "what failed is not there";
  EXPECT_EQ(redis->Call({"GETREPLICAS", "before"}).Field("size").integer, 5);
  mend();
  ASSERT_TRUE(Eventually([&] { return redis->Call({"SET", "after", "v"}).is_ok(); })) << "by itself";
  EXPECT_TRUE(redis->Call({"GET", "during"}).is_nil());
  // A start afterwards finds all that was acknowledged and nothing that was refused.
  system.Kill(0);
  const Status started = system.Start(0);
  ASSERT_TRUE(started.ok()) << started.error().ToString();
  ASSERT_TRUE(system.AwaitSettled());
  const auto again = system.Connect();
  EXPECT_EQ(again->Call({"GET", "before"}).text, "value");
  EXPECT_EQ(again->Call({"TTL", "before"}).integer, -1);
  EXPECT_EQ(again->Call({"GET", "after"}).text, "v");
  for (int i = 0; i < acknowledged; ++i) {
    ASSERT_EQ(again->Call({"GET", name + std::to_string(i)}).text, "v") << i;
  }
  EXPECT_TRUE(again->Call({"GET", name + std::to_string(acknowledged)}).is_nil());
  EXPECT_TRUE(again->Call({"GET", "during"}).is_nil());
  EXPECT_TRUE(again->Call({"GET", "gone"}).is_nil());
}

TEST_F(Disk, AFullDiskStopsChangesUntilThereIsRoom) {
  // A file system of its own takes the right to mount; tests/index has the same with a file system of its own making.
  const TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=192m") != 0) GTEST_SKIP() << "may not mount";
  {
    Deployment system({.more = {}, .dir = dir.path()});
    EXPECT_TRUE(system.ok()) << system.error();
    const fs::path ballast = dir.path() / "ballast";
    if (system.ok()) {
      ExpectReadOnlyUntil(
          system,
          [&] {
            std::ofstream out(ballast, std::ios::binary);
            const std::string zeros(1 << 20, '\0');
            while (out.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush()) {
            }
          },
          [&] { fs::remove(ballast); });
    }
    if (HasFailure()) std::cerr << system.Logs();
  }
  EXPECT_EQ(umount2(dir.path().c_str(), MNT_DETACH), 0);
}

// ---- whose index, and of what format

TEST_F(Disk, AnIndexOfANewerFormatIsRefusedAndLeftAlone) {
  const TempDir dir;
  {
    auto newer = index::RocksIndex::Open({.dir = dir.path() / "index",
                                          .generation_file = dir.path() / "generation",
                                          .reserve_bytes = 0,
                                          .format = index::kIndexFormat + 1});
    ASSERT_TRUE(newer.ok()) << newer.error().message();
    ASSERT_TRUE((*newer)->RaiseGeneration().ok());
  }
  const auto server = ServerProcess::StartMaster({"--dir", dir.path().string()});
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.error().message(), HasSubstr("format " + std::to_string(index::kIndexFormat + 1)));
  EXPECT_THAT(server.error().message(), HasSubstr("up to format " + std::to_string(index::kIndexFormat)));
  auto still = index::RocksIndex::Open({.dir = dir.path() / "index",
                                        .generation_file = dir.path() / "generation",
                                        .reserve_bytes = 0,
                                        .format = index::kIndexFormat + 1});
  EXPECT_TRUE(still.ok()) << still.error().message();
}

TEST_F(Disk, TwoMastersDoNotShareADirectory) {
  const TempDir dir;
  const auto first = ServerProcess::StartMaster({"--dir", dir.path().string()});
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  const auto second = ServerProcess::StartMaster({"--dir", dir.path().string()});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("in use by process " + std::to_string((*first)->pid())));
  EXPECT_EQ(Redis((*first)->host(), (*first)->port()).Call({"PING"}).text, "PONG");
}

}  // namespace
}  // namespace tiercel::test
