// Any text as a configuration file: it is refused with one line, or the settings that it gives can be written as a
// file that gives them again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "server/config/option.h"
#include "server/config/source.h"

namespace tiercel::config {
namespace {

std::vector<Directive> AsDirectives(const Settings& settings) {
  std::vector<Directive> directives;
  for (const Option& option : OptionTable()) {
    for (const std::string& line : option.lines(settings)) {
      Result<std::optional<Directive>> parsed = ParseLine("again", directives.size() + 1, option.name + " " + line);
      TIERCEL_CHECK(parsed.ok() && parsed->has_value());
      directives.push_back(std::move(**parsed));
    }
  }
  return directives;
}

void RunOne(std::string_view text) {
  const Environment environment{.memory = {.total_bytes = uint64_t{1} << 36, .available_bytes = uint64_t{1} << 35},
                                .host_name = "h",
                                .check_user = {}};
  std::vector<Directive> directives;
  for (size_t at = 0, number = 1; at <= text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    Result<std::optional<Directive>> parsed = ParseLine("input", number, std::string(text.substr(at, end - at)));
    if (parsed.ok() && parsed->has_value()) directives.push_back(std::move(**parsed));
    at = end + 1;
  }
  static const Settings defaults = TableDefaults();
  // One by one, so that a bad line does not hide the others.
  Settings settings = defaults;
  bool changed = false;
  for (const Directive& directive : directives) {
    const Status status = ApplyAll(std::span(&directive, 1), environment, &settings);
    changed |= status.ok();
    if (!status.ok()) TIERCEL_CHECK(status.error().message().find_first_of("\r\n") == std::string::npos);
  }
  if (!changed) return;
  Complete(environment, &settings);
  for (const Conflict& conflict : FindConflicts(settings)) TIERCEL_CHECK(!conflict.message.empty());
  const std::vector<Directive> written = AsDirectives(settings);
  Settings again = defaults;
  TIERCEL_CHECK(ApplyAll(written, environment, &again).ok());
  for (const Option& option : OptionTable()) {
    const std::vector<std::string> lines = option.lines(settings);
    TIERCEL_CHECK(lines.empty() || lines == option.lines(again));
  }
}

}  // namespace
}  // namespace tiercel::config

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tiercel::config::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
