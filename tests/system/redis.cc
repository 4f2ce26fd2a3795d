#include "tests/system/redis.h"

#include <poll.h>
#include <sys/time.h>

#include "base/clock.h"

namespace tiercel::test {
namespace {

RedisReply Convert(const redisReply* reply) {
  RedisReply out;
  if (reply == nullptr) return out;
  out.type = reply->type;
  out.integer = reply->integer;
  if (reply->str != nullptr) out.text.assign(reply->str, reply->len);
  for (size_t i = 0; i < reply->elements; ++i) out.items.push_back(Convert(reply->element[i]));
  return out;
}

}  // namespace

RedisReply RedisReply::Field(std::string_view name) const {
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].text == name) return items[i + 1];
  }
  return {};
}

std::string RedisReply::Describe() const {
  if (broken()) return "(connection broke)";
  if (is_nil()) return "(nil)";
  if (type == REDIS_REPLY_INTEGER) return std::to_string(integer);
  if (type != REDIS_REPLY_ARRAY) return text;
  std::string out = "[";
  for (const RedisReply& item : items) out += item.Describe() + " ";
  return out + "]";
}

Redis::Redis(const std::string& host, uint16_t port, int64_t timeout_ms) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + timeout_ms;
  do {
    context_.reset(redisConnectWithTimeout(host.c_str(), port, timeval{2, 0}));
    if (connected()) {
      redisSetTimeout(context_.get(), timeval{60, 0});
      return;
    }
    poll(nullptr, 0, 20);
  } while (SystemClock::Get().Now().boot_ms < limit);
}

void Redis::Send(const std::vector<std::string_view>& arguments) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (std::string_view argument : arguments) {
    data.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  redisAppendCommandArgv(context_.get(), static_cast<int>(data.size()), data.data(), sizes.data());
}

RedisReply Redis::Receive() {
  void* reply = nullptr;
  if (redisGetReply(context_.get(), &reply) != REDIS_OK) return {};
  RedisReply out = Convert(static_cast<redisReply*>(reply));
  freeReplyObject(reply);
  return out;
}

RedisReply Redis::Call(const std::vector<std::string_view>& arguments) {
  if (!connected()) return {};
  Send(arguments);
  return Receive();
}

}  // namespace tiercel::test
