// Users in their simplest form: names, passwords, and the right to speak as a store.
//
// Passwords are kept as SHA-256 only and compared in constant time. `requirepass` is the password of the user
// "default". A connection starts as "default", logged in when that user needs no password.
//
// The right of a store (`+@store`): STORE commands hand out the keys of grants. A named user has it only when his
// directive says so; "default" has it while it needs no password (a system without passwords is open as a whole),
// or when a `user default` directive says so; the embedded store's own connection always has it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiercel/result.h"

namespace tiercel::net {

struct UserSpec {
  std::string name;
  bool enabled = false;
  bool no_password = false;            // nopass
  std::vector<std::string> passwords;  // in clear; only until the table is made
  bool store_right = false;
};

// The words behind `user`: NAME [on|off] [>password]... [nopass] [resetpass] [+@store|-@store] [+@all] [~*] [&*].
// Redis's words for what is not restricted here are accepted, restrictions are refused: kInvalid naming the word.
Result<UserSpec> ParseUserDirective(std::span<const std::string> words);

class Users {
 public:
  struct Identity {
    std::string name;
    bool store_right = false;
  };

  // kInvalid on a name given twice.
  static Result<std::unique_ptr<Users>> Create(std::string_view requirepass, std::span<const UserSpec> specs);

  // All thread-safe.
  std::optional<Identity> Login(std::string_view name, std::string_view password) const;
  std::optional<Identity> Default() const;  // when it needs no password
  bool Exists(std::string_view name) const;
  bool default_has_password() const;
  void SetRequirePass(std::string_view password);  // empty: none

 private:
  using Digest = std::array<std::byte, 32>;
  struct Row {
    std::string name;
    bool enabled = false, no_password = false, store_right = false;
    std::vector<Digest> passwords;
  };
  const Row* Find(std::string_view name) const;
  Identity IdentityOf(const Row& row) const;

  mutable std::mutex mutex_;  // leaf; logins are rare
  std::vector<Row> rows_;     // "default" first
};

}  // namespace tiercel::net
