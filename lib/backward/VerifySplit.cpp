//===- VerifySplit.cpp - holds a split backward to its definition ------------===//

#include "lib/backward/VerifySplit.h"

#include "dialects/dist/Dist.h"

#include "lib/backward/GradientRoles.h"
#include "lib/backward/GradientSlice.h"
#include "lib/backward/ValueNumbering.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

/// Rules 2 and 3: reports each op of `function` that `needed` does not have, in whole or in part.
static LogicalResult checkNeeded(func::FuncOp function, const backward::GradientSlice &needed,
                                 StringRef nobody) {
  LogicalResult checked = success();
  for (Operation &op : function.front().without_terminator()) {
    auto isNeeded = [&](Value result) {
      return isa<NoneType>(result.getType()) || needed.contains(result);
    };
    if (llvm::all_of(op.getResults(), isNeeded))
      continue;
    checked = op.emitError() << "is in '" << function.getName() << "', but " << nobody
                             << (needed.containsOp(&op) ? " all of its results" : " it");
  }
  return checked;
}

static LogicalResult checkInputHalf(const train::ProgramFunctions &program) {
  func::FuncOp function = program.backwardInput;
  FailureOr<backward::GradientResults> results = backward::sortResults(program, function);
  if (failed(results))
    return failure();
  if (!results->parameters.empty())
    return function.emitError() << "has phase backward_input but returns "
                                << train::getResultRole(function, results->parameters.front())
                                << ", a parameter's gradient, which belongs in backward_weight";
  backward::GradientSlice needed;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (train::getResultRole(function, i).getKind() != RoleKind::Saved)
      needed.add(value);
  for (Operation &op : function.front())
    if (op.hasAttr(train::kActivationGradientAttrName))
      for (Value result : op.getResults())
        needed.add(result);
  return checkNeeded(function, needed, "none of the gradients computed there needs");
}

static LogicalResult checkWeightHalf(const train::ProgramFunctions &program) {
  func::FuncOp function = program.backwardWeight;
  FailureOr<backward::GradientResults> results = backward::sortResults(program, function);
  if (failed(results))
    return failure();
  if (!results->inputs.empty())
    return function.emitError() << "has phase backward_weight but returns "
                                << train::getResultRole(function, results->inputs.front())
                                << ", an input's gradient, which belongs in backward_input";
  backward::GradientSlice needed;
  for (Value value : function.front().getTerminator()->getOperands())
    needed.add(value);
  return checkNeeded(function, needed, "no result needs");
}

LogicalResult backward::verifySplit(const train::ProgramFunctions &program) {
  if (failed(checkInputHalf(program)) || failed(checkWeightHalf(program)))
    return failure();
  LogicalResult checked = success();
  ValueNumbering numbering;
  if (func::FuncOp unshard = program.unshard)
    numbering.add(unshard);
  numbering.add(program.forward);
  numbering.add(program.backwardInput);
  llvm::DenseSet<Operation *> repeated;
  numbering.add(program.backwardWeight, [&](Operation *op, ArrayRef<Operation *> earlier) {
    repeated.insert(op);
    auto inInput = llvm::find_if(
        earlier, [&](Operation *other) { return other->getParentOp() == program.backwardInput; });
    if (inInput == earlier.end() || op->hasAttr(train::kRecomputedAttrName))
      return;
    InFlightDiagnostic diagnostic = op->emitError()
                                    << "repeats a computation of backward_input, and is not marked "
                                    << train::kRecomputedAttrName;
    diagnostic.attachNote((*inInput)->getLoc()) << "computed here";
    checked = diagnostic;
  });
  for (Operation &op : program.backwardWeight->getRegion(0).front())
    if (op.hasAttr(train::kRecomputedAttrName) && !isa<dist::ReloadOp>(op) &&
        !repeated.contains(&op))
      checked = op.emitError() << "is marked " << train::kRecomputedAttrName
                               << ", but neither forward nor backward_input computes it";
  return checked;
}
