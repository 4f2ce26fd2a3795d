#include "tiers/dram/dram_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>

#include "base/check.h"
#include "base/log.h"
#include "base/memory_limits.h"
#include "base/units.h"
#include "tiers/dram/populate.h"

namespace tiercel::tiers {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

uint64_t ReadCount(const char* path) {
  uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// Bytes of the pool that nobody uses or has reserved.
uint64_t FreeHugePool() {
  const uint64_t free = ReadCount("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  const uint64_t reserved = ReadCount("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages");
  return free > reserved ? (free - reserved) * kHugePage : 0;
}

// Whether advice makes huge pages of a memfd at all: "always within_size [advise] never deny force".
bool TransparentPagesFollowAdvice() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  for (std::string word; file >> word;) {
    if (word.front() == '[') return word != "[never]" && word != "[deny]";
  }
  return false;
}

class DramSegment final : public Segment {
 public:
  DramSegment(std::string name, SegmentRef ref, UniqueFd file, Mapping mapping, bool huge_pages, bool sendfile_works)
      : name_(std::move(name)),
        ref_(ref),
        file_(std::move(file)),
        mapping_(std::move(mapping)),
        huge_pages_(huge_pages),
        sendfile_works_(sendfile_works) {}

  void Populate(Populator::Progress progress) { populator_.Start(mapping_.bytes(), std::move(progress)); }

  Tier tier() const override { return Tier::kDram; }
  const std::string& name() const override { return name_; }
  SegmentRef ref() const override { return ref_; }
  uint64_t size() const override { return mapping_.size(); }
  std::byte* base() const override { return mapping_.data(); }
  int file() const override { return sendfile_works_ ? file_.get() : -1; }
  bool huge_pages() const override { return huge_pages_; }
  uint64_t populated_bytes() const override { return populator_.populated_bytes(); }

  // A new description of the same file, opened for reading. Whoever gets it may open the file for writing through
  // /proc again, but the seal then refuses to map or write it.
  Result<UniqueFd> ShareReadOnly() const override {
    const std::string path = "/proc/self/fd/" + std::to_string(file_.get());
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return SystemError("open " + path + " for sharing", errno);
    return fd;
  }

 private:
  const std::string name_;
  const SegmentRef ref_;
  const UniqueFd file_;
  const Mapping mapping_;
  const bool huge_pages_;
  const bool sendfile_works_;
  Populator populator_;  // last: stops before the mapping goes
};

struct Memory {
  UniqueFd file;
  Mapping mapping;
};

// What must hold before anybody else sees the file, tried rather than believed: some kernels take the seal on
// files of the huge-page pool and do not enforce it.
Status CheckSealed(int file) {
  void* again = mmap(nullptr, kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (again == MAP_FAILED) return Ok();
  munmap(again, kHugePage);
  return Error(ErrorCode::kNoPerm, "this kernel lets sealed memory be mapped for writing");
}

Result<Memory> MakeMemory(const std::string& name, uint64_t size, unsigned int extra_flags) {
  const std::string label = "tiercel:" + name.substr(0, 128);
  Memory memory{.file = UniqueFd(memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags)),
                .mapping = {}};
  if (!memory.file) return SystemError("create memory for segment " + name, errno);
  if (ftruncate(memory.file.get(), static_cast<off_t>(size)) != 0) {
    return SystemError("size segment " + name + " to " + std::to_string(size) + " bytes", errno);
  }
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file.get(), 0);
  if (base == MAP_FAILED) return SystemError("map segment " + name + " of " + std::to_string(size) + " bytes", errno);
  memory.mapping = Mapping(base, size);
  if (fcntl(memory.file.get(), F_ADD_SEALS, kSeals) != 0) return SystemError("seal segment " + name, errno);
  TIERCEL_TRY(CheckSealed(memory.file.get()));
  // A crash must not write gigabytes of other people's values to a core file.
  if (madvise(base, size, MADV_DONTDUMP) != 0) return SystemError("advise on segment " + name, errno);
  return memory;
}

// Files of the huge-page pool know no splice on some kernels.
bool SendfileWorks(int file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const UniqueFd reader(ends[0]), writer(ends[1]);
  off64_t offset = 0;
  return splice(file, &offset, writer.get(), nullptr, 1, 0) == 1;
}

Error TooLittle(std::string_view what, uint64_t needed, uint64_t available, std::string_view where) {
  return Error(ErrorCode::kNoMemory, fmt::format("{} needs {} bytes ({}), and {} has {} bytes ({}) available", what,
                                                 needed, HumanBytes(needed), where, available, HumanBytes(available)));
}

Result<Memory> ChooseMemory(const DramOptions& options, uint64_t size, bool* huge) {
  const bool must = options.huge_pages == HugePages::kYes;
  if (must && size % kHugePage != 0) {
    return Error(ErrorCode::kInvalid, "segment " + options.name + " is smaller than a huge page of 2 MiB");
  }
  if (must || (options.huge_pages == HugePages::kTry && size % kHugePage == 0 && FreeHugePool() >= size)) {
    Result<Memory> pooled = MakeMemory(options.name, size, MFD_HUGETLB | MFD_HUGE_2MB);
    *huge = pooled.ok();
    if (pooled.ok() || must) return pooled;
    TIERCEL_TRY(CheckMemoryFor(size, HugePages::kNo));
  }
  TIERCEL_ASSIGN(Memory memory, MakeMemory(options.name, size, 0));
  if (options.huge_pages == HugePages::kTry) {
    *huge = madvise(memory.mapping.data(), size, MADV_HUGEPAGE) == 0 && TransparentPagesFollowAdvice();
  }
  return memory;
}

}  // namespace

Status CheckMemoryFor(uint64_t bytes, HugePages huge_pages) {
  if (huge_pages != HugePages::kNo) {
    // Pages of the pool were taken from the rest of the memory when it was made.
    const uint64_t pool = FreeHugePool();
    if (pool >= bytes) return Ok();
    if (huge_pages == HugePages::kYes) return TooLittle("dram", bytes, pool, "the pool of huge pages");
  }
  TIERCEL_ASSIGN(const MemoryLimits limits, ReadMemoryLimits());
  if (bytes <= limits.available_bytes) return Ok();
  return TooLittle("dram", bytes, limits.available_bytes, limits.from_cgroup ? "the control group" : "the machine");
}

Result<std::unique_ptr<Segment>> CreateDramSegment(const DramOptions& options) {
  const uint64_t size = options.size - options.size % (options.size >= kHugePage ? kHugePage : kPage);
  if (size == 0) return Error(ErrorCode::kInvalid, "segment " + options.name + " is smaller than 4096 bytes");
  if (size > static_cast<uint64_t>(INT64_MAX)) {
    return Error(ErrorCode::kInvalid, "segment " + options.name + " is larger than a file can be");
  }
  TIERCEL_TRY(CheckMemoryFor(size, options.huge_pages));
  bool huge = false;
  TIERCEL_ASSIGN(Memory memory, ChooseMemory(options, size, &huge));
  const bool sendfile_works = SendfileWorks(memory.file.get());
  auto segment = std::make_unique<DramSegment>(options.name, SegmentRef{options.id, options.epoch},
                                               std::move(memory.file), std::move(memory.mapping), huge, sendfile_works);
  if (options.populate) segment->Populate(options.progress);
  return std::unique_ptr<Segment>(std::move(segment));
}

}  // namespace tiercel::tiers
