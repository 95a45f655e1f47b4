//===- Stages.cpp - a program's stages against a schedule ------------------===//

#include "lib/pipeline/Stages.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using schedule::Action;
using schedule::ActionKind;

FailureOr<std::vector<train::Program>> pipeline::getStages(ModuleOp module) {
  bool isStaged = llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kStageAttrName) && function->hasAttr(train::kPhaseAttrName);
  });
  if (!isStaged)
    return std::vector<train::Program>();
  FailureOr<train::Program> program = train::getProgram(module, train::ProgramForms::Staged);
  if (failed(program))
    return failure();
  return std::move(program->stages);
}

OncePerStep pipeline::getOncePerStep(ArrayRef<train::Program> stages) {
  OncePerStep once;
  for (const train::Program &stage : stages) {
    once.buckets.push_back(stage.reduce ? 1 : 0);
    once.update |= bool(stage.update);
    once.unshard |= bool(stage.unshard);
  }
  if (llvm::all_of(once.buckets, [](unsigned count) { return count == 0; }))
    once.buckets.clear();
  return once;
}

/// The phase that is missing for the action; empty where the stage can run it.
static StringRef findMissing(const train::Program &stage, ActionKind kind) {
  bool parts = stage.backwardInput || stage.backwardWeight;
  switch (kind) {
  case ActionKind::Backward:
    return stage.backward || parts ? "" : "backward";
  // The first stage has no input gradient to make, a frozen one no weight gradient.
  case ActionKind::BackwardInput:
  case ActionKind::BackwardWeight:
    return parts ? "" : "backward_input or backward_weight";
  case ActionKind::Unshard:
    return stage.unshard ? "" : "unshard";
  case ActionKind::ReduceGrad:
    return stage.reduce ? "" : "reduce";
  case ActionKind::OptimizerStep:
    return stage.update ? "" : "update";
  default:
    return "";
  }
}

LogicalResult pipeline::checkStages(ArrayRef<train::Program> stages,
                                    const schedule::Program &program, Location location) {
  if (stages.size() != program.numStages()) {
    InFlightDiagnostic diagnostic =
        emitError(location) << "schedule '" << program.name << "' is of " << program.numStages()
                            << " stages, but the program has " << stages.size();
    diagnostic.attachNote(func::FuncOp(stages.back().forward).getLoc()) << "the last stage is here";
    return failure();
  }
  constexpr unsigned kKinds = schedule::numActionKinds;
  std::vector<bool> runs(stages.size() * kKinds, false);
  for (const std::vector<Action> &list : program.ranks) {
    for (Action action : list)
      program.forEachLeaf(action, [&](Action leaf) {
        if (schedule::hasStage(leaf.kind) && leaf.stage < stages.size())
          runs[leaf.stage * kKinds + static_cast<unsigned>(leaf.kind)] = true;
      });
  }
  for (auto [number, stage] : llvm::enumerate(stages)) {
    func::FuncOp forward = stage.forward;
    for (unsigned kind = 0; kind < kKinds; ++kind) {
      StringRef missing = findMissing(stage, static_cast<ActionKind>(kind));
      if (!runs[number * kKinds + kind] || missing.empty())
        continue;
      InFlightDiagnostic diagnostic =
          forward.emitError() << "is of stage " << number << ", which has no function of phase "
                              << missing << ", but schedule '" << program.name << "' has its "
                              << schedule::getKindName(static_cast<ActionKind>(kind));
      diagnostic.attachNote(location) << "the schedule is here";
      return failure();
    }
    if (stage.update && !runs[number * kKinds + unsigned(ActionKind::OptimizerStep)] &&
        !program.forwardOnly) {
      InFlightDiagnostic diagnostic = func::FuncOp(stage.update).emitError()
                                      << "updates stage " << number << ", but schedule '"
                                      << program.name << "' never takes its optimizer step";
      diagnostic.attachNote(location) << "the schedule is here";
      return failure();
    }
  }
  return success();
}
