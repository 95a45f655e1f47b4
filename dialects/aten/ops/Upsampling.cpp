//===- Upsampling.cpp - images in another resolution ----------------------===//

#include "dialects/aten/ops/Upsampling.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

static bool isPositive(int64_t size) {
  return size > 0;
}

static LogicalResult expectOutputSize(Operation *op, ArrayRef<int64_t> outputSize, int64_t dims) {
  if (int64_t(outputSize.size()) != dims || !llvm::all_of(outputSize, isPositive))
    return op->emitOpError("expects ")
           << dims << " sizes of at least 1 in `output_size`, found [" << outputSize << "]";
  return success();
}

/// Constraints of an op whose images have `dims` dimensions; all ops of a kind share them.
static LogicalResult verifyUpsampling(Operation *op, Value self, ArrayRef<int64_t> outputSize,
                                      int64_t dims) {
  // 1.
  if (failed(expectRank(op, "self", self, dims + 2)))
    return failure();
  Shape shape(shapeOf(self));
  if (!llvm::all_of(ArrayRef(shape).drop_front(2), isPositive))
    return op->emitOpError("expects an image with elements in `self`, found ") << self.getType();
  // 2.
  if (failed(expectOutputSize(op, outputSize, dims)))
    return failure();
  // 3.
  llvm::copy(outputSize, shape.begin() + 2);
  return expectResult(op, 0, shape, dtypeOf(self));
}

static LogicalResult verifyUpsamplingBackward(Operation *op, Value gradient,
                                              ArrayRef<int64_t> outputSize,
                                              ArrayRef<int64_t> inputSize, int64_t dims) {
  // 1.
  if (failed(expectOutputSize(op, outputSize, dims)))
    return failure();
  auto isSize = [](int64_t size) { return size >= 0; };
  if (int64_t(inputSize.size()) != dims + 2 || !llvm::all_of(inputSize, isSize) ||
      !llvm::all_of(inputSize.drop_front(2), isPositive))
    return op->emitOpError("expects ")
           << dims + 2 << " sizes in `input_size`, of at least 1 behind the first two, found ["
           << inputSize << "]";
  // 2.
  Shape shape(inputSize);
  llvm::copy(outputSize, shape.begin() + 2);
  if (failed(expectShape(op, "grad_output", gradient, shape)))
    return failure();
  // 3.
  return expectResult(op, 0, inputSize, dtypeOf(gradient));
}

/// Images are resampled one by one, channel by channel.
static void imagesSharding(RuleBuilder &rule) {
  for (unsigned at : {0, 1}) {
    FactorId factor = rule.factor(rule.resultShape(0)[at]);
    rule.operandDim(0, at, factor);
    rule.resultDim(0, at, factor);
  }
  rule.closeWhole("elements are interpolated between several of the whole image");
}

#define GET_OP_CLASSES
#include "dialects/aten/ops/Upsampling.cpp.inc"

void cleave::aten::addUpsamplingOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Upsampling.cpp.inc"
      >(dialect);
}
