//===- RowRankMeaning.cpp - what ranks do together with rows in an order ----===//
//
// Ranks that have rows in one order put together, add up or divide what they have of each. Where
// they have parts of the rows, or send them, see RowPartMeaning.cpp, GatheredMeaning.cpp and
// ExchangeMeaning.cpp. A rank that only keeps what it has, or has zeros instead, may have rows in
// any order.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// What ranks that have all rows in one order make of each row together: it lies as they did.
std::optional<Rows> Evaluator::rowsOnRanks(Operation *op, const Rows &rows) {
  SmallVector<Axis> along;
  SmallVector<int64_t, 2> dims;
  if (auto convert = dyn_cast<dist::ConvertOp>(op)) {
    const Axis *axis = findAxis(convert.getAxis());
    std::optional<int64_t> sliced = convert.getSlicedDim();
    if (!axis || !sliced || convert.getDestination().isPartial())
      return std::nullopt;
    along.push_back(*axis);
    dims.push_back(*sliced);
  } else if (isa<dist::AllGatherOp, dist::AllReduceOp, dist::ReduceScatterOp, dist::AllToAllOp>(
                 op)) {
    std::optional<SmallVector<Axis>> named = findAxes(op->getAttrOfType<ArrayAttr>("axes"));
    if (!named)
      return std::nullopt;
    along = std::move(*named);
    for (StringRef name : {"dim", "split", "concat"})
      if (auto dim = op->getAttrOfType<IntegerAttr>(name))
        dims.push_back(dim.getInt());
  } else {
    return std::nullopt;
  }
  const RowOrder &order = *rows.order;
  auto dependsOn = [&](Var digit) {
    return terms.mentions(order.key, digit) || terms.mentions(order.expert, digit) ||
           terms.mentions(order.places.expert, digit);
  };
  bool isOneOrder = llvm::none_of(along, [&](const Axis &axis) {
    return llvm::any_of(axis.digits, dependsOn) || dependsOn(axis.whole);
  });
  // Which part of an order a rank has others along these axes have, too; and so do they rows that
  // came from ranks along others.
  bool hasParts =
      order.kind == RowOrder::Kind::Part ||
      ((order.kind == RowOrder::Kind::Received || order.kind == RowOrder::Kind::Numbered) &&
       !order.part);
  bool isOnePart =
      hasParts && llvm::none_of(along, [&](const Axis &axis) {
        return llvm::any_of(order.along, [&](const Axis &own) { return own.name == axis.name; });
      });
  if ((order.kind != RowOrder::Kind::Sorted && !isOnePart) || rows.isPlaceElsewhere ||
      rows.isPlaceInPart || llvm::is_contained(dims, int64_t(rows.dim)) ||
      (!isOneOrder && !terms.breaks(Lemma::RowOnRanks)))
    return std::nullopt;
  std::vector<Tensor> made;
  if (!evaluateDist(op, &rows.value, made) || made.size() != 1 ||
      sizeOf(made[0].dims[rows.dim], terms.variables) !=
          sizeOf(rows.value.dims[rows.dim], terms.variables))
    return std::nullopt;
  Rows result{std::move(made[0]), rows.dim, rows.order};
  // Where no row lies, ranks put together what lies there on each.
  std::vector<Tensor> elsewhere;
  if (rows.elsewhere && evaluateDist(op, &*rows.elsewhere, elsewhere) && elsewhere.size() == 1 &&
      llvm::none_of(elsewhere[0].dims[rows.dim],
                    [&](Var digit) { return terms.mentions(elsewhere[0].meaning, digit); }))
    result.elsewhere = std::move(elsewhere[0]);
  return result;
}

/// Rows as a term of a sum, which the first rank keeps: others have zeros for each of theirs.
std::optional<Rows> Evaluator::keepRowsOnFirst(Operation *op, const Rows &rows) {
  if (rows.isPlaceElsewhere || rows.isPlaceInPart)
    return std::nullopt;
  std::vector<Tensor> made;
  if (!evaluateDist(op, &rows.value, made) || made.size() != 1)
    return std::nullopt;
  return Rows{std::move(made[0]), rows.dim, rows.order};
}

/// What a collective, or a conversion, makes of rows in an order. A value where their order no
/// longer matters.
std::optional<Rows> Evaluator::onRanks(Operation *op, ArrayRef<const Tensor *> given,
                                       std::optional<Tensor> &whole) {
  if (isa<dist::RaggedAllToAllOp>(op))
    return exchange(op, given);
  if (given.size() != 1 || op->getNumResults() != 1)
    return std::nullopt;
  const Rows &rows = *given[0]->rows;
  if (std::optional<Rows> made = rowsOnRanks(op, rows))
    return made;
  if (isa<dist::AllGatherOp>(op)) {
    if (std::optional<Rows> made = gatherNumbered(op, rows))
      return made;
    std::optional<Rows> made = gatherParts(op, rows);
    if (!made || made->order->kind != RowOrder::Kind::Piece)
      return made;
    whole = std::move(made->value);
    return std::nullopt;
  }
  if (isa<dist::AllToAllOp>(op))
    return swapRows(op, rows);
  if (isa<dist::ReduceScatterOp>(op))
    return scatterRows(op, rows);
  auto convert = dyn_cast<dist::ConvertOp>(op);
  if (convert && convert.getSlicedDim())
    return rows.order->kind == RowOrder::Kind::Gathered ? sliceGathered(op, rows)
                                                        : scatterRows(op, rows);
  if (convert && convert.getDestination().isPartial())
    return keepRowsOnFirst(op, rows);
  // What says only how a value lies.
  if (convert || isa<dist::ReinterpretOp, dist::WaitOp, dist::OffloadOp, dist::ReloadOp>(op))
    return rows;
  return std::nullopt;
}
