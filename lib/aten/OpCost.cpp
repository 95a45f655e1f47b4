//===- OpCost.cpp - how long an op takes, from its shapes ---------------------===//

#include "lib/aten/OpCost.h"
#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/cost/CostInterface.h"
#include "lib/memory/MemoryPlan.h"

#include <cmath>

using namespace mlir;
using namespace cleave;

int64_t cleave::aten::countFlops(Operation *op) {
  auto cost = dyn_cast<cost::CostOpInterface>(op);
  return cost ? cost.countFlops() : 0;
}

int64_t cleave::aten::countBytes(Operation *op) {
  // Views, and conversions between placements that move nothing.
  if (op->getNumResults() && memory::getViewSource(op->getResult(0)))
    return 0;
  int64_t results = 0, operands = 0;
  for (Type type : op->getResultTypes())
    results += memory::getByteSize(type);
  for (Type type : op->getOperandTypes())
    operands += memory::getByteSize(type);
  auto cost = dyn_cast<cost::CostOpInterface>(op);
  if (Value table = cost ? cost.getTable() : Value())
    operands += results - memory::getByteSize(table.getType());
  return operands + results;
}

/// "aten::addmm" of both the typed op and a call of it, without the overload.
static StringRef getOperator(Operation *op) {
  auto atenOp = dyn_cast<aten::AtenOpInterface>(op);
  return atenOp ? atenOp.getSchemaName().split('.').first : StringRef();
}

static RankedTensorType getTensor(Value value) {
  return dyn_cast_or_null<RankedTensorType>(value ? value.getType() : Type());
}

/// The width of an op's operands, and how many products of it a wider one takes.
static std::pair<cost::Width, double> getWidth(RankedTensorType type) {
  Type element = type.getElementType();
  double parts = 1;
  if (auto complex = dyn_cast<ComplexType>(element)) {
    element = complex.getElementType();
    parts = 4;
  }
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 32;
  if (bits > 32)
    return {cost::Width::Bits32, 2 * parts};
  return {bits == 32  ? cost::Width::Bits32
          : bits > 8  ? cost::Width::Bits16
          : bits == 8 ? cost::Width::Bits8
                      : cost::Width::Bits4,
          parts};
}

/// Products whose results have the shape of `result` and take `flops` together.
static cost::MatrixProduct describeProduct(RankedTensorType result, double flops, double products) {
  cost::MatrixProduct product;
  double elements = static_cast<double>(result.getNumElements());
  if (elements == 0)
    return product;
  ArrayRef<int64_t> shape = result.getShape();
  product.n = shape.size() > 1 ? static_cast<double>(shape.back()) : 1;
  product.m = shape.size() > 1 ? static_cast<double>(shape[shape.size() - 2]) : elements;
  product.k = flops / (2 * elements * products);
  product.batch = products * elements / (product.m * product.n);
  return product;
}

/// A convolution multiplies filters by a patch of the input for each position.
static cost::MatrixProduct describeConvolution(RankedTensorType output, double flops,
                                               double products) {
  cost::MatrixProduct product;
  double elements = static_cast<double>(output.getNumElements());
  if (elements == 0 || products == 0 || output.getRank() < 2)
    return product;
  product.n = static_cast<double>(output.getDimSize(1));
  product.m = elements / product.n;
  product.k = flops / (2 * elements * products);
  product.batch = products;
  return product;
}

cost::OpWork aten::describeWork(Operation *op) {
  cost::OpWork work;
  double flops = static_cast<double>(countFlops(op));
  work.bytes = static_cast<double>(countBytes(op));
  StringRef name = getOperator(op);
  RankedTensorType result = op->getNumResults() ? getTensor(op->getResult(0)) : RankedTensorType();
  if (flops == 0 || name.contains("fft")) {
    work.kernels = work.bytes > 0 ? 1 : 0;
    return work;
  }
  bool isBackward = name.ends_with("_backward");
  RankedTensorType first = getTensor(op->getOperand(0));
  if (!first)
    return work;
  auto [width, parts] = getWidth(first);
  work.width = width;
  if (name.contains("scaled_dot_product")) {
    // Queries come first; gradients of attention take that of the result before.
    RankedTensorType query = getTensor(op->getOperand(isBackward && op->getNumOperands() > 1));
    work.kind = cost::OpWork::Attention;
    bool isCausal = false;
    if (auto attention = dyn_cast<FlashAttentionForCpuOp>(op))
      isCausal = attention.getIsCausal().value_or(false);
    else if (auto backward = dyn_cast<FlashAttentionForCpuBackwardOp>(op))
      isCausal = backward.getIsCausal();
    work.unmasked = isCausal ? 0.5 : 1;
    work.flops = parts * flops * work.unmasked;
    if (query && query.getRank() >= 3) {
      double rows = static_cast<double>(query.getDimSize(query.getRank() - 2));
      double columns = static_cast<double>(query.getDimSize(query.getRank() - 1));
      if (rows > 0 && columns > 0)
        work.tiles =
            static_cast<double>(query.getNumElements()) / (rows * columns) * std::ceil(rows / 128);
      // Outputs, and their gradients, are as deep as values.
      RankedTensorType output = isBackward ? first : result;
      if (output && output.getRank() > 0 && columns > 0)
        work.rate = cost::rateOfHeads((columns + static_cast<double>(output.getShape().back())) / 2,
                                      isBackward);
    }
    work.kernels = isBackward ? 3 : 1;
    return work;
  }
  work.kind = cost::OpWork::Product;
  if (name.contains("convolution") || name.contains("conv2d")) {
    double products = 1;
    if (isBackward)
      products =
          static_cast<double>(llvm::count_if(op->getResults().take_front(2), [](Value value) {
            return getTensor(value) && getTensor(value).getNumElements() > 0;
          }));
    work.product = describeConvolution(isBackward || !result ? first : result, flops, products);
    work.kernels = products;
  } else if (result) {
    work.product = describeProduct(result, flops, 1);
    // Groups divide the rows of one matrix, each of which has a product of its own.
    if (RankedTensorType offsets =
            op->getNumOperands() > 2 ? getTensor(op->getOperand(2)) : RankedTensorType();
        name == "aten::_grouped_mm" && offsets && offsets.getNumElements() > 0 &&
        result.getRank() == 2) {
      work.product.batch = static_cast<double>(offsets.getNumElements());
      work.product.m /= work.product.batch;
    }
  }
  work.product.batch *= parts;
  work.product.width = width;
  return work;
}

double cleave::aten::estimateCost(Operation *op) {
  static const cost::Cluster nominal = [] {
    cost::Cluster cluster;
    cluster.device = cost::makeNominalDevice(/*memoryBandwidth=*/1);
    return cluster;
  }();
  return cost::timeOf(nominal, describeWork(op), {});
}

double cleave::aten::estimateSeconds(Operation *op, const cost::Cluster &cluster) {
  cost::OpWork work = describeWork(op);
  return cost::timeOf(cluster, work, {}) + work.kernels * cluster.device.kernelSeconds;
}

LogicalResult cleave::aten::checkRates(Operation *root, const cost::Cluster &cluster) {
  if (cluster.device.flops32 > 0)
    return success();
  WalkResult result = root->walk([&](Operation *op) -> WalkResult {
    if (countFlops(op) == 0)
      return WalkResult::advance();
    cost::OpWork work = describeWork(op);
    cost::Width width = work.kind == cost::OpWork::Product ? work.product.width : work.width;
    if (work.kind == cost::OpWork::Bytes || width != cost::Width::Bits32)
      return WalkResult::advance();
    return op->emitOpError() << "multiplies matrices of 32 bits, but device " << cluster.device.name
                             << " of cluster " << cluster.name << " has no fact \"flops_32bit\"";
  });
  return failure(result.wasInterrupted());
}
