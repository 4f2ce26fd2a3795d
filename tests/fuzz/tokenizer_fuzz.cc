// A line of redis.conf or of an inline command: what has been split can be quoted, joined and split again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto words = tiercel::Tokenize(line);
  if (!words.ok()) {
    TIERCEL_CHECK(words.error().code() == tiercel::ErrorCode::kSyntax);
    return 0;
  }
  std::string joined;
  for (const std::string& word : *words) joined += (joined.empty() ? "" : " ") + tiercel::QuoteWord(word);
  TIERCEL_CHECK(joined.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  const auto again = tiercel::Tokenize(joined);
  TIERCEL_CHECK(again.ok());
  TIERCEL_CHECK(*again == *words);
  return 0;
}
