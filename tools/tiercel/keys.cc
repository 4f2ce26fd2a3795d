// tiercel ls, stat, rm, exists
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/units.h"
#include "tools/tiercel/commands.h"

namespace tiercel::cli {
namespace {

// Keys of one question.
constexpr size_t kBatchKeys = 512;

// ---- ls

struct Listing {
  std::string pattern = "*";
  bool details = false;
};

ExitCode PrintSome(Session& session, const std::vector<std::string>& keys, bool details) {
  if (!details) {
    for (const std::string& key : keys) {
      session.json() ? session.Print({{"key", key}}) : fmt::print("{}\n", ShownKey(key));
    }
    return kDone;
  }
  ExitCode code = kDone;
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  auto stats = session.client().StatBatch(views);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!stats[i].ok()) {
      code = Graver(code, session.Report(ShownKey(keys[i]), stats[i].error()));
      continue;
    }
    if (!stats[i]->has_value()) continue;  // gone since
    const ObjectStat& stat = **stats[i];
    if (session.json()) {
      session.Print(
          {{"key", keys[i]}, {"size", stat.size}, {"version", stat.version.value}, {"replicas", stat.replicas.size()}});
    } else {
      fmt::print("{:>12}  {}  {}\n", stat.size, stat.replicas.size(), ShownKey(keys[i]));
    }
  }
  return code;
}

ExitCode List(Session& session, const Listing& listing) {
  std::vector<std::string> keys;
  ExitCode code = kDone;
  const bool details = listing.details || session.json();
  Status scanned = session.client().Scan(listing.pattern, [&](std::string_view key) {
    keys.emplace_back(key);
    if (keys.size() < kBatchKeys) return true;
    code = Graver(code, PrintSome(session, keys, details));
    keys.clear();
    return code != kInterrupted;
  });
  if (!scanned.ok()) return session.Report("ls", scanned.error());
  return Graver(code, PrintSome(session, keys, details));
}

// ---- stat

nlohmann::json StatJson(const std::string& key, const ObjectStat& stat) {
  nlohmann::json replicas = nlohmann::json::array();
  for (const ObjectStat::Replica& replica : stat.replicas) {
    nlohmann::json extents = nlohmann::json::array();
    for (const Extent& extent : replica.extents)
      extents.push_back({{"offset", extent.offset}, {"length", extent.length}});
    replicas.push_back({{"tier", TierName(replica.tier)}, {"store", replica.store}, {"extents", extents}});
  }
  return {{"key", key},
          {"size", stat.size},
          {"version", stat.version.value},
          {"checksum", FormatHex64(stat.checksum)},
          {"replicas", replicas}};
}

void PrintStat(const std::string& key, const ObjectStat& stat) {
  fmt::print("key       {}\nsize      {} ({})\nversion   {} (generation {})\nchecksum  {}\n", ShownKey(key), stat.size,
             HumanBytes(stat.size), stat.version.value, stat.version.generation(), FormatHex64(stat.checksum));
  for (const ObjectStat::Replica& replica : stat.replicas) {
    fmt::print("replica   {} on {}, {} extent{}\n", TierName(replica.tier), replica.store, replica.extents.size(),
               replica.extents.size() == 1 ? "" : "s");
  }
}

ExitCode StatKeys(Session& session, const std::vector<std::string>& keys) {
  ExitCode code = kDone;
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  auto stats = session.client().StatBatch(views);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!stats[i].ok()) {
      code = Graver(code, session.Report(ShownKey(keys[i]), stats[i].error()));
    } else if (!stats[i]->has_value()) {
      code = Graver(code, session.Report(ShownKey(keys[i]), "not there", kMissing));
    } else if (session.json()) {
      session.Print(StatJson(keys[i], **stats[i]));
    } else {
      PrintStat(keys[i], **stats[i]);
    }
  }
  return code;
}

// ---- rm

struct Removal {
  std::vector<std::string> keys;
  std::string prefix;
  bool by_prefix = false;
};

class Remover {
 public:
  Remover(Session* session, const Removal& removal) : session_(*session), removal_(removal) {}

  ExitCode Run() {
    if (!removal_.by_prefix) {
      RemoveSome(removal_.keys);
    } else if (!RemoveAllOfPrefix()) {
      return code_;
    }
    if (session_.json()) {
      session_.Print({{"removed", removed_}});
    } else if (removal_.by_prefix && !session_.quiet()) {
      fmt::print(stderr, "{} removed\n", removed_);
    }
    return code_;
  }

 private:
  // In pieces, so that the number of keys is bounded by nothing here.
  bool RemoveAllOfPrefix() {
    std::vector<std::string> keys;
    Status scanned = session_.client().Scan(PatternOfPrefix(removal_.prefix), [&](std::string_view key) {
      keys.emplace_back(key);
      if (keys.size() < kBatchKeys) return true;
      RemoveSome(std::exchange(keys, {}));
      return code_ != kInterrupted;
    });
    if (!scanned.ok()) {
      code_ = Graver(code_, session_.Report("rm", scanned.error()));
      return false;
    }
    RemoveSome(keys);
    if (removed_ == 0 && code_ == kDone) {
      code_ = session_.Report(ShownKey(removal_.prefix), "no key begins like this", kMissing);
    }
    return true;
  }

  void RemoveSome(const std::vector<std::string>& keys) {
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    auto results = session_.client().RemoveBatch(views);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!results[i].ok()) {
        code_ = Graver(code_, session_.Report(ShownKey(keys[i]), results[i].error()));
      } else if (*results[i]) {
        ++removed_;
      } else if (!removal_.by_prefix) {
        code_ = Graver(code_, session_.Report(ShownKey(keys[i]), "not there", kMissing));
      }
    }
  }

  Session& session_;
  const Removal& removal_;
  uint64_t removed_ = 0;
  ExitCode code_ = kDone;
};

// ---- exists

ExitCode Exists(Session& session, const std::vector<std::string>& keys) {
  ExitCode code = kDone;
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  auto results = session.client().ExistsBatch(views);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!results[i].ok()) {
      code = Graver(code, session.Report(ShownKey(keys[i]), results[i].error()));
      continue;
    }
    if (!*results[i]) code = Graver(code, kMissing);
    session.json() ? session.Print({{"key", keys[i]}, {"exists", *results[i]}})
                   : fmt::print("{} {}\n", *results[i] ? 1 : 0, ShownKey(keys[i]));
  }
  return code;
}

}  // namespace

void AddList(CLI::App* app, Chosen* chosen) {
  auto listing = std::make_shared<Listing>();
  CLI::App* command = app->add_subcommand("ls", "list keys");
  command->add_option("pattern", listing->pattern, "glob pattern: * ? [a-z] and \\ before what is meant as it is")
      ->type_name("")
      ->capture_default_str();
  command->add_flag("-l,--long", listing->details, "size in bytes, number of copies, key");
  command->callback([listing, chosen] { *chosen = [listing](Session& session) { return List(session, *listing); }; });
}

void AddStat(CLI::App* app, Chosen* chosen) {
  auto keys = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app->add_subcommand("stat", "show size, version, checksum and places of values");
  command->add_option("key", *keys, "which ones")->type_name("")->required();
  command->callback([keys, chosen] { *chosen = [keys](Session& session) { return StatKeys(session, *keys); }; });
}

void AddRemove(CLI::App* app, Chosen* chosen) {
  auto removal = std::make_shared<Removal>();
  CLI::App* command = app->add_subcommand("rm", "remove keys");
  command->add_option("key", removal->keys, "which ones")->type_name("");
  CLI::Option* prefix = command->add_option("-p,--prefix", removal->prefix, "all keys that begin with this");
  command->callback([removal, prefix, chosen] {
    removal->by_prefix = prefix->count() > 0;
    // An unset variable of a script must not empty the cache.
    if (removal->by_prefix && removal->prefix.empty()) {
      throw CLI::ValidationError("--prefix: at least one character; FLUSHDB empties a namespace");
    }
    if (removal->by_prefix == !removal->keys.empty()) throw CLI::ValidationError("rm needs keys, or --prefix");
    *chosen = [removal](Session& session) { return Remover(&session, *removal).Run(); };
  });
}

void AddExists(CLI::App* app, Chosen* chosen) {
  auto keys = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app->add_subcommand("exists", "say 1 or 0 for each key");
  command->add_option("key", *keys, "which ones")->type_name("")->required();
  command->callback([keys, chosen] { *chosen = [keys](Session& session) { return Exists(session, *keys); }; });
}

}  // namespace tiercel::cli
