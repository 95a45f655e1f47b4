//===- GroupedMeaning.cpp - products of rows and the matrices of experts ----===//
//
// Where groups end where the rows of experts do, a row is multiplied by its expert's matrix: the
// sum over all experts of products with their matrices, of which the row's own counts. On a rank
// that has a part of the experts, its rows are those of these experts: the sum over all ranks'
// experts is the same.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Grouping.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether the groups end where the experts' rows do.
bool Evaluator::areEnds(const Tensor &ends, const RowOrder &order, int64_t groups) {
  if (ends.dims.size() != 1 || sizeOf(ends.dims[0], terms.variables) != groups)
    return false;
  if (terms.breaks(Lemma::GroupEnds))
    return true;
  Index group = placeIn(ends.dims[0], terms.variables);
  auto rowsUpTo = [&]() -> std::optional<Meaning> {
    Var each = terms.variables.make(groups);
    std::optional<Meaning> counts = countEach(order.key, order.digits, Index::of(each), groups);
    if (!counts)
      return std::nullopt;
    for (Summand &summand : *counts)
      summand.guards.push_back({group - Index::of(each), 0, kFar});
    return terms.sum(std::move(*counts), {each});
  };
  switch (order.kind) {
  case RowOrder::Kind::Piece:
  case RowOrder::Kind::Leaving:
  case RowOrder::Kind::Received:
    return false;
  case RowOrder::Kind::Sorted: {
    std::optional<Meaning> rows = rowsUpTo();
    return rows && terms.areEqual(ends.meaning, *rows);
  }
  case RowOrder::Kind::Part: {
    // Among the rank's own places.
    int64_t own = sizeOf(order.digits, terms.variables) / ranksAlong(order.along);
    const Term *clamped = asOp(ends.meaning);
    if (!clamped || clamped->core.tag != Core::Tag::Clamped || clamped->core.number != own)
      return false;
    std::optional<Meaning> rows = rowsUpTo();
    Index first = placeIn(placesOf(order.along), terms.variables) * own;
    return rows &&
           terms.areEqual(terms.getOperands(ends.meaning[0].reference)[0],
                          terms.add(*rows, terms.scale(terms.position(first), Rational(-1))));
  }
  case RowOrder::Kind::Numbered: {
    SmallVector<Var> own = placesOf(order.along);
    return groups == order.places.perPart &&
           terms.areEqual(ends.meaning,
                          this->rowsUpTo(order.places, placeIn(own, terms.variables), group));
  }
  }
  return false;
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
  int64_t groups = tensorOf(op->getOperand(2).getType()).getDimSize(0);
  if (rows->isPlaceElsewhere || !areEnds(*operands[2], order, groups))
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
    SmallVector<Var> bound(x.dims[1].begin(), x.dims[1].end());
    llvm::append_range(bound, matrices.dims[0]);
    Tensor made{{x.dims[0], matrices.dims[2]}, {}};
    made.meaning = terms.sum(
        times(times(x.meaning, terms.normalize(std::move(matrices.meaning))), isOf(expert, number)),
        bound);
    results[0].rows = std::make_shared<Rows>(Rows{std::move(made), 0, rows->order});
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
  if (order.kind == RowOrder::Kind::Part)
    y.meaning = times(y.meaning, isInPart(order, x.dims[1]));
  Tensor made;
  made.dims.emplace_back();
  if (groups > 1)
    made.dims[0].push_back(terms.variables.make(groups));
  Index number = placeIn(made.dims[0], terms.variables);
  if (isNumbered) {
    SmallVector<Var> own = placesOf(order.along);
    number = number + placeIn(own, terms.variables) * groups;
  }
  made.dims.push_back(x.dims[0]);
  made.dims.push_back(y.dims[1]);
  made.meaning = terms.sum(times(times(x.meaning, y.meaning), isOf(expert, number)), x.dims[1]);
  coarsen(terms, made);
  step = "rows";
  results[0] = std::move(made);
  return true;
}
