//===- Stages.cpp - a program's stages against a schedule ------------------===//

#include "lib/pipeline/Stages.h"

#include "dialects/train/Stages.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using schedule::Action;
using schedule::ActionKind;

FailureOr<std::vector<train::ProgramFunctions>> pipeline::getStages(ModuleOp module) {
  bool isStaged = llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kStageAttrName) && function->hasAttr(train::kPhaseAttrName);
  });
  if (!isStaged)
    return std::vector<train::ProgramFunctions>();
  FailureOr<train::ProgramFunctions> program =
      train::getProgram(module, train::ProgramForms::Staged);
  if (failed(program))
    return failure();
  return std::move(program->stages);
}

OncePerStep pipeline::getOncePerStep(ArrayRef<train::ProgramFunctions> stages) {
  OncePerStep once;
  for (const train::ProgramFunctions &stage : stages) {
    once.buckets.push_back(train::listReducedBuckets(stage).size() + (stage.reduce ? 1 : 0));
    once.waits.push_back(stage.reduce &&
                         !func::FuncOp(stage.reduce).getOps<train::WaitBucketOp>().empty());
    once.update |= bool(stage.update);
    once.unshard |= bool(stage.unshard);
  }
  if (llvm::all_of(once.buckets, [](unsigned count) { return count == 0; }))
    once.buckets.clear();
  return once;
}

//===----------------------------------------------------------------------===//
// Sums over stages
//===----------------------------------------------------------------------===//

/// All ranks of the pipeline: the sum is over its axis of the mesh.
static std::vector<unsigned> listRanks(const schedule::Schedule &program) {
  std::vector<unsigned> ranks(program.numRanks());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Whether some rank enters a collective of this name.
static bool isEntered(const schedule::Schedule &program, StringRef name) {
  return llvm::any_of(program.ranks, [&](const std::vector<Action> &list) {
    return llvm::any_of(list, [&](Action action) {
      return action.kind == ActionKind::Collective && program.collectiveOf(action).name == name;
    });
  });
}

void pipeline::addStageSums(ArrayRef<train::ProgramFunctions> stages, schedule::Schedule &program) {
  train::ProgramFunctions whole;
  whole.stages = stages.vec();
  for (const train::StageSum &sum : train::listStageSums(whole)) {
    std::string name = (kStageSumPrefix + sum.name.getValue()).str();
    if (isEntered(program, name))
      continue;
    std::vector<unsigned> ranks = listRanks(program);
    Action action = program.addCollective({name, ranks});
    for (unsigned rank : ranks) {
      std::vector<Action> &list = program.ranks[rank];
      auto step =
          llvm::find_if(list, [](Action each) { return each.kind == ActionKind::OptimizerStep; });
      list.insert(step, action);
    }
  }
}

/// Every rank enters each sum once: after what makes its terms, before what takes the sum.
static LogicalResult checkStageSums(ArrayRef<train::ProgramFunctions> stages,
                                    const schedule::Schedule &program, Location location) {
  train::ProgramFunctions whole;
  whole.stages = stages.vec();
  for (const train::StageSum &sum : train::listStageSums(whole)) {
    std::string name = (kStageSumPrefix + sum.name.getValue()).str();
    std::vector<unsigned> ranks = listRanks(program);
    for (unsigned rank : ranks) {
      auto reportError = [&]() {
        return emitError(location) << "schedule '" << program.name << "': rank " << rank << " ";
      };
      std::optional<size_t> entered;
      for (auto [position, action] : llvm::enumerate(program.ranks[rank])) {
        if (action.kind != ActionKind::Collective || program.collectiveOf(action).name != name)
          continue;
        if (entered)
          return reportError() << "enters collective \"" << name << "\" a second time (position "
                               << position << ")";
        if (program.collectiveOf(action).ranks != ranks)
          return reportError() << "enters collective \"" << name
                               << "\" of some ranks only, expected all " << ranks.size()
                               << " of the pipeline";
        entered = position;
      }
      if (!entered)
        return reportError() << "never enters collective \"" << name
                             << "\", which the updates' sum over stages needs";
      for (auto [position, action] : llvm::enumerate(program.ranks[rank])) {
        if (position < *entered && action.kind == ActionKind::OptimizerStep &&
            llvm::is_contained(sum.consumers, action.stage))
          return reportError() << "takes step" << action.stage << " (position " << position
                               << ") before collective \"" << name << "\" (position " << *entered
                               << "), whose sum it needs";
        if (position > *entered && action.kind == ActionKind::ReduceGrad &&
            llvm::is_contained(sum.producers, action.stage))
          return reportError() << "enters collective \"" << name << "\" (position " << *entered
                               << ") before " << program.str(action) << " (position " << position
                               << "), which computes its term";
      }
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The schedule against the stages
//===----------------------------------------------------------------------===//

/// The phase that is missing for the action; empty if the stage can run it.
static StringRef findMissing(const train::ProgramFunctions &stage, ActionKind kind) {
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
    return stage.reduce || !train::listReducedBuckets(stage).empty() ? "" : "reduce";
  case ActionKind::OptimizerStep:
    return stage.update ? "" : "update";
  default:
    return "";
  }
}

LogicalResult pipeline::checkStages(ArrayRef<train::ProgramFunctions> stages,
                                    const schedule::Schedule &program, Location location) {
  if (stages.size() != program.numStages()) {
    InFlightDiagnostic diagnostic =
        emitError(location) << "schedule '" << program.name << "' has " << program.numStages()
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
      InFlightDiagnostic diagnostic = forward.emitError()
                                      << "belongs to stage " << number
                                      << ", which has no function of phase " << missing
                                      << ", but schedule '" << program.name << "' has its "
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
  return program.forwardOnly ? success() : checkStageSums(stages, program, location);
}
