// The data protocol's decoders on any bytes. The first byte picks what the rest is taken for: a header (as it is, or
// with its sum made right, so that what lies behind the sum is reached too), or the body of a frame type.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "transfer/frames.h"

using namespace tiercel;            // NOLINT
using namespace tiercel::transfer;  // NOLINT

namespace {

void Header(std::span<const std::byte> bytes, bool reseal) {
  if (bytes.size() < kHeaderBytes) return;
  FrameBytes header(bytes.begin(), bytes.begin() + kHeaderBytes);
  if (reseal) {
    std::memcpy(header.data(), &kFrameMagic, 4);
    const uint64_t sum = HashBytes(std::span(header).first(40));
    std::memcpy(header.data() + 40, &sum, 8);
  }
  const auto decoded = DecodeHeader(header);
  if (!decoded.ok()) return;
  TIERCEL_CHECK(decoded->body_bytes <= kMaxBodyBytes);
  (void)BodyIsIntact(*decoded, bytes.subspan(kHeaderBytes));
}

// What decodes must encode to the same bytes.
void Request(std::span<const std::byte> body) {
  const auto r = DecodeRequest(body);
  if (!r.ok()) return;
  FrameBytes again;
  AppendRequest(FrameType::kRead, 0, 1, r->place, r->offset, r->length, &r->grant, &again);
  TIERCEL_CHECK(again.size() == kHeaderBytes + body.size());
  TIERCEL_CHECK(std::memcmp(again.data() + kHeaderBytes, body.data(), body.size()) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kMaxFrameBytes) return 0;
  const std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  bool well_formed = false;
  std::vector<uint64_t> sums;
  switch (data[0] % 12) {
    case 0: Header(body, false); break;
    case 1: Header(body, true); break;
    case 2: (void)DecodeHello(body); break;
    case 3: (void)DecodeHelloOk(body); break;
    case 4: Request(body); break;
    case 5: (void)DecodeCopy(body); break;
    case 6: (void)DecodeAttach(body); break;
    case 7: (void)DecodeAttachOk(body); break;
    case 8: (void)DecodeMap(body); break;
    case 9: (void)DecodeUnmap(body); break;
    case 10:
      if (DecodeCopyOk(body, &sums).ok()) TIERCEL_CHECK(sums.size() <= kMaxSums);
      break;
    default: {
      const Error error = DecodeError(body, &well_formed);
      if (well_formed) TIERCEL_CHECK(error.message().find('\n') == std::string::npos);
      break;
    }
  }
  return 0;
}
