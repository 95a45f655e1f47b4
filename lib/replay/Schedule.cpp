//===- Schedule.cpp - whether a pipeline's step is that of one device --------===//
//
// That a schedule runs each computation once, on what was made for its microbatch, and without a
// deadlock, is proved by lib/schedule. Here: that these are the functions of the program, and that
// what does not go from one microbatch to the next in order does not depend on the order.
//
//===----------------------------------------------------------------------===//

#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Stages.h"
#include "lib/replay/Replayer.h"
#include "lib/schedule/model/Verify.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using dist::PlacementAttr;
using schedule::Action;
using schedule::ActionKind;
using train::Phase;
using train::RoleKind;

/// Whether anything but the schedule names the axis.
static bool usesAxis(ModuleOp module, StringRef axis) {
  auto name = StringAttr::get(module.getContext(), axis);
  bool isUsed = false;
  auto see = [&](PlacementAttr placement) {
    auto there = placement ? placement.get(axis) : std::nullopt;
    isUsed |= there && !there->isSameOnAllRanks();
  };
  module.walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      if (auto names = dyn_cast<ArrayAttr>(attribute.getValue());
          names && (op->getName().getDialectNamespace() == "dist" || isa<train::BucketOp>(op)) &&
          !isa<dist::MeshOp>(op))
        isUsed |= llvm::is_contained(names, name);
    if (auto convert = dyn_cast<dist::ConvertOp>(op))
      isUsed |= convert.getAxis() == axis;
    for (Type type : op->getResultTypes())
      see(dist::getPlacement(type));
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      for (Type type : function.getArgumentTypes())
        see(dist::getPlacement(type));
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        see(function.getArgAttrOfType<PlacementAttr>(i, "dist.placement"));
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        see(function.getResultAttrOfType<PlacementAttr>(i, "dist.placement"));
    }
  });
  return isUsed;
}

/// The phases whose functions an action runs.
static SmallVector<Phase, 3> phasesOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return {Phase::Forward};
  case ActionKind::Backward:
    return {Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight};
  case ActionKind::BackwardInput:
    return {Phase::BackwardInput};
  case ActionKind::BackwardWeight:
    return {Phase::BackwardWeight};
  case ActionKind::Unshard:
    return {Phase::Unshard};
  case ActionKind::OptimizerStep:
    return {Phase::Update};
  default:
    return {};
  }
}

static bool returns(func::FuncOp function, RoleKind kind) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(function, i); role && role.getKind() == kind)
      return true;
  return false;
}

bool Replay::checkSchedule() {
  auto ops = llvm::to_vector(local.module.getOps<pipeline::ScheduleOp>());
  if (ops.empty())
    return true;
  auto read = ops.front().read();
  auto program = train::getProgram(local.module, train::ProgramForms::Staged);
  if (ops.size() > 1 || failed(read) || failed(program) ||
      program->stages.size() != read->numStages())
    return fail("the schedule is not one of the program");
  const schedule::Schedule &plan = *read;
  if (usesAxis(local.module, ops.front().getAxis().value_or("pp")))
    return fail("functions of stages use the mesh axis of the pipeline");
  schedule::VerifyOptions options;
  options.maxProblems = 1;
  if (!plan.forwardOnly)
    for (const train::ProgramFunctions &stage : program->stages)
      options.buckets.push_back(train::listReducedBuckets(stage).size() + (stage.reduce ? 1 : 0));
  options.computeOnly = !ops.front().hasTransfers();
  if (options.computeOnly && plan.numRanks() > 1)
    return fail("the schedule's transfers are implied");
  if (auto problems = schedule::verify(plan, options); !problems.empty())
    return fail("the schedule: " + problems.front().str());

  // The microbatches of each function in order; where a rank makes steps, reductions and sums.
  llvm::DenseMap<Operation *, std::vector<unsigned>> runs;
  std::vector<std::map<unsigned, size_t>> steps(plan.numRanks()), reductions(plan.numRanks());
  std::vector<std::map<std::string, size_t>> sums(plan.numRanks());
  bool isKnown = true;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    for (size_t at = 0; at < plan.ranks[rank].size(); ++at)
      plan.forEachLeaf(plan.ranks[rank][at], [&](Action leaf) {
        isKnown &= leaf.kind != ActionKind::Custom;
        if (leaf.kind == ActionKind::Collective) {
          const schedule::CollectiveAction &all = plan.collectiveOf(leaf);
          isKnown &= StringRef(all.name).starts_with("stage_sum.") &&
                     all.ranks.size() == plan.numRanks() &&
                     sums[rank].try_emplace(all.name, at).second;
        }
        if (!schedule::hasStage(leaf.kind))
          return;
        if (leaf.kind == ActionKind::OptimizerStep)
          steps[rank][leaf.stage] = at;
        if (leaf.kind == ActionKind::ReduceGrad)
          reductions[rank][leaf.stage] = at;
        for (Phase phase : phasesOf(leaf.kind))
          if (func::FuncOp function = program->stages[leaf.stage].get(phase))
            runs[function].push_back(leaf.index);
      });
  if (!isKnown)
    return fail("the schedule has actions that are not replayed");
  // Each rank enters a sum after its terms and before the updates that take it.
  for (const train::StageSum &sum : train::listStageSums(*program))
    for (unsigned rank = 0; rank < plan.numRanks(); ++rank) {
      auto entered = sums[rank].find("stage_sum." + sum.name.getValue().str());
      bool isRight = entered != sums[rank].end();
      for (unsigned stage : sum.producers)
        if (auto made = reductions[rank].find(stage); isRight && made != reductions[rank].end())
          isRight = made->second < entered->second;
      for (unsigned stage : sum.consumers)
        if (auto step = steps[rank].find(stage); isRight && step != steps[rank].end())
          isRight = step->second > entered->second;
      if (!isRight)
        return fail("the schedule does not sum '" + sum.name.getValue() +
                    "' between its terms and the updates");
    }
  for (const Part &part : local.parts) {
    func::FuncOp function = part.function;
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
    const std::vector<unsigned> &times = runs[function];
    if (phase == Phase::Reduce)
      continue; // one of the reductions that are counted above
    bool isRight = phase == Phase::Unshard  ? !times.empty()
                   : phase == Phase::Update ? times.size() == 1
                                            : times.size() == plan.numMicrobatches;
    if (!isRight)
      return fail("the schedule runs '" + function.getName() + "' " + Twine(times.size()) +
                  " times");
    if (part.phase == "microbatch" && phase != Phase::Unshard && !llvm::is_sorted(times) &&
        (returns(function, RoleKind::Buffer) ||
         (returns(function, RoleKind::Gradient) && findDependent(/*ofGradients=*/true))))
      return fail("'" + function.getName() + "' runs microbatches in another order");
  }
  return true;
}
