//===- LocalOps.cpp - what one rank runs of an op ----------------------------===//

#include "lib/placement/partition/LocalOps.h"
#include "lib/placement/partition/RandomOps.h"

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"
#include "dialects/train/Train.h"
#include "lib/placement/Form.h"
#include "lib/typing/Inference.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using dist::PlacementAttr;
using sharding::ShardingRule;
using sharding::SizeAttribute;

FailureOr<AxisStrategy> placement::findStrategy(Operation *op, MeshAxis axis,
                                                ArrayRef<AxisPlacement> operands,
                                                ArrayRef<AxisPlacement> results) {
  SmallVector<AxisStrategy> strategies = getStrategies(op, axis);
  for (AxisStrategy &strategy : strategies)
    if (equalUpToOrder(strategy.operands, operands) && equalUpToOrder(strategy.results, results))
      return std::move(strategy);
  InFlightDiagnostic diagnostic = op->emitOpError("does not run on axis \"")
                                  << axis.name.getValue() << "\" with operands placed as "
                                  << describe(operands) << " and results as " << describe(results);
  std::string ways;
  for (const AxisStrategy &strategy : strategies)
    ways += (ways.empty() ? "" : ", ") + describe(strategy.operands) + " to " +
            describe(strategy.results);
  diagnostic.attachNote(op->getLoc()) << "it runs as " << ways;
  return diagnostic;
}

namespace {

class LocalOp {
public:
  LocalOp(OpBuilder &builder, Operation *op, ValueRange operands, ArrayRef<AxisStrategy> strategies,
          PartitionContext &context)
      : builder(builder), op(op), operands(operands), strategies(strategies), context(context) {}

  FailureOr<SmallVector<Value>> build();

private:
  /// How a result lies by the strategies; orders are 0.
  AxisPlacements resultEntries(unsigned result) const {
    AxisPlacements entries;
    for (const AxisStrategy &strategy : strategies)
      entries.push_back(strategy.results[result]);
    return entries;
  }
  LogicalResult setTypes(Operation *local);
  void setSizes(Operation *local);
  void matchSameness();
  LogicalResult copyForView();
  bool drawsOthers();
  FailureOr<SmallVector<Value>> draw();
  FailureOr<SmallVector<Value>> clone();
  FailureOr<SmallVector<Value>> buildForm(const Form &form);

  OpBuilder &builder;
  Operation *op;
  SmallVector<Value> operands;
  ArrayRef<AxisStrategy> strategies;
  PartitionContext &context;
};

} // namespace

/// Shapes from the strategies, placements from the operands.
LogicalResult LocalOp::setTypes(Operation *local) {
  SmallVector<PlacementAttr> preferred(op->getNumResults());
  for (OpResult result : local->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      continue;
    AxisPlacements entries = resultEntries(result.getResultNumber());
    FailureOr<RankedTensorType> localType = context.localType(type, entries, [&] {
      InFlightDiagnostic diagnostic = op->emitOpError();
      diagnostic << "result " << result.getResultNumber();
      return diagnostic;
    });
    if (failed(localType))
      return failure();
    result.setType(*localType);
    preferred[result.getResultNumber()] = dist::getPlacement(*localType);
  }
  AxisPlacements anywhere(context.axes.size(), AxisPlacement::replicate());
  return placeResults(local, {.preferred = preferred, .like = context.attributeOf(anywhere)});
}

/// The attributes that repeat sizes.
void LocalOp::setSizes(Operation *local) {
  ShardingRule rule = sharding::getShardingRule(op);
  for (const SizeAttribute &size : rule.sizeAttributes) {
    if (!local->hasAttr(size.name))
      continue;
    if (size.source == SizeAttribute::ResultShape) {
      if (auto type = dyn_cast<RankedTensorType>(local->getResult(size.index).getType()))
        local->setAttr(size.name, builder.getDenseI64ArrayAttr(type.getShape()));
      continue;
    }
    int64_t factorSize = rule.factors[size.index].size;
    for (auto [strategy, axis] : llvm::zip_equal(strategies, context.axes))
      if (strategy.factor == size.index)
        factorSize = shardSize(factorSize, axis);
    local->setAttr(size.name, builder.getI64IntegerAttr(factorSize));
  }
}

/// Ops of `train` want one type of a parameter, its gradient and its states, and give it: what is I
/// for one operand is made so for all.
void LocalOp::matchSameness() {
  for (const MeshAxis &axis : context.axes) {
    auto is = [&](Value value, bool invariant) {
      PlacementAttr placement = dist::getPlacement(value.getType());
      if (!placement)
        return false;
      AxisPlacement entry = *placement.get(axis.name.getValue());
      return invariant ? entry.isInvariant() : entry.isReplicate();
    };
    if (llvm::none_of(operands, [&](Value value) { return is(value, true); }))
      continue;
    for (Value &value : operands)
      if (is(value, false))
        value = context.convertSameness(builder, op->getLoc(), value, axis.name, true);
  }
}

/// A view of what lies in memory as no such view can have it becomes one of a copy.
LogicalResult LocalOp::copyForView() {
  FailureOr<RankedTensorType> type =
      context.localType(cast<RankedTensorType>(op->getResult(0).getType()), resultEntries(0),
                        [&] { return op->emitOpError() << "result 0"; });
  if (failed(type))
    return failure();
  if (!context.localStrides.needsCopy(operands.front(), type->getShape()))
    return success();
  OperationState state(op->getLoc(), aten::CloneOp::getOperationName());
  state.addOperands(operands.front());
  state.addTypes(operands.front().getType());
  state.addAttribute("memory_format", builder.getStringAttr("contiguous_format"));
  operands.front() = builder.create(state)->getResult(0);
  return success();
}

FailureOr<SmallVector<Value>> LocalOp::clone() {
  if (isa<train::TrainDialect>(op->getDialect()))
    matchSameness();
  if (isa<aten::ViewOp, aten::UnsafeViewOp>(op) && failed(copyForView()))
    return failure();
  Operation *local = builder.clone(*op);
  local->setOperands(operands);
  local->removeAttr(dist::kOperandsAttr);
  local->removeAttr(dist::kResultsAttr);
  if (failed(setTypes(local)))
    return failure();
  setSizes(local);
  return SmallVector<Value>(local->getResults());
}

FailureOr<SmallVector<Value>> LocalOp::buildForm(const Form &form) {
  SmallVector<MeshAxis> axes;
  SmallVector<AxisStrategy> chosen;
  for (auto [strategy, axis] : llvm::zip_equal(strategies, context.axes)) {
    if (!strategy.form)
      continue;
    if (strategy.form != &form || (!axes.empty() && !form.takesSeveralAxes()))
      return op->emitOpError("runs by distributed forms on axes \"")
             << axes.front().name.getValue() << "\" and \"" << axis.name.getValue()
             << "\", and cannot use both at once (" << form.name() << ", " << strategy.form->name()
             << "); replicate it on one of them";
    axes.push_back(axis);
    chosen.push_back(strategy);
  }
  // A form builds before the op, in the global function; its ops are moved here from there.
  Operation *before = op->getPrevNode();
  OpBuilder inFront(op);
  FormBuilder formBuilder(inFront, context.mesh, axes, context.holdsGradients);
  FailureOr<SmallVector<Value>> results = form.build(op, operands, chosen, formBuilder);
  Block *from = op->getBlock(), *to = builder.getInsertionBlock();
  to->getOperations().splice(builder.getInsertionPoint(), from->getOperations(),
                             before ? std::next(before->getIterator()) : from->begin(),
                             op->getIterator());
  return results;
}

/// Whether the op itself, run by a rank on its operand, would not draw the numbers of the global
/// op.
bool LocalOp::drawsOthers() {
  if (sharding::getShardingRule(op).kind != sharding::OpKind::Random)
    return false;
  if (auto dropout = dyn_cast<aten::RngNativeDropoutOp>(op);
      dropout && !dropout.getTrain().value_or(true))
    return false;
  // What "philox" draws follows from the placement of the result, and from no memory order: the
  // runtime knows which part of the whole it is.
  if (auto random = dyn_cast<aten::RandomOpInterface>(op);
      random && random.getGenerator() == aten::Generator::Philox)
    return false;
  for (const AxisStrategy &strategy : strategies)
    if (llvm::any_of(strategy.results, [](AxisPlacement p) { return p.isShard(); }))
      return true;
  return !context.localStrides.liesAs(operands.front(), context.strides.get(op->getOperand(0)));
}

FailureOr<SmallVector<Value>> LocalOp::draw() {
  // Axes that shard one dimension do so in the order in which they shard the operand.
  SmallVector<AxisPlacements> entries;
  AxisPlacements input = context.entriesOf(operands.front());
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    entries.push_back(resultEntries(i));
    for (auto [entry, given] : llvm::zip_equal(entries.back(), input))
      if (entry.isShard())
        entry.order = given.order;
  }
  return drawParts(builder, op, operands, entries, context);
}

FailureOr<SmallVector<Value>> LocalOp::build() {
  const Form *form = nullptr;
  for (const AxisStrategy &strategy : strategies)
    form = form ? form : strategy.form;
  FailureOr<SmallVector<Value>> results = form            ? buildForm(*form)
                                          : drawsOthers() ? draw()
                                                          : clone();
  if (failed(results))
    return failure();
  for (auto [i, value] : llvm::enumerate(*results)) {
    if (!value || !isa<RankedTensorType>(value.getType()))
      continue;
    AxisPlacements wanted = resultEntries(i), found = context.entriesOf(value);
    // A form that divides a sum gives a pending sum where the op itself would give an average.
    for (auto [strategy, p, q] : llvm::zip_equal(strategies, wanted, found))
      if (form && !strategy.form && p.isPartial() && q.isPartial())
        p = q;
    if (!equalUpToOrder(wanted, found))
      return op->emitOpError("is to give result ") << i << " placed as " << describe(wanted)
                                                   << " but its local ops give " << describe(found);
  }
  return results;
}

FailureOr<SmallVector<Value>> placement::buildLocalOp(OpBuilder &builder, Operation *op,
                                                      ValueRange operands,
                                                      ArrayRef<AxisStrategy> strategies,
                                                      PartitionContext &context) {
  return LocalOp(builder, op, operands, strategies, context).build();
}
