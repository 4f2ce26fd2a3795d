// A master of one process and no network: just enough of the protocol for the client library, in the place of its
// connection. Space is handed out from the front and never comes back, unless a test says otherwise.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/grant.h"
#include "protocol/resp/conn/connection.h"
#include "tests/client/fake_engine.h"

namespace tiercel::test {

class FakeMaster {
 public:
  struct Place {
    size_t store = 0;
    ExtentList extents;
  };
  struct Object {
    Version version;
    uint64_t size = 0, sum = 0;
    std::vector<Place> places;
  };
  struct Put {
    std::string key;
    uint64_t size = 0;
    std::vector<Place> places;
    bool replace = false;
  };
  struct Store {
    std::string name, host, socket;
    std::string address = "127.0.0.1:1";
    Incarnation incarnation;
    SegmentRef place{1, 1};
    uint64_t used = 0;
    bool known = true;  // shown by STORES
  };
  using Args = std::vector<std::string>;

  FakeMaster(FakeEngine* engine, const Clock* clock) : engine_(engine), clock_(clock) {}

  size_t AddStore(const std::string& name, size_t bytes, const std::string& host = "elsewhere/h",
                  const std::string& socket = "");
  // The connection that a client is given. The master must outlive it.
  std::unique_ptr<resp::Connection> Connect();

  // ---- what a test may turn
  std::function<std::optional<Result<resp::Reply>>(const Args&)> intercept;  // a reply, or a lost one
  int64_t lease_ms = 10'000;
  int64_t put_deadline_ms = 30'000;
  uint64_t extent_bytes = 0;  // cut places into extents of this size; 0: one extent
  bool resp3 = true;
  std::map<std::string, Object> objects;
  std::map<uint64_t, Put> puts;  // open
  std::vector<Store> stores;
  std::vector<Args> log;  // every command
  std::vector<Args> reports;
  std::atomic<uint64_t> epoch{1};
  uint64_t next_version = (uint64_t{1} << 40) + 1;

  size_t CountOf(std::string_view command) const;
  // The bytes of a replica's value as they lie in its segment; only for places of one extent.
  std::span<std::byte> BytesOf(const Object& object, size_t replica);

  resp::Reply Answer(const Args& args);
  std::mutex mutex;  // over Answer

 private:
  resp::Reply PutStart(const Args& args);
  resp::Reply PutEnd(const Args& args);
  resp::Reply PutRenew(const Args& args);
  resp::Reply LookUp(const std::string& key, bool lease);
  resp::Reply StoresReply() const;
  std::string Line(const Place& place, Version version, Right right) const;
  bool Allocate(size_t store, uint64_t bytes, ExtentList* out);

  FakeEngine* const engine_;
  const Clock* const clock_;
};

// Replies, short to write.
resp::Reply IntegerReply(int64_t value);
resp::Reply BulkReply(std::string text);
resp::Reply ErrorReply(std::string line);
resp::Reply NullReply();

}  // namespace tiercel::test
