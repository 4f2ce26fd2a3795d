// Texts of grants and tickets from outside: nothing crashes, what parses is written back exactly as it was, and no
// text passes a seal that was not made with the key.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/grant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tiercel;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const GrantKey key{.id = 1, .key = {std::byte{0x5a}, std::byte{0xc3}}};
  if (const std::optional<Grant> grant = ParseGrantText(text)) {
    std::string again;
    AppendGrantText(*grant, &again);
    TIERCEL_CHECK(again == text);
    TIERCEL_CHECK(!MacIsRight(key, *grant));
    CoversObjectRange(*grant, size, grant->user);
  }
  if (const std::optional<Ticket> ticket = ParseTicketText(text)) {
    TIERCEL_CHECK(TicketText(*ticket) == text);
    TIERCEL_CHECK(!MacIsRight(key, *ticket));
  }
  return 0;
}
