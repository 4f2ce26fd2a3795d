#include "server/index/migrate.h"

#include <algorithm>

#include "base/log.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {

std::span<const Migration> Migrations() { return {}; }

Status Migrate(const Database& database, uint32_t from, uint32_t to, std::span<const Migration> migrations) {
  for (uint32_t format = from; format < to; ++format) {
    const auto step =
        std::find_if(migrations.begin(), migrations.end(), [&](const Migration& m) { return m.from == format; });
    if (step == migrations.end()) {
      return Error(ErrorCode::kInvalid, "the index has format " + std::to_string(format) +
                                            ", from which this program knows no way to format " + std::to_string(to));
    }
    Log(LogLevel::kNotice, "index: migrating from format {} to {}", format, format + 1);
    TIERCEL_TRY(step->step(database));
    TIERCEL_TRY(WriteFormat(database, format + 1));
  }
  return Ok();
}

}  // namespace tiercel::index
