// Segments on tmpfs: what outlives a process, and what must not be taken for it.
#include "tiers/dram/backing.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace tiercel::tiers {
namespace {

using testing::HasSubstr;
constexpr uint64_t kMiB = uint64_t{1} << 20;

class BackingTest : public testing::Test {
 protected:
  BackingTest() {
    char path[] = "/dev/shm/tiercel-test-XXXXXX";
    const char* made = mkdtemp(path);
    EXPECT_NE(made, nullptr);
    dir_ = made == nullptr ? "" : made;
  }
  ~BackingTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<Backing> Open() {
    auto backing = Backing::Open(dir_, "s1");
    EXPECT_TRUE(backing.ok()) << (backing.ok() ? "" : backing.error().ToString());
    return backing.ok() ? std::move(*backing) : nullptr;
  }
  static std::unique_ptr<Segment> OpenSegment(Backing* backing, uint64_t size, uint32_t id = 0) {
    auto segment = backing->OpenSegment({.name = "s1-dram-" + std::to_string(id), .id = id, .size = size});
    EXPECT_TRUE(segment.ok()) << (segment.ok() ? "" : segment.error().ToString());
    return segment.ok() ? std::move(*segment) : nullptr;
  }
  std::string StoragePath() const { return dir_ + "/s1/storage"; }

  std::string dir_;
};

TEST_F(BackingTest, BytesStorageIdAndEpochOutliveAKilledProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto backing = Backing::Open(dir_, "s1");
    auto segment = backing.ok() ? (*backing)->OpenSegment({.name = "s1-dram-0", .id = 0, .size = 4 * kMiB})
                                : Result<std::unique_ptr<Segment>>(backing.error());
    if (!segment.ok()) _exit(1);
    std::memcpy((*segment)->base() + 3 * kMiB, "value", 5);
    std::ofstream(dir_ + "/seen") << (*backing)->storage_id() << ' ' << (*segment)->ref().epoch << std::endl;
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit status " << status;

  std::string storage_id;
  uint32_t epoch = 0;
  std::ifstream(dir_ + "/seen") >> storage_id >> epoch;
  const auto backing = Open();
  const auto segment = OpenSegment(backing.get(), 4 * kMiB);
  EXPECT_EQ(backing->storage_id(), storage_id);
  EXPECT_EQ(segment->ref(), (SegmentRef{0, epoch}));
  EXPECT_TRUE(segment->kept());
  EXPECT_EQ(std::memcmp(segment->base() + 3 * kMiB, "value", 5), 0);
}

TEST_F(BackingTest, AnotherSizeBeginsEmptyUnderAnotherEpoch) {
  SegmentRef first;
  {
    const auto backing = Open();
    const auto segment = OpenSegment(backing.get(), 2 * kMiB);
    first = segment->ref();
    std::memset(segment->base(), 0xab, 2 * kMiB);
  }
  const auto backing = Open();
  const auto segment = OpenSegment(backing.get(), 3 * kMiB);
  EXPECT_GT(segment->ref().epoch, first.epoch) << "its master would refuse a lower one";
  EXPECT_EQ(segment->size(), 3 * kMiB);
  EXPECT_EQ(std::to_integer<int>(segment->base()[0]), 0);
}

TEST_F(BackingTest, AFileThatWasCutIsNotOffered) {
  uint32_t epoch = 0;
  {
    const auto backing = Open();
    epoch = OpenSegment(backing.get(), 2 * kMiB)->ref().epoch;
  }
  ASSERT_EQ(truncate((dir_ + "/s1/segment-0").c_str(), 4096), 0);
  const auto backing = Open();
  EXPECT_GT(OpenSegment(backing.get(), 2 * kMiB)->ref().epoch, epoch);
}

TEST_F(BackingTest, AnEpochGivenUpIsNotOfferedAgain) {
  uint32_t epoch = 0;
  {
    const auto backing = Open();
    const auto segment = OpenSegment(backing.get(), 2 * kMiB);
    epoch = segment->ref().epoch;
    ASSERT_TRUE(segment->NoteEpoch(epoch + 1).ok());
  }
  const auto backing = Open();
  EXPECT_EQ(OpenSegment(backing.get(), 2 * kMiB)->ref().epoch, epoch + 1);
}

TEST_F(BackingTest, OneProcessAtATime) {
  const auto backing = Open();
  const auto second = Backing::Open(dir_, "s1");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kNameInUse);
  EXPECT_THAT(second.error().message(), HasSubstr("pid " + std::to_string(getpid())));
  EXPECT_TRUE(Backing::Open(dir_, "s2").ok()) << "another store's directory is another one";
}

TEST_F(BackingTest, OnlyWhereFilesAreMemory) {
  const auto refused = Backing::Open("/proc", "s1");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("tmpfs or hugetlbfs"));
  EXPECT_EQ(Backing::Open(dir_ + "/absent", "s1").error().code(), ErrorCode::kIo);
  EXPECT_EQ(Backing::Open(dir_, "a/b").error().code(), ErrorCode::kInvalid);
}

TEST_F(BackingTest, DamageIsSaidAndNothingIsRemoved) {
  {
    OpenSegment(Open().get(), 2 * kMiB);
  }
  const struct {
    const char* text;
    const char* says;
  } kBad[] = {{"", "damaged"},
              {"tiercel-dram 1", "damaged"},
              {"tiercel-dram 2 abc\n", "version 2"},
              {"something else 1\n", "damaged"},
              {"tiercel-dram 1 abc\nsegment 0\n", "damaged"},
              {"tiercel-dram 1 abc\nsegment 0 0 4096\n", "damaged"},
              {"tiercel-dram 1 abc\nsegment 99999999999 1 4096\n", "damaged"}};
  for (const auto& bad : kBad) {
    std::ofstream(StoragePath(), std::ios::trunc) << bad.text;
    const auto refused = Backing::Open(dir_, "s1");
    ASSERT_FALSE(refused.ok()) << bad.text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid) << bad.text;
    EXPECT_THAT(refused.error().message(), HasSubstr(bad.says)) << bad.text;
  }
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/s1/segment-0"));
}

TEST_F(BackingTest, SegmentsThatAreNotConfiguredAnyMoreGiveTheirMemoryBack) {
  uint32_t removed = 0;
  {
    const auto backing = Open();
    OpenSegment(backing.get(), 2 * kMiB, 0);
    removed = OpenSegment(backing.get(), 2 * kMiB, 1)->ref().epoch;
    ASSERT_TRUE(backing->Prune().ok());
    EXPECT_TRUE(std::filesystem::exists(dir_ + "/s1/segment-1"));
  }
  {
    const auto backing = Open();
    OpenSegment(backing.get(), 2 * kMiB, 0);
    ASSERT_TRUE(backing->Prune().ok());
    EXPECT_FALSE(std::filesystem::exists(dir_ + "/s1/segment-1"));
    EXPECT_TRUE(std::filesystem::exists(dir_ + "/s1/segment-0"));
  }
  const auto backing = Open();
  EXPECT_GT(OpenSegment(backing.get(), 2 * kMiB, 1)->ref().epoch, removed) << "also when it comes back later";
}

TEST_F(BackingTest, MoreThanThereIsNamesTheNumbers) {
  const auto backing = Open();
  const auto segment = backing->OpenSegment({.name = "s1-dram-0", .id = 0, .size = uint64_t{1} << 43});
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.error().code(), ErrorCode::kNoMemory);
  EXPECT_THAT(segment.error().message(), HasSubstr("8796093022208"));
}

TEST_F(BackingTest, SharedDescriptorsMapForReadingAlone) {
  const auto backing = Open();
  const auto segment = OpenSegment(backing.get(), 2 * kMiB);
  std::memcpy(segment->base(), "value", 5);
  const Result<UniqueFd> shared = segment->ShareReadOnly();
  ASSERT_TRUE(shared.ok());
  void* readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, shared->get(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_EQ(std::memcmp(readable, "value", 5), 0);
  munmap(readable, 4096);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared->get(), 0), MAP_FAILED);
  struct stat status{};
  ASSERT_EQ(fstat(shared->get(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u) << "nobody else may open it for writing";
}

}  // namespace
}  // namespace tiercel::tiers
