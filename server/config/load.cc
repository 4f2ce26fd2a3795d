// From directives to settings. Every refusal is one line: where, which directive, which value, what is allowed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "server/config/rows.h"
#include "server/config/source.h"

namespace tiercel::config {
namespace {

constexpr uint64_t kMb = uint64_t{1} << 20;
constexpr uint64_t kSegmentUnit = 2 * kMb;

// Edits that turn one name into the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

Error UnknownDirective(const Directive& directive) {
  std::string message = fmt::format("{}: unknown directive {}", directive.Where(), QuoteWord(directive.name));
  const Option* nearest = nullptr;
  // Not nearer than half of the name is no likeness.
  size_t least = std::min<size_t>(4, directive.name.size() / 2 + 1);
  for (const Option& option : OptionTable()) {
    const size_t distance = directive.name.size() > 64 ? 64 : Distance(directive.name, option.name);
    if (distance >= least) continue;
    least = distance;
    nearest = &option;
  }
  message += nearest != nullptr ? "; is " + nearest->name + " meant? " : std::string("; ");
  return Bad(message + "--help lists all directives");
}

Error Refused(const Directive& directive, const Option& option, const Error& why) {
  const std::string value = option.secret             ? " (hidden)"
                            : directive.words.empty() ? ""
                                                      : " " + JoinWords(directive.words);
  return Bad(fmt::format("{}: {}{}: {}; allowed: {} {}: {}", directive.Where(), option.name, value, why.message(),
                         option.name, option.syntax, option.allowed));
}

// `begun` holds the repeatable options that this source has given already: its first value replaces older ones.
Status Apply(const Directive& directive, const Environment& environment, std::set<const Option*>* begun,
             Settings* settings) {
  const Option* option = FindOption(directive.name);
  if (option == nullptr) return UnknownDirective(directive);
  if (option->repeatable && begun->insert(option).second) option->clear(settings);
  if (Status status = SetOption(*option, directive.words, settings); !status.ok()) {
    return Refused(directive, *option, status.error());
  }
  if (option->name == "user" && environment.check_user) {
    if (Status status = environment.check_user(settings->users.back()); !status.ok()) {
      return Refused(directive, *option, status.error());
    }
  }
  return Ok();
}

}  // namespace

Status ApplyAll(std::span<const Directive> directives, const Environment& environment, Settings* settings) {
  std::set<const Option*> begun;
  for (const Directive& directive : directives) TIERCEL_TRY(Apply(directive, environment, &begun, settings));
  return Ok();
}

std::string Settings::Path(const std::string& path) const {
  return path.empty() || path.starts_with('/') || dir == "." ? path : dir + "/" + path;
}

Result<Environment> Environment::OfThisMachine() {
  Environment environment;
  TIERCEL_ASSIGN(environment.memory, ReadMemoryLimits());
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) == 0) environment.host_name = name;
  return environment;
}

void Complete(const Environment& environment, Settings* settings) {
  const std::string host = environment.host_name.empty() ? "localhost" : environment.host_name;
  // A host's name that is no store's name leaves the operator to give one; none does so in practice.
  if (settings->store_name.empty()) {
    Settings trial;
    const std::string words[] = {host.substr(0, 64)};
    settings->store_name = FindOption("store-name")->set(words, &trial).ok() ? words[0] : "store";
  }
  if (settings->location.empty()) {
    settings->location = {"host=" + host};
    settings->location_host = host;
  }
  if (settings->data_binds.empty()) settings->data_binds = settings->binds;
  const MemoryLimits& memory = environment.memory;
  if (settings->store_role && settings->dram_bytes.empty()) {
    const uint64_t bytes = std::min(memory.total_bytes / 4, memory.available_bytes / 2);
    settings->dram_bytes = {std::max(bytes - bytes % kSegmentUnit, kSegmentUnit)};
  }
  if (settings->view_max_bytes == 0) {
    const uint64_t dram = std::accumulate(settings->dram_bytes.begin(), settings->dram_bytes.end(), uint64_t{0});
    settings->view_max_bytes = std::max(dram / 8, kMb);
  }
  if (settings->core.metadata_max_bytes == 0) {
    settings->core.metadata_max_bytes = std::max(memory.total_bytes / 8, 16 * kMb);
  }
}

Result<Settings> LoadSettings(std::span<const std::string> arguments, const Environment& environment) {
  TIERCEL_ASSIGN(const Arguments given, ReadArguments(arguments));
  Settings settings = TableDefaults();
  if (!given.file.empty()) {
    TIERCEL_ASSIGN(const std::vector<Directive> directives, ReadFileDirectives(given.file));
    TIERCEL_TRY(ApplyAll(directives, environment, &settings));
    // The working directory may change before it is rewritten.
    settings.file = std::filesystem::absolute(given.file).string();
  }
  TIERCEL_TRY(ApplyAll(given.directives, environment, &settings));
  Complete(environment, &settings);
  const std::vector<Conflict> conflicts = FindConflicts(settings);
  if (!conflicts.empty()) {
    return Bad((given.file.empty() ? std::string("command line") : given.file) + ": " + conflicts.front().message);
  }
  return settings;
}

Result<Settings> LoadSettings(std::span<const std::string> arguments) {
  TIERCEL_ASSIGN(const Environment environment, Environment::OfThisMachine());
  return LoadSettings(arguments, environment);
}

Status CheckFile(const std::string& file, const Environment& environment) {
  const std::string arguments[] = {file};
  const Result<Settings> settings = LoadSettings(arguments, environment);
  if (!settings.ok()) return settings.error();
  return Ok();
}

Result<Invocation> ParseInvocation(std::span<const std::string> arguments) {
  using Action = Invocation::Action;
  if (arguments.empty()) return Invocation{};
  const std::string& first = arguments[0];
  Invocation invocation;
  if (first == "--help" || first == "-h") invocation.action = Action::kHelp;
  if (first == "--version" || first == "-v") invocation.action = Action::kVersion;
  if (first == "--print-conf") invocation.action = Action::kPrintConf;
  if (first == "--check") {
    if (arguments.size() != 2) return Bad("command line: --check takes one FILE");
    return Invocation{.action = Action::kCheck, .file = arguments[1]};
  }
  if (invocation.action != Action::kRun && arguments.size() > 1) return Bad("command line: " + first + " stands alone");
  return invocation;
}

}  // namespace tiercel::config
