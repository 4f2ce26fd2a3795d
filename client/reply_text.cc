#include <fmt/format.h>

#include "client/messages.h"

namespace tiercel::client {
namespace {

using resp::Reply;

void Append(const Reply& reply, const std::string& indent, std::string* out);

void AppendList(const Reply& reply, const std::string& indent, std::string* out) {
  if (reply.items.empty()) {
    *out += "(empty)\n";
    return;
  }
  for (size_t i = 0; i < reply.items.size(); ++i) {
    std::string label = fmt::format("{}) ", i + 1);
    if (i > 0) *out += indent;
    *out += label;
    Append(reply.items[i], indent + std::string(label.size(), ' '), out);
  }
}

void AppendMap(const Reply& reply, const std::string& indent, std::string* out) {
  if (reply.items.empty()) *out += "(empty)\n";
  for (size_t i = 0; i + 1 < reply.items.size(); i += 2) {
    if (i > 0) *out += indent;
    *out += reply.items[i].text + ": ";
    Append(reply.items[i + 1], indent + "  ", out);
  }
}

void Append(const Reply& reply, const std::string& indent, std::string* out) {
  switch (reply.kind) {
    case Reply::Kind::kNull: *out += "(nil)\n"; return;
    case Reply::Kind::kError: *out += "(error) " + reply.text + "\n"; return;
    case Reply::Kind::kInteger: *out += fmt::format("(integer) {}\n", reply.integer); return;
    case Reply::Kind::kDouble: *out += fmt::format("(double) {}\n", reply.number); return;
    case Reply::Kind::kBoolean: *out += reply.integer != 0 ? "(true)\n" : "(false)\n"; return;
    case Reply::Kind::kSimple:
    case Reply::Kind::kBulk:
    case Reply::Kind::kVerbatim:
    case Reply::Kind::kBigNumber: *out += reply.text + "\n"; return;
    case Reply::Kind::kMap: AppendMap(reply, indent, out); return;
    case Reply::Kind::kArray:
    case Reply::Kind::kSet:
    case Reply::Kind::kPush: AppendList(reply, indent, out); return;
  }
}

}  // namespace

std::string ReplyText(const Reply& reply) {
  std::string out;
  Append(reply, "", &out);
  return out;
}

}  // namespace tiercel::client
