#include "protocol/resp/conn/request.h"

#include <gtest/gtest.h>

#include <array>

#include "base/random.h"

namespace tiercel::resp {
namespace {

// What leaves when the socket takes as much of each gathered write as `taken` says.
std::string SendAll(Request* request, const auto& taken) {
  std::string sent;
  while (request->left_bytes() > 0) {
    std::array<iovec, 3> pieces;
    const size_t used = request->Fill(pieces);
    std::string gathered;
    for (size_t i = 0; i < used; ++i) gathered.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    EXPECT_GT(gathered.size(), 0u);
    const size_t bytes = std::min(gathered.size(), taken());
    request->Advance(bytes);
    sent += gathered.substr(0, bytes);
  }
  EXPECT_EQ(request->sent_bytes(), request->total_bytes());
  EXPECT_EQ(sent.size(), request->total_bytes());
  return sent;
}

TEST(Request, SendsTheSameHoweverTheSocketTakesIt) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<std::string>> commands(1 + random.Below(4));
    std::string expected;
    Request by_reference, copied;
    for (auto& command : commands) {
      command.resize(1 + random.Below(4));
      expected += "*" + std::to_string(command.size()) + "\r\n";
      for (std::string& argument : command) {
        argument.assign(random.OneIn(3) ? random.Below(40'000) : random.Below(20), static_cast<char>(random.Next()));
        expected += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
      }
      const std::vector<std::string_view> views(command.begin(), command.end());
      by_reference.Add(views, false);
      copied.Add(views, true);
    }
    EXPECT_EQ(SendAll(&by_reference, [&] { return size_t{1} + random.Below(random.OneIn(2) ? 10'000 : 100'000); }),
              expected);
    EXPECT_EQ(SendAll(&copied, [&] { return size_t{1} << 30; }), expected);
  }
}

TEST(Request, LargeArgumentsAreNotCopied) {
  const std::string large(100'000, 'x');
  const std::array<std::string_view, 3> command = {"SET", "k", large};
  Request request;
  request.Add(command, false);
  std::array<iovec, 8> pieces;
  ASSERT_EQ(request.Fill(pieces), 3u);
  EXPECT_EQ(pieces[1].iov_base, large.data());
  EXPECT_EQ(pieces[1].iov_len, large.size());
}

}  // namespace
}  // namespace tiercel::resp
