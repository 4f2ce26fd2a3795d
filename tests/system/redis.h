// A plain Redis client (hiredis) for system tests: one blocking connection, replies as values.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel::test {

struct RedisReply {
  int type = 0;  // REDIS_REPLY_...; 0: the connection broke
  int64_t integer = 0;
  std::string text;
  std::vector<RedisReply> items;

  bool broken() const { return type == 0; }
  bool is_nil() const { return type == REDIS_REPLY_NIL; }
  bool is_error() const { return type == REDIS_REPLY_ERROR; }
  bool is_ok() const { return type == REDIS_REPLY_STATUS && text == "OK"; }
  // Value of a field of a flat RESP2 map; an empty reply when absent.
  RedisReply Field(std::string_view name) const;
  std::string Describe() const;
};

class Redis {
 public:
  // Retries until `timeout_ms` is over: a server that is just starting again is not a failure.
  Redis(const std::string& host, uint16_t port, int64_t timeout_ms = 20'000);
  bool connected() const { return context_ != nullptr && context_->err == 0; }
  RedisReply Call(const std::vector<std::string_view>& arguments);
  // Sends without waiting.
  void Send(const std::vector<std::string_view>& arguments);
  RedisReply Receive();
  int fd() const { return context_->fd; }

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace tiercel::test
