//===- RowPartMeaning.cpp - sorted rows of which each rank has a part -------===//
//
// Where ranks gather all rows and sort them alike, each may go on with those at its own places of
// the order. Which rows these are is data; but each row is in one part. So a sum over the rows of a
// part is one over all rows of which those count that are in it, and sums over parts are sums over
// all rows again.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// 1 where the row with these digits, of all rows, is in this rank's part of the order, or in that
/// of the rank at this place, else 0.
Meaning Evaluator::isInPart(const RowOrder &order, ArrayRef<Var> row, std::optional<Index> rank) {
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
  Meaning own = terms.position(rank ? *rank : placeIn(placesOf(order.along), terms.variables));
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
  // The axes whose places it is made of, the one that counts most first; or one of a single rank.
  auto strideOf = [&](const Axis &axis) {
    return axis.digits.empty() ? 0 : place->getCoefficient(axis.digits.back());
  };
  SmallVector<Axis, 1> along;
  for (const Axis &axis : axes)
    if (strideOf(axis) > 0)
      along.push_back(axis);
  llvm::stable_sort(
      along, [&](const Axis &left, const Axis &right) { return strideOf(left) > strideOf(right); });
  if (along.empty())
    for (const Axis &axis : axes)
      if (axis.size == 1 && along.empty())
        along.push_back(axis);
  SmallVector<Var> digits = placesOf(along);
  if (along.empty() || ranksAlong(along) * own != sizeOf(whole.digits, terms.variables) ||
      *place != within + placeIn(digits, terms.variables) * own)
    return std::nullopt;
  // All of these ranks have one order.
  if (llvm::any_of(digits, [&](Var digit) { return terms.mentions(whole.key, digit); }))
    return std::nullopt;
  auto part = std::make_shared<RowOrder>(whole);
  part->kind = RowOrder::Kind::Part;
  part->along = std::move(along);
  return Rows{rows.value, dim, std::move(part)};
}

/// Of rows in one order, or of terms of a sum, each of all of them, a rank gets its part.
std::optional<Rows> Evaluator::scatterRows(Operation *op, const Rows &rows) {
  auto scatter = dyn_cast<dist::ReduceScatterOp>(op);
  auto convert = dyn_cast<dist::ConvertOp>(op);
  std::optional<SmallVector<Axis>> along;
  std::optional<int64_t> dim;
  if (scatter) {
    along = findAxes(scatter.getAxes());
    dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
  } else if (const Axis *axis = findAxis(convert.getAxis())) {
    along = SmallVector<Axis>{*axis};
    dim = convert.getSlicedDim();
  }
  const RowOrder &order = *rows.order;
  bool isSum = scatter ? scatter.getReduction().getKind() == dist::Reduction::Sum
                       : !convert.getDestination().isPartial();
  if (!along || !isSum || dim != int64_t(rows.dim) || rows.isPlaceElsewhere ||
      (order.kind != RowOrder::Kind::Sorted && order.kind != RowOrder::Kind::Part) ||
      tensorOf(op->getResult(0).getType()).getDimSize(*dim) * ranksAlong(*along) !=
          tensorOf(op->getOperand(0).getType()).getDimSize(*dim))
    return std::nullopt;
  // Ranks along axes that have divided the rows have others.
  for (const Axis &own : order.along)
    if (llvm::any_of(*along, [&](const Axis &axis) { return axis.name == own.name; }))
      return std::nullopt;
  auto part = std::make_shared<RowOrder>(order);
  part->kind = RowOrder::Kind::Part;
  part->along.append(along->begin(), along->end());
  if (sizeOf(order.digits, terms.variables) % ranksAlong(part->along) ||
      llvm::any_of(placesOf(*along), [&](Var digit) { return terms.mentions(order.key, digit); }))
    return std::nullopt;
  std::optional<Tensor> own =
      scatter ? reduce(rows.value, scatter.getReduction(), *along) : std::optional(rows.value);
  if (!own)
    return std::nullopt;
  own->meaning = terms.normalize(std::move(own->meaning));
  return Rows{std::move(*own), rows.dim, std::move(part)};
}

/// A rank's part of a value that all have, which begins where no digit does.
std::optional<Rows> Evaluator::takePiece(Operation *op, const Tensor &value) {
  auto convert = cast<dist::ConvertOp>(op);
  const Axis *axis = findAxis(convert.getAxis());
  std::optional<int64_t> dim = convert.getSlicedDim();
  if (!axis || !dim || convert.getDestination().isPartial() ||
      tensorOf(op->getResult(0).getType()).getDimSize(*dim) * axis->size !=
          tensorOf(op->getOperand(0).getType()).getDimSize(*dim) ||
      llvm::any_of(axis->digits, [&](Var digit) { return terms.mentions(value.meaning, digit); }) ||
      shard(value, *dim, *axis))
    return std::nullopt;
  auto piece = std::make_shared<RowOrder>();
  piece->kind = RowOrder::Kind::Piece;
  piece->digits = value.dims[*dim];
  piece->along = {*axis};
  return Rows{value, unsigned(*dim), std::move(piece)};
}

/// The parts of all ranks, one behind the other, are all rows in their order; those along the last
/// axes are a larger part.
std::optional<Rows> Evaluator::gatherParts(Operation *op, const Rows &rows) {
  auto names = op->getAttrOfType<ArrayAttr>("axes");
  std::optional<SmallVector<Axis>> along = names ? findAxes(names) : std::nullopt;
  const RowOrder &part = *rows.order;
  if (!along || (part.kind != RowOrder::Kind::Part && part.kind != RowOrder::Kind::Piece) ||
      part.along.size() < along->size() ||
      !areSame(ArrayRef(part.along).take_back(along->size()), *along) ||
      op->getAttrOfType<IntegerAttr>("dim").getInt() != int64_t(rows.dim) || rows.isPlaceElsewhere)
    return std::nullopt;
  // A rank makes of a row what another one would.
  if (llvm::any_of(placesOf(*along),
                   [&](Var digit) { return terms.mentions(rows.value.meaning, digit); }))
    return std::nullopt;
  auto whole = std::make_shared<RowOrder>(part);
  whole->along.truncate(part.along.size() - along->size());
  if (whole->along.empty() && part.kind == RowOrder::Kind::Part)
    whole->kind = RowOrder::Kind::Sorted;
  return Rows{rows.value, rows.dim, std::move(whole)};
}

/// Rows that ranks exchange for parts of another dimension: all rows, of which each rank has a part
/// of each, or the rank's part of the rows, each whole.
std::optional<Rows> Evaluator::swapRows(Operation *op, const Rows &rows) {
  std::optional<SmallVector<Axis>> along = findAxes(cast<dist::AllToAllOp>(op).getAxes());
  int64_t split = op->getAttrOfType<IntegerAttr>("split").getInt();
  int64_t concat = op->getAttrOfType<IntegerAttr>("concat").getInt(), dim = rows.dim;
  RankedTensorType from = tensorOf(op->getOperand(0).getType());
  RankedTensorType to = tensorOf(op->getResult(0).getType());
  const RowOrder &order = *rows.order;
  bool isPart = order.kind == RowOrder::Kind::Part;
  if (!along || split == concat || (split != dim && concat != dim) || rows.isPlaceElsewhere ||
      rows.isPlaceInPart || (!isPart && order.kind != RowOrder::Kind::Sorted) ||
      to.getDimSize(split) * ranksAlong(*along) != from.getDimSize(split) ||
      from.getDimSize(concat) * ranksAlong(*along) != to.getDimSize(concat))
    return std::nullopt;
  auto dependsOnRank = [&](const Meaning &meaning) {
    return llvm::any_of(*along, [&](const Axis &axis) {
      return terms.mentions(meaning, axis.whole) ||
             llvm::any_of(axis.digits, [&](Var digit) { return terms.mentions(meaning, digit); });
    });
  };
  auto made = std::make_shared<RowOrder>(order);
  std::optional<Tensor> value;
  if (concat == dim) {
    // A rank makes of a row what another one would.
    bool isLast = isPart && order.along.size() >= along->size() &&
                  (areSame(ArrayRef(order.along).take_back(along->size()), *along) ||
                   terms.breaks(Lemma::RowsForColumns));
    if (!isLast || dependsOnRank(rows.value.meaning))
      return std::nullopt;
    made->along.truncate(order.along.size() - along->size());
    if (made->along.empty())
      made->kind = RowOrder::Kind::Sorted;
    value = shard(rows.value, split, *along);
  } else {
    made->kind = RowOrder::Kind::Part;
    made->along.append(along->begin(), along->end());
    bool isCut = llvm::any_of(order.along, [&](const Axis &own) {
      return llvm::any_of(*along, [&](const Axis &axis) { return axis.name == own.name; });
    });
    if (isCut || dependsOnRank(order.key) ||
        sizeOf(order.digits, terms.variables) % ranksAlong(made->along))
      return std::nullopt;
    value = gather(rows.value, concat, *along);
  }
  if (!value)
    return std::nullopt;
  value->meaning = terms.normalize(std::move(value->meaning));
  return Rows{std::move(*value), rows.dim, std::move(made)};
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

//===----------------------------------------------------------------------===//
// Parts that are sent
//===----------------------------------------------------------------------===//

/// The rows of a part in the order of a key that each has.
bool Evaluator::sortPart(Operation *op, const Rows &keys, std::vector<Tensor> &results) {
  auto sort = cast<aten::SortStableOp>(op);
  RankedTensorType type = tensorOf(sort.getSelf().getType());
  if (!sort.getStable().value_or(false) || sort.getDescending().value_or(false) ||
      type.getRank() != 1 || !type.getElementType().isSignlessInteger(64) ||
      keys.order->kind != RowOrder::Kind::Part || keys.isPlaceElsewhere)
    return false;
  auto order = std::make_shared<RowOrder>();
  order->kind = RowOrder::Kind::Leaving;
  order->digits = keys.value.dims[0];
  order->key = order->expert = keys.value.meaning;
  order->along = keys.order->along;
  order->part = keys.order;
  // Where in the part a row lies is a function of the row, of which nothing else is known.
  int64_t rows = sizeOf(order->digits, terms.variables);
  Tensor places{makeDims(terms, rows), {}};
  std::string name = "place in part " + std::to_string(terms.variables.make(1));
  places.meaning = terms.leaf(name, rows, placeIn(places.dims[0], terms.variables));
  results[0].rows = std::make_shared<Rows>(Rows{keys.value, 0, order});
  Rows indices{std::move(places), 0, order};
  indices.isPlaceInPart = true;
  results[1].rows = std::make_shared<Rows>(std::move(indices));
  return true;
}

/// Rows of the part in the order of the sorted places.
std::optional<Rows> Evaluator::takeOfPart(const Rows &value, unsigned dim, const Rows &index) {
  if (index.order->kind != RowOrder::Kind::Leaving || value.dim != dim || value.isPlaceElsewhere ||
      value.isPlaceInPart || !areAlike(*value.order, *index.order->part))
    return std::nullopt;
  return Rows{value.value, dim, index.order};
}

/// Rows in such an order where they lay in the part before.
std::optional<Rows> Evaluator::putInPart(const Rows &index, const Rows &values) {
  if (index.order->kind != RowOrder::Kind::Leaving || values.isPlaceElsewhere ||
      values.isPlaceInPart || !areAlike(*values.order, *index.order))
    return std::nullopt;
  return Rows{values.value, values.dim, index.order->part};
}

/// Whether `visit` takes one of the choices of digits of rows for the ranks along the axes.
bool Evaluator::tryOwnForms(ArrayRef<Var> rows, ArrayRef<Axis> along,
                            llvm::function_ref<bool(ArrayRef<Var>)> visit) {
  SmallVector<Var> digits = placesOf(along), chosen;
  auto choose = [&](auto &&self) -> bool {
    if (chosen.size() == digits.size())
      return visit(chosen);
    int64_t size = terms.variables.getSize(digits[chosen.size()]);
    for (Var row : rows) {
      if (terms.variables.getSize(row) != size || llvm::is_contained(chosen, row))
        continue;
      chosen.push_back(row);
      if (self(self))
        return true;
      chosen.pop_back();
    }
    return false;
  };
  return choose(choose);
}

Meaning cleave::prove::withDigits(Terms &terms, Meaning meaning, ArrayRef<Var> from,
                                  ArrayRef<Var> to) {
  Substitution change;
  for (auto [a, b] : llvm::zip(from, to))
    change[a] = Index::of(b);
  substitute(meaning, change);
  return terms.normalize(std::move(meaning));
}

void cleave::prove::cutAsAxes(Terms &terms, Tensor &value, ArrayRef<Axis> axes) {
  for (const Axis &axis : axes) {
    SmallVector<int64_t> strides;
    for (const Digit &digit : digitsOf(value.dims[0], terms.variables)) {
      int64_t stride = digit.stride;
      if (digit.size == axis.size)
        for (Var minor : llvm::reverse(ArrayRef<Var>(axis.digits).drop_front()))
          strides.push_back(stride *= terms.variables.getSize(minor));
    }
    cut(terms, value, 0, strides);
  }
}

/// Parts and places of numbers, each of which a rank made of its own rows: what it says of them is
/// so of all.
bool Evaluator::divideNumbers(Operation *op, const RowOrder &order,
                              const std::vector<Tensor> &values, std::vector<Tensor> &results) {
  bool isChoice = isa<aten::WhereOp>(op);
  if (!isChoice && !isa<aten::FloorDivideScalarOp, aten::RemainderScalarOp>(op))
    return false;
  SmallVector<Var> ranks = placesOf(order.along);
  Tensor numbers = values.front();
  if (numbers.dims.size() != 1)
    return false;
  cutAsAxes(terms, numbers, order.along);
  if (llvm::any_of(ranks, [&](Var digit) { return terms.mentions(numbers.meaning, digit); }))
    return false;
  return tryOwnForms(numbers.dims[0], order.along, [&](ArrayRef<Var> from) {
    Tensor own = numbers;
    own.meaning = withDigits(terms, std::move(own.meaning), from, ranks);
    // Neighbours that nothing reads any more would be merged.
    SmallVector<SmallVector<Var, 2>, 2> runs;
    SmallVector<Var, 2> runDigits;
    own.dims[0].clear();
    for (Var row : numbers.dims[0]) {
      if (!llvm::is_contained(from, row)) {
        own.dims[0].push_back(row);
        continue;
      }
      if (runs.empty() || own.dims[0].empty() || own.dims[0].back() != runDigits.back()) {
        runs.emplace_back();
        runDigits.push_back(terms.variables.make(1));
        own.dims[0].push_back(runDigits.back());
      }
      runs.back().push_back(row);
      Var &digit = runDigits.back();
      digit = own.dims[0].back() = terms.variables.make(sizeOf(runs.back(), terms.variables));
    }
    SmallVector<const Tensor *> given{&own};
    for (const Tensor &other : ArrayRef(values).drop_front())
      given.push_back(&other);
    results.clear();
    if (!evaluateCounts(op, given, results))
      return false;
    Tensor &made = results.front();
    if (isChoice) {
      made = values[2];
      return true;
    }
    for (auto [digit, run] : llvm::zip(runDigits, runs)) {
      // Digits that were merged all the same are lost.
      auto *place = llvm::find(made.dims[0], digit);
      if (place == made.dims[0].end()) {
        results.clear();
        return false;
      }
      place = made.dims[0].erase(place);
      made.dims[0].insert(place, run.begin(), run.end());
    }
    made.meaning = withDigits(terms, std::move(made.meaning), ranks, from);
    return true;
  });
}

/// The digits of rows by the rank that has each, which some of them are, then by place there.
std::optional<SmallVector<Var, 2>> Evaluator::byOwnPlace(const RowPlaces &places,
                                                         ArrayRef<Var> rows, ArrayRef<Var> ranks) {
  SmallVector<Var, 2> own;
  llvm::copy_if(rows, std::back_inserter(own),
                [&](Var row) { return !llvm::is_contained(ranks, row); });
  llvm::stable_sort(own, [&](Var a, Var b) {
    return places.place.getCoefficient(a) > places.place.getCoefficient(b);
  });
  if (places.place != placeIn(own, terms.variables))
    return std::nullopt;
  own.insert(own.begin(), ranks.begin(), ranks.end());
  return own;
}

std::optional<Evaluator::OwnRows> Evaluator::asOwnRows(const RowOrder &order,
                                                       const Tensor &numbers) {
  SmallVector<Var> ranks = placesOf(order.along);
  // What a rank made of others' rows is not a number of theirs.
  if (llvm::any_of(ranks, [&](Var digit) { return terms.mentions(numbers.meaning, digit); }))
    return std::nullopt;
  std::optional<OwnRows> found;
  tryOwnForms(numbers.dims[0], order.along, [&](ArrayRef<Var> from) {
    std::optional<RowPlaces> places = asPlaces(withDigits(terms, numbers.meaning, from, ranks));
    if (!places || !areSame(places->along, order.along))
      return false;
    std::optional<SmallVector<Var, 2>> digits = byOwnPlace(*places, numbers.dims[0], from);
    if (digits)
      found = OwnRows{std::move(*digits), std::move(*places)};
    return found.has_value();
  });
  return found;
}
