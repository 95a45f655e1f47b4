//===- ChunksTest.cpp - which part of a dimension a rank holds ---------------===//

#include "dialects/dist/Chunks.h"

#include "gtest/gtest.h"

#include <limits>
#include <vector>

using namespace cleave::dist;

namespace {

std::vector<int64_t> sizes(int64_t size, int64_t ranks) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < ranks; ++i)
    result.push_back(chunkOf(size, ranks, i).size);
  return result;
}

TEST(Chunks, AreThoseOfTorchChunk) {
  EXPECT_EQ(sizes(8, 2), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(sizes(7, 2), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(sizes(5, 4), (std::vector<int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(sizes(9, 4), (std::vector<int64_t>{3, 3, 3, 0}));
  EXPECT_EQ(sizes(1, 3), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(sizes(0, 3), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(sizes(3, 1), (std::vector<int64_t>{3}));
}

TEST(Chunks, FollowEachOtherAndCoverTheDimension) {
  for (int64_t size = 0; size < 30; ++size)
    for (int64_t ranks = 1; ranks < 12; ++ranks) {
      int64_t end = 0;
      for (int64_t i = 0; i < ranks; ++i) {
        Chunk chunk = chunkOf(size, ranks, i);
        EXPECT_EQ(chunk.offset, end) << size << " over " << ranks << ", rank " << i;
        end = chunk.offset + chunk.size;
      }
      EXPECT_EQ(end, size) << size << " over " << ranks;
    }
}

TEST(Chunks, ManyRanksDoNotOverflow) {
  constexpr int64_t maximum = std::numeric_limits<int32_t>::max();
  constexpr int64_t size = int64_t(1) << 62;
  EXPECT_EQ(chunkOf(size, maximum, 0), (Chunk{0, size / maximum + 1}));
  EXPECT_EQ(chunkOf(size, maximum, maximum - 1), (Chunk{size - 4, 4}));
  EXPECT_EQ(chunkOf(3, maximum, maximum - 1), (Chunk{3, 0}));
}

TEST(Chunks, SeveralAxesDivideOneAfterTheOther) {
  // 11 over 3 ranks: 4, 4, 3; each over 2: 2 2, 2 2, 2 1.
  EXPECT_EQ(chunkOf(11, {3, 2}, {0, 1}), (Chunk{2, 2}));
  EXPECT_EQ(chunkOf(11, {3, 2}, {2, 0}), (Chunk{8, 2}));
  EXPECT_EQ(chunkOf(11, {3, 2}, {2, 1}), (Chunk{10, 1}));
  EXPECT_EQ(chunkOf(11, llvm::ArrayRef<int64_t>(), llvm::ArrayRef<int64_t>()), (Chunk{0, 11}));
}

TEST(Chunks, SomeRankHoldsExactlyWhatSomeRankHolds) {
  // Against all ranks, for two dimensions that are divided together.
  for (int64_t a = 0; a < 8; ++a)
    for (int64_t b = 0; b < 8; ++b)
      for (int64_t outer : {1, 2, 3})
        for (int64_t inner : {1, 2, 4})
          for (int64_t localA = 0; localA <= a; ++localA)
            for (int64_t localB = 0; localB <= b; ++localB) {
              bool expected = false;
              for (int64_t i = 0; i < outer; ++i)
                for (int64_t j = 0; j < inner; ++j)
                  expected |= chunkOf(a, {outer, inner}, {i, j}).size == localA &&
                              chunkOf(b, {outer, inner}, {i, j}).size == localB;
              ASSERT_EQ(someRankHolds({{localA, a}, {localB, b}}, {outer, inner}), expected)
                  << localA << " of " << a << ", " << localB << " of " << b << " over " << outer
                  << " x " << inner;
            }
}

} // namespace
