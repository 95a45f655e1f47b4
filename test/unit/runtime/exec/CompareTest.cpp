//===- CompareTest.cpp - how far two tensors are apart -------------------------===//

#include "runtime/exec/Compare.h"

#include "gtest/gtest.h"

#include <cmath>
#include <complex>
#include <limits>

using namespace cleave::runtime;

namespace {
template <typename T> Difference compare(DType dtype, std::vector<T> a, std::vector<T> b) {
  TensorType type{dtype, {int64_t(a.size())}};
  return computeDifference({type, reinterpret_cast<const char *>(a.data())},
                           {type, reinterpret_cast<const char *>(b.data())});
}

TEST(CompareTest, EqualAndNot) {
  Difference same = compare<float>(DType::F32, {1, -2}, {1, -2});
  EXPECT_TRUE(same.isBitwiseEqual);
  EXPECT_EQ(relativeDifference(same, 0), 0);
  Difference other = compare<float>(DType::F32, {1, -2}, {1, -4});
  EXPECT_FALSE(other.isBitwiseEqual);
  EXPECT_EQ(other.maxAbsolute, 2);
  EXPECT_EQ(other.maxReference, 4);
  EXPECT_EQ(relativeDifference(other, 0), 0.5);
  EXPECT_EQ(relativeDifference(other, 8), 0.25);
}

TEST(CompareTest, ZerosOfBothSignsDifferInBitsOnly) {
  Difference difference = compare<float>(DType::F32, {0.0f}, {-0.0f});
  EXPECT_FALSE(difference.isBitwiseEqual);
  EXPECT_EQ(relativeDifference(difference, 0), 0);
}

TEST(CompareTest, ComplexNumbersAreApartByAnAbsoluteValue) {
  using Number = std::complex<double>;
  Difference difference = compare<Number>(DType::C128, {{1, 2}, {0, 0}}, {{4, -2}, {0, 0}});
  EXPECT_EQ(difference.maxAbsolute, 5);
  EXPECT_EQ(difference.maxReference, std::hypot(4, 2));
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(compare<Number>(DType::C128, {{infinity, 1}}, {{infinity, 1}}).maxAbsolute, 0);
  EXPECT_EQ(compare<Number>(DType::C128, {{infinity, 1}}, {{-infinity, 1}}).maxAbsolute, infinity);
  std::complex<float> number(3, -4);
  EXPECT_EQ(toNumber({{DType::C64, {}}, reinterpret_cast<const char *>(&number)}), 5);
}

TEST(CompareTest, NonFinite) {
  double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_EQ(compare<double>(DType::F64, {nan, infinity}, {nan, infinity}).maxAbsolute, 0);
  EXPECT_EQ(compare<double>(DType::F64, {nan}, {1}).maxAbsolute, infinity);
  EXPECT_EQ(compare<double>(DType::F64, {1}, {nan}).maxAbsolute, infinity);
  EXPECT_EQ(compare<double>(DType::F64, {infinity}, {-infinity}).maxAbsolute, infinity);
}

TEST(CompareTest, NarrowTypes) {
  EXPECT_EQ(compare<uint16_t>(DType::BF16, {0x3f80}, {0x4000}).maxAbsolute, 1); // 1 and 2
  EXPECT_EQ(compare<uint16_t>(DType::F16, {0x3c00}, {0x4200}).maxAbsolute, 2);  // 1 and 3
  EXPECT_EQ(compare<int8_t>(DType::I8, {-3}, {4}).maxAbsolute, 7);
  EXPECT_EQ(compare<uint8_t>(DType::Bool, {0, 1}, {1, 1}).maxAbsolute, 1);
}

TEST(CompareTest, AgainstNothingButZeros) {
  Difference difference = compare<float>(DType::F32, {1}, {0});
  EXPECT_EQ(relativeDifference(difference, 0), std::numeric_limits<double>::infinity());
}
} // namespace
