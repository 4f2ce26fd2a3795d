#include "base/siphash.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"

namespace tiercel {
namespace {

template <size_t N>
std::array<std::byte, N> Bytes(const unsigned char (&from)[N]) {
  std::array<std::byte, N> out;
  std::memcpy(out.data(), from, N);
  return out;
}

SipKey CountingKey() {
  SipKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  return key;
}

std::vector<std::byte> Counting(size_t n) {
  std::vector<std::byte> message(n);
  for (size_t i = 0; i < n; ++i) message[i] = static_cast<std::byte>(i);
  return message;
}

// The published vectors: key 00..0f, messages of 0, 1, 2, ... counting bytes.
TEST(SipHash, PublishedVectorsOf64Bits) {
  const unsigned char expected[][8] = {
      {0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72}, {0xfd, 0x67, 0xdc, 0x93, 0xc5, 0x39, 0xf8, 0x74},
      {0x5a, 0x4f, 0xa9, 0xd9, 0x09, 0x80, 0x6c, 0x0d}, {0x2d, 0x7e, 0xfb, 0xd7, 0x96, 0x66, 0x67, 0x85},
      {0xb7, 0x87, 0x71, 0x27, 0xe0, 0x94, 0x27, 0xcf}, {0x8d, 0xa6, 0x99, 0xcd, 0x64, 0x55, 0x76, 0x18},
      {0xce, 0xe3, 0xfe, 0x58, 0x6e, 0x46, 0xc9, 0xcb}, {0x37, 0xd1, 0x01, 0x8b, 0xf5, 0x00, 0x02, 0xab},
      {0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93}, {0xb0, 0xe4, 0xa9, 0x0b, 0xdf, 0x82, 0x00, 0x9e},
      {0xf3, 0xb9, 0xdd, 0x94, 0xc5, 0xbb, 0x5d, 0x7a}, {0xa7, 0xad, 0x6b, 0x22, 0x46, 0x2f, 0xb3, 0xf4},
      {0xfb, 0xe5, 0x0e, 0x86, 0xbc, 0x8f, 0x1e, 0x75}, {0x90, 0x3d, 0x84, 0xc0, 0x27, 0x56, 0xea, 0x14},
      {0xee, 0xf2, 0x7a, 0x8e, 0x90, 0xca, 0x23, 0xf7}, {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1}};
  for (size_t n = 0; n < std::size(expected); ++n) {
    uint64_t word;
    std::memcpy(&word, expected[n], sizeof(word));
    EXPECT_EQ(SipHash24(CountingKey(), Counting(n)), word) << n;
  }
}

TEST(SipHash, PublishedVectorsOf128Bits) {
  const unsigned char expected[][16] = {
      {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
      {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45},
      {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4},
      {0x9c, 0x70, 0xb6, 0x0c, 0x52, 0x67, 0xa9, 0x4e, 0x5f, 0x33, 0xb6, 0xb0, 0x29, 0x85, 0xed, 0x51}};
  for (size_t n = 0; n < std::size(expected); ++n) {
    EXPECT_EQ(SipHash24Mac(CountingKey(), Counting(n)), Bytes(expected[n])) << n;
  }
}

std::vector<std::byte> OpenSslSipHash(const SipKey& key, std::span<const std::byte> message, size_t output) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "SIPHASH", nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(mac);
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &output), OSSL_PARAM_END};
  std::vector<std::byte> result(output);
  size_t written = 0;
  EXPECT_EQ(EVP_MAC_init(context, reinterpret_cast<const unsigned char*>(key.data()), key.size(), parameters), 1);
  EXPECT_EQ(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(message.data()), message.size()), 1);
  EXPECT_EQ(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(result.data()), &written, result.size()), 1);
  EXPECT_EQ(written, output);
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  return result;
}

TEST(SipHash, AgreesWithOpenSsl) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    SipKey key;
    for (std::byte& b : key) b = static_cast<std::byte>(random.Next());
    std::vector<std::byte> message(round < 200 ? static_cast<size_t>(round) : random.Below(5000));
    for (std::byte& b : message) b = static_cast<std::byte>(random.Next());

    const uint64_t word = SipHash24(key, message);
    const std::vector<std::byte> eight = OpenSslSipHash(key, message, 8);
    ASSERT_EQ(std::memcmp(&word, eight.data(), 8), 0) << message.size();
    const Mac128 mac = SipHash24Mac(key, message);
    const std::vector<std::byte> sixteen = OpenSslSipHash(key, message, 16);
    ASSERT_EQ(std::memcmp(mac.data(), sixteen.data(), 16), 0) << message.size();
  }
}

TEST(SipHash, ConstantTimeComparison) {
  const std::vector<std::byte> a = Counting(16);
  EXPECT_TRUE(EqualConstantTime(a, Counting(16)));
  EXPECT_TRUE(EqualConstantTime({}, {}));
  EXPECT_FALSE(EqualConstantTime(a, Counting(15)));
  for (size_t bit = 0; bit < 128; ++bit) {
    std::vector<std::byte> b = a;
    b[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(EqualConstantTime(a, b)) << bit;
  }
}

}  // namespace
}  // namespace tiercel
