// tiercel put FILE|DIR|-...
#include <fmt/format.h>

#include <memory>

#include "base/clock.h"
#include "base/units.h"
#include "tools/tiercel/commands.h"
#include "tools/tiercel/files.h"
#include "tools/tiercel/progress.h"

namespace tiercel::cli {
namespace {

// Small files go in batches of at most this much.
constexpr size_t kBatchFiles = 64;
constexpr uint64_t kBatchBytes = 32 << 20;

struct PutArguments {
  std::vector<std::string> sources;
  std::string prefix, key, ttl, soft_pin;
  PutOptions options;
};

class Putter {
 public:
  Putter(Session* session, const PutArguments& arguments) : session_(*session), arguments_(arguments) {}

  ExitCode Run() {
    std::vector<SourceFile> files;
    for (const std::string& source : arguments_.sources) {
      if (source == "-") {
        files.push_back({"-", arguments_.prefix + arguments_.key, 0});
        continue;
      }
      if (!arguments_.key.empty() && std::filesystem::is_directory(source)) {
        return session_.Report(source, "--key is for a single file, and this is a directory: see --prefix", kUsage);
      }
      auto found = FilesOf(source, arguments_.prefix);
      if (!found.ok()) return session_.Report(source, found.error());
      files.insert(files.end(), found->begin(), found->end());
    }
    if (!arguments_.key.empty() && files.size() == 1) files[0].key = arguments_.prefix + arguments_.key;
    uint64_t total = 0;
    for (const SourceFile& file : files) total += file.size;
    {
      Progress progress(!session_.json() && !session_.quiet(), total);
      PutAll(files, &progress);
    }
    if (!session_.json() && !session_.quiet() && files.size() > 1) Summarize();
    return code_;
  }

 private:
  void PutAll(const std::vector<SourceFile>& files, Progress* progress) {
    for (size_t first = 0; first < files.size() && code_ != kInterrupted;) {
      size_t count = 0;
      uint64_t bytes = 0;
      do {
        bytes += files[first + count++].size;
      } while (first + count < files.size() && count < kBatchFiles && bytes + files[first + count].size <= kBatchBytes);
      PutSome(std::span(files).subspan(first, count), progress);
      first += count;
    }
  }

  void PutSome(std::span<const SourceFile> files, Progress* progress) {
    std::vector<FileBytes> contents;
    std::vector<PutItem> items;
    std::vector<const SourceFile*> loaded;
    contents.reserve(files.size());
    for (const SourceFile& file : files) {
      auto bytes = file.path == "-" ? FileBytes::LoadStandardInput() : FileBytes::Load(file.path);
      if (!bytes.ok()) {
        ++failed_;
        code_ = Graver(code_, session_.Report(file.path.string(), bytes.error()));
        continue;
      }
      contents.push_back(std::move(bytes).value());
      loaded.push_back(&file);
    }
    for (size_t i = 0; i < loaded.size(); ++i) items.push_back({loaded[i]->key, contents[i].span()});
    auto results = session_.client().PutBatch(items, arguments_.options);
    for (size_t i = 0; i < results.size(); ++i) {
      progress->Add(items[i].value.size());
      Tell(items[i], results[i]);
    }
  }

  void Tell(const PutItem& item, const Result<PutResult>& result) {
    if (!result.ok()) {
      ++failed_;
      code_ = Graver(code_, session_.Report(ShownKey(item.key), result.error()));
      return;
    }
    const bool stored = result->outcome == PutOutcome::kStored;
    ++(stored ? stored_ : there_);
    if (stored) bytes_ += item.value.size();
    if (session_.json()) {
      session_.Print({{"key", item.key},
                      {"size", item.value.size()},
                      {"outcome", stored ? "stored" : "already-there"},
                      {"version", result->version.value},
                      {"replicas", result->replicas}});
    }
  }

  void Summarize() const {
    const double seconds = static_cast<double>(MonotonicNanos() - start_ns_) / 1e9;
    fmt::print(stderr, "{} stored, {} already there, {} failed; {} stored in {:.2f} s, {}/s\n", stored_, there_,
               failed_, HumanBytes(bytes_), seconds,
               HumanBytes(static_cast<uint64_t>(static_cast<double>(bytes_) / seconds)));
  }

  Session& session_;
  const PutArguments& arguments_;
  const int64_t start_ns_ = MonotonicNanos();
  uint64_t stored_ = 0, there_ = 0, failed_ = 0;  // files
  uint64_t bytes_ = 0;                            // of what was stored
  ExitCode code_ = kDone;
};

std::string CheckTime(const std::string& text) {
  return ParseMillis(text) ? "" : "a time such as 500ms, 10s or 24h is needed, not " + text;
}

}  // namespace

void AddPut(CLI::App* app, Chosen* chosen) {
  auto arguments = std::make_shared<PutArguments>();
  CLI::App* command = app->add_subcommand("put", "store files, directories, or standard input");
  command
      ->add_option(
          "source", arguments->sources,
          "FILE (its name is the key), DIR (all files below it; keys are their paths from there), or - (standard "
          "input; with --key)")
      ->type_name("")
      ->required();
  command->add_option("-p,--prefix", arguments->prefix, "goes before every key");
  CLI::Option* key = command->add_option("-k,--key", arguments->key, "key of a single source, instead of its name");
  command->add_flag("-r,--replace", arguments->options.replace, "replace what a key holds");
  command->add_option("--replicas", arguments->options.replicas, "copies on different hosts")
      ->check(CLI::Range(1u, kMaxReplicas));
  command->add_flag("--strict", arguments->options.strict_replicas, "refuse when there are fewer hosts than copies");
  command->add_option("--ttl", arguments->ttl, "time to live: 500ms, 10s, 24h")->type_name("TIME")->check(CheckTime);
  command->add_option("--soft-pin", arguments->soft_pin, "evicted last for this time")
      ->type_name("TIME")
      ->check(CheckTime);
  command->add_flag("--hard-pin", arguments->options.hard_pin, "never evicted");
  command->add_option("--prefer", arguments->options.preferred_store, "store to put it on, when it has room");
  command->add_option("--exclude", arguments->options.excluded_store, "store not to put it on");
  command->add_option("--parent", arguments->options.parent, "key of the previous block of a chain");
  command->callback([arguments, key, chosen] {
    if (key->count() > 0 && arguments->key.empty()) throw CLI::ValidationError("--key: a key has at least one byte");
    const bool input = std::ranges::find(arguments->sources, "-") != arguments->sources.end();
    if (input && (arguments->sources.size() > 1 || arguments->key.empty())) {
      throw CLI::ValidationError("standard input (-) is a single source and needs --key");
    }
    if (!arguments->key.empty() && arguments->sources.size() > 1) {
      throw CLI::ValidationError("--key is for a single source");
    }
    if (!arguments->ttl.empty()) arguments->options.ttl_ms = ParseMillis(arguments->ttl);
    if (!arguments->soft_pin.empty()) arguments->options.soft_pin_ms = ParseMillis(arguments->soft_pin);
    *chosen = [arguments](Session& session) { return Putter(&session, *arguments).Run(); };
  });
}

}  // namespace tiercel::cli
