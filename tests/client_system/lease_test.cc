// O-12: transfers longer than their lease, against real servers.
#include "tests/client_system/cluster.h"

namespace tiercel::test {
namespace {

// Renewals do not get through; other look-ups do. A renewal is told by its short time: it is asked for aside.
class WithoutRenewals final : public resp::Connection {
 public:
  explicit WithoutRenewals(std::unique_ptr<resp::Connection> inner) : inner_(std::move(inner)) {}
  Result<resp::Reply> Call(std::span<const std::string_view> arguments, int64_t timeout_ms) override {
    const bool renewal = arguments[0] == "GETREPLICAS" && timeout_ms <= client::Control::kAsideMs;
    if (renewal) return resp::Reply{};
    return inner_->Call(arguments, timeout_ms);
  }
  Result<std::vector<resp::Reply>> Pipeline(std::span<const std::vector<std::string_view>> commands,
                                            int64_t timeout_ms) override {
    return inner_->Pipeline(commands, timeout_ms);
  }
  void CallAsync(std::span<const std::string_view> arguments, int64_t timeout_ms,
                 std::function<void(Result<resp::Reply>)> done) override {
    inner_->CallAsync(arguments, timeout_ms, std::move(done));
  }
  void Drive(int64_t timeout_ms) override { inner_->Drive(timeout_ms); }
  uint64_t pending() const override { return inner_->pending(); }
  bool connected() const override { return inner_->connected(); }
  uint64_t epoch() const override { return inner_->epoch(); }
  void Close() override { inner_->Close(); }

 private:
  const std::unique_ptr<resp::Connection> inner_;
};

class Leases : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(, Leases, testing::ValuesIn(kWires), WireName);

TEST_P(Leases, O12_ATransferLongerThanItsLease) {
  Cluster cluster(1, "600mb");
  const GetOptions how{.lease_ms = 1};
  const auto value = Bytes(size_t{256} << 20, 7);
  std::vector<std::byte> memory(value.size());
  ClientOptions options = cluster.Options(GetParam().choice);
  options.timeout_ms = HangGuardMs(60'000);
  auto client = cluster.Connect(options);
  ASSERT_TRUE(client->Put("k", value).ok());

  auto into = client->GetInto("k", memory, how);
  ASSERT_TRUE(into.ok()) << into.error().ToString();
  EXPECT_TRUE(std::ranges::equal(memory, value)) << "renewed";

  const auto without_renewals = [&](ReadPastLease policy) {
    options.read_past_lease = policy;
    client::Ingredients parts = client::MakeIngredients(options);
    parts.connection = std::make_unique<WithoutRenewals>(std::move(parts.connection));
    auto made = std::make_unique<client::ClientImpl>(options, std::move(parts));
    EXPECT_TRUE(made->Reconnect().ok());
    return made;
  };
  std::ranges::fill(memory, std::byte{0});
  into = without_renewals(ReadPastLease::kVerify)->GetInto("k", memory, how);
  ASSERT_TRUE(into.ok()) << into.error().ToString();
  EXPECT_TRUE(std::ranges::equal(memory, value)) << "the checksums decide";

  into = without_renewals(ReadPastLease::kDiscard)->GetInto("k", memory, how);
  ASSERT_FALSE(into.ok());
  EXPECT_EQ(into.error().code(), ErrorCode::kLeaseExpired) << into.error().ToString();

  EXPECT_TRUE(*client->Remove("k"));
}

TEST(LeasesOfViews, O12_AViewStaysRightUntilItIsLetGo) {
  Cluster cluster(1, "64mb");
  auto client = cluster.Connect();
  const auto value = Bytes(4 << 20, 7);
  ASSERT_TRUE(client->Put("k", value).ok());
  auto view = client->View("k", {.lease_ms = 1});
  ASSERT_TRUE(view.ok()) << view.error().ToString();
  ASSERT_NE(*view, nullptr);
  EXPECT_TRUE(*client->Remove("k"));
  // Everything else is put where it may be, many times over: the pinned bytes are not.
  for (int i = 0; i < 200; ++i) {
    auto put = client->Put("f" + std::to_string(i), Bytes(1 << 20, i));
    ASSERT_TRUE(put.ok() || put.error().code() == ErrorCode::kNoSpace) << put.error().ToString();
  }
  std::vector<std::byte> seen;
  for (auto piece : (*view)->pieces()) seen.insert(seen.end(), piece.begin(), piece.end());
  EXPECT_TRUE(std::ranges::equal(seen, value));
  EXPECT_TRUE((*view)->alive());
}

}  // namespace
}  // namespace tiercel::test
