//===- SplitPlan.cpp - a backward in two halves ------------------------------===//

#include "lib/backward/SplitPlan.h"

#include "dialects/dist/Dist.h"
#include "lib/backward/ActivationGradients.h"
#include "lib/backward/HeldValues.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

/// Whether dI, as far as it is known, reads the buffer whose new value result `index` is: then the
/// new value must not be stored before dI has run, so that dI is the half to give it.
static bool readsUpdated(const backward::SplitPlan &plan, func::FuncOp function, unsigned index) {
  train::RoleAttr role = train::getResultRole(function, index);
  if (role.getKind() != RoleKind::Buffer)
    return false;
  for (BlockArgument argument : function.getArguments())
    if (role.getKind() == train::getArgumentRole(function, argument.getArgNumber()).getKind() &&
        role.getName() == train::getArgumentRole(function, argument.getArgNumber()).getName())
      return llvm::any_of(argument.getUsers(),
                          [&](Operation *user) { return plan.input.containsOp(user); });
  return false;
}

static LogicalResult addActivationGradients(const train::ProgramFunctions &program,
                                            func::FuncOp function,
                                            const backward::SplitOptions &options,
                                            backward::SplitPlan &plan) {
  if (options.inputs == "roles")
    return success();
  backward::ActivationGradients chain(function, plan.results,
                                      backward::findTangents(program, function));
  if (options.inputs == "activations") {
    plan.activationGradients = chain.all();
    return success();
  }
  SmallVector<StringRef> modules;
  StringRef(options.inputs).split(modules, ',');
  for (StringRef &module : modules)
    module = module.trim();
  plan.activationGradients = chain.leaving(modules);
  if (!plan.activationGradients.empty())
    return success();
  InFlightDiagnostic diagnostic = function.emitError() << "no gradient of an activation leaves '"
                                                       << options.inputs << "' for another module";
  SmallVector<StringRef> known = chain.modules();
  diagnostic.attachNote(function.getLoc())
      << "the function computes gradients in "
      << (known.empty() ? "no named module"
                        : llvm::join(ArrayRef(known).take_front(12), ", ") +
                              (known.size() > 12 ? ", ..." : ""));
  return diagnostic;
}

FailureOr<std::unique_ptr<backward::SplitPlan>>
backward::planSplit(const train::ProgramFunctions &program, func::FuncOp function,
                    const SplitOptions &options) {
  for (Operation &op : function.front().without_terminator())
    if (!isMemoryEffectFree(&op) && !train::affectsOnlyBuckets(&op))
      return op.emitError() << "has side effects, so its backward cannot be split";
  auto plan = std::make_unique<SplitPlan>();
  FailureOr<GradientResults> results = sortResults(program, function);
  if (failed(results))
    return failure();
  plan->results = *results;
  if (failed(addActivationGradients(program, function, options, *plan)))
    return failure();

  Operation *terminator = function.front().getTerminator();
  llvm::SmallDenseSet<unsigned> inputResults(results->inputs.begin(), results->inputs.end());
  for (unsigned result : results->inputs)
    plan->input.add(terminator->getOperand(result));
  for (Value value : plan->activationGradients)
    plan->input.add(value);
  // What dI has anyway it also gives. A buffer's new value makes dI larger, which may bring in
  // more.
  for (bool hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (unsigned result : results->others) {
      Value value = terminator->getOperand(result);
      if (inputResults.contains(result) ||
          !(plan->input.contains(value) || readsUpdated(*plan, function, result)))
        continue;
      inputResults.insert(result);
      plan->input.add(value);
      hasChanged = true;
    }
  }
  for (unsigned result = 0; result < function.getNumResults(); ++result) {
    bool isInput = inputResults.contains(result);
    (isInput ? plan->inputResults : plan->weightResults).push_back(result);
    if (!isInput)
      plan->weight.add(terminator->getOperand(result));
  }
  chooseHeldValues(program, function, *plan, options.recomputeCheap);
  for (Value value : plan->held)
    if (isa<dist::FutureType>(value.getType()))
      return value.getDefiningOp()->emitError()
             << "is awaited in both halves of the backward, but a future cannot be passed between "
                "functions; run --split-backward before overlapping communication";
  return plan;
}
