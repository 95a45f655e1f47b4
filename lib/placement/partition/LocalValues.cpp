//===- LocalValues.cpp - the local forms of a program's values ---------------===//

#include "lib/placement/partition/LocalValues.h"
#include "lib/placement/partition/LocalOps.h"

#include "dialects/train/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::OpKind;

static bool isParameter(Value global) {
  auto argument = dyn_cast<BlockArgument>(global);
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
  return role && role.getKind() == train::RoleKind::Parameter;
}

void LocalValues::define(Value global, Value local) {
  bool isTensor = isa<RankedTensorType>(global.getType());
  forms[global] = {{local, isTensor ? context.entriesOf(local) : AxisPlacements(), false}};
  Operation *op = global.getDefiningOp();
  if (!op ? isParameter(global)
          : op->getNumOperands() == 1 && ofParameter.contains(op->getOperand(0)))
    ofParameter.insert(global);
}

LocalValues::Wish LocalValues::makeWish(Value global, ArrayRef<AxisPlacement> target,
                                        Operation *user) const {
  bool inBackward = context.settings.fsdpReshard && ofParameter.contains(global) &&
                    user->hasAttr(train::kBackwardAttrName);
  return {global, AxisPlacements(target), inBackward};
}

std::optional<LocalValues::Way> LocalValues::findWay(const Wish &wish) {
  auto type = cast<RankedTensorType>(wish.global.getType());
  std::optional<Way> best;
  auto cost = [](const Redistribution *plan) {
    return std::tuple(plan->bytes, plan->collectives, plan->steps.size());
  };
  // The first form is there for all.
  for (auto [i, form] : llvm::enumerate(forms[wish.global])) {
    if (i > 0 && form.inBackward != wish.inBackward)
      continue;
    const Redistribution *plan = context.planner.plan(type, form.entries, wish.target);
    if (plan && (!best || cost(plan) < cost(best->plan)))
      best = Way{form.local, plan};
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Through views: the smaller of source and result moves, and all views of a source share it
//===----------------------------------------------------------------------===//

std::optional<LocalValues::ViewWay> LocalValues::throughView(const Wish &wish) {
  Operation *op = wish.global.getDefiningOp();
  if (!op || op->getNumResults() != 1 || op->getNumOperands() != 1 ||
      llvm::any_of(wish.target, [](const AxisPlacement &p) { return p.order != 0; }) ||
      sharding::getShardingRule(op).kind != OpKind::View)
    return std::nullopt;
  const AxisPlacements &current = forms[op->getOperand(0)].front().entries;
  ViewWay way;
  for (auto [i, axis] : llvm::enumerate(context.axes)) {
    const AxisStrategy *best = nullptr;
    SmallVector<AxisStrategy> strategies = getStrategies(op, axis);
    for (const AxisStrategy &strategy : strategies)
      if (!strategy.form && strategy.results.front() == wish.target[i] &&
          (!best || equalUpToOrder(strategy.operands.front(), current[i])))
        best = &strategy;
    if (!best)
      return std::nullopt;
    way.source.push_back(best->operands.front());
    way.strategies.push_back(*best);
  }
  SmallVector<FactorCut> cuts;
  for (auto [strategy, axis] : llvm::zip_equal(way.strategies, context.axes))
    if (strategy.factor)
      cuts.push_back({*strategy.factor, axis.size});
  if (!llvm::all_of(way.strategies, [&](const AxisStrategy &strategy) {
        return isCutInFront(sharding::getShardingRule(op), strategy, cuts);
      }))
    return std::nullopt;
  // Which axis would be major is not the view's to say.
  for (auto [i, p] : llvm::enumerate(way.source))
    for (const AxisPlacement &other : ArrayRef(way.source).drop_front(i + 1))
      if (p.isShard() && other.isShard(p.dim))
        return std::nullopt;
  return way;
}

std::optional<int64_t> LocalValues::estimate(const Wish &wish) {
  std::optional<Way> direct = findWay(wish);
  if (direct && direct->plan->collectives == 0)
    return 0;
  std::optional<int64_t> bytes = direct ? std::optional(direct->plan->bytes) : std::nullopt;
  if (std::optional<ViewWay> view = throughView(wish)) {
    std::optional<int64_t> ofSource =
        estimate({wish.global.getDefiningOp()->getOperand(0), view->source, wish.inBackward});
    if (ofSource && (!bytes || *ofSource < *bytes))
      bytes = ofSource;
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Making them
//===----------------------------------------------------------------------===//

/// Which part of a program an op belongs to: what is made for its user belongs there too.
static void copyMarks(Operation *user, Block::iterator first, Block::iterator end) {
  for (Operation &op : llvm::make_range(first, end))
    for (StringRef name : {train::kBackwardAttrName, train::kStageAttrName})
      if (Attribute mark = user->getAttr(name))
        op.setAttr(name, mark);
}

Value LocalValues::redistribute(const Way &way, Value global, Operation *user) {
  Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  Value local = way.local;
  // Only R is reinterpreted, not I.
  for (const RedistributionStep &step : way.plan->steps)
    if (step.kind == RedistributionStep::Kind::Reinterpret &&
        dist::getPlacement(local.getType()).get(step.axes.front().getValue())->isInvariant())
      local = context.convertSameness(builder, user->getLoc(), local, step.axes.front(), false);
  Value value = buildRedistribution(builder, user->getLoc(), local,
                                    cast<RankedTensorType>(global.getType()).getShape(), *way.plan,
                                    context.axes);
  copyMarks(user, last ? std::next(last->getIterator()) : block->begin(), block->end());
  return value;
}

FailureOr<Value> LocalValues::makeThroughView(const Wish &wish, const ViewWay &way,
                                              Operation *user) {
  Operation *view = wish.global.getDefiningOp();
  FailureOr<Value> operand = make({view->getOperand(0), way.source, wish.inBackward}, user);
  if (failed(operand))
    return failure();
  FailureOr<SmallVector<Value>> results =
      buildLocalOp(builder, view, *operand, way.strategies, context);
  if (failed(results))
    return failure();
  Value value = results->front();
  copyMarks(user, value.getDefiningOp()->getIterator(), builder.getInsertionBlock()->end());
  return value;
}

FailureOr<Value> LocalValues::make(const Wish &wish, Operation *user) {
  std::optional<Way> direct = findWay(wish);
  if (direct && direct->plan->steps.empty())
    return direct->local;
  FailureOr<Value> value = failure();
  bool isMoved = false;
  if (!direct || direct->plan->collectives) {
    if (std::optional<ViewWay> view = throughView(wish)) {
      std::optional<int64_t> bytes =
          estimate({wish.global.getDefiningOp()->getOperand(0), view->source, wish.inBackward});
      isMoved = bytes && (!direct || *bytes <= direct->plan->bytes);
      if (isMoved)
        value = makeThroughView(wish, *view, user);
    }
  }
  if (isMoved && failed(value))
    return failure();
  if (!isMoved && direct)
    value = redistribute(*direct, wish.global, user);
  if (failed(value)) {
    InFlightDiagnostic diagnostic = user->emitOpError("takes a value as ")
                                    << describe(wish.target) << " that is made as "
                                    << describe(forms[wish.global].front().entries)
                                    << ", and no collectives convert between them";
    diagnostic.attachNote(wish.global.getLoc()) << "it is produced here: " << wish.global.getType();
    return diagnostic;
  }
  forms[wish.global].push_back({*value, wish.target, wish.inBackward});
  return value;
}

FailureOr<Value> LocalValues::get(Value global, ArrayRef<AxisPlacement> target, Operation *user) {
  if (!isa<RankedTensorType>(global.getType()))
    return forms[global].front().local;
  return make(makeWish(global, target, user), user);
}
