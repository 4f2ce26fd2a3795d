// What touches the system: descriptors, mappings, clocks, memory limits, log, assertions.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/memory_limits.h"

namespace tiercel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "tiercel-base-XXXXXX").string();
    TIERCEL_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

 private:
  fs::path path_;
};

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  UniqueFd a(memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(a);
  const int number = a.get();
  Result<UniqueFd> copy = a.Duplicate();
  ASSERT_TRUE(copy.ok());
  EXPECT_NE(copy->get(), number);
  EXPECT_EQ(fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  UniqueFd b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): the point
  EXPECT_EQ(b.get(), number);
  b = std::move(*copy);
  EXPECT_FALSE(IsOpen(number));
  const int kept = b.Release();
  EXPECT_TRUE(IsOpen(kept));
  UniqueFd(kept).Reset();
  EXPECT_FALSE(IsOpen(kept));
  EXPECT_FALSE(UniqueFd().Duplicate().ok());
}

TEST(Mapping, UnmapsWhenReplacedOrDestroyed) {
  const size_t size = 8192;
  const auto map = [&] { return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); };
  void* first = map();
  void* second = map();
  unsigned char resident[2];
  {
    Mapping a(first, size);
    Mapping b(second, size);
    EXPECT_EQ(a.bytes().size(), size);
    a = std::move(b);
    EXPECT_EQ(a.data(), second);
    EXPECT_EQ(mincore(first, size, resident), -1);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(mincore(second, size, resident), 0);
  }
  EXPECT_EQ(mincore(second, size, resident), -1);
}

TEST(SystemError, GroupsByWhatTheCallerCanDo) {
  EXPECT_EQ(SystemError("map", ENOMEM).code(), ErrorCode::kNoMemory);
  EXPECT_EQ(SystemError("connect", ECONNREFUSED).code(), ErrorCode::kUnreachable);
  EXPECT_EQ(SystemError("send", EPIPE).code(), ErrorCode::kUnreachable);
  EXPECT_EQ(SystemError("open", EMFILE).code(), ErrorCode::kIo);
  EXPECT_EQ(SystemError("open x", ENOENT).message(), "open x: No such file or directory");
}

TEST(Clock, SystemTimesMakeSense) {
  const Times a = SystemClock::Get().Now();
  const Times b = SystemClock::Get().Now();
  EXPECT_GE(b.boot_ms, a.boot_ms);
  EXPECT_GT(a.wall_ms, 1'600'000'000'000);
  const int64_t earlier_ns = MonotonicNanos();
  EXPECT_LE(earlier_ns, MonotonicNanos());
}

TEST(Clock, ManualClockStepsWallAlone) {
  ManualClock clock({.boot_ms = 5, .wall_ms = 50});
  clock.Advance(10);
  clock.StepWall(-40);
  EXPECT_EQ(clock.Now().boot_ms, 15);
  EXPECT_EQ(clock.Now().wall_ms, 20);
}

constexpr char kMeminfo[] = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n";

TEST(MemoryLimits, OfTheMachine) {
  TempDir root;
  root.Write("proc/meminfo", kMeminfo);
  const auto limits = ReadMemoryLimits(root.string().c_str());
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->total_bytes, 1000u * 1024);
  EXPECT_EQ(limits->available_bytes, 600u * 1024);
  EXPECT_FALSE(limits->from_cgroup);
}

TEST(MemoryLimits, TheSmallestGroupUpToTheRootCounts) {
  TempDir root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.Write("sys/fs/cgroup/a/memory.max", "409600\n");
  root.Write("sys/fs/cgroup/a/memory.current", "300000\n");
  root.Write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000\n");
  const auto limits = ReadMemoryLimits(root.string().c_str());
  ASSERT_TRUE(limits.ok());
  EXPECT_TRUE(limits->from_cgroup);
  EXPECT_EQ(limits->total_bytes, 409600u);
  EXPECT_EQ(limits->available_bytes, 409600u - 200000u);
}

TEST(MemoryLimits, InAContainerOnlyTheRootIsThere) {
  TempDir root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/docker/0123456789\n");
  root.Write("sys/fs/cgroup/memory.max", "8192\n");
  root.Write("sys/fs/cgroup/memory.current", "10000\n");  // over its limit for a moment
  const auto limits = ReadMemoryLimits(root.string().c_str());
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->total_bytes, 8192u);
  EXPECT_EQ(limits->available_bytes, 0u);
}

TEST(MemoryLimits, VersionOneWithoutALimitIsTheMachine) {
  TempDir root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/user\n");
  root.Write("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "9223372036854771712\n");
  root.Write("sys/fs/cgroup/memory/user/memory.usage_in_bytes", "123456\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n");
  root.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  const auto limits = ReadMemoryLimits(root.string().c_str());
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->total_bytes, 500000u);
  EXPECT_EQ(limits->available_bytes, 400000u);
}

TEST(MemoryLimits, UnreadableIsAnError) {
  TempDir root;
  EXPECT_EQ(ReadMemoryLimits(root.string().c_str()).error().code(), ErrorCode::kIo);
  root.Write("proc/meminfo", "MemTotal: many kB\n");
  EXPECT_FALSE(ReadMemoryLimits(root.string().c_str()).ok());
  const auto here = ReadMemoryLimits();
  ASSERT_TRUE(here.ok());
  EXPECT_GT(here->total_bytes, 0u);
  EXPECT_LE(here->available_bytes, here->total_bytes);
}

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { EXPECT_TRUE(OpenLog("", LogLevel::kNotice).ok()); }
  TempDir dir_;
};

TEST_F(LogTest, WritesLinesOfItsLevelAndAbove) {
  const std::string file = dir_ / "server.log";
  ASSERT_TRUE(OpenLog(file, LogLevel::kNotice).ok());
  EXPECT_TRUE(LogGoesToFile());
  Log(LogLevel::kVerbose, "not {}", "this");
  Log(LogLevel::kNotice, "port {} is open", 7379);
  SetLogLevel(LogLevel::kVerbose);
  Log(LogLevel::kVerbose, "but this");
  SetLogLevel(LogLevel::kNothing);
  Log(LogLevel::kError, "silence");
  const std::string text = ReadAll(file);
  EXPECT_THAT(text, HasSubstr(" notice port 7379 is open\n"));
  EXPECT_THAT(text, HasSubstr(" verbose but this\n"));
  EXPECT_THAT(text, Not(HasSubstr("not this")));
  EXPECT_THAT(text, Not(HasSubstr("silence")));
}

TEST_F(LogTest, OneEventIsOneLineWhateverItContains) {
  const std::string file = dir_ / "server.log";
  ASSERT_TRUE(OpenLog(file, LogLevel::kNotice).ok());
  Log(LogLevel::kWarning, "key {} is bad", "a\r\n2020-01-01 error forged");
  const std::string text = ReadAll(file);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST_F(LogTest, ReopensAfterRotation) {
  const std::string file = dir_ / "server.log";
  ASSERT_TRUE(OpenLog(file, LogLevel::kNotice).ok());
  Log(LogLevel::kNotice, "before");
  fs::rename(file, file + ".1");
  Log(LogLevel::kNotice, "between");
  ASSERT_TRUE(OpenLog(file, LogLevel::kNotice).ok());
  Log(LogLevel::kNotice, "after");
  EXPECT_THAT(ReadAll(file + ".1"), HasSubstr("between"));
  EXPECT_THAT(ReadAll(file), HasSubstr("after"));
  EXPECT_THAT(ReadAll(file), Not(HasSubstr("between")));
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsNamedAndChangesNothing) {
  const std::string file = dir_ / "server.log";
  ASSERT_TRUE(OpenLog(file, LogLevel::kNotice).ok());
  const Status status = OpenLog(dir_ / "missing/server.log", LogLevel::kNotice);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("missing/server.log"));
  Log(LogLevel::kNotice, "still here");
  EXPECT_THAT(ReadAll(file), HasSubstr("still here"));
}

TEST(LogLimiter, CountsWhatItSwallowed) {
  LogLimiter limiter(1000);
  EXPECT_EQ(limiter.Admit(5000), 0);
  EXPECT_EQ(limiter.Admit(5001), -1);
  EXPECT_EQ(limiter.Admit(5999), -1);
  EXPECT_EQ(limiter.Admit(6000), 2);
  EXPECT_EQ(limiter.Admit(9000), 0);
}

TEST(CheckDeathTest, SaysWhereAndWhat) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  TIERCEL_CHECK(1 + 1 == 2);
  EXPECT_DEATH(TIERCEL_CHECK(1 + 1 == 3), "system_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
  EXPECT_DEATH(TIERCEL_CHECK(false, "it must hold"), "check failed: false: it must hold");
}

}  // namespace
}  // namespace tiercel
