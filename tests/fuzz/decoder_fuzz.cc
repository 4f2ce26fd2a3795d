// What clients send: however a stream is cut, the same commands and the same error; and every command that comes out
// can be looked up, answered and asked for its keys.
//
// The first byte of the input chooses limits, the next two the way of cutting.
#include "base/check.h"
#include "base/random.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/errors.h"
#include "tests/resp/decode_driver.h"

namespace tiercel::resp {
namespace {

Decoded Cut(std::string_view stream, const DecoderLimits& limits, Random* random, size_t largest) {
  DecodeDriver driver(limits);
  while (!stream.empty()) {
    const size_t piece = std::min<size_t>(stream.size(), 1 + random->Below(largest));
    driver.Feed(stream.substr(0, piece));
    stream.remove_prefix(piece);
  }
  TIERCEL_CHECK(driver.complaint().empty());
  return driver.seen();
}

void Use(const std::vector<std::string>& command) {
  const std::vector<std::string_view> arguments(command.begin(), command.end());
  const CommandSpec* spec = ResolveCommand(arguments);
  if (spec == nullptr) {
    const std::string line = ResolveError(arguments).ToString();
    TIERCEL_CHECK(line.find_first_of("\r\n") == std::string::npos);
    TIERCEL_CHECK(line.size() < 512);
  } else if (const auto keys = ExtractKeys(*spec, arguments); keys && keys->count > 0) {
    TIERCEL_CHECK(keys->first > 0);
    TIERCEL_CHECK((keys->count - 1) * keys->step < arguments.size() - keys->first);
  }
}

}  // namespace
}  // namespace tiercel::resp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tiercel::resp;
  if (size < 3) return 0;
  DecoderLimits limits;
  limits.authenticated = (data[0] & 1) == 0;
  limits.direct_bytes = (data[0] & 2) != 0 ? 8 : 32 * 1024;
  limits.max_inline_bytes = (data[0] & 4) != 0 ? 48 : 64 * 1024;
  limits.max_command_bytes = (data[0] & 8) != 0 ? 128 : uint64_t{1} << 30;
  tiercel::Random random(data[1] * 256 + data[2]);
  const std::string_view stream(reinterpret_cast<const char*>(data) + 3, size - 3);

  const Decoded whole = DecodeWhole(stream, limits);
  TIERCEL_CHECK(Cut(stream, limits, &random, 40) == whole);
  if (stream.size() <= 2048) TIERCEL_CHECK(Cut(stream, limits, &random, 1) == whole);
  for (const auto& command : whole.commands) Use(command);
  return 0;
}
