// The smallest program that needs the whole library: no server is there, and that is a typed error.
#include <tiercel/client.h>

#include <cstdio>

int main() {
  tiercel::ClientOptions options;
  options.master = "unix:/nonexistent/tiercel.sock";
  options.connect_timeout_ms = 100;
  auto client = tiercel::Client::Connect(options);
  if (client.ok() || client.error().code() != tiercel::ErrorCode::kUnreachable) {
    std::fprintf(stderr, "unexpected: %s\n", client.ok() ? "connected" : client.error().ToString().c_str());
    return 1;
  }
  std::printf("as expected: %s\n", client.error().ToString().c_str());
  return 0;
}
