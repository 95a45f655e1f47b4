//===- ExecutionOrder.cpp - when the ops of a function run --------------------===//

#include "lib/memory/ExecutionOrder.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/memory/Storage.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

bool cleave::exec::isOptimizerStep(Operation *op) {
  return isa<train::OptimizerStepOpInterface>(op);
}

bool cleave::exec::runsOnCommunication(Operation *op) {
  return isa<dist::CommunicationOpInterface, dist::WaitOp, train::ReduceBucketOp,
             train::WaitBucketOp>(op);
}

Stream cleave::exec::findStream(Operation *op) {
  if (isa<dist::OffloadOp, dist::ReloadOp>(op))
    return Stream::Host;
  return runsOnCommunication(op) ? Stream::Communication : Stream::Compute;
}

bool cleave::exec::isCommunicatorCall(Operation *op) {
  return isa<dist::CommunicationOpInterface, train::ReduceBucketOp>(op);
}

bool cleave::exec::isOnlyView(Operation *op) {
  // These share memory too, but work on it.
  if (op->getNumResults() == 0 || runsOnCommunication(op))
    return false;
  return llvm::all_of(op->getResults(), [&](OpResult result) {
    return isa<RankedTensorType>(result.getType()) &&
           memory::getSharedOperand(op, result.getResultNumber());
  });
}

llvm::BitVector cleave::exec::findOwnedArguments(func::FuncOp function) {
  using train::RoleKind;
  using Key = std::tuple<unsigned, StringAttr, StringAttr>;
  auto keyOf = [](train::RoleAttr role) {
    return Key(unsigned(role.getKind()), role.getName(), role.getSlot());
  };
  llvm::DenseSet<Key> results;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(function, i))
      results.insert(keyOf(role));
  llvm::BitVector owned(function.getNumArguments());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (train::RoleAttr role = train::getArgumentRole(function, i)) {
      RoleKind kind = role.getKind();
      bool isState = kind == RoleKind::Parameter || kind == RoleKind::Buffer ||
                     kind == RoleKind::OptimizerState;
      owned[i] = kind == RoleKind::Accumulator || kind == RoleKind::Gradient ||
                 (isState && results.contains(keyOf(role)));
    }
  return owned;
}

ExecutionOrder::ExecutionOrder(func::FuncOp function) {
  for (Operation &op : function.front()) {
    bool joins = isOptimizerStep(&op) && !units.empty() && isOptimizerStep(units.back().back());
    if (!joins)
      units.emplace_back();
    units.back().push_back(&op);
    times[&op] = unsigned(units.size());
  }
}

unsigned ExecutionOrder::completionOf(OpResult result) const {
  unsigned time = 0;
  if (isa<dist::FutureType>(result.getType()))
    for (Operation *user : result.getUsers())
      if (unsigned waited = of(user); isa<dist::WaitOp>(user) && (!time || waited < time))
        time = waited;
  return time ? time : of(result.getOwner());
}

unsigned ExecutionOrder::completionOf(Operation *op) const {
  unsigned time = of(op);
  for (OpResult result : op->getResults())
    time = std::max(time, completionOf(result));
  return time;
}
