#include "tiers/dram/backing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"

namespace tiercel::tiers {
namespace {

constexpr std::string_view kMagic = "tiercel-dram";
constexpr int kVersion = 1;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kAllocateStep = uint64_t{256} << 20;  // between two words of progress
constexpr size_t kMaxStorageBytes = 64 * 1024;

struct Known {
  uint32_t epoch = 0;
  uint64_t bytes = 0;
};
using KnownSegments = std::map<uint32_t, Known>;

class FileBacking;

class BackedSegment final : public Segment {
 public:
  BackedSegment(FileBacking* backing, std::string name, SegmentRef ref, std::string path, UniqueFd file,
                Mapping mapping, bool huge)
      : backing_(backing),
        name_(std::move(name)),
        ref_(ref),
        path_(std::move(path)),
        file_(std::move(file)),
        mapping_(std::move(mapping)),
        huge_(huge) {}

  Tier tier() const override { return Tier::kDram; }
  const std::string& name() const override { return name_; }
  SegmentRef ref() const override { return ref_; }
  uint64_t size() const override { return mapping_.size(); }
  std::byte* base() const override { return mapping_.data(); }
  int file() const override { return huge_ ? -1 : file_.get(); }
  bool huge_pages() const override { return huge_; }
  bool kept() const override { return true; }
  Status NoteEpoch(uint32_t epoch) override;

  // The file is its owner's alone, so a process of another user cannot open it anew for writing.
  Result<UniqueFd> ShareReadOnly() const override {
    UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return SystemError("open " + path_ + " for sharing", errno);
    return fd;
  }

 private:
  FileBacking* const backing_;
  const std::string name_;
  const SegmentRef ref_;
  const std::string path_;
  const UniqueFd file_;
  const Mapping mapping_;
  const bool huge_;
};

class FileBacking final : public Backing {
 public:
  FileBacking(std::string dir, bool huge, UniqueFd lock) : dir_(std::move(dir)), huge_(huge), lock_(std::move(lock)) {}

  Status Read();
  const std::string& storage_id() const override { return storage_id_; }
  Result<std::unique_ptr<Segment>> OpenSegment(const DramOptions& options) override;
  Status Prune() override;
  Status SetEpoch(uint32_t id, uint32_t epoch) {
    const std::lock_guard hold(mutex_);
    known_[id].epoch = epoch;
    return Write();
  }

 private:
  std::string PathOf(uint32_t id) const { return fmt::format("{}/segment-{}", dir_, id); }
  Status Write() const;
  Status Parse(const std::string& text);
  Status Allocate(int file, uint64_t size, const DramOptions& options) const;

  const std::string dir_;
  const bool huge_;
  const UniqueFd lock_;
  std::mutex mutex_;  // guards what `storage` holds
  std::string storage_id_;
  KnownSegments known_;
  std::set<uint32_t> opened_;
};

Status BackedSegment::NoteEpoch(uint32_t epoch) { return backing_->SetEpoch(ref_.segment, epoch); }

// ---- the file `storage`

Status FileBacking::Parse(const std::string& text) {
  const Error bad(ErrorCode::kInvalid, dir_ + "/storage is damaged: remove " + dir_ + " to begin with empty memory");
  std::istringstream lines(text);
  std::string magic, word;
  int version = 0;
  if (!(lines >> magic >> version >> storage_id_) || magic != kMagic) return bad;
  if (version != kVersion) {
    return Error(ErrorCode::kInvalid,
                 fmt::format("{}/storage has version {}, this program knows version {}", dir_, version, kVersion));
  }
  if (storage_id_.size() > 64) return bad;
  while (lines >> word) {
    uint64_t id = 0, epoch = 0, bytes = 0;
    if (word != "segment" || !(lines >> id >> epoch >> bytes) || id > UINT32_MAX || epoch == 0 || epoch > UINT32_MAX) {
      return bad;
    }
    known_[static_cast<uint32_t>(id)] = {static_cast<uint32_t>(epoch), bytes};
  }
  return Ok();
}

Status FileBacking::Read() {
  std::ifstream file(dir_ + "/storage", std::ios::binary);
  if (!file) {
    storage_id_ = FormatHex64(RandomId());
    return Write();
  }
  std::string text(kMaxStorageBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return Parse(text);
}

Status FileBacking::Write() const {
  std::string text = fmt::format("{} {} {}\n", kMagic, kVersion, storage_id_);
  for (const auto& [id, known] : known_) text += fmt::format("segment {} {} {}\n", id, known.epoch, known.bytes);
  const std::string path = dir_ + "/storage", next = path + ".next";
  const UniqueFd file(open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return SystemError("write " + next, errno);
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return SystemError("write " + next, errno);
  }
  if (rename(next.c_str(), path.c_str()) != 0) return SystemError("rename " + next, errno);
  return Ok();
}

// ---- segments

// All pages now: memory that runs out later would end the process at some write.
Status FileBacking::Allocate(int file, uint64_t size, const DramOptions& options) const {
  for (uint64_t at = 0; at < size; at += kAllocateStep) {
    const uint64_t length = std::min(kAllocateStep, size - at);
    int failed = 0;
    while ((failed = posix_fallocate(file, static_cast<off_t>(at), static_cast<off_t>(length))) == EINTR) {
    }
    if (failed == ENOSPC || failed == ENOMEM) {
      struct statfs about{};
      const uint64_t free =
          fstatfs(file, &about) == 0 ? uint64_t{about.f_bavail} * static_cast<uint64_t>(about.f_bsize) : 0;
      return Error(ErrorCode::kNoMemory,
                   fmt::format("segment {} needs {} bytes ({}); {} has room for {} ({}) of them", options.name, size,
                               HumanBytes(size), dir_, at + free, HumanBytes(at + free)));
    }
    if (failed != 0) return SystemError("allocate segment " + options.name, failed);
    if (options.progress) options.progress(at + length, at + length == size);
  }
  return Ok();
}

Result<std::unique_ptr<Segment>> FileBacking::OpenSegment(const DramOptions& options) {
  struct statfs about{};
  if (statfs(dir_.c_str(), &about) != 0) return SystemError("look at " + dir_, errno);
  const uint64_t page = huge_ ? static_cast<uint64_t>(about.f_bsize) : kPage;
  const uint64_t size = options.size - options.size % page;
  if (size == 0 || size > static_cast<uint64_t>(INT64_MAX)) {
    return Error(ErrorCode::kInvalid,
                 fmt::format("segment {}: {} bytes, must be {} to 2^63", options.name, options.size, page));
  }
  const std::string path = PathOf(options.id);
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return SystemError("open " + path, errno);
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return SystemError("look at " + path, errno);

  Known known;
  {
    const std::lock_guard hold(mutex_);
    const auto it = known_.find(options.id);
    if (it != known_.end()) known = it->second;
  }
  const bool same = known.epoch != 0 && known.bytes == size && static_cast<uint64_t>(status.st_size) == size;
  if (!same) {
    if (known.epoch != 0) {
      Log(LogLevel::kWarning, "segment {} had {} bytes and gets {}: it begins empty", options.name, known.bytes, size);
    }
    // The record goes before the bytes: whatever stops this in the middle leaves a segment that is made anew.
    {
      const std::lock_guard hold(mutex_);
      if (known.epoch != 0) known_[options.id].bytes = 0;
      TIERCEL_TRY(Write());
    }
    if (ftruncate(file.get(), 0) != 0 || ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
      return SystemError("size segment " + options.name + " to " + std::to_string(size) + " bytes", errno);
    }
    TIERCEL_TRY(CheckMemoryFor(huge_ ? 0 : size, HugePages::kNo));
    if (const Status allocated = Allocate(file.get(), size, options); !allocated.ok()) {
      (void)!ftruncate(file.get(), 0);  // what it got is given back
      return allocated.error();
    }
  }
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (base == MAP_FAILED) return SystemError("map segment " + options.name, errno);
  Mapping mapping(base, size);
  if (madvise(base, size, MADV_DONTDUMP) != 0) return SystemError("advise on segment " + options.name, errno);
  if (!same) {
    const std::lock_guard hold(mutex_);
    // Above the former one, as its master expects of the same storage. Half of the range is left for what is added.
    const uint32_t fresh = 1 + static_cast<uint32_t>(RandomId() >> 33);
    known = {.epoch = known.epoch != 0 ? known.epoch + 1 : fresh, .bytes = size};
    known_[options.id] = known;
    TIERCEL_TRY(Write());
  }
  opened_.insert(options.id);
  return std::unique_ptr<Segment>(std::make_unique<BackedSegment>(
      this, options.name, SegmentRef{options.id, known.epoch}, path, std::move(file), std::move(mapping), huge_));
}

Status FileBacking::Prune() {
  const std::lock_guard hold(mutex_);
  for (auto& [id, known] : known_) {
    if (!opened_.contains(id)) known.bytes = 0;  // the epoch is remembered, for when it comes back
  }
  TIERCEL_TRY(Write());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    const std::string name = entry.path().filename().string();
    uint32_t id = 0;
    constexpr std::string_view kPrefix = "segment-";
    if (!name.starts_with(kPrefix)) continue;
    const auto [end, failed] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), id);
    if (failed != std::errc() || end != name.data() + name.size() || opened_.contains(id)) continue;
    Log(LogLevel::kNotice, "removing {}: no segment of the configuration", entry.path().string());
    if (unlink(entry.path().c_str()) != 0) return SystemError("remove " + entry.path().string(), errno);
  }
  return Ok();
}

Result<UniqueFd> Lock(const std::string& dir) {
  const std::string path = dir + "/lock";
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return SystemError("open " + path, errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(getpid());
    if (ftruncate(file.get(), 0) != 0 || pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
      return SystemError("write " + path, errno);
    }
    return file;
  }
  if (errno != EWOULDBLOCK) return SystemError("lock " + path, errno);
  char owner[16] = {};
  const ssize_t size = pread(file.get(), owner, sizeof(owner) - 1, 0);
  return Error(ErrorCode::kNameInUse,
               fmt::format("dram-backing: {} belongs to a running store (pid {})", dir, size > 0 ? owner : "unknown"));
}

}  // namespace

Result<std::unique_ptr<Backing>> Backing::Open(const std::string& dir, const std::string& store) {
  struct statfs about{};
  if (statfs(dir.c_str(), &about) != 0) return SystemError("dram-backing " + dir, errno);
  const bool huge = about.f_type == HUGETLBFS_MAGIC;
  if (!huge && about.f_type != TMPFS_MAGIC) {
    return Error(ErrorCode::kInvalid, "dram-backing " + dir + ": must be on tmpfs or hugetlbfs, and is not");
  }
  if (store.find('/') != std::string::npos || store == "." || store == "..") {
    return Error(ErrorCode::kInvalid, "dram-backing: the store's name '" + store + "' cannot be that of a directory");
  }
  const std::string own = dir + "/" + store;
  if (mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) return SystemError("make " + own, errno);
  TIERCEL_ASSIGN(UniqueFd lock, Lock(own));
  auto backing = std::make_unique<FileBacking>(own, huge, std::move(lock));
  TIERCEL_TRY(backing->Read());
  return std::unique_ptr<Backing>(std::move(backing));
}

}  // namespace tiercel::tiers
