#include <gtest/gtest.h>

#include "tests/transfer/test_target.h"
#include "transfer/engine.h"
#include "transfer/tcp/server.h"
#include "transfer/tcp/tcp_transport.h"
#include "transfer/transport.h"

namespace tiercel::transfer {

TEST(Smoke, Tcp) {
  TestTarget target(SystemClock::Get());
  const SegmentRef place{1, 1};
  auto seg = target.AddSegment(place, 64 << 20);
  for (size_t i = 0; i < seg.size(); ++i) seg[i] = std::byte(i * 31 >> 7);
  auto server = tcp::MakeServer({}, &target);
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  std::vector<std::unique_ptr<Transport>> t;
  t.push_back(tcp::MakeTransport());
  auto engine = Engine::Create({}, std::move(t), [&] { return Result<Ticket>(target.MakeTicket()); });
  auto peer = (*engine)->AddPeer(
      {.name = "s1", .incarnation = target.incarnation(), .data_address = (*server)->address(), .data_socket = {}});
  std::vector<std::byte> mem(32 << 20);
  for (int round = 0; round < 20; ++round) {
    std::vector<Operation> ops(1);
    ops[0].peer = peer;
    ops[0].place = place;
    ops[0].offset = 4096;
    ops[0].memory = mem;
    ops[0].registered = false;
    ops[0].grant = target.MakeGrant(Right::kRead, place, {4096, mem.size()});
    auto batch = (*engine)->Submit(ops, {});
    ASSERT_TRUE(batch.ok());
    ASSERT_TRUE((*batch)->Wait().ok());
    ASSERT_TRUE((*batch)->all_ok()) << (*batch)->result(0).message;
    ASSERT_TRUE(std::equal(mem.begin(), mem.end(), seg.begin() + 4096));
    for (auto& b : mem) b = std::byte{static_cast<unsigned char>(round)};
    ops[0].kind = OpKind::kWrite;
    ops[0].grant = target.MakeGrant(Right::kWrite, place, {4096, mem.size()});
    batch = (*engine)->Submit(ops, {});
    ASSERT_TRUE(batch.ok());
    ASSERT_TRUE((*batch)->Wait().ok());
    ASSERT_TRUE((*batch)->all_ok()) << (*batch)->result(0).message;
    ASSERT_TRUE(std::equal(mem.begin(), mem.end(), seg.begin() + 4096));
  }
}

}  // namespace tiercel::transfer
