// A master that does as the test says: real sockets, the real codec, scripted answers.
#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "protocol/resp/decoder.h"
#include "protocol/resp/encoder.h"

namespace tiercel::node {

using Words = std::vector<std::string>;

class FakeMaster {
 public:
  // What it has been told. Guarded by the master's lock: look at it inside Wait or With.
  struct Seen {
    std::vector<Words> joins, segments, readies, attaches, items, unpinned, leaves;
    std::vector<uint64_t> closed, alive, closed_below;
    uint64_t works = 0, dones = 0;
  };
  // What it answers. Guarded likewise.
  struct Script {
    uint64_t generation = 1;
    uint64_t floor = uint64_t{1} << 40;
    int64_t time_ms = 5'000;
    int64_t ping_ms = 20;
    Words keys{"1:5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"};
    std::string refuse_join, refuse_segment, refuse_attach, refuse_done;  // error lines; empty: none
    std::string refuse_clause;                                            // for every clause of DONE
    std::deque<std::vector<Words>> work;                                  // answers of WORK, one each
    bool swallow_done = false;                                            // takes DONE and cuts the connection
  };

  FakeMaster() {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 64), 0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { AcceptLoop(); });
  }
  ~FakeMaster() {
    {
      std::lock_guard lock(mu_);
      stop_ = true;
    }
    shutdown(listener_.get(), SHUT_RDWR);
    CutConnections();
    acceptor_.join();
    for (auto& c : connections_) c->thread.join();
  }

  uint16_t port() const { return port_; }
  // One end of a socket pair; the store gets the other.
  int Adopt() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Serve(UniqueFd(ends[0]));
    return ends[1];
  }
  void CutConnections() {
    std::lock_guard lock(mu_);
    for (auto& c : connections_) {
      if (c->fd) shutdown(c->fd.get(), SHUT_RDWR);
    }
    changed_.notify_all();
  }

  template <typename F>
  auto With(F&& f) {
    std::lock_guard lock(mu_);
    struct Notify {
      std::condition_variable* cv;
      ~Notify() { cv->notify_all(); }
    } notify{&changed_};
    return f(script, seen);
  }
  // Until the condition holds; false only when a hang guard runs out.
  bool Wait(const std::function<bool(const Seen&)>& condition) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return condition(seen); });
  }
  void Order(std::vector<Words> items) {
    With([&](Script& s, Seen&) { s.work.push_back(std::move(items)); });
  }

  Script script;
  Seen seen;

 private:
  struct Connection {
    UniqueFd fd;
    std::thread thread;
    int protocol = 2;
    bool joined = false, attached = false;
  };

  void AcceptLoop() {
    while (true) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      Serve(UniqueFd(fd));
    }
  }
  void Serve(UniqueFd fd) {
    std::lock_guard lock(mu_);
    if (stop_) return;
    connections_.push_back(std::make_unique<Connection>());
    Connection* c = connections_.back().get();
    c->fd = std::move(fd);
    c->thread = std::thread([this, c, raw = c->fd.get()] { ConnectionLoop(c, raw); });
  }

  void ConnectionLoop(Connection* c, int fd) {
    resp::Decoder decoder(resp::DecoderLimits{.direct_bytes = UINT64_MAX});
    std::string buffer;
    char chunk[65536];
    bool alive = true;
    while (alive) {
      while (alive) {
        const auto step = decoder.Next(buffer);
        if (step.event == resp::Decoder::Event::kCommand) {
          Words command;
          for (auto word : decoder.arguments()) command.emplace_back(word);
          std::string out;
          alive = Answer(c, command, &out);
          for (size_t at = 0; at < out.size();) {
            const ssize_t n = send(fd, out.data() + at, out.size() - at, MSG_NOSIGNAL);
            if (n <= 0) break;
            at += static_cast<size_t>(n);
          }
        }
        buffer.erase(0, step.consumed);
        if (step.event != resp::Decoder::Event::kCommand) {
          EXPECT_EQ(static_cast<int>(step.event), static_cast<int>(resp::Decoder::Event::kNeedMore));
          break;
        }
      }
      if (!alive) break;
      const ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
      if (n <= 0) break;
      buffer.append(chunk, static_cast<size_t>(n));
    }
    std::lock_guard lock(mu_);
    c->fd.Reset();
  }

  // False: the connection is cut.
  bool Answer(Connection* c, const Words& command, std::string* out) {
    std::unique_lock lock(mu_);
    struct Notify {
      std::condition_variable* cv;
      ~Notify() { cv->notify_all(); }
    } notify{&changed_};
    resp::Encoder e(out, c->protocol);
    const std::string verb = command[0];
    if (verb == "HELLO") {
      c->protocol = command.size() > 1 ? std::stoi(command[1]) : 2;
      resp::Encoder hello(out, c->protocol);
      hello.Map(2);
      hello.Bulk("server"), hello.Bulk("fake");
      hello.Bulk("proto"), hello.Integer(c->protocol);
      return true;
    }
    if (verb != "STORE") {
      e.Simple("OK");
      return true;
    }
    const std::string& what = command.at(1);
    if (what == "JOIN") return Join(c, command, &e);
    if (what == "ATTACH" && script.refuse_attach.empty()) c->attached = true;
    if (what != "ATTACH" && !c->joined && !c->attached) {
      e.ErrorLine("ERR no store has joined on this connection");
      return true;
    }
    if (what == "SEGMENT") {
      seen.segments.push_back(command);
      script.refuse_segment.empty() ? e.Simple("OK") : e.ErrorLine(script.refuse_segment);
    } else if (what == "READY") {
      seen.readies.push_back(command);
      e.Simple("OK");
    } else if (what == "ATTACH") {
      seen.attaches.push_back(command);
      script.refuse_attach.empty() ? e.Simple("OK") : e.ErrorLine(script.refuse_attach);
    } else if (what == "WORK") {
      return Work(command, &lock, &e);
    } else if (what == "DONE") {
      return Done(command, &e);
    } else if (what == "LEAVE") {
      seen.leaves.push_back(command);
      e.Simple("OK");
    } else {
      ADD_FAILURE() << "unknown command " << what;
    }
    return true;
  }

  bool Join(Connection* c, const Words& command, resp::Encoder* e) {
    seen.joins.push_back(command);
    // As the real one: orders that were lost with a connection come again.
    std::erase_if(handed_out_, [&](const Words& item) {
      return std::all_of(item.begin() + 2, item.end(), [&](const std::string& put) {
        return put.find_first_not_of("0123456789") != std::string::npos ||
               std::count(seen.closed.begin(), seen.closed.end(), std::stoull(put)) > 0;
      });
    });
    if (!handed_out_.empty()) script.work.push_front(std::exchange(handed_out_, {}));
    if (!script.refuse_join.empty()) {
      e->ErrorLine(script.refuse_join);
      return true;
    }
    c->joined = true;
    e->Map(7);
    e->Bulk("slot"), e->Integer(3);
    e->Bulk("generation"), e->Integer(static_cast<int64_t>(script.generation));
    for (const char* name : {"keys", "ticket-keys"}) {
      e->Bulk(name);
      e->Array(script.keys.size());
      for (const auto& key : script.keys) e->Bulk(key);
    }
    e->Bulk("floor"), e->Integer(static_cast<int64_t>(script.floor));
    e->Bulk("time-ms"), e->Integer(script.time_ms);
    e->Bulk("ping-ms"), e->Integer(script.ping_ms);
    return true;
  }

  bool Work(const Words& command, std::unique_lock<std::mutex>* lock, resp::Encoder* e) {
    ++seen.works;
    changed_.notify_all();
    changed_.wait_for(*lock, std::chrono::milliseconds(std::stoll(command.at(3))),
                      [&] { return stop_ || !script.work.empty(); });
    if (stop_) return false;
    if (script.work.empty()) {
      e->Null();
      return true;
    }
    const std::vector<Words> items = std::move(script.work.front());
    script.work.pop_front();
    e->Map(3);
    e->Bulk("floor"), e->Integer(static_cast<int64_t>(script.floor));
    e->Bulk("time-ms"), e->Integer(script.time_ms);
    e->Bulk("items");
    e->Array(items.size());
    for (const Words& item : items) {
      if (item[1] == "CLOSE") handed_out_.push_back(item);
      e->Array(item.size());
      for (const std::string& word : item) e->Bulk(word);
    }
    return true;
  }

  bool Done(const Words& command, resp::Encoder* e) {
    ++seen.dones;
    if (script.swallow_done && command.size() > 2) {
      script.swallow_done = false;
      return false;
    }
    if (!script.refuse_done.empty()) {
      e->ErrorLine(script.refuse_done);
      return true;
    }
    size_t clauses = 0;
    for (size_t i = 2; i < command.size(); ++clauses) {
      const std::string& word = command[i++];
      if (word == "ITEM") {
        seen.items.push_back({command.begin() + static_cast<long>(i), command.begin() + static_cast<long>(i) + 4});
        i += 4;
      } else if (word == "CLOSED" || word == "ALIVE") {
        const size_t n = std::stoul(command[i++]);
        for (size_t k = 0; k < n; ++k)
          (word == "CLOSED" ? seen.closed : seen.alive).push_back(std::stoull(command[i++]));
      } else if (word == "CLOSEDBELOW") {
        seen.closed_below.push_back(std::stoull(command[i++]));
      } else if (word == "UNPINNED") {
        seen.unpinned.push_back({command[i], command[i + 1]});
        i += 2;
      } else {
        ADD_FAILURE() << "unknown clause " << word;
        return false;
      }
    }
    e->Array(clauses);
    for (size_t k = 0; k < clauses; ++k) {
      script.refuse_clause.empty() ? e->Simple("OK") : e->ErrorLine(script.refuse_clause);
    }
    return true;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<Words> handed_out_;  // CLOSE orders
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::thread acceptor_;
  std::list<std::unique_ptr<Connection>> connections_;
};

}  // namespace tiercel::node
