// The key space as a whole: DBSIZE FLUSHDB FLUSHALL KEYS SCAN RANDOMKEY.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/glob.h"
#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/handlers.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

constexpr uint32_t kScanStep = 256;      // slots visited under one hold
constexpr uint32_t kTurnSteps = 16;      // holds in one turn of KEYS
constexpr int64_t kMaxScanCount = 4096;  // COUNT is a hint; one call never takes longer than this
// KEYS collects its answer before it can say how many there are: at most so many bytes of keys.
constexpr size_t kMaxKeysBytes = size_t{64} << 20;

// ASYNC and SYNC mean the same: readers see an empty key space at once, bytes are freed in steps.
bool FlushOptionIsWrong(CommandContext& c) {
  if (c.argc() == 1) return false;
  if (c.argc() == 2 && (EqualsIgnoreCase(c.arg(1), "async") || EqualsIgnoreCase(c.arg(1), "sync"))) return false;
  c.FailSyntax();
  return true;
}

void AppendSized(std::string_view key, std::string* text) {
  const auto size = static_cast<uint32_t>(key.size());
  text->append(reinterpret_cast<const char*>(&size), sizeof(size));
  text->append(key);
}

// A key visited twice, because the table grew meanwhile, is answered once.
Outcome ReplyKeys(CommandContext& c) {
  const std::string& text = c.progress().text;
  std::vector<std::string_view> keys;
  for (size_t at = 0; at < text.size();) {
    uint32_t size = 0;
    std::memcpy(&size, text.data() + at, sizeof(size));
    keys.push_back(std::string_view(text).substr(at + sizeof(size), size));
    at += sizeof(size) + size;
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  c.reply.Array(keys.size());
  for (const std::string_view key : keys) c.reply.Bulk(key);
  return Outcome::kDone;
}

struct ScanOptions {
  int64_t count = 10;
  std::string_view match = "*";
  bool other_type = false;
};

// False: replied.
bool ParseScan(CommandContext& c, ScanOptions* options) {
  for (size_t i = 2; i < c.argc(); i += 2) {
    if (i + 1 >= c.argc()) {
      c.FailSyntax();
      return false;
    }
    const std::string_view value = c.arg(i + 1);
    if (EqualsIgnoreCase(c.arg(i), "count")) {
      const auto count = ParseInt64(value);
      if (!count) {
        c.FailNotInteger();
        return false;
      }
      if (*count < 1) {
        c.FailSyntax();
        return false;
      }
      options->count = *count;
    } else if (EqualsIgnoreCase(c.arg(i), "match")) {
      options->match = value;
    } else if (EqualsIgnoreCase(c.arg(i), "type")) {
      options->other_type = !EqualsIgnoreCase(value, "string");
    } else {
      c.FailSyntax();
      return false;
    }
  }
  return true;
}

}  // namespace

Outcome DoDbsize(CommandContext& c) {
  c.reply.Integer(static_cast<int64_t>(c.master().Size(c.state.name_space)));
  return Outcome::kDone;
}

Outcome DoFlushdb(CommandContext& c) {
  if (FlushOptionIsWrong(c) || c.IndexReadOnly()) return Outcome::kDone;
  c.master().Flush(c.state.name_space, c.now);
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoFlushall(CommandContext& c) {
  if (FlushOptionIsWrong(c) || c.IndexReadOnly()) return Outcome::kDone;
  c.master().FlushAll(c.now);
  c.reply.Simple("OK");
  return Outcome::kDone;
}

// Collects in progress().text over as many turns as it takes. progress().cursor is the scan's, count the turns.
Outcome DoKeys(CommandContext& c) {
  Progress& progress = c.progress();
  const bool all = c.arg(1) == "*";
  for (uint32_t step = 0; step < kTurnSteps; ++step) {
    if (step > 0) c.Unlocked([] {});
    progress.cursor = c.master().Scan(c.state.name_space, progress.cursor, kScanStep, c.now,
                                      [&](std::string_view key, const core::ObjectInfo&) {
                                        if (all || GlobMatch(c.arg(1), key)) AppendSized(key, &progress.text);
                                      });
    if (progress.text.size() > kMaxKeysBytes) {
      return c.Fail(ErrorCode::kTooBig, fmt::format("KEYS would answer more than {} bytes; use SCAN", kMaxKeysBytes));
    }
    if (progress.cursor == 0) return ReplyKeys(c);
  }
  ++progress.count;
  return Outcome::kMore;
}

Outcome DoScan(CommandContext& c) {
  // Redis reads a cursor as C does: "-1" is the largest one, as good as any that was never given out, and "" is 0.
  std::optional<uint64_t> cursor = c.arg(1).empty() ? std::optional<uint64_t>(0) : ParseUint64(c.arg(1));
  if (const auto negative = ParseInt64(c.arg(1)); !cursor && negative) cursor = static_cast<uint64_t>(*negative);
  if (!cursor) return c.FailLine(resp::kInvalidCursorLine);
  ScanOptions options;
  if (!ParseScan(c, &options)) return Outcome::kDone;
  std::vector<std::string> keys;
  const auto count = static_cast<uint32_t>(std::min(options.count, kMaxScanCount));
  const uint64_t next =
      c.master().Scan(c.state.name_space, *cursor, count, c.now, [&](std::string_view key, const core::ObjectInfo&) {
        if (options.other_type) return;
        if (options.match == "*" || GlobMatch(options.match, key)) {
          keys.emplace_back(key);
        }
      });
  c.reply.Array(2);
  c.reply.Bulk(fmt::format_int(next).str());
  c.reply.Array(keys.size());
  for (const std::string& key : keys) c.reply.Bulk(key);
  return Outcome::kDone;
}

Outcome DoRandomkey(CommandContext& c) {
  const auto key = c.master().RandomKey(c.state.name_space, c.now);
  if (key) {
    c.reply.Bulk(*key);
  } else {
    c.reply.Null();
  }
  return Outcome::kDone;
}

}  // namespace tiercel::net
