//===- ForwardOnly.cpp - a program without its backward ---------------------===//

#include "lib/pipeline/ForwardOnly.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

/// Without gradients, buckets have no use either.
static void eraseDeadOps(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op) || (train::affectsOnlyBuckets(&op) && op.use_empty()))
      op.erase();
}

/// Erases the results of `kind` that `isTaken` refuses, and what is computed for them alone.
static void keepResults(func::FuncOp function, RoleKind kind,
                        llvm::function_ref<bool(StringRef)> isTaken) {
  llvm::BitVector erased(function.getNumResults());
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    train::RoleAttr role = train::getResultRole(function, index);
    if (role && role.getKind() == kind && !isTaken(role.getNameOrEmpty()))
      erased.set(index);
  }
  function.front().getTerminator()->eraseOperands(erased);
  (void)function.eraseResults(erased);
  eraseDeadOps(function);
}

/// Erases the arguments of `kind` that nothing uses; the names of the others.
static llvm::StringSet<> keepArguments(func::FuncOp function, RoleKind kind) {
  llvm::StringSet<> kept;
  llvm::BitVector erased(function.getNumArguments());
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(function, index);
    if (!role || role.getKind() != kind)
      continue;
    if (function.getArgument(index).use_empty())
      erased.set(index);
    else
      kept.insert(role.getNameOrEmpty());
  }
  (void)function.eraseArguments(erased);
  return kept;
}

void pipeline::keepForwards(ArrayRef<train::ProgramFunctions> stages) {
  llvm::StringSet<> crossing; // what the stage after takes
  for (const train::ProgramFunctions &stage : llvm::reverse(stages)) {
    for (func::FuncOp function :
         {stage.backward, stage.backwardInput, stage.backwardWeight, stage.reduce, stage.update})
      if (function)
        function.erase();
    func::FuncOp forward = stage.forward;
    keepResults(forward, RoleKind::Saved, [](StringRef) { return false; });
    keepResults(forward, RoleKind::Crossing,
                [&](StringRef name) { return crossing.contains(name); });
    crossing = keepArguments(forward, RoleKind::Crossing);
    llvm::StringSet<> unsharded = keepArguments(forward, RoleKind::Saved);
    func::FuncOp unshard = stage.unshard;
    if (!unshard)
      continue;
    keepResults(unshard, RoleKind::Saved, [&](StringRef name) { return unsharded.contains(name); });
    if (unshard.getNumResults() == 0)
      unshard.erase();
  }
}
