//===- Autodiff.cpp - adds the gradients of the loss --------------------------===//

#include "passes/autodiff/Passes.h"

#include "dialects/train/Program.h"
#include "lib/autodiff/Differentiate.h"

namespace cleave::autodiff {
#define GEN_PASS_DEF_AUTODIFF
#include "passes/autodiff/Passes.h.inc"
} // namespace cleave::autodiff

using namespace mlir;
using namespace cleave;

namespace {
struct Autodiff : autodiff::impl::AutodiffBase<Autodiff> {
  using AutodiffBase::AutodiffBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<train::ProgramFunctions> program = findFunctions(module);
    if (failed(program))
      return signalPassFailure();
    autodiff::DifferentiateOptions options;
    options.inputs.assign(inputs.begin(), inputs.end());
    FailureOr<autodiff::DifferentiateStatistics> statistics =
        autodiff::differentiate(program->microbatch, program->update, options);
    if (failed(statistics))
      return signalPassFailure();
    numGradients += statistics->gradients;
    numOps += statistics->ops;
    // Now the microbatch has what the update takes, or it never will.
    // From here on the verifier sees to that.
    if (failed(train::getProgram(module)))
      return signalPassFailure();
    train::markProgram(module);
  }

  /// The phase functions. A forward-only program with an update is none yet: the update takes
  /// gradients that no function computes, so `train::getProgram` would refuse it.
  static FailureOr<train::ProgramFunctions> findFunctions(ModuleOp module) {
    train::ProgramFunctions program;
    for (auto function : module.getOps<func::FuncOp>()) {
      auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
      bool isUpdate = phase && phase.getValue() == train::Phase::Update;
      if (!isUpdate && !(phase && phase.getValue() == train::Phase::Microbatch))
        continue;
      func::FuncOp &slot = isUpdate ? program.update : program.microbatch;
      if (slot) {
        InFlightDiagnostic diagnostic = function.emitError()
                                        << "is a second function of phase "
                                        << train::stringifyPhase(phase.getValue());
        diagnostic.attachNote(slot.getLoc()) << "the first is here";
        return diagnostic;
      }
      slot = function;
    }
    if (program.microbatch)
      return program;
    return module.emitError() << "expects a program: a function with train.phase = "
                                 "#train.phase<microbatch>";
  }
};
} // namespace
