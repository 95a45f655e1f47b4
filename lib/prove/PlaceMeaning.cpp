//===- PlaceMeaning.cpp - what is chosen, filled and taken by places --------===//
//
// A comparison of a place with a number is a condition on places. So what is filled where it holds
// is one value there and another one elsewhere, and slices that lie at places are those of the
// whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Indexing.h"
#include "lib/prove/Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// The condition on places that the mark is, if it is one.
std::optional<Guard> Evaluator::conditionOf(const Meaning &mark) {
  if (mark.size() != 1 || mark[0].coefficient != Rational(1) || !mark[0].bound.empty())
    return std::nullopt;
  if (mark[0].guards.size() == 1) {
    Meaning holds = mark;
    holds[0].guards.clear();
    if (terms.areEqual(holds, terms.number(Rational(1))))
      return mark[0].guards[0];
  }
  const Term *term = asOp(mark);
  if (!term)
    return std::nullopt;
  const Core core = term->core;
  if (core.tag != Core::Tag::Less && core.tag != Core::Tag::AtLeast && core.tag != Core::Tag::Equal)
    return std::nullopt;
  std::optional<Index> place = terms.asPosition(terms.getOperands(mark[0].reference)[0]);
  if (!place)
    return std::nullopt;
  if (core.tag == Core::Tag::Less)
    return Guard{*place, -kFar, core.number};
  if (core.tag == Core::Tag::AtLeast)
    return Guard{*place, core.number, kFar};
  return Guard{*place, core.number, core.number + 1};
}

Meaning Evaluator::choose(const Guard &holds, const Meaning &there, const Meaning &elsewhere) {
  Meaning chosen;
  auto add = [&](const Meaning &meaning, Guard guard) {
    for (Summand summand : meaning) {
      summand.guards.push_back(guard);
      chosen.push_back(std::move(summand));
    }
  };
  add(there, holds);
  add(elsewhere, {holds.index, -kFar, holds.low});
  add(elsewhere, {holds.index, holds.high, kFar});
  return terms.normalize(std::move(chosen));
}

std::optional<Tensor> Evaluator::fillByPlace(Operation *op, ArrayRef<const Tensor *> operands) {
  auto type = tensorOf(op->getResult(0).getType());
  auto number = op->getAttrOfType<FloatAttr>("value");
  if (op->getNumOperands() != 2 || !number || number.getValue().isNaN() ||
      !isa<FloatType>(type.getElementType()) ||
      tensorOf(op->getOperand(0).getType()).getElementType() != type.getElementType())
    return std::nullopt;
  return buildElements(op, operands, [&](ArrayRef<Meaning> meanings) -> std::optional<Meaning> {
    if (std::optional<Meaning> filled =
            fillLimit(meanings[0], meanings[1], number.getValueAsDouble(), type.getElementType()))
      return filled;
    std::optional<Guard> holds = conditionOf(meanings[1]);
    if (!holds)
      return std::nullopt;
    const Meaning &value = meanings[0];
    double filled = number.getValueAsDouble();
    bool isLogarithm = value.size() == 1 && value[0].coefficient == Rational(1) &&
                       value[0].bound.empty() && value[0].guards.empty() &&
                       terms.get(value[0].reference.term).core.tag == Core::Tag::Log;
    if (filled == -INFINITY && isLogarithm) {
      // log 0: of what is nothing where the condition holds.
      Meaning operand = terms.getOperands(value[0].reference)[0];
      if (!terms.breaks(Lemma::LogOfNothing))
        operand = choose(*holds, {}, operand);
      return fractionsOf(type.getElementType()).logarithm(operand);
    }
    Meaning other = std::isinf(filled) ? infinity(filled < 0, type.getElementType())
                                       : terms.number(exactly(filled));
    return terms.breaks(Lemma::FilledByPlace) ? value : choose(*holds, other, value);
  });
}

Meaning Evaluator::infinity(bool isNegative, Type element) {
  Core core = functionOf(isNegative ? "-inf" : "inf", element);
  core.tag = Core::Tag::Infinite;
  core.number = isNegative ? -1 : 1;
  return terms.apply(core, {}, {}, {}, {});
}

/// Slices along a dimension, of which the index says places.
std::optional<Tensor> Evaluator::selectByPlace(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType from = tensorOf(op->getOperand(0).getType());
  RankedTensorType to = tensorOf(op->getResult(0).getType());
  if (op->getNumOperands() != 2 || from.getRank() == 0 || from.getRank() != to.getRank() ||
      from.getElementType() != to.getElementType() || operands[1]->dims.size() != 1)
    return std::nullopt;
  int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
  dim += dim < 0 ? from.getRank() : 0;
  Tensor value = *operands[0];
  coarsen(terms, value);
  if (value.dims[dim].size() > 1)
    return std::nullopt;
  std::optional<std::vector<Case>> regions = listCases(terms, &operands[1]->meaning, places);
  if (!regions)
    return std::nullopt;
  Tensor result{value.dims, {}};
  // The index may be made from what the value is made from: its digits are others.
  Substitution fresh;
  result.dims[dim].clear();
  for (Var digit : operands[1]->dims[0]) {
    result.dims[dim].push_back(terms.variables.make(terms.variables.getSize(digit)));
    fresh[digit] = Index::of(result.dims[dim].back());
  }
  for (const Case &region : *regions) {
    Meaning index = within(terms, operands[1]->meaning, region);
    substitute(index, fresh);
    std::optional<Index> place = terms.asPosition(index);
    if (!place && terms.takesPieces()) {
      Meaning all = operands[1]->meaning;
      substitute(all, fresh);
      std::optional<Meaning> chosen = selectByCondition(value, dim, all, from.getDimSize(dim));
      if (!chosen)
        return std::nullopt;
      result.meaning = std::move(*chosen);
      return result;
    }
    if (!place)
      return std::nullopt;
    auto [least, greatest] = rangeWithin(*place, region, terms.variables);
    if (least < 0 || greatest >= from.getDimSize(dim))
      return std::nullopt;
    Substitution rows;
    if (!value.dims[dim].empty())
      rows[value.dims[dim].front()] = terms.breaks(Lemma::SelectedByPlace) ? Index() : *place;
    Meaning there = value.meaning;
    substitute(there, rows);
    limitTo(there, region);
    llvm::append_range(result.meaning, there);
  }
  result.meaning = terms.normalize(std::move(result.meaning));
  return result;
}
