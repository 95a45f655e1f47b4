//===- GroupedMeaning.cpp - products of rows and the matrices of experts ----===//
//
// Where groups end where the rows of experts do, a row is multiplied by its expert's matrix: the
// sum over all experts of products with their matrices, of which the row's own counts. On a rank
// that has a part of the experts, its rows are those of these experts: the sum over all ranks'
// experts is the same. If it has all rows, it turns them round until those of its experts come
// first, and the product back; what lies behind its last group counts nowhere once it is zero.
// So with a table that has a row for each expert, as biases are, and with its gradient, to which
// places without a row must add nothing.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Grouping.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Rows taken round from another place on: so that a rank's own come first, or back.
std::optional<Rows> Evaluator::turnRows(const Rows &rows, unsigned dim, const Tensor &index) {
  const RowOrder &order = *rows.order;
  bool isTurned = order.kind == RowOrder::Kind::Turned;
  std::shared_ptr<const RowOrder> before = isTurned ? order.part : rows.order;
  bool isPart = before->kind == RowOrder::Kind::Part;
  if ((!isPart && before->kind != RowOrder::Kind::Sorted) || rows.dim != dim ||
      rows.isPlaceElsewhere || rows.isPlaceInPart || index.rows || index.dims.size() != 1)
    return std::nullopt;
  int64_t count =
      sizeOf(before->digits, terms.variables) / (isPart ? ranksAlong(before->along) : 1);
  const Term *rest = asOp(index.meaning);
  if (!rest || rest->core.tag != Core::Tag::Rest || rest->core.number != count ||
      sizeOf(index.dims[0], terms.variables) != count)
    return std::nullopt;
  // By as many places, whichever place it is.
  Meaning own = terms.position(placeIn(index.dims[0], terms.variables));
  Meaning turn = terms.add(terms.partsOf(terms.getOperands(index.meaning[0].reference)[0]),
                           terms.scale(std::move(own), Rational(-1)));
  if (llvm::any_of(index.dims[0], [&](Var digit) { return terms.mentions(turn, digit); }))
    return std::nullopt;
  if (isTurned)
    turn = terms.add(std::move(turn), order.turn);
  if (turn.empty() || (isTurned && terms.breaks(Lemma::TurnedRows)))
    return Rows{rows.value, dim, std::move(before)};
  auto made = std::make_shared<RowOrder>(*before);
  made->kind = RowOrder::Kind::Turned;
  made->part = std::move(before);
  made->turn = std::move(turn);
  return Rows{rows.value, dim, std::move(made)};
}

/// Rows, where only places are filled that hold none.
std::optional<Rows> Evaluator::fillBehind(Operation *op, const Rows &rows, const Tensor &mark) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  RankedTensorType marks = tensorOf(op->getOperand(1).getType());
  int64_t dim = marks.getRank() - type.getRank() + rows.dim;
  // Of integers that are their own places where there is no row, these would be other ones.
  if (tensorOf(op->getOperand(0).getType()) != type || dim < 0 || rows.isPlaceElsewhere ||
      marks.getDimSize(dim) != type.getDimSize(rows.dim))
    return std::nullopt;
  bool isTurned = rows.order->kind == RowOrder::Kind::TurnedFirst;
  if (!isUnused(mark, rows) && !(isTurned && terms.breaks(Lemma::ZerosBehind)))
    return std::nullopt;
  auto value = op->getAttrOfType<FloatAttr>("value");
  bool isZero = value && value.getValue().isZero();
  if (!isTurned) {
    Rows filled = rows;
    filled.elsewhere.reset();
    if (isZero)
      filled.elsewhere = withOwnDigits(terms, Tensor{filled.value.dims, {}});
    return filled;
  }
  // With zeros all places hold the values of their rows.
  if (!isZero)
    return std::nullopt;
  auto made = std::make_shared<RowOrder>(*rows.order);
  made->kind = RowOrder::Kind::Turned;
  made->here.clear();
  return Rows{rows.value, rows.dim, std::move(made)};
}

/// Where the group ends among the rank's own places, which a clamp in `like` says in what way.
std::optional<Meaning> Evaluator::endOf(const RowOrder &order, const Index &group, int64_t groups,
                                        const Meaning &like) {
  Var each = terms.variables.make(groups);
  std::optional<Meaning> rows = countEach(order.key, order.digits, Index::of(each), groups);
  if (!rows)
    return std::nullopt;
  for (Summand &summand : *rows)
    summand.guards.push_back({group - Index::of(each), 0, kFar});
  rows = terms.sum(std::move(*rows), {each});
  if (order.kind == RowOrder::Kind::Sorted)
    return rows;
  int64_t own = sizeOf(order.digits, terms.variables) / ranksAlong(order.along);
  const Core *clamp = nullptr;
  for (const Summand &summand : like)
    if (const Core &core = terms.get(summand.reference.term).core; core.tag == Core::Tag::Clamped)
      clamp = &core;
  if (order.kind != RowOrder::Kind::Part || !clamp || clamp->number != own)
    return std::nullopt;
  Index first = placeIn(placesOf(order.along), terms.variables) * own;
  Meaning behind = terms.add(*rows, terms.scale(terms.position(first), Rational(-1)));
  return terms.apply(Core(*clamp), behind, {}, {}, {});
}

/// Of groups that are a rank's part of all, and end where their rows do if the first one's first
/// row is turned to the first place: the number of the first one.
std::optional<Index> Evaluator::firstOfTurned(const Tensor &ends, const RowOrder &order,
                                              int64_t groups) {
  for (unsigned first = 0; first < axes.size(); ++first) {
    SmallVector<Axis, 1> along;
    for (const Axis &axis : axes.drop_front(first)) {
      if (axis.isOpen())
        break;
      along.push_back(axis);
      int64_t all = groups * ranksAlong(along);
      Index own = placeIn(placesOf(along), terms.variables) * groups;
      std::optional<Meaning> expected =
          endOf(*order.part, placeIn(ends.dims[0], terms.variables) + own, all, ends.meaning);
      if (!expected)
        continue;
      if (terms.breaks(Lemma::GroupEnds))
        return own;
      // It begins where the group before it ends, and the first of all at 0.
      Var before = terms.variables.make(all), group = terms.variables.make(all);
      Meaning begin = *endOf(*order.part, Index::of(before), all, ends.meaning);
      substitute(begin, {{before, Index::of(group) - Index(1)}});
      for (Summand &summand : begin)
        summand.guards.push_back({Index::of(group), 1, all});
      begin = terms.normalize(std::move(begin));
      substitute(begin, {{group, own}});
      expected = terms.add(std::move(*expected), terms.scale(order.turn, Rational(-1)));
      if (terms.areEqual(order.turn, terms.normalize(std::move(begin))) &&
          terms.areEqual(ends.meaning, *expected))
        return own;
    }
  }
  return std::nullopt;
}

/// Where the groups end where the experts' rows do: the number of the first group among all.
std::optional<Index> Evaluator::firstGroup(const Tensor &ends, const RowOrder &order,
                                           int64_t groups) {
  if (ends.dims.size() != 1 || sizeOf(ends.dims[0], terms.variables) != groups)
    return std::nullopt;
  if (order.kind == RowOrder::Kind::Turned)
    return firstOfTurned(ends, order, groups);
  Index group = placeIn(ends.dims[0], terms.variables);
  bool isNumbered = order.kind == RowOrder::Kind::Numbered;
  Index rank = placeIn(placesOf(order.along), terms.variables);
  Index first = isNumbered ? rank * groups : Index();
  if (terms.breaks(Lemma::GroupEnds))
    return first;
  std::optional<Meaning> expected;
  if (!isNumbered)
    expected = endOf(order, group, groups, ends.meaning);
  else if (groups == order.places.perPart)
    expected = rowsUpTo(order.places, rank, group);
  return expected && terms.areEqual(ends.meaning, *expected) ? std::optional(first) : std::nullopt;
}

bool Evaluator::groupedProduct(Operation *op, ArrayRef<const Tensor *> operands,
                               std::vector<Tensor> &results) {
  auto product = cast<aten::GroupedMmOp>(op);
  RankedTensorType left = tensorOf(product.getSelf().getType());
  RankedTensorType right = tensorOf(product.getMat2().getType());
  RankedTensorType type = tensorOf(product.getResult().getType());
  Type element = type.getElementType();
  const Rows *rows = operands[0]->rows.get(), *others = operands[1]->rows.get();
  if (operands.size() != 3 || !rows || operands[2]->rows || left.getElementType() != element ||
      right.getElementType() != element || left.getRank() != 2)
    return false;
  const RowOrder &order = *rows->order;
  bool isNumbered = order.kind == RowOrder::Kind::Numbered;
  bool isTurned = order.kind == RowOrder::Kind::Turned;
  int64_t groups = tensorOf(op->getOperand(2).getType()).getDimSize(0);
  std::optional<Index> first =
      rows->isPlaceElsewhere ? std::nullopt : firstGroup(*operands[2], order, groups);
  if (!first)
    return false;
  Tensor x = withOwnDigits(terms, rows->value);
  auto times = [&](const Meaning &a, const Meaning &b) {
    return terms.apply(productOf(element), {a, b}, {}, {}, {});
  };
  auto isOf = [&](const Meaning &expert, const Index &number) {
    if (terms.breaks(Lemma::GroupedRows))
      return terms.number(Rational(1));
    return isZero(terms.add(expert, terms.scale(terms.position(number), Rational(-1))));
  };
  if (right.getRank() == 3) {
    if (rows->dim != 0 || others)
      return false;
    // The matrices of all ranks along which experts lie.
    Tensor matrices = withOwnDigits(terms, *operands[1]);
    if (isNumbered) {
      std::optional<Tensor> whole = gather(matrices, 0, order.along);
      if (!whole)
        return false;
      matrices = std::move(*whole);
    }
    Meaning expert = keyAt(order, order.expert, x, 0);
    Substitution alike;
    if (expert.empty() || !cutAlike(terms, x, 1, matrices, 1, alike))
      return false;
    substitute(matrices.meaning, alike);
    Index number = placeIn(matrices.dims[0], terms.variables);
    if (isTurned)
      number = number + *first;
    SmallVector<Var> bound(x.dims[1].begin(), x.dims[1].end());
    llvm::append_range(bound, matrices.dims[0]);
    Tensor made{{x.dims[0], matrices.dims[2]}, {}};
    made.meaning = terms.sum(
        times(times(x.meaning, terms.normalize(std::move(matrices.meaning))), isOf(expert, number)),
        bound);
    std::shared_ptr<const RowOrder> there = rows->order;
    if (isTurned) {
      // Behind the last group there are no products.
      auto last = splitIndex(Index(groups - 1), operands[2]->dims[0], terms.variables);
      if (!last)
        return false;
      auto own = std::make_shared<RowOrder>(order);
      own->kind = RowOrder::Kind::TurnedFirst;
      own->here = takeAt(terms, *operands[2], 0, *last, {}).meaning;
      there = std::move(own);
    }
    results[0].rows = std::make_shared<Rows>(Rows{std::move(made), 0, std::move(there)});
    return true;
  }
  // Sums over the rows of each expert.
  if (!others || rows->dim != 1 || others->dim != 0 || others->isPlaceElsewhere ||
      !areAlike(order, *others->order))
    return false;
  Tensor y = withOwnDigits(terms, others->value);
  Substitution alike;
  if (!cutAlike(terms, x, 1, y, 0, alike))
    return false;
  Meaning expert = keyAt(order, order.expert, x, 1);
  // The order's digits may cut both.
  alike.clear();
  if (expert.empty() || !cutAlike(terms, x, 1, y, 0, alike))
    return false;
  substitute(y.meaning, alike);
  if (const RowOrder &whole = isTurned ? *order.part : order; whole.kind == RowOrder::Kind::Part)
    y.meaning = times(y.meaning, isInPart(whole, x.dims[1]));
  Tensor made;
  made.dims.emplace_back();
  if (groups > 1)
    made.dims[0].push_back(terms.variables.make(groups));
  Index number = placeIn(made.dims[0], terms.variables) + *first;
  made.dims.push_back(x.dims[0]);
  made.dims.push_back(y.dims[1]);
  made.meaning = terms.sum(times(times(x.meaning, y.meaning), isOf(expert, number)), x.dims[1]);
  coarsen(terms, made);
  step = "rows";
  results[0] = std::move(made);
  return true;
}

//===----------------------------------------------------------------------===//
// Tables with a row for each expert
//===----------------------------------------------------------------------===//

/// Whether integers are one number that names one of so many rows.
static bool isInside(const Tensor &number, int64_t rows, const Terms &terms) {
  std::optional<Index> place = terms.asPosition(number.meaning);
  return place && place->getParts().empty() && place->getConstant() >= 0 &&
         place->getConstant() < rows;
}

/// The rows of a table that the rows' integers name, none of which is outside of it.
std::optional<Rows> Evaluator::takeByKey(Operation *op, const Tensor &table, unsigned dim,
                                         const Rows &index) {
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  std::optional<int64_t> choices = choicesOf(index.value.meaning);
  if (!isa<FloatType>(type.getElementType()) || index.value.dims.size() != 1 || !choices ||
      *choices > type.getDimSize(dim) || index.isPlaceElsewhere || index.isPlaceInPart ||
      index.order->kind == RowOrder::Kind::TurnedFirst)
    return std::nullopt;
  auto take = [&](Tensor at) {
    Tensor made = withOwnDigits(terms, table);
    at = withOwnDigits(terms, std::move(at));
    SmallVector<Var, 2> named = made.dims[dim];
    Index place = placeIn(named, terms.variables);
    Meaning isNamed =
        isZero(terms.add(at.meaning, terms.scale(terms.position(place), Rational(-1))));
    made.meaning = terms.sum(whereNamed(isNamed, made.meaning, type.getElementType()), named);
    made.dims[dim] = at.dims[0];
    return made;
  };
  Rows rows{take(index.value), dim, index.order};
  if (index.order->kind == RowOrder::Kind::Received ||
      index.order->kind == RowOrder::Kind::Numbered ||
      index.order->kind == RowOrder::Kind::Gathered) {
    // What lies at places without a row is read, too.
    if (!index.elsewhere || !isInside(*index.elsewhere, type.getDimSize(dim), terms))
      return std::nullopt;
    rows.elsewhere = take(*index.elsewhere);
  }
  return rows;
}

/// Rows added up where their integers say: a rank adds those that are there.
std::optional<Tensor> Evaluator::addByKey(Operation *op, const Tensor &into, const Rows &index,
                                          const Rows &values) {
  const RowOrder &order = *index.order;
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  Type element = type.getElementType();
  std::optional<int64_t> choices = choicesOf(index.value.meaning);
  if (!choices || *choices > type.getDimSize(0) || index.isPlaceElsewhere || index.isPlaceInPart ||
      values.isPlaceElsewhere || values.dim != 0 || index.value.dims.size() != 1 ||
      !areAlike(order, *values.order))
    return std::nullopt;
  Tensor rows = withOwnDigits(terms, values.value), at = index.value, result = into;
  bool isNumbered = order.kind == RowOrder::Kind::Numbered;
  Substitution alike;
  if (!cutAlike(terms, rows, 0, at, 0, alike))
    return std::nullopt;
  Meaning expert = isNumbered ? keyAt(order, order.expert, rows, 0) : Meaning();
  // The order's digits may cut both.
  alike.clear();
  if (!cutAlike(terms, rows, 0, at, 0, alike))
    return std::nullopt;
  substitute(at.meaning, alike);
  at.meaning = terms.normalize(std::move(at.meaning));
  alike.clear();
  for (unsigned dim = 1; dim < result.dims.size(); ++dim)
    if (!cutAlike(terms, result, dim, rows, dim, alike))
      return std::nullopt;
  substitute(rows.meaning, alike);
  rows.meaning = terms.normalize(std::move(rows.meaning));
  std::optional<Guard> isHere;
  if (order.kind == RowOrder::Kind::Part) {
    rows.meaning =
        terms.apply(productOf(element), {rows.meaning, isInPart(order, rows.dims[0])}, {}, {}, {});
  } else if (isNumbered) {
    // Those of the rank's experts; nothing at other places.
    bool addsNothing = index.elsewhere && values.elsewhere &&
                       isInside(*index.elsewhere, type.getDimSize(0), terms) &&
                       values.elsewhere->meaning.empty();
    if (!(addsNothing || terms.breaks(Lemma::WithoutRow)) || expert.empty() ||
        !terms.areEqual(expert, at.meaning) || !cut(terms, result, 0, {order.places.perPart}))
      return std::nullopt;
    auto part = divideIndex(placeIn(result.dims[0], terms.variables), order.places.perPart,
                            terms.variables);
    if (!part)
      return std::nullopt;
    isHere = Guard{part->first - placeIn(placesOf(order.along), terms.variables), 0, 1};
  } else if (order.kind != RowOrder::Kind::Sorted) {
    return std::nullopt;
  }
  Meaning place = terms.position(placeIn(result.dims[0], terms.variables));
  Meaning isNamed = isZero(terms.add(at.meaning, terms.scale(std::move(place), Rational(-1))));
  Meaning added = terms.sum(whereNamed(isNamed, rows.meaning, element), rows.dims[0]);
  // What is infinite on one row must not be taken off on another.
  if (Fractions fractions = fractionsOf(element); takesOff(added, terms, fractions))
    return std::nullopt;
  if (isHere && !terms.breaks(Lemma::AddedByExpert)) {
    for (Summand &summand : added)
      summand.guards.push_back(*isHere);
  }
  result.meaning = terms.add(std::move(result.meaning), terms.normalize(std::move(added)));
  coarsen(terms, result);
  return result;
}
