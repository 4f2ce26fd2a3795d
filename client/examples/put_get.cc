// Stores a value, reads it back, and tells a miss from an empty value and from an error.
//
//   put_get [HOST:PORT]
#include <cstdio>
#include <string>

#include "tiercel/client.h"

int main(int argc, char** argv) {
  tiercel::ClientOptions options;
  if (argc > 1) options.master = argv[1];
  auto client = tiercel::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "cannot connect: %s\n", client.error().ToString().c_str());
    return 1;
  }

  // A value is immutable: putting the same bytes again is fine, putting others is refused.
  for (const char* value : {"hello", "hello", "other"}) {
    auto put = (*client)->Put("example/greeting", value);
    if (!put.ok()) {
      std::printf("put \"%s\": refused: %s\n", value, put.error().ToString().c_str());
    } else {
      const bool stored = put->outcome == tiercel::PutOutcome::kStored;
      std::printf("put \"%s\": %s\n", value, stored ? "stored" : "already there");
    }
  }

  // Replacing is asked for; readers of the old version keep their bytes.
  tiercel::PutOptions replace;
  replace.replace = true;
  replace.ttl_ms = 60'000;
  if (auto put = (*client)->Put("example/greeting", "other", replace); !put.ok()) {
    std::fprintf(stderr, "replace: %s\n", put.error().ToString().c_str());
    return 1;
  }

  for (const char* key : {"example/greeting", "example/nothing"}) {
    auto got = (*client)->Get(key);
    if (!got.ok()) {
      std::fprintf(stderr, "get %s: %s\n", key, got.error().ToString().c_str());
      return 1;
    }
    std::printf("get %s: %s\n", key, got->has_value() ? std::string((*got)->view()).c_str() : "a miss");
  }

  auto removed = (*client)->Remove("example/greeting");
  std::printf("removed: %s\n", removed.ok() && *removed ? "yes" : "no");
  return 0;
}
