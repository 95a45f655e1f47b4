//===- Flops.cpp - floating-point operations of aten's contractions ----------===//

#include "dialects/aten/Flops.h"

#include "mlir/IR/BuiltinTypes.h"

#include <cmath>

using namespace mlir;
using namespace cleave;

/// The tensor's type if it has dimensions.
static RankedTensorType getMatrices(Value value, int64_t rank = 1) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getRank() >= rank ? type : RankedTensorType();
}

static int64_t countElements(Value value) {
  RankedTensorType type = getMatrices(value, 0);
  return type ? type.getNumElements() : 0;
}

/// Elements of one of the filters that the first dimension of `weight` counts.
static int64_t getFilterSize(Value weight) {
  RankedTensorType type = getMatrices(weight);
  return type && type.getDimSize(0) ? type.getNumElements() / type.getDimSize(0) : 0;
}

int64_t aten::countProductFlops(Value left, Value result) {
  RankedTensorType type = getMatrices(left);
  return type ? 2 * countElements(result) * type.getShape().back() : 0;
}

int64_t aten::countGroupedProductFlops(Value left, Value right) {
  RankedTensorType a = getMatrices(left, 2), b = getMatrices(right, 2);
  if (!a || !b)
    return 0;
  int64_t columns = b.getShape().back();
  // Where one of them has a matrix for each group, the other's dimension is divided among them.
  if (a.getRank() == 3 && b.getRank() == 2)
    return 2 * a.getDimSize(1) * a.getDimSize(2) * columns;
  return 2 * a.getNumElements() * columns;
}

int64_t aten::countConvolutionFlops(Value output, Value weight) {
  return 2 * countElements(output) * getFilterSize(weight);
}

int64_t aten::countConvolutionBackwardFlops(Value gradient, Value weight, ValueRange results) {
  int64_t wanted = llvm::count_if(results.take_front(2),
                                  [](Value result) { return countElements(result) != 0; });
  return wanted * countConvolutionFlops(gradient, weight);
}

int64_t aten::countFourierFlops(Value self, Value result, ArrayRef<int64_t> dims) {
  // 5 n log2(n) for n complex numbers, as benchmarks of Fourier transforms count.
  RankedTensorType type = getMatrices(countElements(self) < countElements(result) ? result : self);
  if (!type)
    return 0;
  double steps = 0;
  for (int64_t dim : dims)
    steps += std::log2(std::max<int64_t>(type.getDimSize(dim < 0 ? dim + type.getRank() : dim), 1));
  return int64_t(5.0 * double(type.getNumElements()) * steps);
}

int64_t aten::countAttentionFlops(Value query, Value key) {
  RankedTensorType type = getMatrices(key, 2);
  return type ? 4 * countElements(query) * type.getDimSize(type.getRank() - 2) : 0;
}

int64_t aten::countAttentionBackwardFlops(Value query, Value key) {
  return countAttentionFlops(query, key) / 2 * 5;
}
