// Connecting, closing, futures, views, memory, and questions to the master.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <semaphore>
#include <thread>

#include "tests/client/harness.h"

namespace tiercel::test {
namespace {

constexpr std::chrono::seconds kHangGuard{60};

TEST(Lifecycle, O55_BeforeConnectingEveryCallIsOneTypedErrorAndCloseTwiceIsNothing) {
  Harness h;
  h.MustPut("k", RandomBytes(10, 1));
  auto client = h.MakeUnconnected();
  const std::string_view key = "k";
  std::vector<std::byte> memory(10);
  auto all = [&](ErrorCode code) {
    EXPECT_EQ(client->Get(key).error().code(), code);
    EXPECT_EQ(client->Put(key, "v").error().code(), code);
    EXPECT_EQ(client->GetInto(key, memory).error().code(), code);
    EXPECT_EQ(client->GetRange(key, 0, 1).error().code(), code);
    EXPECT_EQ(client->View(key).error().code(), code);
    EXPECT_EQ(client->Exists(key).error().code(), code);
    EXPECT_EQ(client->Size(key).error().code(), code);
    EXPECT_EQ(client->Remove(key).error().code(), code);
    EXPECT_EQ(client->GetBatch({&key, 1})[0].error().code(), code);
    EXPECT_EQ(client->StatBatch({&key, 1})[0].error().code(), code);
    EXPECT_EQ(client->MatchPrefix({&key, 1}).error().code(), code);
    EXPECT_EQ(client->Stores().error().code(), code);
    EXPECT_EQ(client->GetAsync("k").get().error().code(), code);
    EXPECT_EQ(client->AllocateRegistered(1).error().code(), code);
    EXPECT_FALSE(client->Healthy());
  };
  all(ErrorCode::kUnreachable);
  ASSERT_TRUE(client->Reconnect().ok());
  EXPECT_TRUE(client->Healthy());
  EXPECT_GE(*client->PingMicros(), 0);
  EXPECT_TRUE(client->Get(key).ok());
  client->Close();
  client->Close();
  all(ErrorCode::kShutdown);
  EXPECT_EQ(client->Reconnect().error().code(), ErrorCode::kShutdown);
}

TEST(Lifecycle, CloseEndsACallThatMovesBytes) {
  Harness h;
  h.MustPut("k", RandomBytes(1000, 1));
  auto client = h.MakeUnconnected();
  ASSERT_TRUE(client->Reconnect().ok());
  std::promise<void> moving, cancelled;
  h.engine->hold_waits = 1;
  h.engine->on_hold = [&] {
    moving.set_value();
    EXPECT_EQ(cancelled.get_future().wait_for(kHangGuard), std::future_status::ready);
  };
  h.engine->on_cancel = [&] { cancelled.set_value(); };
  auto future = client->GetAsync("k");
  moving.get_future().wait();
  client->Close();
  EXPECT_EQ(future.get().error().code(), ErrorCode::kShutdown);
}

TEST(Lifecycle, CloseEndsACallThatPauses) {
  Harness h;
  h.MustPut("k", RandomBytes(1000, 1));
  auto client = h.MakeUnconnected();
  ASSERT_TRUE(client->Reconnect().ok());
  std::counting_semaphore<> refused(0);
  h.engine->refuse = [&](const auto&, const auto&) {
    refused.release();
    return Error(ErrorCode::kAdmissionTimeout, "full");
  };
  auto future = client->GetAsync("k");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(refused.try_acquire_for(kHangGuard));
  client->Close();
  EXPECT_EQ(future.get().error().code(), ErrorCode::kShutdown);
}

TEST(Lifecycle, ANewConnectionForgetsTheStores) {
  Harness h;
  h.MustPut("k", RandomBytes(10, 1));
  const size_t asked = h.master.CountOf("STORES");
  ++h.master.epoch;
  EXPECT_TRUE(h.client().Get("k").ok());
  EXPECT_EQ(h.master.CountOf("STORES"), asked + 1);
}

// A restarted master knows its stores before they are back; they come under the incarnation that they had.
TEST(Lifecycle, AStoreThatWasShownWithoutAnAddressIsAskedForAgain) {
  Harness h;
  const auto value = RandomBytes(1000, 1);
  h.MustPut("k", value);
  auto client = h.MakeUnconnected();
  ASSERT_TRUE(client->Reconnect().ok());
  h.master.stores[0].address.clear();
  ASSERT_TRUE(client->Stores().ok());
  h.master.stores[0].address = "127.0.0.1:1";
  const size_t asked = h.master.CountOf("STORES");
  auto got = client->Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  ASSERT_TRUE(got->has_value());
  EXPECT_TRUE(Same((*got)->span(), value));
  EXPECT_EQ(h.master.CountOf("STORES"), asked + 1);
}

TEST(Lifecycle, FuturesComeWithTheirResults) {
  Harness h;
  std::vector<std::vector<std::byte>> values;
  std::vector<std::future<Result<PutResult>>> puts;
  for (int i = 0; i < 40; ++i) values.push_back(RandomBytes(100 + i, i));
  for (int i = 0; i < 40; ++i) puts.push_back(h.client().PutAsync("k" + std::to_string(i), values[i]));
  for (auto& put : puts) EXPECT_TRUE(put.get().ok());
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(Same((*h.client().GetAsync("k" + std::to_string(i)).get())->span(), values[i]));
  }
  std::vector<std::byte> memory(200);
  EXPECT_EQ(**h.client().GetIntoAsync("k3", memory).get(), 103u);
  EXPECT_TRUE(*h.client().ExistsAsync("k3").get());
  EXPECT_TRUE(*h.client().RemoveAsync("k3").get());
  EXPECT_FALSE(*h.client().ExistsAsync("k3").get());
}

TEST(Lifecycle, ManyThreadsShareAClient) {
  Harness h;
  (void)h.client();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        EXPECT_TRUE(h.client().Exists(key).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Lifecycle, PrefixesStatAndStores) {
  Harness h;
  for (int i = 0; i < 5; ++i) h.MustPut("k" + std::to_string(i), RandomBytes(10, i));
  const std::vector<std::string_view> keys = {"k0", "k1", "none", "k2"};
  EXPECT_EQ(*h.client().MatchPrefix(keys), 2u);
  EXPECT_EQ(*h.client().MatchPrefix({}), 0u);
  auto stats = h.client().StatBatch(keys);
  ASSERT_TRUE(stats[0]->has_value());
  EXPECT_EQ((*stats[0])->size, 10u);
  EXPECT_EQ((*stats[0])->checksum, h.master.objects["k0"].sum);
  EXPECT_EQ((*stats[0])->lease_ms, 0) << "looking takes no lease";
  EXPECT_EQ((*stats[0])->replicas.at(0).store, "s1");
  EXPECT_FALSE(stats[2]->has_value());
  auto stores = h.client().Stores();
  ASSERT_EQ(stores->size(), 1u);
  EXPECT_EQ((*stores)[0].name, "s1");
  EXPECT_EQ((*stores)[0].incarnation.value, 0x1001u);
  EXPECT_THAT(*h.client().Command(std::vector<std::string_view>{"PING"}), testing::HasSubstr("PONG"));
  EXPECT_EQ(h.client().Command(std::vector<std::string_view>{"NONSENSE"}).error().code(), ErrorCode::kUnknownCommand);
}

TEST(Lifecycle, RemoveIsNotSentTwice) {
  Harness h;
  h.MustPut("k", RandomBytes(10, 1));
  h.master.intercept = [&](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
    if (args[0] == "DEL") return Error(ErrorCode::kUnreachable, "the connection broke");
    return std::nullopt;
  };
  EXPECT_EQ(h.client().Remove("k").error().code(), ErrorCode::kUnreachable);
  EXPECT_EQ(h.master.CountOf("DEL"), 1u);
}

// ---- views

// A socket to look at: what lies at its path decides whether a store may be on this host.
class SocketFile {
 public:
  SocketFile() : path_(testing::TempDir() + "tiercel-view-" + std::to_string(getpid())) {
    unlink(path_.c_str());
    fd_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~SocketFile() {
    close(fd_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

TEST(View, PinsVerifiesAndLetsGo) {
  SocketFile socket;
  for (uint64_t extent : {uint64_t{0}, uint64_t{64} * 9999}) {
    Harness h;
    h.master.stores[0].host = "boot/here";
    h.master.stores[0].socket = socket.path();
    h.master.extent_bytes = extent;
    const auto value = RandomBytes(3 * kBlockBytes + 7, 5);
    h.MustPut("k", value);
    auto view = h.client().View("k");
    ASSERT_TRUE(view.ok()) << view.error().ToString();
    ASSERT_NE(*view, nullptr);
    std::vector<std::byte> bytes;
    for (auto piece : (*view)->pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
    EXPECT_TRUE(Same(bytes, value));
    EXPECT_EQ((*view)->size(), value.size());
    EXPECT_EQ((*view)->version(), h.master.objects["k"].version);
    EXPECT_TRUE((*view)->alive());
    EXPECT_GT(h.engine->live_views, 0u);
    h.client().Close();
    view->reset();
    EXPECT_EQ(h.engine->live_views, 0u);
  }
}

TEST(View, DamagedBytesAreNoView) {
  SocketFile socket;
  Harness h;
  h.master.stores[0].host = "boot/here";
  h.master.stores[0].socket = socket.path();
  h.MustPut("k", RandomBytes(100, 5));
  h.MustPut("empty", {});
  h.master.BytesOf(h.master.objects["k"], 0)[5] ^= std::byte{1};
  EXPECT_EQ(h.client().View("k").error().code(), ErrorCode::kChecksum);
  EXPECT_EQ(h.engine->live_views, 0u);
  EXPECT_TRUE((*h.client().View("empty"))->pieces().empty());
  EXPECT_EQ(h.client().View("k", {.transport = TransportChoice::kTcp}).error().code(), ErrorCode::kNoDevice);
}

TEST(View, OfAnotherHostIsNoDevice) {
  Harness h;
  h.MustPut("k", RandomBytes(100, 5));
  auto view = h.client().View("k");
  EXPECT_EQ(view.error().code(), ErrorCode::kNoDevice);
  EXPECT_TRUE(h.master.reports.empty());
  EXPECT_EQ(h.engine->views, 0u);
}

}  // namespace
}  // namespace tiercel::test
