// Values in the index: what is written is read, what is not is refused.
#include "server/index/record_codec.h"

#include <gtest/gtest.h>

#include "server/index/bytes.h"
#include "tests/index/history.h"

namespace tiercel::index {
namespace {

using core::Record;
using Kind = Record::Kind;

struct Entry {
  std::string key, value;
};

Entry Encode(const Record& record) {
  Entry entry;
  if (record.kind == Kind::kPut) {
    AppendObjectKey(record.version, &entry.key);
    AppendObjectValue(entry.key, record, &entry.value);
  } else {
    AppendMetaKey(record, &entry.key);
    AppendMetaValue(entry.key, record, &entry.value);
  }
  return entry;
}

DecodeFault Decode(const Entry& entry, Record* record) {
  // Copies of exactly this size, so that a sanitizer sees a read behind the end.
  const std::vector<char> key(entry.key.begin(), entry.key.end()), value(entry.value.begin(), entry.value.end());
  const std::string_view k(key.data(), key.size()), v(value.data(), value.size());
  return key.size() == 8 ? DecodeObject(k, v, record) : DecodeMeta(k, v, record);
}

TEST(RecordCodec, WhatHistoriesWriteIsReadBack) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  History history(seed);
  Record read;  // reused, as the scan does: nothing of the former may stay
  for (int i = 0; i < 300; ++i) {
    for (const Record& record : history.Next()) {
      if (record.kind == Kind::kDelete || record.gone) continue;
      const Entry entry = Encode(record);
      ASSERT_EQ(Decode(entry, &read), DecodeFault::kNone);
      Record expected = record;
      ASSERT_EQ(Text(read), Text(expected));
      ASSERT_EQ(read.key, record.key);
      ASSERT_EQ(Encode(read).value, entry.value);
    }
  }
}

TEST(RecordCodec, TheLargestRecordFits) {
  Record record;
  record.version = {UINT64_MAX};
  record.name_space = UINT32_MAX;
  record.key = std::string(kMaxKeyBytes, '\xff');
  record.size = kMaxValueBytes;
  record.sum = record.parent_hash = record.number = UINT64_MAX;
  record.flags = UINT32_MAX;
  record.expire_at_ms = INT64_MIN;
  record.soft_pin_until_ms = INT64_MAX;
  for (uint32_t i = 0; i < kMaxReplicas; ++i) {
    core::ReplicaInfo& replica = record.replicas.emplace_back();
    replica.store = UINT32_MAX;
    replica.place = {UINT32_MAX, UINT32_MAX};
    uint64_t left = StoredBytes(record.size);
    for (uint32_t e = 1; e < kMaxExtents; ++e, left -= 4096) replica.extents.push_back({(uint64_t{1} << 44) - 1, 4096});
    replica.extents.push_back({0, left});
  }
  const Entry entry = Encode(record);
  EXPECT_LE(entry.value.size(), kMaxValueEncodedBytes);
  Record read;
  ASSERT_EQ(Decode(entry, &read), DecodeFault::kNone);
  EXPECT_EQ(Text(read), Text(record));
}

TEST(RecordCodec, EveryFlippedBitAndEveryCutIsSeen) {
  Random random(7);
  for (const Record& record : {MakePut(77, "some key", &random), MakePut(78, "another", &random)}) {
    const Entry entry = Encode(record);
    Record read;
    for (size_t bit = 0; bit < entry.value.size() * 8; ++bit) {
      Entry damaged = entry;
      damaged.value[bit / 8] = static_cast<char>(damaged.value[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(Decode(damaged, &read), DecodeFault::kChecksum) << bit;
    }
    for (size_t length = 0; length < entry.value.size(); ++length) {
      EXPECT_EQ(Decode({entry.key, entry.value.substr(0, length)}, &read), DecodeFault::kChecksum) << length;
    }
  }
}

TEST(RecordCodec, AValueUnderAnotherKeyIsRefused) {
  Random random(8);
  const Entry one = Encode(MakePut(1, "one", &random)), two = Encode(MakePut(2, "two", &random));
  Record read;
  EXPECT_EQ(Decode({two.key, one.value}, &read), DecodeFault::kChecksum);
}

// A body with a right checksum, as a program with a fault, or another one, might have written it.
Entry Sealed(const std::string& key, const std::string& body) {
  // The seal of an intact value is over the body alone: find it by sealing through the encoder's own format value.
  Entry entry{key, body};
  const uint64_t seed = HashBytes(std::as_bytes(std::span(key)));
  const uint64_t sum = HashBytes(std::as_bytes(std::span(body))) ^ seed;
  AppendFixed32(static_cast<uint32_t>(sum ^ (sum >> 32)), &entry.value);
  return entry;
}

TEST(RecordCodec, IntactButImpossibleIsMalformed) {
  Random random(9);
  Record record;
  record.version = {5};
  record.key = "k";
  record.size = 100;
  record.sum = 7;
  record.replicas.emplace_back().extents.push_back({64, 100});
  const Entry good = Encode(record);
  const std::string body = good.value.substr(0, good.value.size() - 4);
  Record read;
  ASSERT_EQ(Decode(Sealed(good.key, body), &read), DecodeFault::kNone);
  const auto with = [&](size_t at, char byte) {
    std::string changed = body;
    changed.at(at) = byte;
    return Sealed(good.key, changed);
  };
  // fields, namespace, key length, key, size, sum (8), flags, replicas, tier, store, segment, epoch, extents, ...
  EXPECT_EQ(Decode(with(0, '\x10'), &read), DecodeFault::kMalformed) << "a field of the future";
  EXPECT_EQ(Decode(with(0, '\x01'), &read), DecodeFault::kMalformed) << "a field that is missing";
  EXPECT_EQ(Decode(with(2, '\0'), &read), DecodeFault::kMalformed) << "no key";
  EXPECT_EQ(Decode(with(4, '\x63'), &read), DecodeFault::kMalformed) << "extents of another size";
  EXPECT_EQ(Decode(with(14, '\x11'), &read), DecodeFault::kMalformed) << "17 replicas";
  EXPECT_EQ(Decode(with(15, '\x03'), &read), DecodeFault::kMalformed) << "a tier of the future";
  EXPECT_EQ(Decode(Sealed(good.key, body + '\0'), &read), DecodeFault::kMalformed) << "something behind it";
  EXPECT_EQ(Decode(Sealed(std::string(8, '\0'), body), &read), DecodeFault::kMalformed) << "version 0";
  EXPECT_EQ(Decode(Sealed("\x40", body), &read), DecodeFault::kMalformed) << "a type of the future";
}

TEST(RecordCodec, VarintsHaveOneFormOnly) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 62, UINT64_MAX}) {
    std::string bytes;
    AppendVarint(value, &bytes);
    ByteReader in(bytes);
    EXPECT_EQ(in.Varint(), value);
    EXPECT_TRUE(in.at_end());
  }
  for (const std::string& bad :
       {std::string("\x80\x00", 2), std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10),
        std::string("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11), std::string("\x80")}) {
    ByteReader in(bad);
    in.Varint();
    EXPECT_FALSE(in.ok());
  }
}

TEST(RecordCodec, TheFormatNumberIsSealed) {
  EXPECT_EQ(DecodeFormat(FormatValue(1)), 1u);
  EXPECT_EQ(DecodeFormat(FormatValue(4'000'000'000u)), 4'000'000'000u);
  std::string damaged = FormatValue(1);
  damaged[0] ^= 1;
  EXPECT_EQ(DecodeFormat(damaged), std::nullopt);
  EXPECT_EQ(DecodeFormat(""), std::nullopt);
}

}  // namespace
}  // namespace tiercel::index
