// Packings are valid, and found where there are some.

#include "lib/solve/Packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace cleave::solve;

/// A rectangle of time and space, cut into buffers: they fill the capacity to the last byte.
static void cut(std::vector<Buffer> &buffers, std::mt19937_64 &random, int64_t start, int64_t end,
                int64_t size, unsigned pieces) {
  if (pieces == 1 || (end - start < 2 && size < 2)) {
    buffers.push_back({start, end, size});
    return;
  }
  unsigned left = 1 + random() % (pieces - 1);
  if (size < 2 || (end - start >= 2 && random() % 2)) {
    int64_t middle = start + 1 + random() % (end - start - 1);
    cut(buffers, random, start, middle, size, left);
    cut(buffers, random, middle, end, size, pieces - left);
  } else {
    int64_t part = 1 + random() % (size - 1);
    cut(buffers, random, start, end, part, left);
    cut(buffers, random, start, end, size - part, pieces - left);
  }
}

TEST(Packing, FillsCutRectangles) {
  std::mt19937_64 random(11);
  for (unsigned i = 0; i < 100; ++i) {
    std::vector<Buffer> buffers;
    cut(buffers, random, 0, 60, 64, 12 + i / 5);
    std::shuffle(buffers.begin(), buffers.end(), random);
    Packing packing = pack(buffers, 64, 1, [] { return false; });
    ASSERT_TRUE(isPacking(buffers, packing.offsets)) << "problem " << i;
    ASSERT_EQ(packing.height, 64) << "problem " << i;
    ASSERT_EQ(packing.lowerBound, 64) << "problem " << i;
  }
}

TEST(Packing, ShowsWhatDoesNotFit) {
  // Their sum fits at each time, but the long ones leave no room in one piece.
  std::vector<Buffer> buffers = {{0, 2, 2}, {2, 4, 2}, {0, 1, 1}, {1, 3, 1}, {3, 4, 1}, {1, 3, 0}};
  EXPECT_EQ(getPeak(buffers), 3);
  Packing packing = pack(buffers, 3, 1, [] { return false; });
  EXPECT_TRUE(isPacking(buffers, packing.offsets));
  Packing none = pack(buffers, 2, 1, [] { return false; });
  EXPECT_TRUE(none.isImpossible);
  EXPECT_EQ(none.lowerBound, 3);
  EXPECT_TRUE(isPacking(buffers, none.offsets));
}

TEST(Packing, SeesOverlaps) {
  std::vector<Buffer> buffers = {{0, 2, 4}, {1, 3, 4}, {2, 4, 4}};
  EXPECT_TRUE(isPacking(buffers, {0, 4, 0}));
  EXPECT_FALSE(isPacking(buffers, {0, 3, 0}));
  EXPECT_FALSE(isPacking(buffers, {0, -4, 0}));
  EXPECT_FALSE(isPacking(buffers, {0, 4}));
}

TEST(Packing, NoBuffersNeedNothing) {
  Packing packing = pack({}, 0, 1, [] { return false; });
  EXPECT_EQ(packing.height, 0);
  EXPECT_TRUE(packing.offsets.empty());
}

static std::string parseError(const char *text) {
  auto buffers = parseBuffers(text, "f", 100);
  return buffers ? "" : llvm::toString(buffers.takeError());
}

TEST(Packing, ErrorsNameTheLine) {
  EXPECT_EQ(parseError("# c\nid,lower,upper,size\n0,1,2,3\n"), "");
  EXPECT_EQ(parseError("id,lower,upper,size\n0,1,2\n"),
            "f:2: expected id,lower,upper,size, found '0,1,2'");
  EXPECT_EQ(parseError("0,1,2,x\n"), "f:1: expected a whole number, found 'x'");
  EXPECT_EQ(parseError("1,1,2,3\n"), "f:1: expected buffer 0, found 1");
  EXPECT_EQ(parseError("0,3,2,3\n"), "f:1: expected an end from 3, found 2");
  EXPECT_EQ(parseError("0,1,2,-3\n"), "f:1: expected a size of at least 0, found -3");
  EXPECT_EQ(parseError("0,1,2,101\n"),
            "f:1: expected a size within the capacity of 100, found 101");
}
