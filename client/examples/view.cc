// Looks at a value where it lies, in the memory of a store on the same host: no copy.
//
//   view [HOST:PORT]
#include <cstdio>
#include <cstring>

#include "tiercel/client.h"

int main(int argc, char** argv) {
  tiercel::ClientOptions options;
  if (argc > 1) options.master = argv[1];
  auto client = tiercel::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "cannot connect: %s\n", client.error().ToString().c_str());
    return 1;
  }

  // Memory from the client is shared with stores of this host: the store copies straight out of it.
  constexpr size_t kSize = 3 << 20;
  auto memory = (*client)->AllocateRegistered(kSize);
  if (!memory.ok()) {
    std::fprintf(stderr, "no memory: %s\n", memory.error().ToString().c_str());
    return 1;
  }
  std::memset((*memory)->span().data(), 7, kSize);
  tiercel::PutOptions replace;
  replace.replace = true;
  if (auto put = (*client)->Put("example/view", (*memory)->span(), replace); !put.ok()) {
    std::fprintf(stderr, "put: %s\n", put.error().ToString().c_str());
    return 1;
  }

  auto view = (*client)->View("example/view");
  if (!view.ok() && view.error().code() == tiercel::ErrorCode::kNoDevice) {
    std::printf("the value lies on another host: a copy is needed\n");
    return 0;
  }
  if (!view.ok() || *view == nullptr) {
    std::fprintf(stderr, "view: %s\n", view.ok() ? "a miss" : view.error().ToString().c_str());
    return 1;
  }

  // The bytes were verified and stay right until the view is let go, whatever happens to the key.
  auto removed = (*client)->Remove("example/view");
  uint64_t sevens = 0;
  for (auto piece : (*view)->pieces()) {
    for (std::byte byte : piece) sevens += byte == std::byte{7} ? 1 : 0;
  }
  std::printf("removed: %s; still %llu bytes of %zu in view\n", removed.ok() && *removed ? "yes" : "no",
              static_cast<unsigned long long>(sevens), kSize);
  return sevens == kSize ? 0 : 1;
}
