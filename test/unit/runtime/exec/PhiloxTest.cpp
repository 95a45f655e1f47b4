//===- PhiloxTest.cpp - Philox4x32-10, and parts of what is drawn --------------===//

#include "runtime/exec/Philox.h"

#include <gtest/gtest.h>

using namespace cleave::runtime;

namespace {

TEST(PhiloxTest, GivesThePublishedVectors) {
  // kat_vectors of Random123, "philox4x32 10": counter, key, result.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, WordsAreThoseOfTheCounters) {
  std::vector<uint32_t> words(3);
  philoxWords(/*seed=*/0x299f31d0a4093822, /*stream=*/0x0370734413198a2e, /*first=*/20, words);
  PhiloxBlock block = philox4x32({5, 0, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  EXPECT_EQ(words, (std::vector<uint32_t>{block[0], block[1], block[2]}));
}

TEST(PhiloxTest, AnyRangeOfWordsIsThatOfTheWhole) {
  std::vector<uint32_t> all(64);
  philoxWords(7, 11, 0, all);
  for (size_t first : {0, 1, 2, 3, 4, 5, 31})
    for (size_t count : {0, 1, 3, 4, 9}) {
      std::vector<uint32_t> some(count);
      philoxWords(7, 11, first, some);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first))
          << first << " " << count;
    }
  // Beyond 32 bits of the counter.
  std::vector<uint32_t> far(8), end(3);
  philoxWords(7, 11, (uint64_t{1} << 34) - 4, far);
  philoxWords(7, 11, (uint64_t{1} << 34) + 1, end);
  EXPECT_TRUE(std::equal(end.begin(), end.end(), far.begin() + 5));
  EXPECT_EQ(far[4], philox4x32({0, 1, 11, 0}, {7, 0})[0]);
}

/// The indices in the whole of each element of the part.
std::vector<int64_t> indices(const DrawnPart &part) {
  int64_t elements = 1;
  for (int64_t size : part.sizes)
    elements *= size;
  std::vector<int64_t> found(elements, -1);
  part.forEachRun([&](int64_t local, int64_t whole, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      found[local + i] = whole + i;
  });
  return found;
}

TEST(PhiloxTest, PartsKnowTheirPlaceInTheWhole) {
  EXPECT_EQ(indices({{}, {}, {}}), (std::vector<int64_t>{0}));
  EXPECT_EQ(indices({{5}, {2}, {3}}), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(indices({{4, 3}, {2, 0}, {2, 3}}), (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(indices({{2, 4}, {0, 1}, {2, 2}}), (std::vector<int64_t>{1, 2, 5, 6}));
  EXPECT_EQ(indices({{4, 2, 3}, {1, 1, 0}, {2, 1, 3}}),
            (std::vector<int64_t>{9, 10, 11, 15, 16, 17}));
  EXPECT_EQ(indices({{2, 2, 4}, {1, 0, 2}, {1, 2, 2}}), (std::vector<int64_t>{10, 11, 14, 15}));
  EXPECT_EQ(indices({{4, 3}, {4, 0}, {0, 3}}), (std::vector<int64_t>{}));
}

} // namespace
