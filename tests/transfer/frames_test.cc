// The codec: what is written is read back, and nothing else is.
#include "transfer/frames.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/checksum.h"
#include "base/random.h"
#include "transfer/region_table.h"
#include "transfer/slicing.h"

namespace tiercel::transfer {
namespace {

Grant SomeGrant(uint32_t extents) {
  Grant g;
  g.key_id = 0x01020304;
  g.right = Right::kWrite;
  g.user = 0x1122334455667788;
  g.version = {77};
  g.store = {88};
  g.place = {5, 6};
  g.expiry_ms = -9;
  for (size_t i = 0; i < g.mac.size(); ++i) g.mac[i] = static_cast<std::byte>(i);
  for (uint64_t i = 0; i < extents; ++i) g.extents.push_back({i * 4096, 64 + i});
  return g;
}

std::span<const std::byte> Body(const FrameBytes& frame) { return std::span(frame).subspan(kHeaderBytes); }

TEST(Frames, RequestsComeBackAsTheyWent) {
  for (const uint32_t extents : {0U, 1U, 2U, kMaxExtents}) {
    const Grant g = SomeGrant(extents);
    FrameBytes out;
    AppendRequest(FrameType::kWrite, 3, 42, {1, 2}, 100, 200, &g, &out);
    auto header = DecodeHeader(std::span(out).first(kHeaderBytes));
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->type, FrameType::kWrite);
    EXPECT_EQ(header->flags, 3);
    EXPECT_EQ(header->id, 42U);
    EXPECT_EQ(header->payload_bytes, 200U);
    EXPECT_EQ(header->body_bytes, out.size() - kHeaderBytes);
    EXPECT_TRUE(BodyIsIntact(*header, Body(out)));
    auto request = DecodeRequest(Body(out));
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->place, (SegmentRef{1, 2}));
    EXPECT_EQ(request->offset, 100U);
    EXPECT_EQ(request->length, 200U);
    EXPECT_EQ(request->grant.key_id, g.key_id);
    EXPECT_EQ(request->grant.right, g.right);
    EXPECT_EQ(request->grant.user, g.user);
    EXPECT_EQ(request->grant.version, g.version);
    EXPECT_EQ(request->grant.store, g.store);
    EXPECT_EQ(request->grant.place, g.place);
    EXPECT_EQ(request->grant.expiry_ms, g.expiry_ms);
    EXPECT_EQ(request->grant.mac, g.mac);
    EXPECT_EQ(request->grant.extents, g.extents);
  }
}

TEST(Frames, OthersComeBackAsTheyWent) {
  FrameBytes out;
  const Hello hello{.ticket = {.key_id = 1, .user = 2, .client = 3, .expiry_ms = 4, .mac = SomeGrant(0).mac},
                    .expected = {5}};
  AppendHello(7, hello, &out);
  auto h = DecodeHello(Body(out));
  ASSERT_TRUE(h.ok());
  EXPECT_EQ(h->ticket.mac, hello.ticket.mac);
  EXPECT_EQ(h->ticket.expiry_ms, 4);
  EXPECT_EQ(h->expected.value, 5U);
  EXPECT_EQ(DecodeHeader(std::span(out).first(kHeaderBytes))->minor, 7);

  out.clear();
  AppendHelloOk(9, {.incarnation = {6}, .minor = 1, .grant_time_ms = 123}, &out);
  EXPECT_EQ(DecodeHelloOk(Body(out))->grant_time_ms, 123);
  out.clear();
  AppendHelloOk(9, {.incarnation = {6}, .minor = 0, .grant_time_ms = 123}, &out);
  EXPECT_EQ(DecodeHelloOk(Body(out))->grant_time_ms, 0);
  EXPECT_EQ(Body(out).size(), 16U);

  const Grant g = SomeGrant(2);
  out.clear();
  AppendCopy(1, {1, 2}, 3, 4, &g, 5, 6, 7, &out);
  auto copy = DecodeCopy(Body(out));
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->map, 5U);
  EXPECT_EQ(copy->map_offset, 6U);
  EXPECT_EQ(copy->operation_offset, 7U);
  EXPECT_EQ(copy->data.grant.extents, g.extents);

  out.clear();
  AppendMap(0, {.map = 3, .size = 4}, &out);
  EXPECT_EQ(DecodeMap(Body(out))->size, 4U);
  out.clear();
  AppendUnmap(9, &out);
  EXPECT_EQ(*DecodeUnmap(Body(out)), 9U);
  out.clear();
  AppendAttach(1, {8, 9}, &out);
  EXPECT_EQ(*DecodeAttach(Body(out)), (SegmentRef{8, 9}));
  out.clear();
  AppendAttachOk(1, 99, &out);
  EXPECT_EQ(*DecodeAttachOk(Body(out)), 99U);
  out.clear();
  std::vector<uint64_t> sums = {1, 2, 3}, back;
  AppendCopyOk(1, sums, &out);
  EXPECT_TRUE(DecodeCopyOk(Body(out), &back).ok());
  EXPECT_EQ(back, sums);
}

TEST(Frames, ErrorsKeepTheirCause) {
  for (const ErrorInfo& row : kErrorTable) {
    FrameBytes out;
    AppendError(5, Error(row.code, std::string(3000, 'x') + "\r\n"), &out);
    bool well_formed = false;
    const Error error = DecodeError(Body(out), &well_formed);
    EXPECT_TRUE(well_formed);
    EXPECT_EQ(error.code(), row.code);
    EXPECT_EQ(error.message().size(), 1024U);
  }
  FrameBytes out;
  AppendError(5, Error(ErrorCode::kIo, "a\r\nb"), &out);
  bool well_formed = false;
  EXPECT_EQ(DecodeError(Body(out), &well_formed).message(), "a  b");
}

TEST(Frames, AnyFlippedBitOfAHeaderIsFound) {
  FrameBytes out;
  const Grant g = SomeGrant(1);
  AppendRequest(FrameType::kRead, 0, 42, {1, 2}, 100, 200, &g, &out);
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    FrameBytes bad = out;
    bad[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_FALSE(DecodeHeader(std::span(bad).first(kHeaderBytes)).ok()) << bit;
  }
  auto header = DecodeHeader(std::span(out).first(kHeaderBytes));
  for (size_t bit = kHeaderBytes * 8; bit < out.size() * 8; ++bit) {
    FrameBytes bad = out;
    bad[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_FALSE(BodyIsIntact(*header, Body(bad))) << bit;
  }
}

TEST(Frames, AnyBytesAreDecodedOrRefused) {
  const uint64_t seed = 99;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 20'000; ++i) {
    FrameBytes body(random.Below(300));
    for (std::byte& b : body) b = static_cast<std::byte>(random.OneIn(3) ? 0 : random.Next());
    bool well_formed = false;
    std::vector<uint64_t> sums;
    (void)DecodeHello(body);
    (void)DecodeHelloOk(body);
    (void)DecodeRequest(body);
    (void)DecodeCopy(body);
    (void)DecodeAttach(body);
    (void)DecodeAttachOk(body);
    (void)DecodeMap(body);
    (void)DecodeUnmap(body);
    (void)DecodeCopyOk(body, &sums);
    (void)DecodeError(body, &well_formed);
  }
}

TEST(Frames, LengthsThatDoNotFitAreRefused) {
  const Grant g = SomeGrant(2);
  FrameBytes out;
  AppendRequest(FrameType::kRead, 0, 42, {1, 2}, 100, 200, &g, &out);
  for (size_t n = 0; n < Body(out).size(); ++n) EXPECT_FALSE(DecodeRequest(Body(out).first(n)).ok()) << n;
  FrameBytes longer = out;
  longer.push_back(std::byte{});
  EXPECT_FALSE(DecodeRequest(Body(longer)).ok());
  FrameBytes many = out;
  many[kHeaderBytes + 30] = std::byte{0xff};  // extents
  many[kHeaderBytes + 31] = std::byte{0xff};
  EXPECT_EQ(DecodeRequest(Body(many)).error().code(), ErrorCode::kTooBig);
}

TEST(Slicing, EndsAtBlocksSeamsAndRegistrations) {
  EXPECT_EQ(SliceLength(0, 100, 64, 0, 0, UINT64_MAX), 64U);
  EXPECT_EQ(SliceLength(64, 36, 64, 0, 0, UINT64_MAX), 36U);
  EXPECT_EQ(SliceLength(10, 90, 64, 0, 0, UINT64_MAX), 54U);
  EXPECT_EQ(SliceLength(0, 100, 64, 1000, 1024, UINT64_MAX), 24U);
  EXPECT_EQ(SliceLength(0, 100, 64, 1024, 1024, UINT64_MAX), 64U);
  EXPECT_EQ(SliceLength(0, 100, 64, 0, 0, 5), 5U);
  EXPECT_EQ(SliceLength(0, 1, 64, UINT64_MAX, 1024, UINT64_MAX), 1U);
}

TEST(RegionTableTest, CoversEndToEndOnly) {
  std::vector<std::byte> memory(1000);
  RegionTable table;
  const std::span<std::byte> a = std::span(memory).first(100), b = std::span(memory).subspan(100, 100),
                             c = std::span(memory).subspan(300, 100);
  const std::vector<std::span<std::byte>> all = {b, c, a};
  auto entries = table.Reserve(all);
  ASSERT_EQ(entries.size(), 3U);
  std::vector<RegionTable::Entry*> found;
  table.Cover(memory.data(), 200, &found);
  EXPECT_TRUE(found.empty());  // not ready yet
  for (auto* entry : entries) entry->ready = true;
  table.Cover(memory.data(), 200, &found);
  EXPECT_EQ(found.size(), 2U);
  table.Cover(memory.data() + 50, 100, &found);
  EXPECT_EQ(found.size(), 2U);
  table.Cover(memory.data() + 50, 151, &found);
  EXPECT_TRUE(found.empty());
  table.Cover(memory.data() + 250, 10, &found);
  EXPECT_TRUE(found.empty());
  table.Cover(memory.data() + 399, 1, &found);
  EXPECT_EQ(found.size(), 1U);
  const std::vector<std::span<std::byte>> clash = {std::span(memory).subspan(500, 10),
                                                   std::span(memory).subspan(399, 2)};
  EXPECT_TRUE(table.Reserve(clash).empty());
  EXPECT_EQ(table.size(), 3U);
  for (auto* entry : entries) table.Remove(entry);
}

}  // namespace
}  // namespace tiercel::transfer
