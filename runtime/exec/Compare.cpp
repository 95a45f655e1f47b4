//===- Compare.cpp - how far two tensors are apart ---------------------------===//

#include "runtime/exec/Compare.h"
#include "runtime/io/DType.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace cleave::runtime;

template <typename T> static T loadAs(const char *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

static double toDouble(DType dtype, const char *data) {
  switch (dtype) {
  case DType::Bool:
  case DType::U8:
    return loadAs<uint8_t>(data);
  case DType::I8:
    return loadAs<int8_t>(data);
  case DType::I16:
    return loadAs<int16_t>(data);
  case DType::I32:
    return loadAs<int32_t>(data);
  case DType::I64:
    return static_cast<double>(loadAs<int64_t>(data));
  case DType::F16:
  case DType::BF16: {
    const llvm::fltSemantics &semantics =
        dtype == DType::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
    return llvm::APFloat(semantics, llvm::APInt(16, loadAs<uint16_t>(data))).convertToDouble();
  }
  case DType::F32:
    return loadAs<float>(data);
  case DType::F64:
    return loadAs<double>(data);
  case DType::C64:
  case DType::C128:
    break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// How far two numbers are apart, and how large the second one is.
static std::pair<double, double> compareAt(DType dtype, const char *a, const char *b) {
  std::optional<DType> part = partOf(dtype);
  if (part) {
    // Complex: equal parts are apart by 0, even if they are infinite.
    auto [real, x] = compareAt(*part, a, b);
    auto [imag, y] = compareAt(*part, a + byteSize(*part), b + byteSize(*part));
    return {std::hypot(real, imag), std::hypot(x, y)};
  }
  double x = toDouble(dtype, a), y = toDouble(dtype, b);
  bool isEqual = x == y || (std::isnan(x) && std::isnan(y));
  return {isEqual ? 0 : std::fabs(x - y), std::fabs(y)};
}

double cleave::runtime::toNumber(const ConstTensorRef &tensor, int64_t index) {
  const char *data = tensor.data + index * byteSize(tensor.type.dtype);
  std::optional<DType> part = partOf(tensor.type.dtype);
  if (part)
    return std::hypot(toDouble(*part, data), toDouble(*part, data + byteSize(*part)));
  return toDouble(tensor.type.dtype, data);
}

Difference cleave::runtime::computeDifference(const ConstTensorRef &a, const ConstTensorRef &b) {
  Difference difference;
  difference.isBitwiseEqual = a.bytes() == b.bytes();
  int64_t count = b.type.numElements();
  int64_t width = count ? b.type.numBytes() / count : 0;
  for (int64_t i = 0; i < count; ++i) {
    auto [distance, size] = compareAt(a.type.dtype, a.data + i * width, b.data + i * width);
    if (std::isfinite(size))
      difference.maxReference = std::max(difference.maxReference, size);
    if (distance == 0)
      continue;
    if (!std::isfinite(distance))
      distance = std::numeric_limits<double>::infinity();
    if (distance > difference.maxAbsolute) {
      difference.maxAbsolute = distance;
      difference.at = i;
    }
  }
  if (difference.maxAbsolute > 0) {
    difference.a = toNumber(a, difference.at);
    difference.b = toNumber(b, difference.at);
  }
  return difference;
}

double cleave::runtime::relativeDifference(const Difference &difference, double floor) {
  if (difference.maxAbsolute == 0)
    return 0;
  // Against nothing but zeros every difference is infinite.
  return difference.maxAbsolute / std::max(difference.maxReference, floor);
}
