// What servers answer: however a stream is cut, and whether it is fed or received in place, the same replies, and the
// same end.
//
// The first byte of the input chooses limits, the next two the way of cutting.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/random.h"
#include "protocol/resp/reply.h"

namespace tiercel::resp {
namespace {

bool Same(const Reply& a, const Reply& b) {
  const bool numbers = a.number == b.number || (std::isnan(a.number) && std::isnan(b.number));
  return a.kind == b.kind && a.integer == b.integer && numbers && a.text == b.text &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Same);
}

struct Seen {
  std::vector<Reply> replies;
  bool failed = false;
  bool operator==(const Seen& other) const {
    return failed == other.failed &&
           std::equal(replies.begin(), replies.end(), other.replies.begin(), other.replies.end(), Same);
  }
};

void Take(ReplyParser* parser, Seen* seen) {
  while (!seen->failed) {
    auto next = parser->Next();
    seen->failed = !next.ok();
    if (seen->failed || !next->has_value()) return;
    Reply reply = *std::move(next).value();
    if (reply.is_error()) TIERCEL_CHECK(reply.ToError().message().size() <= reply.text.size());
    reply.Field("proto");
    seen->replies.push_back(std::move(reply));
  }
}

void Receive(ReplyParser* parser, std::string_view bytes) {
  while (!bytes.empty()) {
    const ReplyParser::Space space = parser->ReceiveSpace();
    const size_t direct = std::min(bytes.size(), space.direct.size());
    const size_t rest = std::min(bytes.size() - direct, space.buffer.size());
    if (direct > 0) std::memcpy(space.direct.data(), bytes.data(), direct);
    if (rest > 0) std::memcpy(space.buffer.data(), bytes.data() + direct, rest);
    parser->Received(direct + rest);
    bytes.remove_prefix(direct + rest);
  }
}

Seen Run(std::string_view stream, const ReplyParser::Limits& limits, Random* random, size_t largest, bool in_place) {
  ReplyParser parser(limits);
  Seen seen;
  while (!stream.empty()) {
    const size_t piece = std::min<size_t>(stream.size(), 1 + random->Below(largest));
    if (in_place) {
      Receive(&parser, stream.substr(0, piece));
    } else {
      parser.Feed(stream.substr(0, piece));
    }
    stream.remove_prefix(piece);
    Take(&parser, &seen);
  }
  return seen;
}

}  // namespace
}  // namespace tiercel::resp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tiercel::resp;
  if (size < 3) return 0;
  ReplyParser::Limits limits{.max_bulk_bytes = uint64_t{1} << 20, .max_items = 1 << 16};
  if ((data[0] & 1) != 0) limits.max_bulk_bytes = 10;
  if ((data[0] & 2) != 0) limits.max_items = 5;
  if ((data[0] & 4) != 0) limits.max_depth = 2;
  if ((data[0] & 8) != 0) limits.max_reply_bytes = 20;
  if ((data[0] & 16) != 0) limits.max_line_bytes = 12;
  tiercel::Random random(data[1] * 256 + data[2]);
  const std::string_view stream(reinterpret_cast<const char*>(data) + 3, size - 3);

  const Seen whole = Run(stream, limits, &random, size, false);
  TIERCEL_CHECK(Run(stream, limits, &random, 1, false) == whole);
  TIERCEL_CHECK(Run(stream, limits, &random, 30, true) == whole);
  TIERCEL_CHECK(Run(stream, limits, &random, 9000, true) == whole);
  return 0;
}
