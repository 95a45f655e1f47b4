//===- LocalValues.cpp - the local forms of a program's values ---------------===//

#include "lib/placement/partition/LocalValues.h"
#include "lib/placement/partition/LocalOps.h"

#include "dialects/train/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::OpKind;

/// Total and the same in every run: values by where they are, which is in program order only by
/// chance, so nothing is ever listed in this order.
bool LocalValues::Wish::operator<(const Wish &other) const {
  auto code = [](const AxisPlacement &p) {
    return std::tuple(p.kind, p.reduction, p.dim, p.order);
  };
  if (global != other.global)
    return global.getAsOpaquePointer() < other.global.getAsOpaquePointer();
  if (inBackward != other.inBackward)
    return inBackward < other.inBackward;
  return std::lexicographical_compare(
      target.begin(), target.end(), other.target.begin(), other.target.end(),
      [&](const AxisPlacement &a, const AxisPlacement &b) { return code(a) < code(b); });
}

static bool isParameter(Value global) {
  auto argument = dyn_cast<BlockArgument>(global);
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
  return role && role.getKind() == train::RoleKind::Parameter;
}

void LocalValues::define(Value global, Value local) {
  originals[global] = local;
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

bool LocalValues::isMade(const Wish &wish) const {
  return context.entriesOf(originals.lookup(wish.global)) == wish.target || others.contains(wish);
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
  AxisPlacements current = context.entriesOf(originals.lookup(op->getOperand(0)));
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
  // Which axis would be major is not the view's to say.
  for (auto [i, p] : llvm::enumerate(way.source))
    for (const AxisPlacement &other : ArrayRef(way.source).drop_front(i + 1))
      if (p.isShard() && other.isShard(p.dim))
        return std::nullopt;
  return way;
}

std::optional<int64_t> LocalValues::estimate(const Wish &wish) {
  if (isMade(wish))
    return 0;
  const Redistribution *plan =
      context.planner.plan(cast<RankedTensorType>(wish.global.getType()),
                           context.entriesOf(originals.lookup(wish.global)), wish.target);
  if (plan && plan->collectives == 0)
    return 0;
  std::optional<int64_t> bytes = plan ? std::optional(plan->bytes) : std::nullopt;
  if (std::optional<ViewWay> way = throughView(wish)) {
    std::optional<int64_t> ofSource =
        estimate({wish.global.getDefiningOp()->getOperand(0), way->source, wish.inBackward});
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

Value LocalValues::redistribute(const Wish &wish, Operation *user) {
  Value local = originals.lookup(wish.global);
  const Redistribution *plan = context.planner.plan(cast<RankedTensorType>(wish.global.getType()),
                                                    context.entriesOf(local), wish.target);
  if (!plan)
    return {};
  Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  // Only R is reinterpreted.
  for (const RedistributionStep &step : plan->steps)
    if (step.kind == RedistributionStep::Kind::Reinterpret)
      local = context.convertSameness(builder, user->getLoc(), local, step.axes.front(), false);
  Value value = buildRedistribution(builder, user->getLoc(), local, *plan, context.axes);
  copyMarks(user, last ? std::next(last->getIterator()) : block->begin(), block->end());
  return value;
}

FailureOr<Value> LocalValues::make(const Wish &wish, Operation *user) {
  Value local = originals.lookup(wish.global);
  if (context.entriesOf(local) == wish.target)
    return local;
  if (auto it = others.find(wish); it != others.end())
    return it->second;
  const Redistribution *plan = context.planner.plan(cast<RankedTensorType>(wish.global.getType()),
                                                    context.entriesOf(local), wish.target);
  Value value;
  if (std::optional<ViewWay> way; (!plan || plan->collectives) && (way = throughView(wish))) {
    Operation *view = wish.global.getDefiningOp();
    Wish source{view->getOperand(0), way->source, wish.inBackward};
    std::optional<int64_t> bytes = estimate(source);
    if (bytes && (!plan || *bytes <= plan->bytes)) {
      FailureOr<Value> operand = make(source, user);
      if (failed(operand))
        return failure();
      FailureOr<SmallVector<Value>> results =
          buildLocalOp(builder, view, *operand, way->strategies, context);
      if (failed(results))
        return failure();
      value = results->front();
      copyMarks(user, value.getDefiningOp()->getIterator(), builder.getInsertionBlock()->end());
    }
  }
  if (!value)
    value = redistribute(wish, user);
  if (!value) {
    InFlightDiagnostic diagnostic = user->emitOpError("takes a value as ")
                                    << describe(wish.target) << " that is made as "
                                    << describe(context.entriesOf(local))
                                    << ", and no collectives lead from one to the other";
    diagnostic.attachNote(wish.global.getLoc()) << "it is made here: " << wish.global.getType();
    return diagnostic;
  }
  others[wish] = value;
  return value;
}

FailureOr<Value> LocalValues::get(Value global, ArrayRef<AxisPlacement> target, Operation *user) {
  if (!isa<RankedTensorType>(global.getType()))
    return originals.lookup(global);
  return make(makeWish(global, target, user), user);
}
