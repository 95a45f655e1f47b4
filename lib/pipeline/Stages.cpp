//===- Stages.cpp - a program's stages against a schedule ------------------===//

#include "lib/pipeline/Stages.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using schedule::Action;
using schedule::ActionKind;

static func::FuncOp *slotOf(train::Program &stage, train::Phase phase) {
  switch (phase) {
  case train::Phase::Microbatch:
    return &stage.microbatch;
  case train::Phase::Update:
    return &stage.update;
  case train::Phase::Forward:
    return &stage.forward;
  case train::Phase::Backward:
    return &stage.backward;
  case train::Phase::BackwardInput:
    return &stage.backwardInput;
  case train::Phase::BackwardWeight:
    return &stage.backwardWeight;
  case train::Phase::Unshard:
    return &stage.unshard;
  case train::Phase::Reduce:
    return &stage.reduce;
  }
  return nullptr;
}

FailureOr<std::vector<train::Program>> pipeline::getStages(ModuleOp module) {
  std::map<int64_t, train::Program> byNumber;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    auto number = function->getAttrOfType<IntegerAttr>(train::kStageAttrName);
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
    if (!number || !phase)
      continue;
    func::FuncOp &slot = *slotOf(byNumber[number.getInt()], phase.getValue());
    if (slot) {
      InFlightDiagnostic diagnostic = function.emitError()
                                      << "is a second function of phase "
                                      << train::stringifyPhase(phase.getValue()) << " of stage "
                                      << number.getInt();
      diagnostic.attachNote(slot.getLoc()) << "the first is here";
      return failure();
    }
    slot = function;
  }
  std::vector<train::Program> stages;
  for (auto &[number, stage] : byNumber) {
    func::FuncOp any = stage.getFunctions().front();
    if (number != static_cast<int64_t>(stages.size())) {
      any.emitError() << "is of stage " << number << ", but there is no stage " << stages.size();
      return failure();
    }
    if (!stage.forward) {
      any.emitError() << "is of stage " << number << ", which has no function of phase forward";
      return failure();
    }
    stages.push_back(stage);
  }
  return stages;
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
