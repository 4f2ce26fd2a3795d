// A RESP server that does what a test tells it: each accepted connection is handed to a script in the server's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "protocol/resp/decoder.h"

namespace tiercel::resp {

using Command = std::vector<std::string>;

// The server's end of one connection. Blocks; nothing in it fails the test by itself.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  // nullopt when the client has closed (or sent nonsense).
  std::optional<Command> Read();
  // Reads one command and checks its name; false when it is another or none.
  bool Expect(std::string_view name);
  bool Write(std::string_view bytes);
  // Each byte in a segment of its own.
  bool WriteByByte(std::string_view bytes);
  // Answers HELLO as a RESP3 server does.
  bool Greet();
  void Close() { fd_.Reset(); }
  int fd() const { return fd_.get(); }

 private:
  bool Fill();

  UniqueFd fd_;
  Decoder decoder_{DecoderLimits{.direct_bytes = uint64_t{1} << 40}};
  std::string buffer_;
  size_t used_ = 0;
};

inline constexpr std::string_view kHelloReply =
    "%7\r\n$6\r\nserver\r\n$7\r\ntiercel\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n"
    "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

std::string BulkOf(std::string_view bytes);

class ScriptedServer {
 public:
  enum class Where { kV4, kV6, kUnix };
  // The script gets the connection and its number, from 0. The server takes one connection after the other until it
  // is destroyed; a script that waits for its client is ended by the client's or the server's end.
  using Script = std::function<void(Peer&, int)>;
  explicit ScriptedServer(Script script, Where where = Where::kV4, std::string path = UnusedPath());
  ~ScriptedServer();

  uint16_t port() const { return port_; }
  const std::string& path() const { return path_; }
  static std::string UnusedPath();

 private:
  void Serve(const Script& script);

  UniqueFd listener_;
  UniqueFd stop_;
  uint16_t port_ = 0;
  std::string path_;
  std::thread thread_;
};

// Answers HELLO, ECHO (its argument), PING, SET (OK) and GET (what SET kept) until the client closes.
void ServeAsRedis(Peer& peer, int number);

}  // namespace tiercel::resp
