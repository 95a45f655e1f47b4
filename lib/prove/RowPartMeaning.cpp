//===- RowPartMeaning.cpp - sorted rows of which each rank has a part -------===//
//
// Where ranks gather all rows and sort them alike, each may go on with those at its own places of
// the order. Which rows these are is data; but each row is in one part. So a sum over the rows of a
// part is one over all rows of which those count that are in it, and sums over parts are sums over
// all rows again.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// 1 where the row with these digits, of all rows, is in this rank's part of the order, else 0.
Meaning Evaluator::isInPart(const RowOrder &order, ArrayRef<Var> row) {
  int64_t ranks = ranksAlong(order.along);
  if (terms.breaks(Lemma::PartOfSorted))
    return terms.number(Rational(1));
  Core core;
  core.key = "part of " + std::to_string(ranks) + " in order";
  core.tag = Core::Tag::Choice;
  core.number = ranks;
  Meaning key = order.key;
  SmallVector<Var, 2> read = rename(terms, key, order.digits);
  Meaning part = terms.apply(core, {key}, {read}, {placeIn(row, terms.variables)},
                             {sizeOf(row, terms.variables)});
  Meaning own = terms.position(placeIn(placesOf(order.along), terms.variables));
  return isZero(terms.add(std::move(part), terms.scale(std::move(own), Rational(-1))));
}

/// Of sorted rows those that lie at a rank's places, which the index says.
std::optional<Rows> Evaluator::takePart(const Rows &rows, unsigned dim, const Tensor &index) {
  const RowOrder &whole = *rows.order;
  if (whole.kind != RowOrder::Kind::Sorted || rows.dim != dim || index.dims.size() != 1 ||
      rows.isPlaceElsewhere)
    return std::nullopt;
  std::optional<Index> place = terms.asPosition(index.meaning);
  if (!place)
    return std::nullopt;
  int64_t own = sizeOf(index.dims[0], terms.variables);
  Index within = placeIn(index.dims[0], terms.variables);
  for (unsigned first = 0; first < axes.size(); ++first) {
    SmallVector<Axis, 1> along;
    for (const Axis &axis : axes.drop_front(first)) {
      along.push_back(axis);
      SmallVector<Var> digits = placesOf(along);
      if (ranksAlong(along) * own != sizeOf(whole.digits, terms.variables) ||
          *place != within + placeIn(digits, terms.variables) * own)
        continue;
      // All of these ranks have one order.
      if (llvm::any_of(digits, [&](Var digit) { return terms.mentions(whole.key, digit); }))
        return std::nullopt;
      auto part = std::make_shared<RowOrder>(whole);
      part->kind = RowOrder::Kind::Part;
      part->along = std::move(along);
      return Rows{rows.value, dim, std::move(part)};
    }
  }
  return std::nullopt;
}

/// Of terms of a sum, each of all rows in one order, a rank gets its part of the sum.
std::optional<Rows> Evaluator::scatterRows(Operation *op, const Rows &rows) {
  auto scatter = cast<dist::ReduceScatterOp>(op);
  std::optional<SmallVector<Axis>> along = findAxes(scatter.getAxes());
  const RowOrder &order = *rows.order;
  bool isSum = scatter.getReduction().getKind() == dist::Reduction::Sum;
  if (!along || !isSum || op->getAttrOfType<IntegerAttr>("dim").getInt() != int64_t(rows.dim) ||
      rows.isPlaceElsewhere ||
      (order.kind != RowOrder::Kind::Sorted && order.kind != RowOrder::Kind::Part))
    return std::nullopt;
  auto part = std::make_shared<RowOrder>(order);
  part->kind = RowOrder::Kind::Part;
  part->along.append(along->begin(), along->end());
  if (sizeOf(order.digits, terms.variables) % ranksAlong(part->along) ||
      llvm::any_of(placesOf(*along), [&](Var digit) { return terms.mentions(order.key, digit); }))
    return std::nullopt;
  std::optional<Tensor> sum = reduce(rows.value, scatter.getReduction(), *along);
  if (!sum)
    return std::nullopt;
  sum->meaning = terms.normalize(std::move(sum->meaning));
  return Rows{std::move(*sum), rows.dim, std::move(part)};
}

/// The parts of all ranks, one behind the other, are all rows in their order; those along the last
/// axes are a larger part.
std::optional<Rows> Evaluator::gatherParts(Operation *op, const Rows &rows) {
  auto names = op->getAttrOfType<ArrayAttr>("axes");
  std::optional<SmallVector<Axis>> along = names ? findAxes(names) : std::nullopt;
  auto isSame = [](const Axis &a, const Axis &b) { return a.name == b.name; };
  const RowOrder &part = *rows.order;
  if (!along || part.kind != RowOrder::Kind::Part || part.along.size() < along->size() ||
      !llvm::equal(ArrayRef(part.along).take_back(along->size()), *along, isSame) ||
      op->getAttrOfType<IntegerAttr>("dim").getInt() != int64_t(rows.dim) || rows.isPlaceElsewhere)
    return std::nullopt;
  // A rank makes of a row what another one would.
  if (llvm::any_of(placesOf(*along),
                   [&](Var digit) { return terms.mentions(rows.value.meaning, digit); }))
    return std::nullopt;
  auto whole = std::make_shared<RowOrder>(part);
  whole->along.truncate(part.along.size() - along->size());
  if (whole->along.empty())
    whole->kind = RowOrder::Kind::Sorted;
  return Rows{rows.value, rows.dim, std::move(whole)};
}

/// Of an op that is linear in an operand along dimension `dim`, over which it adds up: the operand
/// is 0 but for the rows of this rank's part.
bool Evaluator::limitToPart(Operation *op, const RowOrder &order, unsigned operand, unsigned dim,
                            Tensor &value) {
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  if (!isa<aten::MmOp, aten::BmmOp, aten::SumOp, aten::SumDimIntListOp>(op) ||
      tensorOf(op->getOperand(operand).getType()).getElementType() != element)
    return false;
  value.meaning = terms.apply(productOf(element), {value.meaning, isInPart(order, value.dims[dim])},
                              {}, {}, {});
  return true;
}
