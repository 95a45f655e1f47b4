//===- OrderMeaning.cpp - what depends on which place comes first -----------===//
//
// A running sum is a sum over all places, of which those count that are not behind its own. What a
// rank adds of the ranks before it is such a sum over their places.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

std::optional<Tensor> Evaluator::runningSum(Operation *op, const Tensor &value) {
  RankedTensorType from = tensorOf(op->getOperand(0).getType());
  RankedTensorType to = tensorOf(op->getResult(0).getType());
  if (from.getElementType() != to.getElementType() || from.getElementType().isInteger(1) ||
      from.getRank() == 0)
    return std::nullopt;
  int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
  dim += dim < 0 ? from.getRank() : 0;
  return sumUpTo(value, dim);
}

/// At each place along the dimension the sum of what is not behind it.
Tensor Evaluator::sumUpTo(const Tensor &value, unsigned dim) {
  // The places that count, by digits of their own.
  Tensor result = value;
  SmallVector<Var, 2> counted = rename(terms, result.meaning, value.dims[dim]);
  Index behind = placeIn(value.dims[dim], terms.variables) - placeIn(counted, terms.variables);
  for (Summand &summand : result.meaning)
    summand.guards.push_back({behind, terms.breaks(Lemma::RunningSum) ? 1 : 0, kFar});
  result.meaning = terms.sum(std::move(result.meaning), counted);
  return result;
}

/// A comparison of two places.
std::optional<Tensor> Evaluator::isBefore(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  for (mlir::Value operand : op->getOperands())
    if (!tensorOf(operand.getType()).getElementType().isSignlessInteger(64))
      return std::nullopt;
  // In the digits of the result: broadcast dimensions have none.
  Tensor result{{}, {}};
  Index places[2];
  SmallVector<Tensor, 2> values;
  for (const Tensor *operand : operands)
    values.push_back(*operand);
  Substitution alike;
  for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
    SmallVector<std::pair<unsigned, unsigned>, 2> there;
    for (unsigned i : {0, 1}) {
      int64_t rank = values[i].dims.size();
      int64_t own = dim - (type.getRank() - rank);
      if (own >= 0 && !values[i].dims[own].empty())
        there.push_back({i, unsigned(own)});
    }
    llvm::SmallVector<Var, 2> digits;
    if (there.size() == 2 &&
        !cutAlike(terms, values[0], there[0].second, values[1], there[1].second, alike))
      return std::nullopt;
    if (!there.empty())
      digits = values[there[0].first].dims[there[0].second];
    result.dims.insert(result.dims.begin(), digits);
  }
  substitute(values[1].meaning, alike);
  for (unsigned i : {0, 1}) {
    std::optional<Index> place = terms.asPosition(values[i].meaning);
    if (!place)
      return std::nullopt;
    places[i] = *place;
  }
  result.meaning = terms.number(Rational(1));
  result.meaning[0].guards.push_back({places[1] - places[0], 1, kFar});
  result.meaning = terms.normalize(std::move(result.meaning));
  return result;
}

/// `where` of a mark that holds at places: each value where it counts.
std::optional<Tensor> Evaluator::chooseByPlace(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  for (unsigned i : {1, 2})
    if (tensorOf(op->getOperand(i).getType()).getElementType() != type.getElementType())
      return std::nullopt;
  if (!tensorOf(op->getOperand(0).getType()).getElementType().isInteger(1))
    return std::nullopt;
  return buildElements(op, operands, [&](ArrayRef<Meaning> meanings) -> std::optional<Meaning> {
    // 1 where one condition on places holds.
    std::optional<Guard> holds = conditionOf(meanings[0]);
    if (!holds)
      return std::nullopt;
    return choose(*holds, meanings[1],
                  terms.breaks(Lemma::ChosenByPlace) ? Meaning() : meanings[2]);
  });
}

bool Evaluator::evaluateOrder(Operation *op, ArrayRef<const Tensor *> operands,
                              std::vector<Tensor> &results) {
  std::optional<Tensor> value;
  if (isa<aten::CumsumOp>(op))
    value = runningSum(op, *operands[0]);
  else if (isa<aten::LtOp>(op))
    value = isBefore(op, operands);
  else if (isa<aten::WhereOp>(op))
    value = chooseByPlace(op, operands);
  if (!value)
    return false;
  coarsen(terms, *value);
  results.push_back(std::move(*value));
  return true;
}
