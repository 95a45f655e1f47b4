//===- IndexingSharding.cpp - sharding rules of indexing ops -----------------===//

#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

static const char *anyReason = "an index may select any element of it";
static const char *orderReason = "if two indices select the same element, only one is written";

void EmbeddingDenseBackwardOp::describeSharding(RuleBuilder &rule) {
  static const sharding::RuleText text("*e, * -> ve", {"v: an index may name any row"});
  rule.text(text);
  if (getScaleGradByFreq())
    for (const DimFactors &dim : rule.get().operands[1])
      rule.makeWhole(dim[0],
                     "gradients are divided by how often an index occurs in the whole batch");
}

//===----------------------------------------------------------------------===//
// Several dimensions at once
//===----------------------------------------------------------------------===//

namespace {

/// The index lists of `index` and `index_put`.
struct IndexedDims {
  SmallVector<bool> named;        ///< by dimension of `self`: whether an index goes over it
  SmallVector<unsigned> operands; ///< operand numbers of the indices
  unsigned rank = 0;              ///< of the shape that the indices broadcast to
  unsigned at = 0;                ///< where its dimensions stand in `self[indices]`
  bool hasMask = false;
};

} // namespace

static IndexedDims indexedDims(std::optional<ArrayRef<bool>> present, ValueRange indices,
                               int64_t selfRank) {
  IndexedDims dims;
  dims.named = present && !present->empty() ? SmallVector<bool>(*present)
                                            : SmallVector<bool>(indices.size(), true);
  dims.named.resize(selfRank, false);
  for (auto [i, index] : llvm::enumerate(indices)) {
    dims.operands.push_back(1 + i);
    dims.rank = std::max<unsigned>(dims.rank, rankOf(index));
    dims.hasMask |= dtypeOf(index).isInteger(1) || dtypeOf(index).isUnsignedInteger(8);
  }
  // Side by side they stand where the first of them is, else at the front.
  auto first = llvm::find(dims.named, true);
  auto last = std::find(first, dims.named.end(), false);
  if (std::find(last, dims.named.end(), true) == dims.named.end())
    dims.at = first - dims.named.begin();
  return dims;
}

/// The dimensions of `self[indices]`: those of the indices, and each of `self` that none names. The
/// indices' factors have `reduction` where a result lacks them.
static TensorFactors indexedFactors(RuleBuilder &rule, const IndexedDims &dims, ValueRange indices,
                                    FactorReduction reduction) {
  Shape shape;
  for (Value index : indices)
    shape = *broadcastShapes(shape, shapeOf(index));
  TensorFactors broadcast, result;
  for (int64_t size : shape)
    broadcast.push_back({rule.factor(size, reduction)});
  for (unsigned operand : dims.operands)
    rule.broadcastOperand(operand, broadcast);
  for (auto [dim, named] : llvm::enumerate(dims.named)) {
    if (named)
      continue;
    FactorId kept = rule.factor(rule.operandShape(0)[dim]);
    rule.operandDim(0, dim, kept);
    result.push_back({kept});
  }
  result.insert(result.begin() + dims.at, broadcast.begin(), broadcast.end());
  return result;
}

template <typename OpTy> static void indexReadSharding(OpTy op, RuleBuilder &rule) {
  IndexedDims dims = indexedDims(op.getIndicesPresent(), op.getIndices(), rankOf(op.getSelf()));
  TensorFactors result = indexedFactors(rule, dims, op.getIndices(), FactorReduction::None);
  for (auto [at, factors] : llvm::enumerate(result))
    rule.resultDim(0, at, factors);
  rule.closeWhole(anyReason);
}

void IndexOp::describeSharding(RuleBuilder &rule) {
  indexReadSharding(*this, rule);
}

void UnsafeIndexOp::describeSharding(RuleBuilder &rule) {
  indexReadSharding(*this, rule);
}

template <typename OpTy> static void indexWriteSharding(OpTy op, RuleBuilder &rule) {
  IndexedDims dims = indexedDims(op.getIndicesPresent(), op.getIndices(), rankOf(op.getSelf()));
  if (dims.hasMask)
    return rule.closeWhole("the number of elements that a mask selects depends on all of it");
  bool accumulate = op.getAccumulate().value_or(false);
  TensorFactors written = indexedFactors(rule, dims, op.getIndices(),
                                         accumulate ? FactorReduction::Sum : FactorReduction::None);
  rule.broadcastOperand(*rule.operand("values"), written);
  for (auto [dim, named] : llvm::enumerate(dims.named))
    if (!named)
      rule.resultDim(0, dim, rule.get().operands[0][dim]);
  for (const DimFactors &factors : ArrayRef(written).slice(dims.at, dims.rank))
    if (accumulate)
      rule.addend(factors[0], 0);
    else
      rule.makeWhole(factors[0], orderReason);
  rule.closeWhole(anyReason);
}

void IndexPutOp::describeSharding(RuleBuilder &rule) {
  indexWriteSharding(*this, rule);
}

void UnsafeIndexPutOp::describeSharding(RuleBuilder &rule) {
  indexWriteSharding(*this, rule);
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

void IndexSelectOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf()), dim = wrapped(getDim(), rank);
  for (int64_t at = 0; at < rank; ++at)
    if (at != dim)
      rule.keep(0, at, 0, at);
    else if (rankOf(getIndex()) == 1)
      rule.keep(1, 0, 0, at);
  rule.closeWhole(anyReason);
}

void IndexAddOp::describeSharding(RuleBuilder &rule) {
  int64_t rank = rankOf(getSelf()), dim = wrapped(getDim(), rank);
  unsigned source = *rule.operand("source");
  for (int64_t at = 0; at < rank; ++at) {
    if (at != dim) {
      rule.operandDim(source, at, rule.keep(0, at, 0, at));
    } else if (rankOf(getIndex()) == 1) {
      FactorId added = rule.factor(shapeOf(getIndex())[0], FactorReduction::Sum);
      rule.operandDim(1, 0, added);
      rule.operandDim(source, at, added);
      rule.addend(added, 0);
    }
  }
  rule.closeWhole(anyReason);
}

void GatherOp::describeSharding(RuleBuilder &rule) {
  ArrayRef<int64_t> self = shapeOf(getSelf()), index = shapeOf(getIndex());
  int64_t dim = wrapped(getDim(), self.size());
  for (int64_t at = 0; at < int64_t(self.size()); ++at) {
    FactorId kept = rule.keep(1, at, 0, at);
    if (at != dim && self[at] == index[at])
      rule.operandDim(0, at, kept);
    else if (at != dim)
      rule.makeWhole(kept, "only the first elements of the dimension are read");
  }
  rule.closeWhole(anyReason);
}

/// `self`, `index` and, where there is one, `src`.
static void scatterSharding(RuleBuilder &rule, int64_t dim, bool adds) {
  ArrayRef<int64_t> self = rule.operandShape(0), index = rule.operandShape(1);
  std::optional<unsigned> src = rule.operand("src");
  dim = wrapped(dim, self.size());
  for (int64_t at = 0; at < int64_t(self.size()); ++at) {
    bool aligned = !src || rule.operandShape(*src)[at] == index[at];
    if (at != dim && aligned && self[at] == index[at]) {
      FactorId kept = rule.keep(0, at, 0, at);
      rule.operandDim(1, at, kept);
      if (src)
        rule.operandDim(*src, at, kept);
    } else if (at == dim && aligned && adds) {
      FactorId added = rule.factor(index[at], FactorReduction::Sum);
      rule.operandDim(1, at, added);
      rule.operandDim(*src, at, added);
      rule.addend(added, 0);
    } else if (at == dim) {
      rule.wholeOperandDim(1, at, orderReason);
      if (src)
        rule.wholeOperandDim(*src, at, orderReason);
    }
  }
  rule.closeWhole(anyReason);
}

void ScatterSrcOp::describeSharding(RuleBuilder &rule) {
  scatterSharding(rule, getDim(), false);
}

void ScatterAddOp::describeSharding(RuleBuilder &rule) {
  scatterSharding(rule, getDim(), true);
}

void ScatterValueOp::describeSharding(RuleBuilder &rule) {
  scatterSharding(rule, getDim(), false);
  // Another number than 0 would be counted once per term of a sum.
  if (isZero(getValue()))
    rule.linear("self");
}
