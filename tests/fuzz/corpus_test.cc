// Runs a fuzz target over its corpus, and over each file cut short and damaged, without a fuzzer: what a fuzzer found
// once is tested everywhere and for good.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tiercel {
namespace {

void RunOne(const std::string& bytes) {
  // A copy of exactly this size, so that AddressSanitizer sees a read behind its end.
  const std::vector<uint8_t> input(bytes.begin(), bytes.end());
  EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
}

#define TIERCEL_SUITE_(name) Corpus_##name
#define TIERCEL_SUITE(name) TIERCEL_SUITE_(name)

TEST(TIERCEL_SUITE(TIERCEL_CORPUS_NAME), EveryFileAndDamagedCopies) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TIERCEL_CORPUS)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    ASSERT_TRUE(file.good());
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ++files;
    RunOne(bytes);
    for (int round = 0; round < 200 && !bytes.empty(); ++round) {
      std::string damaged = bytes.substr(0, random.OneIn(4) ? random.Below(bytes.size() + 1) : bytes.size());
      for (uint64_t hits = random.Below(4); hits > 0 && !damaged.empty(); --hits) {
        damaged[random.Below(damaged.size())] = static_cast<char>(random.Next());
      }
      RunOne(damaged);
    }
  }
  RunOne("");
  EXPECT_GT(files, 0) << "no corpus in " << TIERCEL_CORPUS;
}

}  // namespace
}  // namespace tiercel
