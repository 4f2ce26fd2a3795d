// tiercel get KEY [FILE], tiercel get --prefix P DIR, tiercel cat KEY...
#include <fmt/format.h>

#include <memory>

#include "base/clock.h"
#include "base/units.h"
#include "tools/tiercel/commands.h"
#include "tools/tiercel/files.h"
#include "tools/tiercel/progress.h"

namespace tiercel::cli {
namespace {

constexpr size_t kBatchKeys = 64;
constexpr uint64_t kBatchBytes = 64 << 20;

struct GetArguments {
  std::string key, target, prefix;
};

// ---- one key

ExitCode GetOne(Session& session, const GetArguments& arguments) {
  auto got = session.client().Get(arguments.key);
  if (!got.ok()) return session.Report(ShownKey(arguments.key), got.error());
  if (!got->has_value()) return session.Report(ShownKey(arguments.key), "not there", kMissing);
  const Buffer& value = **got;
  if (arguments.target == "-") {
    Status written = WriteStandardOutput(value.span());
    return written.ok() ? kDone : session.Report("standard output", written.error());
  }
  std::filesystem::path path = arguments.target;
  if (path.empty() || std::filesystem::is_directory(path)) {
    // Into the directory (here, when none is named) under the last part of the key.
    const size_t slash = arguments.key.rfind('/');
    auto below = PathBelow(path.empty() ? "." : path,
                           slash == std::string::npos ? arguments.key : arguments.key.substr(slash + 1));
    if (!below) return session.Report(ShownKey(arguments.key), "is no name for a file: say where it goes", kUsage);
    path = *below;
  }
  Status written = WriteFile(path, value.span());
  if (!written.ok()) return session.Report(path.string(), written.error());
  if (session.json()) {
    session.Print({{"key", arguments.key}, {"size", value.size()}, {"file", path.string()}});
  }
  return kDone;
}

// ---- many

struct Wanted {
  std::string key;
  uint64_t size = 0;
};

class Getter {
 public:
  Getter(Session* session, const GetArguments& arguments) : session_(*session), arguments_(arguments) {}

  ExitCode Run() {
    std::vector<Wanted> wanted;
    uint64_t total = 0;
    if (!Find(&wanted, &total)) return code_;
    if (wanted.empty()) return session_.Report(ShownKey(arguments_.prefix), "no key begins like this", kMissing);
    {
      Progress progress(!session_.json() && !session_.quiet(), total);
      for (size_t first = 0; first < wanted.size() && code_ != kInterrupted;) {
        size_t count = 0;
        uint64_t bytes = 0;
        do {
          bytes += wanted[first + count++].size;
        } while (first + count < wanted.size() && count < kBatchKeys &&
                 bytes + wanted[first + count].size <= kBatchBytes);
        GetSome(std::span(wanted).subspan(first, count), &progress);
        first += count;
      }
    }
    if (!session_.json() && !session_.quiet()) Summarize();
    return code_;
  }

 private:
  bool Find(std::vector<Wanted>* wanted, uint64_t* total) {
    std::vector<std::string> keys;
    Status scanned = session_.client().Scan(PatternOfPrefix(arguments_.prefix), [&](std::string_view key) {
      keys.emplace_back(key);
      return true;
    });
    if (!scanned.ok()) {
      code_ = session_.Report("scan", scanned.error());
      return false;
    }
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    auto stats = session_.client().StatBatch(views);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!stats[i].ok()) {
        code_ = Graver(code_, session_.Report(ShownKey(keys[i]), stats[i].error()));
      } else if (stats[i]->has_value()) {  // else it has gone since
        *total += (*stats[i])->size;
        wanted->push_back({std::move(keys[i]), (*stats[i])->size});
      }
    }
    return true;
  }

  void GetSome(std::span<const Wanted> wanted, Progress* progress) {
    std::vector<std::string_view> keys;
    for (const Wanted& one : wanted) keys.push_back(one.key);
    auto got = session_.client().GetBatch(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      progress->Add(wanted[i].size);
      if (!got[i].ok()) {
        code_ = Graver(code_, session_.Report(ShownKey(keys[i]), got[i].error()));
      } else if (got[i]->has_value()) {
        Write(keys[i], **got[i]);
      }
    }
  }

  void Write(std::string_view key, const Buffer& value) {
    auto path = PathBelow(arguments_.target, key.substr(arguments_.prefix.size()));
    if (!path) {
      code_ = Graver(code_, session_.Report(ShownKey(key), "names no file below the directory: left out", kFailed));
      return;
    }
    Status written = WriteFile(*path, value.span());
    if (!written.ok()) {
      code_ = Graver(code_, session_.Report(path->string(), written.error()));
      return;
    }
    ++files_;
    bytes_ += value.size();
    if (session_.json()) session_.Print({{"key", key}, {"size", value.size()}, {"file", path->string()}});
  }

  void Summarize() const {
    const double seconds = static_cast<double>(MonotonicNanos() - start_ns_) / 1e9;
    fmt::print(stderr, "{} files written, {} in {:.2f} s, {}/s\n", files_, HumanBytes(bytes_), seconds,
               HumanBytes(static_cast<uint64_t>(static_cast<double>(bytes_) / seconds)));
  }

  Session& session_;
  const GetArguments& arguments_;
  const int64_t start_ns_ = MonotonicNanos();
  uint64_t files_ = 0, bytes_ = 0;
  ExitCode code_ = kDone;
};

ExitCode Cat(Session& session, const std::vector<std::string>& keys) {
  ExitCode code = kDone;
  for (const std::string& key : keys) {
    code = Graver(code, GetOne(session, {.key = key, .target = "-", .prefix = {}}));
    if (code == kInterrupted) break;
  }
  return code;
}

}  // namespace

void AddGet(CLI::App* app, Chosen* chosen) {
  auto arguments = std::make_shared<GetArguments>();
  CLI::App* command =
      app->add_subcommand("get", "write a value to a file, or all values whose keys begin alike to a directory");
  command->add_option("key", arguments->key, "KEY; with --prefix: DIR to write to")->type_name("")->required();
  CLI::Option* target = command
                            ->add_option("target", arguments->target,
                                         "FILE, DIR, or - (standard output); by default the last part of KEY. "
                                         "Missing directories are made")
                            ->type_name("");
  CLI::Option* prefix = command->add_option("-p,--prefix", arguments->prefix, "all keys that begin with this");
  command->callback([arguments, target, prefix, chosen] {
    if (prefix->count() == 0) {
      *chosen = [arguments](Session& session) { return GetOne(session, *arguments); };
      return;
    }
    if (target->count() > 0) throw CLI::ValidationError("--prefix needs one directory");
    arguments->target = arguments->key;
    *chosen = [arguments](Session& session) { return Getter(&session, *arguments).Run(); };
  });
}

void AddCat(CLI::App* app, Chosen* chosen) {
  auto keys = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app->add_subcommand("cat", "write values to standard output, one behind the other");
  command->add_option("key", *keys, "which ones")->type_name("")->required();
  command->callback([keys, chosen] { *chosen = [keys](Session& session) { return Cat(session, *keys); }; });
}

}  // namespace tiercel::cli
