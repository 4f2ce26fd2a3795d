#include "tiers/dram/dram_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>

#include "base/memory_limits.h"

namespace tiercel::tiers {
namespace {

using testing::HasSubstr;
constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unique_ptr<Segment> Make(uint64_t size, DramOptions options = {}) {
  options.name = "s1-dram0";
  options.id = 3;
  options.epoch = 7;
  options.size = size;
  Result<std::unique_ptr<Segment>> segment = CreateDramSegment(options);
  EXPECT_TRUE(segment.ok()) << (segment.ok() ? "" : segment.error().message());
  return segment.ok() ? std::move(*segment) : nullptr;
}

void* Map(int fd, int protection, int flags = MAP_SHARED) { return mmap(nullptr, 4096, protection, flags, fd, 0); }

TEST(DramSegment, IsWhatWasAskedFor) {
  const auto segment = Make(4 * kMiB);
  EXPECT_EQ(segment->tier(), Tier::kDram);
  EXPECT_EQ(segment->name(), "s1-dram0");
  EXPECT_EQ(segment->ref(), (SegmentRef{3, 7}));
  EXPECT_EQ(segment->size(), 4 * kMiB);
  std::memset(segment->base(), 0xab, segment->size());
  unsigned char byte = 0;
  ASSERT_EQ(pread(segment->file(), &byte, 1, static_cast<off_t>(4 * kMiB - 1)), 1);
  EXPECT_EQ(byte, 0xab);
}

TEST(DramSegment, SizesAreRoundedDown) {
  EXPECT_EQ(Make(5 * kMiB + 4096)->size(), 4 * kMiB);
  EXPECT_EQ(Make(kMiB + 5000)->size(), kMiB + 4096);
  EXPECT_EQ(CreateDramSegment({.name = "s", .size = 4095}).error().code(), ErrorCode::kInvalid);
}

TEST(DramSegment, SharedDescriptorsReadAndNeverWrite) {
  const auto segment = Make(2 * kMiB);
  std::memcpy(segment->base() + 100, "value", 5);
  const Result<UniqueFd> shared = segment->ShareReadOnly();
  ASSERT_TRUE(shared.ok());

  void* readable = Map(shared->get(), PROT_READ);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_EQ(std::memcmp(static_cast<char*>(readable) + 100, "value", 5), 0);
  std::memcpy(segment->base() + 100, "other", 5);  // the owner goes on writing
  EXPECT_EQ(std::memcmp(static_cast<char*>(readable) + 100, "other", 5), 0);
  EXPECT_EQ(mprotect(readable, 4096, PROT_READ | PROT_WRITE), -1);
  munmap(readable, 4096);

  EXPECT_EQ(Map(shared->get(), PROT_READ | PROT_WRITE), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(pwrite(shared->get(), "x", 1, 0), -1);
}

// Opening it again through /proc for writing works, as memfds have no owner's mode: only the seal stands in the way.
TEST(DramSegment, ReopeningForWritingDoesNotHelp) {
  const auto segment = Make(2 * kMiB);
  const Result<UniqueFd> shared = segment->ShareReadOnly();
  ASSERT_TRUE(shared.ok());
  const std::string path = "/proc/self/fd/" + std::to_string(shared->get());
  const UniqueFd writable(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writable);
  EXPECT_EQ(Map(writable.get(), PROT_READ | PROT_WRITE), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(pwrite(writable.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  void* copy = Map(writable.get(), PROT_READ);
  ASSERT_NE(copy, MAP_FAILED);
  EXPECT_EQ(mprotect(copy, 4096, PROT_READ | PROT_WRITE), -1);
  munmap(copy, 4096);
}

TEST(DramSegment, NobodyResizesPunchesOrUnsealsIt) {
  const auto segment = Make(2 * kMiB);
  const Result<UniqueFd> shared = segment->ShareReadOnly();
  ASSERT_TRUE(shared.ok());
  const std::string path = "/proc/self/fd/" + std::to_string(shared->get());
  const UniqueFd writable(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writable);
  for (int fd : {segment->file(), writable.get()}) {
    EXPECT_EQ(ftruncate(fd, kMiB), -1);
    EXPECT_EQ(ftruncate(fd, 4 * kMiB), -1);
    EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  }
  EXPECT_EQ(fcntl(segment->file(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

TEST(DramSegment, PopulatesInStepsAndKeepsWhatIsWrittenMeanwhile) {
  std::promise<uint64_t> done;
  std::vector<uint64_t> steps;  // of the populating thread until `done`
  DramOptions options;
  options.progress = [&](uint64_t bytes, bool last) {
    steps.push_back(bytes);
    if (last) done.set_value(bytes);
  };
  const auto segment = Make(160 * kMiB, options);
  std::memset(segment->base() + 150 * kMiB, 0x5a, kMiB);
  EXPECT_EQ(done.get_future().get(), 160 * kMiB);
  EXPECT_EQ(steps, (std::vector<uint64_t>{64 * kMiB, 128 * kMiB, 160 * kMiB}));
  EXPECT_EQ(segment->populated_bytes(), 160 * kMiB);
  EXPECT_EQ(segment->base()[150 * kMiB + 77], std::byte{0x5a});
  std::vector<unsigned char> resident(160 * kMiB / 4096);
  ASSERT_EQ(mincore(segment->base(), segment->size(), resident.data()), 0);
  for (unsigned char page : resident) ASSERT_TRUE(page & 1);
}

TEST(DramSegment, DestructionInterruptsPopulating) {
  std::promise<void> first_step, destroying;
  uint64_t at_end = 0;
  DramOptions options;
  bool waited = false;
  options.progress = [&](uint64_t bytes, bool last) {
    if (last) at_end = bytes;
    if (waited) return;
    waited = true;
    first_step.set_value();
    destroying.get_future().wait();
  };
  auto segment = Make(256 * kMiB, options);
  first_step.get_future().wait();
  std::thread release([&] { destroying.set_value(); });
  segment.reset();  // sets its stop mark, or the step that is let go goes on: both must end well
  release.join();
  EXPECT_GE(at_end, 64 * kMiB);
  EXPECT_LE(at_end, 256 * kMiB);
}

TEST(DramSegment, WithoutPopulatingNothingIsTouched) {
  DramOptions options;
  options.populate = false;
  options.huge_pages = HugePages::kNo;
  const auto segment = Make(64 * kMiB, options);
  EXPECT_EQ(segment->populated_bytes(), 0u);
  std::vector<unsigned char> resident(64 * kMiB / 4096);
  ASSERT_EQ(mincore(segment->base(), segment->size(), resident.data()), 0);
  // The check of the seal and of splicing may have brought in the first page.
  EXPECT_LE(std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; }), 1);
}

TEST(DramSegment, MoreThanThereIsIsRefusedWithTheNumbers) {
  const Result<MemoryLimits> limits = ReadMemoryLimits();
  ASSERT_TRUE(limits.ok());
  const uint64_t size = (limits->total_bytes / kMiB + 2) * kMiB / (2 * kMiB) * (2 * kMiB);
  const auto segment = CreateDramSegment({.name = "s1-dram0", .size = size, .huge_pages = HugePages::kNo});
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.error().code(), ErrorCode::kNoMemory);
  EXPECT_THAT(segment.error().message(), HasSubstr("needs " + std::to_string(size) + " bytes"));
  EXPECT_THAT(segment.error().message(), HasSubstr("available"));
  // Two halves that fit one by one do not fit together.
  EXPECT_FALSE(CheckMemoryFor(size, HugePages::kNo).ok());
  EXPECT_TRUE(CheckMemoryFor(kMiB, HugePages::kNo).ok());
  EXPECT_EQ(CreateDramSegment({.name = "s", .size = ~uint64_t{0}}).error().code(), ErrorCode::kInvalid);
}

TEST(DramSegment, HugePagesAreAnErrorOnlyWhenRequired) {
  uint64_t pool = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") >> pool;
  const uint64_t size = (pool + 1) * 2 * kMiB;
  DramOptions options{.name = "s1-dram0", .size = size, .huge_pages = HugePages::kYes, .populate = false};
  const auto required = CreateDramSegment(options);
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code(), ErrorCode::kNoMemory);
  EXPECT_THAT(required.error().message(), HasSubstr("huge pages"));
  options.huge_pages = HugePages::kTry;
  EXPECT_TRUE(CreateDramSegment(options).ok());
  options.huge_pages = HugePages::kYes;
  options.size = kMiB;
  EXPECT_FALSE(CreateDramSegment(options).ok());
}

}  // namespace
}  // namespace tiercel::tiers
