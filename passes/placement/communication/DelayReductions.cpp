//===- DelayReductions.cpp - partial values through linear ops ---------------===//
//
// What is linear in the result of an all_reduce may work on the terms of the sum instead, and be
// reduced afterwards. Values that are used once form trees: leaves are all_reduces, inner nodes
// linear ops. For each node: is it cheaper to reduce here, or in the best way further up? (As in
// delayed reductions of partial values in partitioners, with bytes as cost.)
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Verify.h"
#include "lib/typing/GradientFlow.h"
#include "lib/typing/Inference.h"
#include "passes/placement/communication/Patterns.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using dist::PlacementAttr;

namespace {

/// A value that could be partial instead.
struct Node {
  dist::AllReduceOp reduction; ///< one of the leaves: says mesh, axes and reduction
  PlacementAttr partial;       ///< the placement that the value would have
  int64_t best;                ///< bytes reduced in the best way, up to here
  bool reduceHere;             ///< the best way is one reduction, of this value
};

class Delayer {
public:
  explicit Delayer(func::FuncOp function) : function(function), flow(function) {}

  /// Returns how many reductions were delayed.
  unsigned run();

private:
  void visit(dist::AllReduceOp reduce);
  void visit(Operation *op);
  bool isLeafLike(const Node &a, const Node &b) const;
  bool isTaken(Value value) const;
  void settle(Value value);
  void makePartial(Value value);

  func::FuncOp function;
  GradientFlow flow;
  unsigned numDelayed = 0;
  DenseMap<Value, Node> nodes;
};

} // namespace

void Delayer::visit(dist::AllReduceOp reduce) {
  Value input = getOnlyOperand(reduce);
  PlacementAttr partial = input ? dist::getPlacement(input.getType()) : PlacementAttr();
  if (!partial || reduce.getReduction().getKind() != dist::Reduction::Sum)
    return;
  for (auto axis : reduce.getAxes().getAsRange<StringAttr>())
    if (!partial.get(axis)->isPartialSum())
      return;
  Value result = reduce->getResult(0);
  if (result.hasOneUse())
    nodes[result] = {reduce, partial, dist::bytesOf(result.getType()), true};
}

/// One all_reduce can stand for both.
bool Delayer::isLeafLike(const Node &a, const Node &b) const {
  dist::AllReduceOp x = a.reduction, y = b.reduction;
  if (x.getMeshAttr() != y.getMeshAttr() || x.getAxesAttr() != y.getAxesAttr())
    return false;
  PlacementAttr to = dist::getPlacement(x->getResult(0).getType()),
                other = dist::getPlacement(y->getResult(0).getType());
  return llvm::all_of(x.getAxes().getAsRange<StringAttr>(),
                      [&](StringAttr axis) { return to.get(axis) == other.get(axis); });
}

/// A linear op whose operands could be partial gives a result that could.
void Delayer::visit(Operation *op) {
  if (!isa<sharding::ShardingRuleOpInterface>(op) || op->getNumResults() != 1 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return;
  Value result = op->getResult(0);
  SmallVector<PlacementAttr> operands(op->getNumOperands());
  Node *first = nullptr;
  int64_t above = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    auto found = nodes.find(operand.get());
    if (found == nodes.end() || !operand.get().hasOneUse())
      continue;
    if (first && !isLeafLike(*first, found->second))
      return;
    first = first ? first : &found->second;
    operands[operand.getOperandNumber()] = found->second.partial;
    above += found->second.best;
  }
  PlacementAttr now = dist::getPlacement(result.getType());
  if (!first || !now)
    return;
  // The result that would be: the one that is, pending on the axes of the reduction.
  PlacementAttr wanted = now,
                reduced = dist::getPlacement(first->reduction->getResult(0).getType());
  for (auto axis : first->reduction.getAxes().getAsRange<StringAttr>()) {
    if (now.get(axis) != reduced.get(axis))
      return;
    wanted = wanted.with(axis, AxisPlacement::partial());
  }
  auto carries = [&](Value value) { return flow.carries(value); };
  FailureOr<SmallVector<PlacementAttr>> inferred = inferPlacements(
      op, {.carriesGradient = carries, .preferred = wanted, .operands = operands, .quiet = true});
  if (failed(inferred) || inferred->front() != wanted)
    return;
  int64_t here = dist::bytesOf(result.getType());
  nodes[result] = {first->reduction, wanted, std::min(here, above), here < above};
}

/// Whether another node is made of this one.
bool Delayer::isTaken(Value value) const {
  if (!value.hasOneUse())
    return false;
  Operation *user = *value.getUsers().begin();
  return isa<sharding::ShardingRuleOpInterface>(user) && user->getNumResults() == 1 &&
         nodes.contains(user->getResult(0));
}

/// Carries out the best way of a value that stays reduced.
void Delayer::settle(Value value) {
  auto found = nodes.find(value);
  if (found == nodes.end())
    return;
  Node node = found->second;
  Operation *op = value.getDefiningOp();
  if (isa<dist::AllReduceOp>(op))
    return;
  if (!node.reduceHere) {
    for (Value operand : op->getOperands())
      if (isTaken(operand))
        settle(operand);
    return;
  }
  Type type = value.getType();
  makePartial(value);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto reduce = dist::AllReduceOp::create(
      builder, op->getLoc(), type, value, node.reduction.getReductionAttr(),
      node.reduction.getMeshAttr(), node.reduction.getAxesAttr());
  value.replaceAllUsesExcept(reduce->getResult(0), reduce);
}

/// Takes the reductions out above a node.
void Delayer::makePartial(Value value) {
  Operation *op = value.getDefiningOp();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!nodes.contains(operand.get()) || !isTaken(operand.get()))
      continue;
    if (auto reduce = operand.get().getDefiningOp<dist::AllReduceOp>()) {
      operand.set(reduce->getOperand(0));
      ++numDelayed;
      continue;
    }
    makePartial(operand.get());
  }
  value.setType(
      dist::withPlacement(cast<RankedTensorType>(value.getType()), nodes.at(value).partial));
}

unsigned Delayer::run() {
  SmallVector<Value> order;
  for (Operation &op : function.getOps()) {
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
      visit(reduce);
    else
      visit(&op);
    for (Value result : op.getResults())
      if (nodes.contains(result))
        order.push_back(result);
  }
  // Roots: nodes that no other node takes. They are found before anything changes.
  SmallVector<Value> roots;
  SmallVector<dist::AllReduceOp> leaves;
  for (Value value : order) {
    if (!isTaken(value))
      roots.push_back(value);
    if (auto reduce = value.getDefiningOp<dist::AllReduceOp>())
      leaves.push_back(reduce);
  }
  for (Value root : roots)
    settle(root);
  for (dist::AllReduceOp reduce : leaves)
    if (reduce->use_empty())
      reduce.erase();
  return numDelayed;
}

unsigned cleave::placement::delayReductions(func::FuncOp function) {
  return Delayer(function).run();
}
