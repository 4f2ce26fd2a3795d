// What every command has: the connection's options, the client, and where output goes.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tiercel/client.h"
#include "tools/tiercel/exit_code.h"

namespace tiercel::cli {

struct Settings {
  ClientOptions client;
  std::string password_file;
  std::string timeout = "30s";
  bool json = false;
  bool quiet = false;
};

class Session {
 public:
  explicit Session(const Settings& settings) : settings_(settings) {}

  // Connects; kDone, or prints why it cannot.
  ExitCode Open();
  Client& client() { return *client_; }
  std::shared_ptr<Client> shared_client() { return client_; }
  bool json() const { return settings_.json; }
  bool quiet() const { return settings_.quiet; }

  // One line to standard error: what failed, and why. Gives the exit status that belongs to it.
  ExitCode Report(std::string_view what, const Error& error) const;
  ExitCode Report(std::string_view what, std::string_view why, ExitCode code) const;
  // One JSON value and a line's end to standard output.
  void Print(const nlohmann::json& value) const;

 private:
  const Settings& settings_;
  std::shared_ptr<Client> client_;
};

// A key as people can read it: as it is when printable UTF-8 without spaces at its ends, else quoted.
std::string ShownKey(std::string_view key);
// A glob pattern that matches exactly the keys that begin with this prefix.
std::string PatternOfPrefix(std::string_view prefix);

}  // namespace tiercel::cli
