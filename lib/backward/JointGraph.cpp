//===- JointGraph.cpp - what of a microbatch is forward, what backward --------===//

#include "lib/backward/JointGraph.h"

#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave::backward;
namespace dist = cleave::dist;
namespace train = cleave::train;
using train::RoleKind;

bool JointGraph::isTangent(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) { return isTangent(operand); });
}

void JointGraph::findTangents() {
  for (BlockArgument argument : function.getArguments()) {
    RoleKind kind = train::getArgumentRole(function, argument.getArgNumber()).getKind();
    if (kind == RoleKind::Seed || kind == RoleKind::Accumulator || kind == RoleKind::Gradient ||
        kind == RoleKind::CrossingGradient)
      tangents.insert(argument);
    if (kind == RoleKind::Crossing)
      crossings.insert(argument);
  }
  unsigned place = 0;
  for (Operation &op : function.front()) {
    order[&op] = place++;
    if (isTangent(&op))
      tangents.insert(op.result_begin(), op.result_end());
  }
}

LogicalResult JointGraph::sortResults(bool mayLackBackward) {
  Operation *terminator = function.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    RoleKind kind = train::getResultRole(function, index).getKind();
    bool isBackward =
        kind == RoleKind::Gradient || kind == RoleKind::CrossingGradient || isTangent(value);
    if (isBackward && kind == RoleKind::Buffer)
      return function.emitError()
             << "expects the new value of " << train::getResultRole(function, index)
             << " to come from the forward, found one that depends on the gradient of the loss";
    (isBackward ? backwardResults : forwardResults).push_back(index);
  }
  if (backwardResults.empty() && !mayLackBackward)
    return function.emitError()
           << "has no gradients among its results, so it has no backward to split off";

  for (unsigned index : forwardResults) {
    train::RoleAttr role = train::getResultRole(function, index);
    if (role.getKind() != RoleKind::Buffer)
      continue;
    for (BlockArgument argument : function.getArguments())
      if (train::getArgumentRole(function, argument.getArgNumber()).isTiedTo(role))
        updatedBuffers.insert(argument);
  }
  return success();
}

void JointGraph::findForward() {
  Operation *terminator = function.front().getTerminator();
  SmallVector<Operation *> worklist;
  auto need = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && forward.insert(op).second)
      worklist.push_back(op);
  };
  for (unsigned index : forwardResults)
    need(terminator->getOperand(index));
  // The device would hold for the backward what the forward can copy to the host.
  for (auto offload : function.front().getOps<dist::OffloadOp>())
    if (!isTangent(offload.getOperation()))
      need(offload.getResult());
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands())
      need(operand);
}

FailureOr<JointGraph> JointGraph::create(func::FuncOp function, bool mayLackBackward) {
  JointGraph graph(function);
  graph.findTangents();
  if (failed(graph.sortResults(mayLackBackward)))
    return failure();
  graph.findForward();
  return graph;
}
