// What a master answers while it loads a large index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <iostream>

#include "base/random.h"
#include "server/index/rocks_index.h"
#include "tests/crash/deployment.h"

namespace tiercel::test {
namespace {

using core::Record;

// Objects of a store that never comes back.
void MakeIndex(const std::filesystem::path& dir, uint64_t objects) {
  auto index = index::RocksIndex::Open(
      {.dir = dir / "index", .generation_file = dir / "generation", .fsync = index::Fsync::kNo, .reserve_bytes = 0});
  ASSERT_TRUE(index.ok()) << index.error().message();
  std::vector<Record> batch(2);
  batch[0].kind = Record::Kind::kStore;
  batch[0].name = "s1";
  batch[0].storage_id = "storage";
  batch[0].host = "boot/host";
  batch[0].incarnation = Incarnation{7};
  batch[1].kind = Record::Kind::kSegment;
  batch[1].name = "s1-dram-0";
  batch[1].place = {0, 1};
  batch[1].size = uint64_t{1} << 30;
  ASSERT_TRUE((*index)->Write(batch).ok());
  batch.clear();
  for (uint64_t i = 0; i < objects; ++i) {
    Record& put = batch.emplace_back();
    put.version = Version{(uint64_t{1} << kCounterBits) + i + 1};
    put.key = "object-" + std::to_string(i);
    put.size = 64;
    put.sum = i;
    core::ReplicaInfo& replica = put.replicas.emplace_back();
    replica.place = {0, 1};
    replica.extents.push_back({i * 64, 64});
    if (batch.size() < 4096 && i + 1 < objects) continue;
    ASSERT_TRUE((*index)->Write(batch).ok());
    batch.clear();
  }
}

std::string HttpGet(uint16_t port, const std::string& path) {
  // hiredis connects; the words are HTTP's.
  Redis connection("127.0.0.1", port);
  if (!connection.connected()) return "";
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  if (send(connection.fd(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char bytes[4096];
  for (ssize_t n; (n = recv(connection.fd(), bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<size_t>(n));
  }
  return answer;
}

TEST(Loading, TheFrontEndAnswersAboutItselfAndNothingElse) {
  const TempDir dir;
  constexpr uint64_t kObjects = 400'000;
  MakeIndex(dir.path(), kObjects);
  if (HasFatalFailure()) return;
  const uint16_t port = FreePort(), admin = FreePort();
  const std::vector<std::string> arguments = {"--roles",      "master",
                                              "--dir",        dir.path().string(),
                                              "--port",       std::to_string(port),
                                              "--admin-port", std::to_string(admin)};
  auto starting = std::async(std::launch::async, [&] { return ServerProcess::Start(arguments); });
  // All in one write, so that they are answered in one turn or nearly so, the state of things first and last.
  const std::vector<std::vector<std::string_view>> pipeline = {{"GET", "object-1"},
                                                               {"PING"},
                                                               {"INFO"},
                                                               {"AUTH", "wrong"},
                                                               {"HELLO", "2"},
                                                               {"CONFIG", "GET", "port"},
                                                               {"SET", "k", "v"},
                                                               {"DEL", "object-1"},
                                                               {"GETREPLICAS", "object-1"},
                                                               {"GET", "object-1"}};
  std::vector<RedisReply> replies;
  replies.reserve(pipeline.size());
  Redis redis("127.0.0.1", port);
  ASSERT_TRUE(redis.connected());
  for (const auto& words : pipeline) redis.Send(words);
  for (size_t i = 0; i < pipeline.size(); ++i) replies.push_back(redis.Receive());
  const std::string ready = HttpGet(admin, "/readyz"), health = HttpGet(admin, "/healthz");
  ASSERT_TRUE(replies[0].text.starts_with("LOADING"))
      << "too few objects to be seen loading: " << replies[0].Describe();
  EXPECT_EQ(replies[1].text, "PONG");
  EXPECT_THAT(replies[2].text, testing::HasSubstr("\r\nloading:1\r\n"));
  EXPECT_TRUE(replies[3].is_error() && !replies[3].text.starts_with("LOADING")) << replies[3].Describe();
  EXPECT_EQ(replies[4].Field("server").type, REDIS_REPLY_STRING) << replies[4].Describe();
  EXPECT_EQ(replies[5].Field("port").text, std::to_string(port));
  for (const size_t i : {6, 7, 8, 9}) {
    EXPECT_TRUE(replies[i].text.starts_with("LOADING")) << pipeline[i][0] << ": " << replies[i].Describe();
  }
  EXPECT_THAT(ready, testing::HasSubstr("503")) << "not ready: it loads, or no store is there";
  EXPECT_THAT(ready, testing::ContainsRegex("loading the index: [0-9]+ records so far|no store serves"));
  EXPECT_THAT(health, testing::HasSubstr("200"));
  auto server = starting.get();
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  EXPECT_TRUE(redis.Call({"GET", "object-1"}).is_nil()) << "its store is not there";
  const std::string about = redis.Call({"INFO", "everything"}).text;
  EXPECT_THAT(about, testing::HasSubstr("restored_objects:" + std::to_string(kObjects)));
  EXPECT_THAT(about, testing::HasSubstr("restored_waiting:" + std::to_string(kObjects)));
}

}  // namespace
}  // namespace tiercel::test
