//===- GatheredMeaning.cpp - the parts of all ranks side by side ------------===//
//
// Rows that lie at their numbers in the part of each rank may be gathered, or put there by each
// rank for all of them. They are taken by numbers of all ranks' rows: each is the one at which its
// row lies there.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Numbered rows of all ranks along the axes, of which the last are those between which rows went.
std::optional<Rows> Evaluator::gatherNumbered(Operation *op, const Rows &rows) {
  auto gather = cast<dist::AllGatherOp>(op);
  std::optional<SmallVector<Axis>> along = findAxes(gather.getAxes());
  const RowOrder &before = *rows.order;
  bool isNumbered = before.kind == RowOrder::Kind::Numbered;
  if (!along || rows.dim != 0 || op->getAttrOfType<IntegerAttr>("dim").getInt() != 0 ||
      rows.isPlaceElsewhere || rows.isPlaceInPart ||
      !(isNumbered || before.kind == RowOrder::Kind::Gathered))
    return std::nullopt;
  auto order = std::make_shared<RowOrder>(before);
  order->kind = RowOrder::Kind::Gathered;
  Tensor value = withOwnDigits(terms, rows.value);
  if (isNumbered) {
    // What a rank made of a row must not depend on which it is.
    if (along->size() < before.along.size() ||
        !areSame(ArrayRef(*along).take_back(before.along.size()), before.along) ||
        llvm::any_of(placesOf(before.along),
                     [&](Var digit) { return terms.mentions(value.meaning, digit); }))
      return std::nullopt;
    order->room = tensorOf(op->getOperand(0).getType()).getDimSize(0);
    along->truncate(along->size() - before.along.size());
  }
  // Each group of ranks along the others has rows of its own.
  SmallVector<Var> groups = placesOf(*along), from;
  for (Var digit : groups)
    from.push_back(terms.variables.make(terms.variables.getSize(digit)));
  for (Meaning *meaning : {&value.meaning, &order->key, &order->expert})
    *meaning = withDigits(terms, std::move(*meaning), groups, from);
  for (auto *digits : {&value.dims[0], &order->digits})
    digits->insert(digits->begin(), from.begin(), from.end());
  along->append(before.along.begin(), before.along.end());
  order->along.assign(along->begin(), along->end());
  return Rows{std::move(value), 0, order};
}

/// The parts of a group of ranks, or a rank's own.
std::optional<Rows> Evaluator::sliceGathered(Operation *op, const Rows &rows) {
  auto convert = cast<dist::ConvertOp>(op);
  const Axis *axis = findAxis(convert.getAxis());
  std::optional<int64_t> dim = convert.getSlicedDim();
  const RowOrder &before = *rows.order;
  if (before.kind != RowOrder::Kind::Gathered || !axis || dim != 0 || rows.dim != 0 ||
      convert.getDestination().isPartial() || before.along.front().name != axis->name ||
      tensorOf(op->getResult(0).getType()).getDimSize(0) * axis->size !=
          tensorOf(op->getOperand(0).getType()).getDimSize(0))
    return std::nullopt;
  auto order = std::make_shared<RowOrder>(before);
  if (before.along.size() == before.places.along.size()) {
    // Rows go between these ranks: each has its part of them.
    if (before.along.size() != 1)
      return std::nullopt;
    order->kind = RowOrder::Kind::Numbered;
    return Rows{rows.value, 0, order};
  }
  Tensor value = withOwnDigits(terms, rows.value);
  SmallVector<int64_t> strides;
  int64_t stride = sizeOf(value.dims[0], terms.variables);
  for (Var digit : axis->digits)
    strides.push_back(stride /= terms.variables.getSize(digit));
  size_t count = axis->digits.size();
  if (!cut(terms, value, 0, strides))
    return std::nullopt;
  for (auto *digits : {&value.dims[0], &order->digits}) {
    SmallVector<Var> group(ArrayRef<Var>(*digits).take_front(count));
    if (!llvm::equal(group, axis->digits, [&](Var a, Var b) {
          return terms.variables.getSize(a) == terms.variables.getSize(b);
        }))
      return std::nullopt;
    for (Meaning *meaning : {&value.meaning, &order->key, &order->expert})
      *meaning = withDigits(terms, std::move(*meaning), group, axis->digits);
    digits->erase(digits->begin(), digits->begin() + count);
  }
  order->along.erase(order->along.begin());
  return Rows{std::move(value), 0, order};
}

/// Numbers of all rows, of which ranks along these axes made those of their own rows, in the parts
/// of all of them.
std::optional<Evaluator::AllNumbers> Evaluator::asAllNumbers(const Tensor &numbers,
                                                             ArrayRef<Axis> along) {
  SmallVector<Var> ranks = placesOf(along);
  if (llvm::any_of(ranks, [&](Var digit) { return terms.mentions(numbers.meaning, digit); }))
    return std::nullopt;
  std::optional<AllNumbers> found;
  tryOwnForms(numbers.dims[0], along, [&](ArrayRef<Var> from) {
    std::optional<RowNumbers> own = asNumbers(withDigits(terms, numbers.meaning, from, ranks));
    if (!own || own->places.along.size() > along.size() ||
        !areSame(own->places.along, along.take_back(own->places.along.size())))
      return false;
    SmallVector<Var> group = placesOf(along.drop_back(own->places.along.size()));
    std::optional<SmallVector<Var, 2>> digits = byOwnPlace(own->places, numbers.dims[0], from);
    if (!digits || own->before != placeIn(group, terms.variables) * own->places.countParts())
      return false;
    Meaning expert = terms.getOperands(own->part[0].reference)[0];
    found = AllNumbers{std::move(*digits), std::move(*own), {}, {}};
    found->place = withDigits(terms, found->numbers.place, ranks, from);
    found->expert = withDigits(terms, std::move(expert), ranks, from);
    return true;
  });
  return found;
}

/// Rows of all ranks' parts, taken by their numbers.
std::optional<Rows> Evaluator::takeGathered(const Rows &value, unsigned dim, const Rows &index) {
  const RowOrder &parts = *value.order;
  if (parts.kind != RowOrder::Kind::Gathered || value.dim != dim || dim != 0 ||
      index.value.dims.size() != 1 || index.isPlaceElsewhere || index.isPlaceInPart ||
      (index.order->kind != RowOrder::Kind::Sorted && index.order->kind != RowOrder::Kind::Part))
    return std::nullopt;
  Tensor at = withOwnDigits(terms, index.value);
  cutAsAxes(terms, at, parts.along);
  std::optional<AllNumbers> numbers = asAllNumbers(at, parts.along);
  if (!numbers)
    return std::nullopt;
  // They are those of the rows that lie there.
  auto isSame = [&](const Meaning &theirs, const Meaning &own) {
    return areEqual(terms, {{parts.digits}, theirs}, {{numbers->digits}, own});
  };
  bool areThere = numbers->numbers.room == parts.room &&
                  areSame(numbers->numbers.places.along, parts.places.along) &&
                  isSame(parts.key, numbers->place) && isSame(parts.expert, numbers->expert);
  if (!areThere && !terms.breaks(Lemma::GatheredNumbers))
    return std::nullopt;
  Tensor there = withOwnDigits(terms, value.value), byRank{{numbers->digits}, {}};
  Substitution alike;
  if (!cutAlike(terms, byRank, 0, there, 0, alike))
    return std::nullopt;
  bool isCut = byRank.dims[0] != numbers->digits;
  if (isCut && at.dims[0] != numbers->digits)
    return std::nullopt;
  substitute(there.meaning, alike);
  there.meaning = terms.normalize(std::move(there.meaning));
  there.dims[0] = isCut ? byRank.dims[0] : at.dims[0];
  return Rows{withOwnDigits(terms, std::move(there)), 0, index.order};
}

/// Rows of all ranks put at their numbers, each of which its own rank has made.
std::optional<Rows> Evaluator::putAtNumbers(Operation *op, const Rows &index, const Rows &values) {
  if (index.order->kind != RowOrder::Kind::Sorted || index.isPlaceElsewhere ||
      index.value.dims.size() != 1 || values.dim != 0 || values.isPlaceElsewhere ||
      !areAlike(*index.order, *values.order))
    return std::nullopt;
  Tensor at = withOwnDigits(terms, index.value), value = withOwnDigits(terms, values.value);
  cutAsAxes(terms, at, axes);
  Substitution alike;
  if (!cutAlike(terms, at, 0, value, 0, alike))
    return std::nullopt;
  substitute(value.meaning, alike);
  int64_t places = tensorOf(op->getResult(0).getType()).getDimSize(0);
  for (unsigned first = 0; first < axes.size(); ++first) {
    SmallVector<Axis, 1> along;
    for (const Axis &axis : axes.drop_front(first)) {
      along.push_back(axis);
      std::optional<AllNumbers> numbers = asAllNumbers(at, along);
      if (!numbers || numbers->numbers.room * ranksAlong(along) != places)
        continue;
      auto order = std::make_shared<RowOrder>();
      order->kind = RowOrder::Kind::Gathered;
      order->digits = numbers->digits;
      order->key = std::move(numbers->place);
      order->along = std::move(along);
      order->expert = std::move(numbers->expert);
      order->places = std::move(numbers->numbers.places);
      order->room = numbers->numbers.room;
      value.dims[0] = order->digits;
      return Rows{withOwnDigits(terms, std::move(value)), 0, order};
    }
  }
  return std::nullopt;
}
