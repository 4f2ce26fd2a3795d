#include "tools/tiercel/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/tokenizer.h"
#include "base/units.h"
#include "tools/tiercel/interrupt.h"

namespace tiercel::cli {

ExitCode Session::Open() {
  ClientOptions options = settings_.client;
  if (!settings_.password_file.empty()) {
    std::ifstream file(settings_.password_file);
    if (!std::getline(file, options.password)) {
      return Report(settings_.password_file, "cannot be read, or is empty", kUsage);
    }
  }
  auto timeout_ms = ParseMillis(settings_.timeout);
  options.timeout_ms = timeout_ms.value_or(options.timeout_ms);
  options.connect_timeout_ms = std::min(options.connect_timeout_ms, options.timeout_ms);
  options.name = "tiercel-cli";
  auto client = Client::Connect(options);
  if (!client.ok()) {
    if (client.error().code() != ErrorCode::kNoAuth) return Report(options.master, client.error());
    return Report(options.master, "wants a password: --password-file, or TIERCEL_PASSWORD (and --user)", kNoConnection);
  }
  client_ = std::move(client).value();
  CloseWhenInterrupted(client_);
  return kDone;
}

ExitCode Session::Report(std::string_view what, const Error& error) const {
  if (Interrupted()) return kInterrupted;
  // Some sentences begin with what they are about, and the general word tells people nothing.
  std::string_view why = error.message();
  const std::string begin = std::string(what) + ": ";
  if (why.starts_with(begin)) why.remove_prefix(begin.size());
  const bool general = error.word() == InfoOf(ErrorCode::kInternal).word;
  return Report(what, general ? std::string(why) : fmt::format("{} {}", error.word(), why), ExitFor(error));
}

ExitCode Session::Report(std::string_view what, std::string_view why, ExitCode code) const {
  fmt::print(stderr, "tiercel: {}: {}\n", what, why);
  return code;
}

void Session::Print(const nlohmann::json& value) const {
  // Keys are any bytes; JSON is UTF-8.
  fmt::print("{}\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string ShownKey(std::string_view key) {
  const bool plain = !key.empty() && key.front() != '"' &&
                     std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7F; });
  return plain ? std::string(key) : QuoteWord(key);
}

std::string PatternOfPrefix(std::string_view prefix) {
  std::string pattern;
  for (char c : prefix) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "*";
}

}  // namespace tiercel::cli
