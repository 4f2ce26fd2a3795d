// Stores many values at once, some of them again, and reads them into memory of its own.
//
//   batch [HOST:PORT]
#include <cstdio>
#include <string>
#include <vector>

#include "tiercel/client.h"

int main(int argc, char** argv) {
  tiercel::ClientOptions options;
  if (argc > 1) options.master = argv[1];
  auto client = tiercel::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "cannot connect: %s\n", client.error().ToString().c_str());
    return 1;
  }

  constexpr int kCount = 100;
  std::vector<std::string> keys, values;
  for (int i = 0; i < kCount; ++i) {
    keys.push_back("example/batch/" + std::to_string(i));
    values.push_back(std::string(1000 * i, static_cast<char>('a' + i % 26)));
  }
  std::vector<tiercel::PutItem> items;
  for (int i = 0; i < kCount; ++i) items.push_back({keys[i], std::as_bytes(std::span(values[i]))});

  // One result per key, in order; one that fails does not fail the others.
  int stored = 0;
  for (const auto& put : (*client)->PutBatch(items)) stored += put.ok() ? 1 : 0;
  std::printf("stored %d of %d\n", stored, kCount);

  // Memory may be used again for every round; a value that does not fit is an error that names its size.
  std::vector<std::vector<std::byte>> memory(kCount, std::vector<std::byte>(100'000));
  std::vector<tiercel::GetItem> wanted;
  for (int i = 0; i < kCount; ++i) wanted.push_back({keys[i], memory[i]});
  auto sizes = (*client)->GetIntoBatch(wanted);
  int right = 0;
  for (int i = 0; i < kCount; ++i) {
    if (!sizes[i].ok() || !sizes[i]->has_value()) continue;
    const std::string_view got(reinterpret_cast<const char*>(memory[i].data()), **sizes[i]);
    right += got == values[i] ? 1 : 0;
  }
  std::printf("read %d of %d\n", right, kCount);

  std::vector<std::string_view> names(keys.begin(), keys.end());
  int removed = 0;
  for (const auto& result : (*client)->RemoveBatch(names)) removed += result.ok() && *result ? 1 : 0;
  std::printf("removed %d of %d\n", removed, kCount);
  return stored == kCount && right == kCount && removed == kCount ? 0 : 1;
}
