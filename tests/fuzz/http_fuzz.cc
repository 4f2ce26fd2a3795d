// Any bytes as the head of a request: the verdict does not depend on how they arrive, and views stay inside the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "server/admin/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tiercel::admin::HeadResult;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const HeadResult whole = tiercel::admin::ParseHead(text);
  if (whole.state == HeadResult::State::kComplete) {
    for (const std::string_view view : {whole.request.method, whole.request.path}) {
      const bool implied = view.data() != nullptr && view == "/" && text.find("://") != std::string_view::npos;
      TIERCEL_CHECK(view.empty() || implied ||
                    (view.data() >= text.data() && view.data() + view.size() <= text.data() + size));
    }
  }
  for (size_t end = 0; end <= std::min<size_t>(size, 512); ++end) {
    const HeadResult part = tiercel::admin::ParseHead(text.substr(0, end));
    if (part.state == HeadResult::State::kIncomplete) continue;
    TIERCEL_CHECK(part.state == whole.state && part.status == whole.status);
    TIERCEL_CHECK(part.request.path == whole.request.path && part.request.method == whole.request.method);
  }
  return 0;
}
