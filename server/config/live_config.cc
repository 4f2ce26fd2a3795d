#include "server/config/live_config.h"

#include <algorithm>

#include "base/glob.h"
#include "server/config/rewrite.h"
#include "server/config/rows.h"

namespace tiercel::config {
namespace {

Error SetFailed(std::string_view argument, std::string_view why) {
  return Bad(fmt::format("CONFIG SET failed (possibly related to argument '{}') - {}", argument, why));
}

Error UnknownArgument(std::string_view name) {
  std::string shown(name.substr(0, 128));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return Bad("Unknown option or number of arguments for CONFIG SET - '" + shown + "'");
}

// Finds all options first, so that nothing is tried when one is unknown, given twice or cannot change.
Result<std::vector<const Option*>> FindAll(std::span<const LiveConfig::Row> changes) {
  std::vector<const Option*> options;
  for (const auto& [name, value] : changes) {
    const Option* option = FindOption(name);
    if (option == nullptr) return UnknownArgument(name);
    if (option->immutable) return SetFailed(option->name, "can't set immutable config");
    if (std::find(options.begin(), options.end(), option) != options.end()) {
      return SetFailed(option->name, "duplicate parameter");
    }
    options.push_back(option);
  }
  return options;
}

// The argument that a conflict is about: the one that this CONFIG SET has changed.
const std::string& Culprit(const Conflict& conflict, std::span<const Option* const> options) {
  for (const Option* option : options) {
    if (option->name == conflict.first || option->name == conflict.second) return option->name;
  }
  return options.front()->name;
}

}  // namespace

LiveConfig::LiveConfig(Settings settings) : settings_(std::make_shared<const Settings>(std::move(settings))) {}

std::shared_ptr<const Settings> LiveConfig::settings() const {
  const std::lock_guard hold(mutex_);
  return settings_;
}

std::vector<LiveConfig::Row> LiveConfig::Get(std::span<const std::string_view> patterns) const {
  const std::shared_ptr<const Settings> now = settings();
  const auto wanted = [&](std::string_view name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](std::string_view pattern) { return GlobMatch(pattern, name, true); });
  };
  std::vector<Row> rows;
  for (const Option& option : OptionTable()) {
    if (!option.listed) continue;
    if (wanted(option.name)) rows.emplace_back(option.name, Shown(option, *now));
    if (!option.alias.empty() && wanted(option.alias)) {
      rows.emplace_back(option.alias, option.alias_shown ? option.alias_shown(*now) : Shown(option, *now));
    }
  }
  return rows;
}

Status LiveConfig::Set(std::span<const Row> changes) {
  TIERCEL_ASSIGN(const std::vector<const Option*> options, FindAll(changes));
  if (options.empty()) return Ok();
  const std::lock_guard one_at_a_time(change_mutex_);
  const std::shared_ptr<const Settings> before = settings();
  auto after = std::make_shared<Settings>(*before);
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string words[] = {changes[i].second};
    if (const Status status = SetOption(*options[i], words, after.get()); !status.ok()) {
      return SetFailed(options[i]->name, status.error().message());
    }
  }
  if (const std::vector<Conflict> conflicts = FindConflicts(*after); !conflicts.empty()) {
    return SetFailed(Culprit(conflicts.front(), options), conflicts.front().message);
  }
  if (const Status status = Notify(*before, *after); !status.ok()) {
    return SetFailed(options.front()->name, status.error().message());
  }
  for (const Option* option : options) changed_.insert(option->name);
  const std::lock_guard hold(mutex_);
  settings_ = std::move(after);
  return Ok();
}

Status LiveConfig::Notify(const Settings& before, const Settings& after) {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Status status = listeners_[i](before, after);
    if (status.ok()) continue;
    // Going back to what held a moment ago; a listener that cannot do even that has said so itself.
    while (i-- > 0) (void)listeners_[i](after, before);
    return status;
  }
  return Ok();
}

Status LiveConfig::Rewrite() {
  const std::lock_guard one_at_a_time(change_mutex_);
  const std::shared_ptr<const Settings> now = settings();
  if (now->file.empty()) return Bad("The server is running without a config file");
  return RewriteFile(now->file, *now, changed_);
}

void LiveConfig::AddListener(Listener listener) {
  const std::lock_guard one_at_a_time(change_mutex_);
  listeners_.push_back(std::move(listener));
}

}  // namespace tiercel::config
