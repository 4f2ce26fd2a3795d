#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

TEST(Core, PutLookupDelete) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", 1000).ok());
  const auto info = h.Look("k");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->size, 1000u);
  EXPECT_EQ(info->replicas.size(), 1u);
  EXPECT_EQ(info->lease_ms, 10'000);
  EXPECT_EQ(h.master->Size(0), 1u);
  EXPECT_TRUE(h.Delete("k"));
  EXPECT_FALSE(h.Present("k"));
  EXPECT_EQ(h.Dram().bytes.dying, 1024u);
  h.Advance(10'000);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
}

}  // namespace
}  // namespace tiercel::core
