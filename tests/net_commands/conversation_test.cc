// What only shows between sockets: dialling back, blocking for work and for space, the end of a connection.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "protocol/resp/reply.h"
#include "server/core/master.h"
#include "server/net/master_host.h"
#include "server/net/server.h"

namespace tiercel::net {
namespace {

constexpr int kHangMs = 30'000;  // a guard, not an expectation
constexpr uint64_t kMiB = uint64_t{1} << 20;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// The data port of a store, as far as a master dials it.
class DataPort {
 public:
  explicit DataPort(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket_.get(), 8), 0);
    }
    port_ = ntohs(address.sin_port);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  bool WasDialled() const {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, kHangMs) == 1;
  }

 private:
  UniqueFd socket_;
  uint16_t port_ = 0;
};

class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = Loopback(port);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  void Send(const std::vector<std::string>& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  resp::Reply Receive() {
    while (true) {
      Result<std::optional<resp::Reply>> reply = parser_.Next();
      if (!reply.ok()) break;
      if (reply->has_value()) return std::move(**reply);
      pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, kHangMs) != 1) break;
      char bytes[4096];
      const ssize_t n = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (n <= 0) break;
      parser_.Feed({bytes, static_cast<size_t>(n)});
    }
    ADD_FAILURE() << "no reply";
    return {};
  }
  resp::Reply Call(const std::vector<std::string>& words) {
    Send(words);
    return Receive();
  }
  void Close() { socket_.Reset(); }
  // Closes our side and waits until the server, which has forgotten the connection by then, has closed its own.
  void End() {
    EXPECT_EQ(::shutdown(socket_.get(), SHUT_WR), 0);
    char bytes[4096];
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    ssize_t n = 1;
    while (n > 0 && ::poll(&waiting, 1, kHangMs) == 1) n = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    EXPECT_EQ(n, 0);
  }

 private:
  UniqueFd socket_;
  resp::ReplyParser parser_;
};

// Nobody moves payload here.
class NoPayload final : public core::PayloadPort {
 public:
  const core::LocalSegment* FindLocal(Incarnation, SegmentRef) const override { return nullptr; }
  std::unique_ptr<Transfer> Read(const core::RemotePlace&, uint64_t, std::span<std::byte>, int64_t, Done) override {
    return nullptr;
  }
  std::unique_ptr<Transfer> Write(const core::RemotePlace&, uint64_t, std::span<const std::byte>, int64_t,
                                  Done) override {
    return nullptr;
  }
};

std::string Text(const resp::Reply& reply, std::string_view field) {
  const resp::Reply* value = reply.Field(field);
  return value == nullptr ? "(none) " + reply.text : value->text;
}
int64_t Number(const resp::Reply& reply, std::string_view field) {
  const resp::Reply* value = reply.Field(field);
  return value == nullptr ? -999 : value->integer;
}

class Conversation : public testing::Test {
 protected:
  Conversation()
      : master_({}, {.generation = 1, .random = 1, .grant_master_key = {}}), host_(&master_, &SystemClock::Get()) {}
  void StartServer(int64_t put_wait_ms = 0, std::string requirepass = "", std::vector<UserSpec> users = {}) {
    ServerOptions options;
    options.binds = {"127.0.0.1"};
    options.limits.put_wait_ms = put_wait_ms;
    Ports ports;
    ports.payload = &payload_;
    auto table = Users::Create(requirepass, users);
    ASSERT_TRUE(table.ok());
    auto server = Server::Create(options, ports, std::move(*table), &host_);
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
    server_->Start();
  }
  Client Connect() { return Client(server_->port()); }

  static std::vector<std::string> JoinWords(const std::string& address) {
    return {"STORE", "JOIN", "s1", "abc", "disk-1", "h1", address, "-", "0", "1", "1"};
  }
  // A store that serves one segment, and works on this connection.
  Client Serve(uint64_t size = 16 * kMiB) {
    Client store = Connect();
    EXPECT_EQ(Number(store.Call(JoinWords(data_port_.address())), "generation"), 1);
    EXPECT_EQ(store.Call({"STORE", "SEGMENT", "dram", "0", "s1-dram", "1", std::to_string(size)}).text, "OK");
    EXPECT_EQ(store.Call({"STORE", "READY", "CLOSEDBELOW", std::to_string(uint64_t{1} << 40)}).text, "OK");
    return store;
  }
  // Until one command waits.
  void AwaitWork() { host_.AwaitParked(WakeReason::kWork, 1); }
  void AwaitSpace() { host_.AwaitParked(WakeReason::kSpace, 1); }

  core::Master master_;
  MasterHost host_;
  NoPayload payload_;
  DataPort data_port_{true};
  std::unique_ptr<Server> server_;
};

TEST_F(Conversation, JoinDialsTheDataAddressBack) {
  StartServer();
  Client store = Connect();
  EXPECT_EQ(Number(store.Call(JoinWords(data_port_.address())), "generation"), 1);
  EXPECT_TRUE(data_port_.WasDialled());
}

TEST_F(Conversation, UnreachableDataAddressIsRefusedByName) {
  StartServer();
  const DataPort deaf(false);
  Client store = Connect();
  const resp::Reply reply = store.Call(JoinWords(deaf.address()));
  ASSERT_TRUE(reply.is_error());
  EXPECT_EQ(reply.text.substr(0, 12), "UNREACHABLE ");
  EXPECT_NE(reply.text.find(deaf.address()), std::string::npos) << reply.text;
  EXPECT_TRUE(Connect().Call({"STORES"}).items.empty());
  EXPECT_EQ(Number(store.Call(JoinWords(data_port_.address())), "generation"), 1) << "the connection stays usable";
}

TEST_F(Conversation, StoreCommandsNeedTheirRight) {
  UserSpec store{.name = "store", .enabled = true, .no_password = false, .passwords = {"s"}, .store_right = true};
  UserSpec client{.name = "client", .enabled = true, .no_password = false, .passwords = {"c"}, .store_right = false};
  StartServer(0, "secret", {store, client});
  Client one = Connect();
  EXPECT_EQ(one.Call({"STORE", "PING"}).text.substr(0, 6), "NOAUTH");
  EXPECT_EQ(one.Call({"AUTH", "client", "c"}).text, "OK");
  EXPECT_EQ(one.Call(JoinWords(data_port_.address())).text.substr(0, 6), "NOPERM");
  EXPECT_EQ(one.Call({"STORE", "LEAVE", "s1", "GRACE", "50"}).text.substr(0, 6), "NOPERM");  // O-34
  EXPECT_EQ(one.Call({"AUTH", "store", "s"}).text, "OK");
  EXPECT_EQ(Number(one.Call(JoinWords(data_port_.address())), "generation"), 1);
}

TEST_F(Conversation, WorkBlocksUntilThereIsSome) {
  StartServer();
  Client store = Serve();
  Client client = Connect();
  store.Send({"STORE", "WORK", "16", "60000"});
  AwaitWork();
  const std::string put = std::to_string(Number(client.Call({"PUTSTART", "k", "1000"}), "put"));
  EXPECT_EQ(client.Call({"PUTREVOKE", put}).integer, 1);
  const resp::Reply work = store.Receive();
  const resp::Reply* items = work.Field("items");
  ASSERT_NE(items, nullptr);
  ASSERT_EQ(items->items.size(), 1u);
  ASSERT_EQ(items->items[0].items.size(), 3u);
  EXPECT_EQ(items->items[0].items[1].text, "CLOSE");
  EXPECT_EQ(items->items[0].items[2].text, put);
}

TEST_F(Conversation, WorkEndsWithoutItemsWhenTheTimeIsOver) {
  StartServer();
  Client store = Serve();
  const resp::Reply work = store.Call({"STORE", "WORK", "16", "1"});
  ASSERT_NE(work.Field("items"), nullptr) << work.text;
  EXPECT_TRUE(work.Field("items")->items.empty());
  EXPECT_GT(Number(work, "time-ms"), 0);
}

TEST_F(Conversation, ReportsPassWhileTheOtherConnectionBlocks) {
  StartServer();
  Client store = Serve();
  Client reports = Connect();
  EXPECT_EQ(reports.Call({"STORE", "ATTACH", "s1", "abc"}).text, "OK");
  store.Send({"STORE", "WORK", "16", "60000"});
  AwaitWork();
  const resp::Reply done = reports.Call({"STORE", "DONE", "CLOSEDBELOW", "1", "ALIVE", "0"});
  EXPECT_EQ(done.items.size(), 2u);
  reports.Close();
  EXPECT_EQ(Text(Connect().Call({"STORES"}).items.at(0), "state"), "serving");
}

TEST_F(Conversation, EndOfTheJoinedConnectionMakesTheStoreSuspect) {
  StartServer();
  Client store = Serve();
  store.Send({"STORE", "WORK", "16", "60000"});
  AwaitWork();
  store.End();
  EXPECT_EQ(Text(Connect().Call({"STORES"}).items.at(0), "state"), "suspect");
  Client again = Serve();
  EXPECT_EQ(Text(again.Call({"STORES"}).items.at(0), "state"), "serving");
}

// What a connection says for a store it says as its user.
TEST_F(Conversation, ResetEndsWhatAStoreHadOnTheConnection) {
  StartServer();
  Client store = Serve();
  EXPECT_EQ(store.Call({"STORE", "PING"}).text, "OK");
  EXPECT_EQ(store.Call({"RESET"}).text, "RESET");
  EXPECT_EQ(store.Call({"STORE", "PING"}).text, "ERR no store has joined on this connection");
  EXPECT_EQ(store.Call({"STORE", "WORK", "16", "0"}).text, "ERR no store has joined on this connection");
  EXPECT_EQ(Text(store.Call({"STORES"}).items.at(0), "state"), "suspect");
  // It may join again on the same connection, and then its end counts as before.
  EXPECT_EQ(Number(store.Call(JoinWords(data_port_.address())), "generation"), 1);
  Client other = Connect();
  EXPECT_EQ(Text(other.Call({"STORES"}).items.at(0), "state"), "serving");
  store.End();
  EXPECT_EQ(Text(other.Call({"STORES"}).items.at(0), "state"), "suspect");
}

TEST_F(Conversation, AnotherUserDoesNotSpeakForTheStore) {
  UserSpec store{.name = "store", .enabled = true, .no_password = false, .passwords = {"s"}, .store_right = true};
  UserSpec second{.name = "second", .enabled = true, .no_password = false, .passwords = {"s"}, .store_right = true};
  UserSpec client{.name = "client", .enabled = true, .no_password = false, .passwords = {"c"}, .store_right = false};
  StartServer(0, "secret", {store, second, client});
  Client watcher = Connect();
  ASSERT_EQ(watcher.Call({"AUTH", "secret"}).text, "OK");
  const auto state = [&] { return Text(watcher.Call({"STORES"}).items.at(0), "state"); };
  const std::vector<std::vector<std::string>> logins = {
      {"AUTH", "second", "s"}, {"AUTH", "client", "c"}, {"HELLO", "2", "AUTH", "second", "s"}};
  for (const std::vector<std::string>& login : logins) {
    Client connection = Connect();
    ASSERT_EQ(connection.Call({"AUTH", "store", "s"}).text, "OK");
    ASSERT_EQ(Number(connection.Call(JoinWords(data_port_.address())), "generation"), 1);
    ASSERT_EQ(connection.Call({"STORE", "READY", "CLOSEDBELOW", std::to_string(uint64_t{1} << 40)}).text, "OK");
    // Failed logins and the same user again change nothing.
    EXPECT_EQ(connection.Call({"AUTH", "second", "wrong"}).text.substr(0, 10), "WRONGPASS ");
    EXPECT_EQ(connection.Call({"AUTH", "store", "s"}).text, "OK");
    EXPECT_EQ(connection.Call({"STORE", "PING"}).text, "OK");
    EXPECT_EQ(state(), "serving");
    EXPECT_FALSE(connection.Call(login).is_error());
    EXPECT_EQ(state(), "suspect") << login[1];
    EXPECT_TRUE(connection.Call({"STORE", "PING"}).is_error());
  }
}

TEST_F(Conversation, AttachmentsEndWithResetToo) {
  StartServer();
  Client store = Serve();
  Client reports = Connect();
  EXPECT_EQ(reports.Call({"STORE", "ATTACH", "s1", "abc"}).text, "OK");
  EXPECT_EQ(reports.Call({"STORE", "PING"}).text, "OK");
  EXPECT_EQ(reports.Call({"RESET"}).text, "RESET");
  EXPECT_TRUE(reports.Call({"STORE", "PING"}).is_error());
  EXPECT_EQ(Text(reports.Call({"STORES"}).items.at(0), "state"), "serving") << "the work connection is still there";
}

TEST_F(Conversation, PutWaitsForSpace) {
  StartServer(60'000);
  Client store = Serve(4 * kMiB);
  Client client = Connect();
  const std::string first = std::to_string(Number(client.Call({"PUTSTART", "k1", std::to_string(3 * kMiB)}), "put"));
  EXPECT_EQ(client.Call({"PUTREVOKE", first}).integer, 1);
  client.Send({"PUTSTART", "k2", std::to_string(2 * kMiB)});
  AwaitSpace();
  // The store closes the put: its bytes are free again.
  EXPECT_EQ(store.Call({"STORE", "WORK", "16", "0"}).Field("items")->items.size(), 1u);
  EXPECT_EQ(store.Call({"STORE", "DONE", "CLOSED", "1", first}).items.at(0).text, "OK");
  EXPECT_EQ(Text(client.Receive(), "outcome"), "created");
}

TEST_F(Conversation, PutDoesNotWaitForever) {
  StartServer(1);
  Client store = Serve(4 * kMiB);
  Client client = Connect();
  EXPECT_EQ(Text(client.Call({"PUTSTART", "k1", std::to_string(3 * kMiB)}), "outcome"), "created");
  EXPECT_EQ(client.Call({"PUTSTART", "k2", std::to_string(2 * kMiB)}).text.substr(0, 4), "OOM ");
}

TEST_F(Conversation, PutLargerThanAllSpaceDoesNotWait) {
  StartServer(INT64_C(3'600'000));
  Client store = Serve(4 * kMiB);
  EXPECT_EQ(Connect().Call({"PUTSTART", "k", std::to_string(5 * kMiB)}).text.substr(0, 4), "OOM ");
}

// O-40, second run: the put of a connection that has gone is taken over at once.
TEST_F(Conversation, PutOfAClosedConnectionIsTakenOver) {
  StartServer();
  Client store = Serve();
  Client writer = Connect();
  const int64_t first = Number(writer.Call({"PUTSTART", "k", "1000"}), "put");
  Client other = Connect();
  EXPECT_EQ(Text(other.Call({"PUTSTART", "k", "1000"}), "outcome"), "busy");
  writer.End();
  const resp::Reply reply = other.Call({"PUTSTART", "k", "1000"});
  EXPECT_EQ(Text(reply, "outcome"), "created");
  EXPECT_GT(Number(reply, "put"), first);
  EXPECT_EQ(other.Call({"PUTEND", std::to_string(first), "0000000000000001"}).text.substr(0, 5), "NOPUT");
}

}  // namespace
}  // namespace tiercel::net
