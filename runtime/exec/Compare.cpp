//===- Compare.cpp - how far two tensors are apart ---------------------------===//

#include "runtime/exec/Compare.h"

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
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double cleave::runtime::toNumber(const ConstTensorRef &tensor) {
  return toDouble(tensor.type.dtype, tensor.data);
}

Difference cleave::runtime::computeDifference(const ConstTensorRef &a, const ConstTensorRef &b) {
  Difference difference;
  difference.isBitwiseEqual = a.bytes() == b.bytes();
  int64_t count = b.type.numElements();
  int64_t width = count ? b.type.numBytes() / count : 0;
  for (int64_t i = 0; i < count; ++i) {
    double x = toDouble(a.type.dtype, a.data + i * width);
    double y = toDouble(b.type.dtype, b.data + i * width);
    if (std::isfinite(y))
      difference.maxReference = std::max(difference.maxReference, std::fabs(y));
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    double distance = std::fabs(x - y);
    if (!std::isfinite(distance))
      distance = std::numeric_limits<double>::infinity();
    difference.maxAbsolute = std::max(difference.maxAbsolute, distance);
  }
  return difference;
}

double cleave::runtime::relativeDifference(const Difference &difference, double floor) {
  if (difference.maxAbsolute == 0)
    return 0;
  // Against nothing but zeros every difference is infinite.
  return difference.maxAbsolute / std::max(difference.maxReference, floor);
}
