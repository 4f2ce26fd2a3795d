#include "server/index/side_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <span>
#include <sstream>

#include "base/checksum.h"
#include "base/units.h"
#include "server/index/bytes.h"

namespace tiercel::index {
namespace {

uint64_t SumOf(std::string_view bytes) { return HashBytes(std::as_bytes(std::span(bytes))); }

}  // namespace

// ---- OWNER

Result<UniqueFd> OwnDirectory(const std::string& dir, bool may_be_read_only) {
  const std::string path = dir + "/OWNER";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd && may_be_read_only) {
    fd = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return UniqueFd();
  }
  if (!fd) return SystemError("index directory " + dir + ": create OWNER", errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock " + path, errno);
    char text[24] = {};
    const ssize_t got = pread(fd.get(), text, sizeof(text) - 1, 0);
    std::string_view pid(text, got > 0 ? static_cast<size_t>(got) : 0);
    if (pid.ends_with('\n')) pid.remove_suffix(1);
    const std::string who = ParseUint64(pid).has_value() ? "process " + std::string(pid) : "another process";
    return Error(ErrorCode::kNameInUse, "index directory " + dir + " is in use by " + who);
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  // The number is for people: the lock alone decides.
  if (ftruncate(fd.get(), 0) == 0) (void)!pwrite(fd.get(), pid.data(), pid.size(), 0);
  return fd;
}

// ---- SEQUENCE
//
// 48 bytes: magic, database, sequence, refused_after, refused (each 8, little-endian), XXH3-64 of those.

namespace {

constexpr uint64_t kSequenceMagic = 0x3051455345524954;  // "TIRESEQ0"
constexpr size_t kSequenceBytes = 48;

std::optional<SequenceNote> DecodeNote(std::string_view bytes) {
  if (bytes.size() != kSequenceBytes) return std::nullopt;
  ByteReader in(bytes);
  SequenceNote note;
  const uint64_t magic = in.Fixed64();
  note.database = in.Fixed64();
  note.sequence = in.Fixed64();
  note.refused_after = in.Fixed64();
  note.refused = in.Fixed64() != 0;
  if (magic != kSequenceMagic || in.Fixed64() != SumOf(bytes.substr(0, kSequenceBytes - 8))) return std::nullopt;
  return note;
}

std::optional<SequenceNote> ReadNote(int fd) {
  char bytes[kSequenceBytes + 1];
  const ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
  return got > 0 ? DecodeNote({bytes, static_cast<size_t>(got)}) : std::nullopt;
}

std::string SequencePath(const std::string& dir) { return dir + "/SEQUENCE"; }

}  // namespace

Result<SequenceFile> SequenceFile::Open(const std::string& dir) {
  SequenceFile file;
  file.fd_ = UniqueFd(open(SequencePath(dir).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.fd_) return SystemError("open " + SequencePath(dir), errno);
  return file;
}

std::optional<SequenceNote> SequenceFile::Read() const { return ReadNote(fd_.get()); }

bool SequenceFile::Write(const SequenceNote& note) {
  std::string bytes;
  for (const uint64_t field :
       {kSequenceMagic, note.database, note.sequence, note.refused_after, uint64_t{note.refused}}) {
    AppendFixed64(field, &bytes);
  }
  AppendFixed64(SumOf(bytes), &bytes);
  return pwrite(fd_.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

Status SequenceFile::Sync() {
  if (fdatasync(fd_.get()) != 0) return SystemError("sync SEQUENCE", errno);
  return Ok();
}

std::optional<SequenceNote> ReadSequenceNote(const std::string& dir) {
  const UniqueFd fd(open(SequencePath(dir).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  return ReadNote(fd.get());
}

uint64_t DatabaseIn(const std::string& dir) {
  std::string identity;
  std::getline(std::ifstream(dir + "/IDENTITY"), identity);
  return identity.empty() ? 0 : SumOf(identity);
}

// ---- TABLES
//
// A line a table: file number, entries, deletions, 1 when superseded. The last line is the sum of those before it.

std::optional<uint64_t> TableNumber(const std::string& file_name) {
  const size_t slash = file_name.rfind('/');
  std::string_view name = std::string_view(file_name).substr(slash == std::string::npos ? 0 : slash + 1);
  if (!name.ends_with(".sst")) return std::nullopt;
  name.remove_suffix(4);
  while (name.size() > 1 && name.starts_with('0')) name.remove_prefix(1);
  return ParseUint64(name);
}

TableNotes ReadTableNotes(const std::string& dir) {
  std::ostringstream all;
  all << std::ifstream(dir + "/TABLES").rdbuf();
  const std::string text = all.str();
  const size_t last = text.rfind('\n', text.empty() ? 0 : text.size() - 2);
  const size_t body = last == std::string::npos ? 0 : last + 1;
  if (text.substr(body) != FormatHex64(SumOf(std::string_view(text).substr(0, body))) + "\n") return {};
  TableNotes notes;
  std::istringstream lines(text.substr(0, body));
  uint64_t number = 0;
  TableNote note;
  while (lines >> number >> note.entries >> note.deletions >> note.superseded) notes[number] = note;
  return notes;
}

Status WriteTableNotes(const std::string& dir, const TableNotes& notes) {
  std::string text;
  for (const auto& [number, note] : notes) {
    text += std::to_string(number) + " " + std::to_string(note.entries) + " " + std::to_string(note.deletions) +
            (note.superseded ? " 1\n" : " 0\n");
  }
  text += FormatHex64(SumOf(text)) + "\n";
  const std::string path = dir + "/TABLES", temporary = path + ".new";
  {
    const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return SystemError("create " + temporary, errno);
    if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return SystemError("write " + temporary, ENOSPC);
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return SystemError("rename " + temporary, errno);
  return Ok();
}

// ---- RESERVE

uint64_t Reserve::held_bytes() const {
  struct stat info{};
  return stat(path().c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

uint64_t Reserve::FreeNow() const {
  struct statvfs info{};
  if (statvfs(dir_.c_str(), &info) != 0) return 0;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

bool Reserve::Hold() {
  if (bytes_ == 0 || held_bytes() >= bytes_) return true;
  if (FreeWithout() / 2 < bytes_) return false;
  const UniqueFd fd(open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return false;
  if (posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes_)) == 0) return true;
  Release();  // half of it helps nobody
  return false;
}

void Reserve::Release() { unlink(path().c_str()); }

}  // namespace tiercel::index
