#include "server/net/users.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"
#include "base/siphash.h"

namespace tiercel::net {
namespace {

constexpr std::string_view kDefault = "default";

std::array<std::byte, 32> Sha256(std::string_view text) {
  std::array<std::byte, 32> digest{};
  unsigned int size = 0;
  const int ok = EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                            EVP_sha256(), nullptr);
  TIERCEL_CHECK(ok == 1 && size == digest.size());
  return digest;
}

}  // namespace

Result<UserSpec> ParseUserDirective(std::span<const std::string> words) {
  if (words.empty() || words[0].empty()) return Error(ErrorCode::kInvalid, "user: a name is missing");
  UserSpec spec;
  spec.name = words[0];
  if (spec.name.front() == '@' || spec.name.find_first_of(" \r\n\t") != std::string::npos) {
    return Error(ErrorCode::kInvalid, fmt::format("user {}: not a user's name", spec.name));
  }
  for (const std::string& word : words.subspan(1)) {
    if (word == "on" || word == "off") {
      spec.enabled = word == "on";
    } else if (word == "nopass") {
      spec.no_password = true;
      spec.passwords.clear();
    } else if (word == "resetpass") {
      spec.no_password = false;
      spec.passwords.clear();
    } else if (word.size() > 1 && word.front() == '>') {
      spec.passwords.push_back(word.substr(1));
      spec.no_password = false;
    } else if (word == "+@store" || word == "store") {
      spec.store_right = true;
    } else if (word == "-@store") {
      spec.store_right = false;
    } else if (word != "+@all" && word != "allcommands" && word != "~*" && word != "allkeys" && word != "&*" &&
               word != "allchannels") {
      // The word may be a password whose > was left out: only what looks like a rule is repeated.
      const bool secret = word.empty() || std::string_view("+-~&%").find(word.front()) == std::string_view::npos;
      return Error(ErrorCode::kInvalid,
                   fmt::format("user {}: '{}' is not known; allowed are on off >password nopass resetpass +@store "
                               "-@store +@all ~* &*",
                               spec.name, secret ? "(not shown)" : word));
    }
  }
  return spec;
}

Result<std::unique_ptr<Users>> Users::Create(std::string_view requirepass, std::span<const UserSpec> specs) {
  auto users = std::make_unique<Users>();
  users->rows_.push_back({std::string(kDefault), true, true, false, {}});
  bool default_given = false;
  for (const UserSpec& spec : specs) {
    Row row{spec.name, spec.enabled, spec.no_password, spec.store_right, {}};
    for (const std::string& password : spec.passwords) row.passwords.push_back(Sha256(password));
    if (spec.name == kDefault && !default_given) {
      default_given = true;
      users->rows_.front() = std::move(row);
      continue;
    }
    if (users->Find(spec.name) != nullptr) {
      return Error(ErrorCode::kInvalid, fmt::format("user {} is given twice", spec.name));
    }
    users->rows_.push_back(std::move(row));
  }
  if (!requirepass.empty()) users->SetRequirePass(requirepass);
  return users;
}

const Users::Row* Users::Find(std::string_view name) const {
  const auto at = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  return at == rows_.end() ? nullptr : &*at;
}

Users::Identity Users::IdentityOf(const Row& row) const {
  const bool open_default = row.name == kDefault && row.no_password;
  return {row.name, row.store_right || open_default};
}

std::optional<Users::Identity> Users::Login(std::string_view name, std::string_view password) const {
  const Digest digest = Sha256(password);
  std::lock_guard lock(mutex_);
  const Row* row = Find(name);
  if (row == nullptr || !row->enabled) return std::nullopt;
  bool right = row->no_password;
  // Every password is compared, in full.
  for (const Digest& known : row->passwords) right = EqualConstantTime(known, digest) || right;
  if (!right) return std::nullopt;
  return IdentityOf(*row);
}

std::optional<Users::Identity> Users::Default() const {
  std::lock_guard lock(mutex_);
  const Row& row = rows_.front();
  if (!row.enabled || !row.no_password) return std::nullopt;
  return IdentityOf(row);
}

bool Users::Exists(std::string_view name) const {
  std::lock_guard lock(mutex_);
  return Find(name) != nullptr;
}

bool Users::default_has_password() const {
  std::lock_guard lock(mutex_);
  return !rows_.front().no_password;
}

void Users::SetRequirePass(std::string_view password) {
  std::lock_guard lock(mutex_);
  Row& row = rows_.front();
  row.passwords.clear();
  row.no_password = password.empty();
  if (!password.empty()) row.passwords.push_back(Sha256(password));
}

}  // namespace tiercel::net
