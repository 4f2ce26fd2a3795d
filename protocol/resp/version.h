// The version of the conversation with a master: what clients say in TICKET ... PROTO and stores in STORE JOIN.
//
// A major is incompatible and refused at the first words. Minors only add: who is newer keeps to what the other knows.
// A caller that says nothing is taken for the oldest, 1.0.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tiercel::resp {

struct ControlVersion {
  uint16_t major = 1, minor = 0;
  auto operator<=>(const ControlVersion&) const = default;
};
inline constexpr ControlVersion kControlVersion{1, 0};

// "MAJOR.MINOR", each 0 to 65535 without signs or leading blanks.
std::optional<ControlVersion> ParseControlVersion(std::string_view text);
std::string ControlVersionText(ControlVersion version);

}  // namespace tiercel::resp
