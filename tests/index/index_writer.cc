// Child of the crash test: goes on with History(SEED) where the index in DIR left off, and says after each batch how
// many there are now. Ends only by being killed.
//   tiercel-index-writer DIR GENERATION-FILE no|everysec|always SEED
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "tests/index/history.h"

using namespace tiercel;         // NOLINT
using namespace tiercel::index;  // NOLINT

int main(int argc, char** argv) {
  TIERCEL_CHECK(argc == 5);
  IndexOptions options{.dir = argv[1], .generation_file = argv[2], .reserve_bytes = 0, .sync_every_ms = 5};
  options.fsync = std::strcmp(argv[3], "no") == 0       ? Fsync::kNo
                  : std::strcmp(argv[3], "always") == 0 ? Fsync::kAlways
                                                        : Fsync::kEverySec;
  options.write_buffer_bytes = 64 * 1024;  // so that flushes and compactions are under way too
  options.table_bytes = 32 * 1024;
  auto index = RocksIndex::Open(options);
  TIERCEL_CHECK(index.ok());
  const auto generation = (*index)->RaiseGeneration();
  TIERCEL_CHECK(generation.ok());
  const auto loaded = LoadAll(index->get());
  TIERCEL_CHECK(loaded.ok());
  History history(std::strtoull(argv[4], nullptr, 10));
  while (history.batches() < loaded->batches) history.Next();
  const auto say = [](const std::string& line) {
    if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(3);
  };
  say("generation " + std::to_string(*generation) + "\n");
  for (;;) {
    TIERCEL_CHECK((*index)->Write(history.Next()).ok());
    say(std::to_string(history.batches()) + "\n");
  }
}
