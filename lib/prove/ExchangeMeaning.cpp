//===- ExchangeMeaning.cpp - rows that ranks send to the ranks of experts ---===//
//
// A rank sends its rows to the ranks that they go to, as many as it has counted, and they come back
// the same way. There they lie at their numbers. Neither changes a row: what comes back to a rank
// is what was made of its own rows. That there is room for them is to be seen, or assumed.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Indexing.h"
#include "lib/prove/Evaluator.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// An exchange of parts of one dimension: what each rank has for this one, side by side.
std::optional<Tensor> Evaluator::swapParts(Operation *op, const Tensor &value) {
  auto swap = cast<dist::AllToAllOp>(op);
  std::optional<SmallVector<Axis>> along = findAxes(swap.getAxes());
  int64_t dim = op->getAttrOfType<IntegerAttr>("split").getInt();
  if (!along || dim != op->getAttrOfType<IntegerAttr>("concat").getInt() ||
      tensorOf(op->getOperand(0).getType()) != tensorOf(op->getResult(0).getType()))
    return std::nullopt;
  // From all ranks, then those parts that are this one's.
  std::optional<Tensor> whole = gather(value, dim, *along);
  if (!whole)
    return std::nullopt;
  size_t numOwn = value.dims[dim].size();
  SmallVector<Var, 2> from(ArrayRef<Var>(whole->dims[dim]).drop_back(numOwn));
  whole->dims[dim].erase(whole->dims[dim].begin(), whole->dims[dim].end() - numOwn);
  std::optional<Tensor> part = shard(*whole, dim, *along);
  if (!part)
    return std::nullopt;
  part->dims[dim].insert(part->dims[dim].begin(), from.begin(), from.end());
  part->meaning = terms.normalize(std::move(part->meaning));
  coarsen(terms, *part);
  return part;
}

//===----------------------------------------------------------------------===//
// Sent and received
//===----------------------------------------------------------------------===//

/// How many of the rows of rank `from` along the axes go to rank `to`. Where ranks have their rows
/// of a part, the rows are those of all of them.
std::optional<Meaning> Evaluator::countBetween(const Meaning &targets, ArrayRef<Var> rows,
                                               ArrayRef<Axis> along, const Index &from,
                                               const Index &to, const RowOrder *part,
                                               Type element) {
  SmallVector<Var> digits = placesOf(along);
  if (part) {
    std::optional<Meaning> each = countEach(targets, {}, to, ranksAlong(along));
    if (!each)
      return std::nullopt;
    return terms.sum(
        terms.apply(productOf(element), {*each, isInPart(*part, rows, from)}, {}, {}, {}), rows);
  }
  std::optional<SmallVector<Index, 2>> places = splitIndex(from, digits, terms.variables);
  if (!places)
    return std::nullopt;
  Substitution change;
  for (auto [digit, place] : llvm::zip(digits, *places))
    change[digit] = place;
  Meaning there = targets;
  substitute(there, change);
  return countEach(terms.normalize(std::move(there)), rows, to, ranksAlong(along));
}

/// Whether these are the numbers of rows that the rank sends to each along the axes, or receives
/// from each. `targets`: by row of the rank's own, the rank that it goes to.
bool Evaluator::countsRows(const Tensor &counts, const Meaning &targets, ArrayRef<Var> rows,
                           ArrayRef<Axis> along, bool isSent, const RowOrder *part, Type element) {
  if (counts.dims.size() != 1 || counts.rows ||
      sizeOf(counts.dims[0], terms.variables) != ranksAlong(along))
    return false;
  if (terms.breaks(Lemma::RowsExchanged))
    return true;
  // Cut as the axes are.
  Tensor each = counts;
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  SmallVector<Var> digits = placesOf(along);
  for (Var digit : llvm::reverse(digits)) {
    strides.push_back(stride);
    stride *= terms.variables.getSize(digit);
  }
  if (!cut(terms, each, 0, strides))
    return false;
  Index other = placeIn(each.dims[0], terms.variables);
  Index own = placeIn(digits, terms.variables);
  std::optional<Meaning> expected =
      isSent ? countBetween(targets, rows, along, own, other, part, element)
             : countBetween(targets, rows, along, other, own, part, element);
  return expected && terms.areEqual(each.meaning, *expected);
}

/// A key of rows that came from several ranks, by row of a rank's own, whose digits are `rows`.
/// Nothing where it depends on the place of the rank that has them.
std::optional<Meaning> Evaluator::ownKey(const RowOrder &order, const Meaning &key,
                                         SmallVectorImpl<Var> &rows) {
  SmallVector<Var> digits = placesOf(order.along);
  if (order.digits.size() < digits.size() ||
      llvm::any_of(digits, [&](Var digit) { return terms.mentions(key, digit); }))
    return std::nullopt;
  Substitution change;
  for (auto [digit, from] : llvm::zip(digits, order.digits))
    change[from] = Index::of(digit);
  Meaning own = key;
  substitute(own, change);
  rows.append(order.digits.begin() + digits.size(), order.digits.end());
  return own;
}

std::optional<Rows> Evaluator::exchange(Operation *op, ArrayRef<const Tensor *> operands) {
  auto ragged = cast<dist::RaggedAllToAllOp>(op);
  std::optional<SmallVector<Axis>> along = findAxes(ragged.getAxes());
  const Rows *given = operands[0]->rows.get();
  if (!along || !given || given->dim != 0 || given->isPlaceElsewhere || given->isPlaceInPart)
    return std::nullopt;
  const RowOrder &before = *given->order;
  SmallVector<Var> digits = placesOf(*along);
  Type element = tensorOf(op->getOperand(1).getType()).getElementType();
  const RowOrder *part = before.part.get();
  // What ranks have of one order is the same for all of them.
  if (part && (!areSame(before.along, *along) || llvm::any_of(digits, [&](Var digit) {
        return terms.mentions(given->value.meaning, digit) || terms.mentions(before.key, digit);
      })))
    return std::nullopt;
  auto counts = [&](unsigned operand, const Meaning &targets, ArrayRef<Var> rows, bool isSent) {
    return countsRows(*operands[operand], targets, rows, *along, isSent, part, element);
  };
  int64_t room = tensorOf(op->getResult(0).getType()).getDimSize(0);
  Tensor value = withOwnDigits(terms, given->value);
  auto order = std::make_shared<RowOrder>();
  // Behind what comes lie zeros.
  auto received = [&](Tensor value, std::shared_ptr<const RowOrder> order) {
    Rows rows{std::move(value), 0, std::move(order)};
    rows.elsewhere = withOwnDigits(terms, Tensor{rows.value.dims, {}});
    return rows;
  };
  if (before.kind == RowOrder::Kind::Sorted || before.kind == RowOrder::Kind::Leaving) {
    // All rows go somewhere, and each rank has as many.
    int64_t all = sizeOf(before.digits, terms.variables) * (part ? 1 : ranksAlong(*along));
    std::optional<int64_t> targets = choicesOf(before.key);
    if (!targets || *targets > ranksAlong(*along) || (all > room && !terms.assumesRoom()) ||
        !counts(1, before.key, before.digits, /*isSent=*/true) ||
        !counts(2, before.key, before.digits, /*isSent=*/false))
      return std::nullopt;
    // Room that was assumed for parts is what is assumed here.
    const Term *divided = asOp(before.key);
    if (divided && divided->core.tag == Core::Tag::Divided) {
      std::string expert = terms.identify(terms.getOperands(before.key[0].reference)[0]);
      if (auto assumed = assumedRooms.find(expert);
          assumed != assumedRooms.end() && assumed->second < room)
        return std::nullopt;
      exchangedRows.insert(expert);
    }
    auto comeFrom = [&](Meaning &meaning, SmallVectorImpl<Var> &dim) {
      SmallVector<Var, 2> from = rename(terms, meaning, digits);
      meaning = terms.normalize(std::move(meaning));
      dim.insert(dim.begin(), from.begin(), from.end());
    };
    if (part) {
      *order = before;
      order->kind = RowOrder::Kind::Received;
      return received(std::move(value), order);
    }
    order->kind = RowOrder::Kind::Received;
    order->digits = before.digits;
    order->key = before.key;
    order->along = {along->begin(), along->end()};
    comeFrom(order->key, order->digits);
    comeFrom(value.meaning, value.dims[0]);
    return received(std::move(value), order);
  }
  // Back to where they came from.
  if (part) {
    if (before.kind != RowOrder::Kind::Received ||
        room * ranksAlong(*along) != sizeOf(before.digits, terms.variables) ||
        !counts(1, before.key, before.digits, /*isSent=*/false) ||
        !counts(2, before.key, before.digits, /*isSent=*/true))
      return std::nullopt;
    *order = before;
    order->kind = RowOrder::Kind::Leaving;
    return Rows{std::move(value), 0, order};
  }
  SmallVector<Var> rows;
  std::optional<Meaning> key =
      before.kind == RowOrder::Kind::Received ? ownKey(before, before.key, rows) : std::nullopt;
  if (!key || !areSame(before.along, *along) || room != sizeOf(rows, terms.variables) ||
      !counts(1, *key, rows, /*isSent=*/false) || !counts(2, *key, rows, /*isSent=*/true))
    return std::nullopt;
  SmallVector<int64_t> strides;
  int64_t stride = room;
  for (Var digit : llvm::reverse(digits)) {
    strides.push_back(stride);
    stride *= terms.variables.getSize(digit);
  }
  if (!cut(terms, value, 0, strides))
    return std::nullopt;
  // What a rank made of a row must not depend on which it is.
  if (llvm::any_of(digits, [&](Var digit) { return terms.mentions(value.meaning, digit); }))
    return std::nullopt;
  Substitution change;
  for (auto [digit, from] : llvm::zip(digits, value.dims[0])) {
    if (terms.variables.getSize(digit) != terms.variables.getSize(from))
      return std::nullopt;
    change[from] = Index::of(digit);
  }
  substitute(value.meaning, change);
  value.meaning = terms.normalize(std::move(value.meaning));
  value.dims[0].erase(value.dims[0].begin(), value.dims[0].begin() + digits.size());
  order->kind = RowOrder::Kind::Sorted;
  order->digits.assign(rows.begin(), rows.end());
  order->key = order->expert = terms.normalize(std::move(*key));
  return Rows{std::move(value), 0, order};
}

//===----------------------------------------------------------------------===//
// At their numbers
//===----------------------------------------------------------------------===//

/// Whether the mark, along the dimension of rows alone, holds at the places that none lies at.
bool Evaluator::isUnused(const Tensor &mark, const Rows &rows) {
  const RowOrder &order = *rows.order;
  bool isReceived = order.kind == RowOrder::Kind::Received;
  bool isTurned = order.kind == RowOrder::Kind::TurnedFirst;
  size_t behind = rows.value.dims.size() - rows.dim;
  if ((!isReceived && !isTurned && order.kind != RowOrder::Kind::Numbered) || mark.rows ||
      mark.dims.size() < behind || mark.dims.size() > rows.value.dims.size())
    return false;
  SmallVector<Var, 2> digits = mark.dims[mark.dims.size() - behind];
  for (auto [i, dim] : llvm::enumerate(mark.dims))
    if (i + behind != mark.dims.size() && !dim.empty())
      return false;
  const Term *term = asOp(mark.meaning);
  if (!term || term->core.tag != Core::Tag::AtLeastOther)
    return false;
  std::vector<Meaning> operands = terms.getOperands(mark.meaning[0].reference);
  std::optional<Index> place = terms.asPosition(operands[0]);
  if (operands.size() != 2 || !place || *place != placeIn(digits, terms.variables))
    return false;
  if (isTurned)
    return terms.areEqual(operands[1], order.here);
  Index own = placeIn(placesOf(order.along), terms.variables);
  if (!isReceived)
    return terms.areEqual(operands[1],
                          rowsUpTo(order.places, own, Index(order.places.perPart - 1)));
  // As many as come from all ranks.
  std::optional<Meaning> count = countEach(order.key, order.digits, own, ranksAlong(order.along));
  return count && terms.areEqual(operands[1], *count);
}

/// Rows put at their numbers in the part: each number is there once.
std::optional<Rows> Evaluator::putByNumber(const Rows &index, const Rows &values) {
  if (index.order->kind != RowOrder::Kind::Received || !areAlike(*index.order, *values.order) ||
      values.isPlaceElsewhere)
    return std::nullopt;
  // The place of a row in the part, as its own rank has it.
  RowOrder order = *index.order;
  Tensor at = index.value, value = withOwnDigits(terms, values.value);
  if (order.part)
    cutAsAxes(terms, at, order.along);
  Meaning target = keyAt(order, order.key, at, 0);
  SmallVector<Var> rows, digits = placesOf(order.along);
  RowOrder cut = order;
  std::optional<RowPlaces> places;
  if (order.part) {
    // By rank and place there, as if they had come from where they were made.
    Substitution alike;
    if (!cutAlike(terms, at, 0, value, 0, alike))
      return std::nullopt;
    target = keyAt(order, order.key, at, 0);
    std::optional<OwnRows> own = asOwnRows(order, at);
    if (!own)
      return std::nullopt;
    alike.clear();
    if (!cutAlike(terms, at, 0, value, 0, alike))
      return std::nullopt;
    substitute(value.meaning, alike);
    value.dims[0] = cut.digits = own->digits;
    rows.append(own->digits.begin() + digits.size(), own->digits.end());
    places = std::move(own->places);
  } else {
    cut.digits = at.dims[0];
    std::optional<Meaning> place = ownKey(cut, at.meaning, rows);
    places = place ? asPlaces(terms.normalize(std::move(*place))) : std::nullopt;
  }
  if (!places || !areSame(places->along, order.along) ||
      places->place != placeIn(rows, terms.variables))
    return std::nullopt;
  // They are on the ranks of their parts.
  Meaning expert = places->expert;
  std::optional<SmallVector<Index, 2>> own =
      splitIndex(placeIn(rows, terms.variables), places->rows, terms.variables);
  if (!own)
    return std::nullopt;
  Substitution change;
  for (auto [row, index] : llvm::zip(places->rows, *own))
    change[row] = index;
  for (auto [digit, from] : llvm::zip(digits, cut.digits))
    change[digit] = Index::of(from);
  substitute(expert, change);
  expert = terms.normalize(std::move(expert));
  const Term *part = asOp(target);
  if (!part || part->core.tag != Core::Tag::Divided || part->core.number != places->perPart ||
      !terms.areEqual(terms.getOperands(target[0].reference)[0], expert))
    return std::nullopt;
  auto made = std::make_shared<RowOrder>();
  made->kind = RowOrder::Kind::Numbered;
  made->digits = cut.digits;
  made->key = at.meaning;
  made->along = order.along;
  made->expert = std::move(expert);
  made->places = std::move(*places);
  Rows put{withOwnDigits(terms, std::move(value)), 0, made};
  // Places without a row keep theirs.
  put.elsewhere = values.elsewhere;
  return put;
}

/// Rows at their numbers, in the order in which they came.
std::optional<Rows> Evaluator::takeByNumber(const Rows &value, unsigned dim, const Rows &index) {
  if (value.order->kind != RowOrder::Kind::Numbered || value.dim != dim || dim != 0 ||
      index.order->kind != RowOrder::Kind::Received || !index.isPlaceElsewhere ||
      value.isPlaceElsewhere)
    return std::nullopt;
  Tensor at = index.value, there = withOwnDigits(terms, value.value);
  if (index.order->part)
    cutAsAxes(terms, at, index.order->along);
  Meaning target = keyAt(*index.order, index.order->key, at, 0);
  // By rank and place there.
  std::optional<OwnRows> own;
  if (index.order->part && !(own = asOwnRows(*index.order, at)))
    return std::nullopt;
  Tensor byRank{{own ? own->digits : at.dims[0]}, at.meaning};
  if (!areSame(value.order->along, index.order->along) ||
      !areEqual(terms, {{value.order->digits}, value.order->key}, byRank))
    return std::nullopt;
  // That they went to the same ranks.
  Meaning expert = keyAt(*value.order, value.order->expert, byRank, 0);
  if (own) {
    Substitution alike;
    if (!cutAlike(terms, byRank, 0, there, 0, alike) || byRank.dims[0] != own->digits)
      return std::nullopt;
    substitute(there.meaning, alike);
    there.dims[0] = at.dims[0];
    there = withOwnDigits(terms, std::move(there));
  } else {
    at = byRank;
  }
  target = keyAt(*index.order, index.order->key, at, 0);
  const Term *part = asOp(target);
  if (!part || part->core.tag != Core::Tag::Divided ||
      part->core.number != value.order->places.perPart ||
      !terms.areEqual(terms.getOperands(target[0].reference)[0], expert))
    return std::nullopt;
  Rows rows{std::move(there), 0, index.order};
  rows.elsewhere = value.elsewhere;
  return rows;
}

std::optional<Rows> Evaluator::chooseRows(Operation *op, ArrayRef<const Tensor *> operands) {
  auto where = cast<aten::WhereOp>(op);
  auto typeOf = [&](unsigned i) { return tensorOf(op->getOperand(i).getType()); };
  const Rows *otherwise = operands[2]->rows.get();
  if (!otherwise || typeOf(2) != tensorOf(where.getResult().getType()) || !typeOf(0) ||
      typeOf(2).getElementType() != typeOf(1).getElementType())
    return std::nullopt;
  const RowOrder &order = *otherwise->order;
  if (const Rows *mark = operands[0]->rows.get()) {
    // Rows for which a part has no room.
    const Term *term = asOp(mark->value.meaning);
    if (!term || term->core.tag != Core::Tag::AtLeast || !areAlike(order, *mark->order) ||
        otherwise->isPlaceElsewhere)
      return std::nullopt;
    int64_t room = term->core.number;
    std::optional<RowPlaces> places =
        asPlaces(terms.getOperands(mark->value.meaning[0].reference)[0]);
    if (!places)
      return std::nullopt;
    if (fitsIn(*places, room)) {
      Rows made = *otherwise;
      made.elsewhere.reset();
      return made;
    }
    if (note.empty())
      note = llvm::formatv("a rank has room for {0} of the {1} rows that may come to it, and a run "
                           "in which more do ends with an error: --assume=room-for-rows proves "
                           "what others compute",
                           room, places->countParts() * sizeOf(places->rows, terms.variables));
    return std::nullopt;
  }
  // Places without a row keep what lies there: themselves.
  if (order.kind != RowOrder::Kind::Received || typeOf(1).getRank() != 1 || operands[1]->rows ||
      otherwise->isPlaceElsewhere || otherwise->value.dims.size() != 1 ||
      typeOf(0).getShape() != typeOf(2).getShape() || !isUnused(*operands[0], *otherwise))
    return std::nullopt;
  std::optional<Index> place = terms.asPosition(operands[1]->meaning);
  if (!place || *place != placeIn(operands[1]->dims[0], terms.variables))
    return std::nullopt;
  Rows made = *otherwise;
  made.isPlaceElsewhere = true;
  made.elsewhere.reset();
  return made;
}
