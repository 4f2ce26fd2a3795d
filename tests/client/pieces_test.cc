#include "client/pieces.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace tiercel::client {
namespace {

using Piece = std::tuple<uint64_t, uint64_t, uint64_t>;

std::vector<Piece> PiecesOf(const std::vector<Extent>& extents, uint64_t offset, uint64_t length) {
  std::vector<Piece> pieces;
  ForEachPiece(ExtentList(std::span(extents)), offset, length,
               [&](uint64_t place, uint64_t object, uint64_t bytes) { pieces.emplace_back(place, object, bytes); });
  return pieces;
}

TEST(Pieces, OneExtentIsOnePiece) {
  EXPECT_EQ(PiecesOf({{4096, 10'000'000}}, 0, 10'000'000), (std::vector<Piece>{{4096, 0, 10'000'000}}));
  EXPECT_EQ(PiecesOf({{4096, 100}}, 40, 60), (std::vector<Piece>{{4136, 40, 60}}));
  EXPECT_TRUE(PiecesOf({{4096, 100}}, 40, 0).empty());
}

TEST(Pieces, APieceThatBeginsInsideABlockEndsAtItsBorder) {
  EXPECT_EQ(PiecesOf({{0, 4 * kBlockBytes}}, 100, 2 * kBlockBytes),
            (std::vector<Piece>{{100, 100, kBlockBytes - 100}, {kBlockBytes, kBlockBytes, kBlockBytes + 100}}));
}

TEST(Pieces, ExtentsAreLaidEndToEnd) {
  const uint64_t half = kBlockBytes / 2;
  EXPECT_EQ(PiecesOf({{1000 * kBlockBytes, half}, {7 * kBlockBytes, 2 * kBlockBytes}}, 0, half + 2 * kBlockBytes),
            (std::vector<Piece>{{1000 * kBlockBytes, 0, half},
                                {7 * kBlockBytes, half, half},
                                {7 * kBlockBytes + half, kBlockBytes, kBlockBytes + half}}));
}

}  // namespace
}  // namespace tiercel::client
