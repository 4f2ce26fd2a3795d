// A client over a fake master and a fake engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/client_impl.h"
#include "tests/client/fake_engine.h"
#include "tests/client/fake_master.h"

namespace tiercel::test {

inline std::vector<std::byte> RandomBytes(size_t size, uint64_t seed) {
  tiercel::Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

struct Harness {
  explicit Harness(ClientOptions the_options = {}, size_t store_bytes = 64 << 20) : options(the_options) {
    options.timeout_ms = std::min<int64_t>(options.timeout_ms, 20'000);
    master.AddStore("s1", store_bytes);
  }
  // Connects on first use.
  Client& client() {
    if (client_ == nullptr) {
      client_ = MakeUnconnected();
      EXPECT_TRUE(client_->Reconnect().ok());
    }
    return *client_;
  }
  std::unique_ptr<Client> MakeUnconnected() {
    return std::make_unique<tiercel::client::ClientImpl>(
        options, tiercel::client::Ingredients{
                     .connection = master.Connect(),
                     .make_engine = [this](auto) { return Result<std::shared_ptr<transfer::Engine>>(engine); },
                     .host_id = "boot/here",
                     .clock = &clock,
                     .step_bytes = step_bytes});
  }
  void MustPut(const std::string& key, std::span<const std::byte> value, const PutOptions& how = {}) {
    auto put = client().Put(key, value, how);
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    ASSERT_EQ(put->outcome, PutOutcome::kStored);
  }

  ClientOptions options;
  uint64_t step_bytes = 0;
  ManualClock clock;
  std::shared_ptr<FakeEngine> engine = std::make_shared<FakeEngine>();
  FakeMaster master{engine.get(), &clock};

 private:
  std::unique_ptr<Client> client_;
};

inline bool Same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

}  // namespace tiercel::test
