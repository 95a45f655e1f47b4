//===- IndexTest.cpp - digits, checked element by element -------------------===//

#include "lib/prove/Tensor.h"

#include <gtest/gtest.h>

using namespace cleave::prove;
using llvm::SmallVector;

namespace {

/// The value of `index` where digits have these values.
int64_t at(const Index &index, const llvm::DenseMap<Var, int64_t> &digits) {
  int64_t value = index.getConstant();
  for (const Index::Part &part : index.getParts())
    value += part.coefficient * digits.lookup(part.var);
  return value;
}

TEST(IndexTest, IsASumInOneForm) {
  Index a = Index::of(1, 4) + Index::of(0, 2) + Index(3);
  EXPECT_EQ(a - Index::of(1, 4), Index::of(0, 2) + Index(3));
  EXPECT_EQ(a * 0, Index());
  Substitution digits;
  digits[0] = Index::of(1);
  digits[1] = Index::of(0);
  EXPECT_EQ(substitute(a, digits), Index::of(0, 4) + Index::of(1, 2) + Index(3));
}

TEST(IndexTest, ChainsDivide) {
  EXPECT_EQ(*chainOf({4, 2}, 8), (SmallVector<int64_t, 4>{1, 2, 4}));
  EXPECT_EQ(*chainOf({8}, 8), (SmallVector<int64_t, 4>{1}));
  EXPECT_FALSE(chainOf({2, 3}, 6));
  EXPECT_FALSE(chainOf({4}, 6));
  EXPECT_FALSE(chainOf({16}, 8));
}

// A digit of which another cut takes a part that begins elsewhere is none of its combinations.
TEST(IndexTest, DigitsAreExpressedExactlyOrNotAtAll) {
  for (int64_t size : {2, 3, 4})
    for (int64_t stride : {1, 2, 3, 4, 6})
      for (auto sizes : {SmallVector<int64_t>{2, 3, 4}, {4, 3, 2}, {2, 2, 2, 3}, {24}, {6, 4}}) {
        Variables variables;
        SmallVector<Digit> finer;
        int64_t total = 1;
        for (int64_t part : sizes) {
          finer.push_back({variables.make(part), part, total});
          total *= part;
        }
        std::optional<Index> index = expressDigit({99, size, stride}, finer);
        if (!index)
          continue;
        for (int64_t place = 0; place < total; ++place) {
          llvm::DenseMap<Var, int64_t> digits;
          for (const Digit &digit : finer)
            digits[digit.var] = place / digit.stride % digit.size;
          EXPECT_EQ(at(*index, digits), place / stride % size)
              << "digit " << size << " x " << stride << " at " << place;
        }
      }
}

TEST(IndexTest, CutTensorsKeepTheirElements) {
  Terms terms;
  Tensor tensor{makeDims(terms, {24}), {}};
  Var whole = tensor.dims[0][0];
  tensor.meaning = terms.leaf("x", {24}, Index::of(whole));
  ASSERT_TRUE(cut(terms, tensor, 0, {4, 12}));
  ASSERT_EQ(tensor.dims[0].size(), 3u);
  EXPECT_EQ(tensor.meaning[0].reference.indices[0], placeIn(tensor.dims[0], terms.variables));
  EXPECT_FALSE(cut(terms, tensor, 0, {3}));
  coarsen(terms, tensor);
  EXPECT_EQ(tensor.dims[0].size(), 1u);
}

} // namespace
