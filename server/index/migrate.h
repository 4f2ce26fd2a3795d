// From older formats to this one, a step at a time.
//
// A step rewrites what its format stored differently and must be repeatable: the format's number is raised, durably,
// only after it, so a crash in between runs it again. There is no way back: an older program refuses the newer number.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tiercel/result.h"

namespace tiercel::index {

struct Database;

struct Migration {
  uint32_t from = 0;  // to from + 1
  std::function<Status(const Database&)> step;
};

// Those that this program knows, by `from`. Format 1 is the first: there are none yet.
std::span<const Migration> Migrations();

// Takes the database from format `from` to `to`. kInvalid when a step is missing.
Status Migrate(const Database& database, uint32_t from, uint32_t to, std::span<const Migration> migrations);

}  // namespace tiercel::index
