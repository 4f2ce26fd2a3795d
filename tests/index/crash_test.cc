// Killed in the middle of writing, again and again, on one directory. (P-05: nothing acknowledged is lost.)
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/index/history.h"

extern char** environ;

namespace tiercel::index {
namespace {

struct Written {
  uint64_t generation = 0;
  uint64_t batches = 0;  // the last that was said to be written
};

// Runs the writer, and kills it when it has said that it wrote so many batches more.
Written RunAndKill(const TestDir& dir, const std::string& fsync, uint64_t seed, uint64_t more) {
  int pipe_ends[2];
  TIERCEL_CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::vector<std::string> words = {TIERCEL_INDEX_WRITER, dir / "index", dir / "generation", fsync,
                                    std::to_string(seed)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  TIERCEL_CHECK(posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  FILE* out = fdopen(pipe_ends[0], "r");
  Written written;
  char line[64];
  uint64_t lines = 0;
  while (fgets(line, sizeof(line), out) != nullptr) {
    if (sscanf(line, "generation %lu", &written.generation) == 1) continue;
    EXPECT_EQ(sscanf(line, "%lu", &written.batches), 1) << line;
    if (++lines == more) kill(child, SIGKILL);
  }
  fclose(out);
  int status = 0;
  TIERCEL_CHECK(waitpid(child, &status, 0) == child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself: " << status;
  EXPECT_GE(lines, more);
  return written;
}

class CrashTest : public testing::TestWithParam<std::string> {};

TEST_P(CrashTest, P05_EveryAcknowledgedBatchIsThereAndNoneByHalf) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  TestDir dir;
  const int rounds = getenv("TIERCEL_TEST_LONG") != nullptr ? 100 : 7;
  uint64_t generation = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const Written written = RunAndKill(dir, GetParam(), seed, 1 + random.Below(150));
    EXPECT_GT(written.generation, generation);
    generation = written.generation;
    auto index = RocksIndex::Open({.dir = dir / "index", .reserve_bytes = 0});
    ASSERT_TRUE(index.ok()) << index.error().message();
    const Result<Loaded> loaded = LoadAll(index->get());
    ASSERT_TRUE(loaded.ok());
    EXPECT_GE(loaded->batches, written.batches);
    EXPECT_EQ(loaded->contents, ContentsAfter(seed, loaded->batches));
    EXPECT_EQ(loaded->report.dropped(), 0u);
    EXPECT_EQ((*index)->Figures().lost_records, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Fsync, CrashTest, testing::Values("no", "everysec", "always"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tiercel::index
