//===- OpCost.cpp - how long an op takes, from its shapes ---------------------===//

#include "lib/aten/OpCost.h"
#include "dialects/aten/Aten.h"
#include "dialects/train/Train.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

static constexpr double kFlopsPerByte = 32;

namespace {
enum class Contraction { None, Matmul, Linear, Convolution, ConvolutionBackward, Attention };
} // namespace

/// `mm` of `aten::mm`, `add` of `aten::add.Tensor`.
static StringRef getOperator(Operation *op) {
  auto aten = dyn_cast<cleave::aten::AtenOpInterface>(op);
  return aten ? aten.getSchemaName().rsplit("::").second.split('.').first : StringRef();
}

static Contraction classify(StringRef name) {
  if (name.starts_with("_scaled_dot_product") || name == "scaled_dot_product_attention")
    return Contraction::Attention;
  return llvm::StringSwitch<Contraction>(name)
      .Cases({"mm", "bmm", "matmul", "_grouped_mm"}, Contraction::Matmul)
      .Cases({"addmm", "baddbmm", "addbmm"}, Contraction::Matmul)
      .Case("linear", Contraction::Linear)
      .Cases({"convolution", "_convolution", "conv2d"}, Contraction::Convolution)
      .Case("convolution_backward", Contraction::ConvolutionBackward)
      .Default(Contraction::None);
}

int64_t cleave::aten::countFlops(Operation *op) {
  // A product that adds itself to a gradient.
  if (auto contribute = dyn_cast<train::ContributeMmOp>(op)) {
    auto left = contribute.getSelf().getType(), right = contribute.getMat2().getType();
    return 2 * left.getNumElements() * right.getShape().back();
  }
  StringRef name = getOperator(op);
  Contraction kind = classify(name);
  if (kind == Contraction::None)
    return 0;
  SmallVector<RankedTensorType> operands;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.hasStaticShape())
      operands.push_back(tensor);
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!result || !result.hasStaticShape())
    return 0;
  // addmm and its kin have what is added in front.
  size_t left = kind == Contraction::Matmul && name.starts_with("add") ? 1 : 0;
  if (name == "baddbmm")
    left = 1;
  if (operands.size() < left + 2 || operands[left].getRank() == 0)
    return 0;
  RankedTensorType weight = operands[left + 1];
  switch (kind) {
  case Contraction::Matmul:
  case Contraction::Linear:
    return 2 * result.getNumElements() * operands[left].getShape().back();
  case Contraction::Convolution:
    // Each output element sums over one filter.
    return weight.getRank() && weight.getDimSize(0)
               ? 2 * result.getNumElements() * (weight.getNumElements() / weight.getDimSize(0))
               : 0;
  case Contraction::ConvolutionBackward: {
    // (gradient, input, weight): the gradient of each is a convolution of the forward's size.
    if (operands.size() < 3 || operands[2].getRank() == 0 || operands[2].getDimSize(0) == 0)
      return 0;
    int64_t made = 0;
    for (unsigned index = 0; index < 2; ++index)
      made += memory::getByteSize(op->getResult(index).getType()) != 0;
    int64_t filter = operands[2].getNumElements() / operands[2].getDimSize(0);
    return 2 * made * operands[0].getNumElements() * filter;
  }
  case Contraction::Attention: {
    // Query with keys, and weights with values: elements of the query times length of the keys.
    int64_t rank = weight.getRank();
    int64_t flops =
        rank < 2 ? 0 : 4 * operands[left].getNumElements() * weight.getDimSize(rank - 2);
    // The backward computes the weights again, and has two products for each of the two.
    return name.ends_with("_backward") ? flops / 2 * 5 : flops;
  }
  case Contraction::None:
    break;
  }
  return 0;
}

int64_t cleave::aten::countBytes(Operation *op) {
  // Views, and conversions between placements that move nothing.
  if (op->getNumResults() && memory::getViewSource(op->getResult(0)))
    return 0;
  int64_t results = 0;
  for (Type type : op->getResultTypes())
    results += memory::getByteSize(type);
  StringRef name = getOperator(op);
  bool isLookup = name == "embedding" || name == "index_select" || name == "gather";
  int64_t bytes = isLookup ? 2 * results : results;
  for (Value operand : op->getOperands().drop_front(isLookup ? 1 : 0))
    bytes += memory::getByteSize(operand.getType());
  return bytes;
}

double cleave::aten::estimateCost(Operation *op) {
  return static_cast<double>(countBytes(op)) + static_cast<double>(countFlops(op)) / kFlopsPerByte;
}
