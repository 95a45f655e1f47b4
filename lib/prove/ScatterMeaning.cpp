//===- ScatterMeaning.cpp - rows added where indices say --------------------===//
//
// What lies at a row is what lay there, and the sum of all sources, each times whether its index
// names the row. So sources of which each rank adds its part add up to the whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Indexing.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

std::optional<Tensor> Evaluator::addRows(Operation *op, ArrayRef<const Tensor *> operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (op->getNumOperands() != 3 || op->hasAttr("alpha") || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  auto index = cast<RankedTensorType>(op->getOperand(1).getType());
  auto rowsAdded = cast<RankedTensorType>(op->getOperand(2).getType());
  int64_t dim = 0;
  if (auto put = dyn_cast<aten::IndexPutOp>(op)) {
    // One index, of the first dimension, and a row for each.
    auto present = put.getIndicesPresent();
    if (!put.getAccumulate().value_or(false) || (present && !llvm::is_contained(*present, true)) ||
        (present && !present->front()))
      return std::nullopt;
  } else {
    dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
    dim += dim < 0 ? type.getRank() : 0;
  }
  SmallVector<int64_t> expected(type.getShape());
  if (index.getRank() != 1 || !index.getElementType().isSignlessInteger(64))
    return std::nullopt;
  expected[dim] = index.getDimSize(0);
  if (rowsAdded.getShape() != ArrayRef(expected))
    return std::nullopt;
  sharding::ShardingRule rule = sharding::getShardingRule(op);
  ArrayRef<sharding::FactorId> rows = rule.results[0][dim], rowsBefore = rule.operands[0][dim];
  if (rule.isOpaque() || rows.size() != 1 || rowsBefore.size() != 1)
    return std::nullopt;
  // The rule keeps rows whole, since an index may name any; here each says which.
  rule.factors[rows.front()].wholeReason = nullptr;
  rule.factors[rowsBefore.front()].wholeReason = nullptr;
  rule.operands[0][dim] = rule.results[0][dim];
  for (sharding::Factor &factor : rule.factors) {
    factor.addends.clear();
    if (factor.isWhole() && factor.size > 1)
      return std::nullopt;
  }
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors)
    return std::nullopt;
  SmallVector<Var> digits;
  for (const Digit &digit : llvm::reverse(factors->digits[rows.front()]))
    digits.push_back(digit.var);
  Index place = placeIn(digits, terms.variables);
  bool fails = false;
  std::optional<Tensor> added =
      build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &) {
        std::optional<Filled> filled;
        std::optional<Meaning> named = names(meanings[1], place, type.getDimSize(dim), filled);
        fails = !named || filled;
        return fails ? Meaning() : whereNamed(*named, meanings[2], type.getElementType());
      });
  // The same digits again, for what lay there: it is not summed over the sources.
  for (sharding::Factor &factor : rule.factors)
    if (factor.reduction == sharding::FactorReduction::Sum)
      factor.reduction = sharding::FactorReduction::None;
  std::optional<Tensor> before =
      build(op, rule, *factors, 0,
            [&](ArrayRef<Meaning> meanings, const Extent &) { return meanings[0]; });
  if (fails || !added || !before)
    return std::nullopt;
  return terms.breaks(Lemma::RowsAdded) ? added : addValues(*before, *added);
}
