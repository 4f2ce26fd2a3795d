// What single ranges cannot say: directives that do not go together.
#include "server/config/rows.h"

namespace tiercel::config {
namespace {

// The kernel's limit of a UNIX socket's path, without the closing NUL.
constexpr size_t kMaxSocketPath = 107;

class Checker {
 public:
  explicit Checker(const Settings& settings) : settings_(settings) {}

  void Require(bool holds, std::string_view first, std::string_view relation, std::string_view second) {
    if (holds) return;
    conflicts_.push_back(
        {std::string(first), std::string(second), fmt::format("{} is {} {}", Named(first), relation, Named(second))});
  }
  void RequireOr(bool holds, std::string_view first, std::string_view second, std::string message) {
    if (!holds) conflicts_.push_back({std::string(first), std::string(second), std::move(message)});
  }
  std::vector<Conflict> Take() { return std::move(conflicts_); }

  // "lease-ttl 10s"
  std::string Named(std::string_view name) const {
    const std::vector<std::string> lines = FindOption(name)->lines(settings_);
    return fmt::format("{} {}", name, lines.empty() ? "\"\"" : lines[0]);
  }

 private:
  const Settings& settings_;
  std::vector<Conflict> conflicts_;
};

void CheckRoles(const Settings& s, Checker* check) {
  check->RequireOr(s.master_role || !s.master_host.empty(), "roles", "master",
                   "roles store needs to know where its master is: master HOST PORT");
  check->RequireOr(!s.master_role || s.master_host.empty(), "roles", "master",
                   check->Named("master") + " names another master, while roles has master");
  check->RequireOr(s.requirepass.empty() || std::none_of(s.users.begin(), s.users.end(),
                                                         [](const auto& user) { return user[0] == "default"; }),
                   "requirepass", "user", "requirepass and user default both set the password of the user default");
}

void CheckTimes(const core::Options& c, Checker* check) {
  check->Require(c.soft_pin_default_ms <= c.soft_pin_max_ms, "soft-pin-default", "above", "soft-pin-max");
  check->Require(c.lease_ttl_ms <= c.lease_max_ms, "lease-ttl", "above", "lease-max");
  check->Require(c.put_start_discard_timeout_ms <= c.put_start_release_timeout_ms, "put-start-discard-timeout", "above",
                 "put-start-release-timeout");
  check->Require(c.ping_interval_ms <= c.store_timeout_ms / 3, "ping-interval", "above a third of", "store-timeout");
  check->Require(c.store_timeout_ms <= c.store_forget_ms, "store-timeout", "above", "store-forget");
}

// Leases and pins must leave eviction enough to reach its low watermark.
void CheckRatios(const core::Options& c, Checker* check) {
  const double low = c.eviction_high_watermark_ratio - c.eviction_ratio;
  const std::string watermark =
      fmt::format("the low watermark {:.4g}, which is {} less {}", low, check->Named("eviction-high-watermark-ratio"),
                  check->Named("eviction-ratio"));
  check->Require(c.eviction_ratio < c.eviction_high_watermark_ratio, "eviction-ratio", "not below",
                 "eviction-high-watermark-ratio");
  for (const auto& [name, value] :
       {std::pair("lease-max-ratio", c.lease_max_ratio), std::pair("hard-pin-max-ratio", c.hard_pin_max_ratio)}) {
    check->RequireOr(value < low, name, "eviction-high-watermark-ratio",
                     fmt::format("{} is not below {}", check->Named(name), watermark));
  }
}

void CheckSockets(const Settings& s, Checker* check) {
  for (const auto& [name, path] : {std::pair("unixsocket", s.unix_socket), std::pair("data-socket", s.data_socket)}) {
    const std::string full = s.Path(path);
    check->RequireOr(full.size() <= kMaxSocketPath, name, "dir",
                     fmt::format("{} is too long for a socket: {} of at most {} bytes, with dir", check->Named(name),
                                 full.size(), kMaxSocketPath));
  }
  check->RequireOr(s.unix_socket.empty() || s.Path(s.unix_socket) != s.Path(s.data_socket), "unixsocket", "data-socket",
                   "unixsocket and data-socket are the same path");
}

}  // namespace

std::vector<Conflict> FindConflicts(const Settings& settings) {
  Checker check(settings);
  CheckRoles(settings, &check);
  CheckTimes(settings.core, &check);
  CheckRatios(settings.core, &check);
  CheckSockets(settings, &check);
  return check.Take();
}

}  // namespace tiercel::config
