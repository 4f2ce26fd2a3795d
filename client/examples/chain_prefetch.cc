// The way of an inference engine: blocks of a prompt form a chain, each named by what came before it. Ask how
// many leading blocks are there, fetch those in the background while the rest is computed, store the rest.
//
//   chain_prefetch [HOST:PORT]
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "tiercel/client.h"

namespace {

constexpr size_t kBlockBytes = 256 << 10;

// Stands for the work that the cache saves.
std::vector<std::byte> Compute(size_t block) { return std::vector<std::byte>(kBlockBytes, std::byte(block + 1)); }

// Serves one prompt of `blocks` blocks; the number of blocks that came from the cache, -1 when something failed.
int Serve(tiercel::Client& client, size_t blocks) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < blocks; ++i) keys.push_back("example/chain/" + std::to_string(i));
  const std::vector<std::string_view> names(keys.begin(), keys.end());

  // Leases what it finds: nothing of it goes while it is fetched.
  auto matched = client.MatchPrefix(names);
  if (!matched.ok()) return -1;
  std::vector<std::future<tiercel::Result<std::optional<tiercel::Buffer>>>> coming;
  for (uint32_t i = 0; i < *matched; ++i) coming.push_back(client.GetAsync(keys[i]));

  for (size_t i = *matched; i < blocks; ++i) {
    const std::vector<std::byte> block = Compute(i);
    tiercel::PutOptions options;
    if (i > 0) options.parent = keys[i - 1];  // evicted before its parent, never after
    if (!client.Put(keys[i], block, options).ok()) return -1;
  }

  int hits = 0;
  for (size_t i = 0; i < coming.size(); ++i) {
    auto got = coming[i].get();
    if (!got.ok()) return -1;
    // A miss is possible (somebody removed it): then it is computed like the others.
    if (got->has_value()) hits += (*got)->span()[0] == std::byte(i + 1) ? 1 : 0;
  }
  return hits;
}

}  // namespace

int main(int argc, char** argv) {
  tiercel::ClientOptions options;
  if (argc > 1) options.master = argv[1];
  auto client = tiercel::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "cannot connect: %s\n", client.error().ToString().c_str());
    return 1;
  }
  const int first = Serve(**client, 8);
  const int second = Serve(**client, 12);
  std::printf("first prompt: %d blocks from the cache; a longer one: %d\n", first, second);
  for (int i = 0; i < 12; ++i) (void)(*client)->Remove("example/chain/" + std::to_string(i));
  return first == 0 && second == 8 ? 0 : 1;
}
