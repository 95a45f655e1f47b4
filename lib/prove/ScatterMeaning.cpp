//===- ScatterMeaning.cpp - rows added where indices say --------------------===//
//
// What lies at a row is what lay there, and the sum of all sources, each times whether its index,
// or its indices of several dimensions, name the row. So sources of which each rank adds its part
// add up to the whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Indexing.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

std::optional<Tensor> Evaluator::addRows(Operation *op, ArrayRef<const Tensor *> operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (op->getNumOperands() < 3 || op->hasAttr("alpha") || !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  // Indices of so many dimensions, from the first one that is named on.
  unsigned numIndices = op->getNumOperands() - 2;
  int64_t first = 0;
  if (auto put = dyn_cast<aten::IndexPutOp>(op)) {
    auto present = put.getIndicesPresent();
    if (!put.getAccumulate().value_or(false) ||
        (present && !llvm::all_of(present->take_front(numIndices), [](bool is) { return is; })))
      return std::nullopt;
  } else {
    first = op->getAttrOfType<IntegerAttr>("dim").getInt();
    first += first < 0 ? type.getRank() : 0;
  }
  auto index = cast<RankedTensorType>(op->getOperand(1).getType());
  auto rowsAdded = cast<RankedTensorType>(op->getOperand(numIndices + 1).getType());
  SmallVector<int64_t> expected(type.getShape().take_front(first));
  llvm::append_range(expected, index.getShape());
  llvm::append_range(expected, type.getShape().drop_front(first + numIndices));
  bool areAlike = llvm::all_of(op->getOperands().slice(1, numIndices), [&](mlir::Value other) {
    auto tensor = cast<RankedTensorType>(other.getType());
    return tensor.getShape() == index.getShape() && tensor.getElementType().isSignlessInteger(64);
  });
  if (!areAlike || rowsAdded.getShape() != ArrayRef(expected))
    return std::nullopt;
  sharding::ShardingRule rule = sharding::getShardingRule(op);
  if (rule.isOpaque())
    return std::nullopt;
  // The rule keeps rows whole, since an index may name any; here each says which.
  SmallVector<sharding::FactorId> rows;
  for (int64_t dim = first; dim < first + numIndices; ++dim) {
    for (const sharding::TensorFactors *tensor : {&rule.results[0], &rule.operands[0]}) {
      if ((*tensor)[dim].size() != 1)
        return std::nullopt;
      rule.factors[(*tensor)[dim].front()].wholeReason = nullptr;
    }
    rule.operands[0][dim] = rule.results[0][dim];
    rows.push_back(rule.results[0][dim].front());
  }
  for (sharding::Factor &factor : rule.factors) {
    factor.addends.clear();
    if (factor.isWhole() && factor.size > 1)
      return std::nullopt;
  }
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors)
    return std::nullopt;
  bool fails = false;
  std::optional<Tensor> added =
      build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &) {
        Meaning value = meanings.back();
        for (auto [i, factor] : llvm::enumerate(rows)) {
          SmallVector<Var> digits;
          for (const Digit &digit : llvm::reverse(factors->digits[factor]))
            digits.push_back(digit.var);
          std::optional<Filled> filled;
          std::optional<Meaning> named = names(meanings[i + 1], placeIn(digits, terms.variables),
                                               type.getDimSize(first + int64_t(i)), filled);
          fails |= !named || filled;
          if (fails)
            return Meaning();
          value = whereNamed(*named, value, type.getElementType());
        }
        return value;
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
