//===- StepMeaning.cpp - what a step does around its functions --------------===//
//
// Functions of a microbatch are proved for any one of them. A step is all of them: by induction,
// where each runs once, its values are of its own microbatch, and gradients and buffers go from one
// to the next. The program of one device runs microbatches in order; of a pipeline the schedule
// says in which order each stage does.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Stages.h"
#include "lib/prove/Prover.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using schedule::Action;
using schedule::ActionKind;
using train::RoleKind;

void Prover::fail(const Twine &what, const Twine &relation) {
  Finding finding;
  finding.result = what.str();
  finding.relation = relation.str();
  proof.findings.push_back(std::move(finding));
}

//===----------------------------------------------------------------------===//
// What a step is made of
//===----------------------------------------------------------------------===//

/// How many random numbers a microbatch draws: the next one's begin behind them.
static int64_t countDraws(ArrayRef<Part> parts) {
  for (Part part : parts)
    if (auto draws = part.function->getAttrOfType<IntegerAttr>(train::kDrawsAttrName))
      return draws.getInt();
  return 0;
}

/// Each microbatch must get the same part of the batch, the same numbers, and the same share of the
/// mean in both programs: the runtime gives them, by what the programs say of them.
void Prover::checkStep(ArrayRef<Part> globalParts) {
  llvm::StringMap<train::RoleAttr> roles;
  bool draws = false;
  auto visit = [&](ArrayRef<Part> parts, auto see) {
    for (Part part : parts) {
      for (BlockArgument argument : part.function.getArguments()) {
        train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
        if (role && !isa<train::BucketType>(argument.getType()))
          see("takes " + nameOf(role), role);
      }
      for (unsigned i = 0; i < part.function.getNumResults(); ++i)
        if (train::RoleAttr role = train::getResultRole(part.function, i))
          see("returns " + nameOf(role), role);
    }
  };
  visit(globalParts, [&](const std::string &name, train::RoleAttr role) { roles[name] = role; });
  visit(localParts, [&](const std::string &name, train::RoleAttr role) {
    draws |= role.getKind() == RoleKind::RngOffset;
    auto found = roles.find(name);
    if (found != roles.end() && found->second.getBatch() != role.getBatch())
      fail(StringRef(nameOf(role)).rtrim(),
           "its examples are in another dimension than on one device, so that microbatches are "
           "other parts of the batch");
  });
  int64_t expected = countDraws(globalParts), found = countDraws(localParts);
  if (draws && expected != found)
    fail(train::kDrawsAttrName, "a microbatch draws " + Twine(found) + " numbers, and " +
                                    Twine(expected) +
                                    " on one device: the next one's begin at another place");
  for (StringRef name : {train::kMeanOverAttrName, train::kLossScalingAttrName})
    if (global->getAttr(name) != local->getAttr(name))
      fail(name, "the programs have a different one: their losses are scaled in another way");
}

//===----------------------------------------------------------------------===//
// Sums over stages
//===----------------------------------------------------------------------===//

/// Adds a stage's term to the sum that updates take.
void Prover::addStageTerm(llvm::StringMap<Tensor> &sums, train::RoleAttr role, Tensor term,
                          Evaluator &evaluator, Type type) {
  auto [place, isNew] = sums.try_emplace(nameOf(role), term);
  if (isNew)
    return;
  std::optional<Tensor> sum = evaluator.addValues(place->second, std::move(term));
  place->second = sum ? std::move(*sum) : evaluator.opaque(type);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// The phases whose functions an action runs, as far as the stage has them.
static SmallVector<func::FuncOp, 2> functionsOf(const train::ProgramFunctions &stage,
                                                ActionKind kind) {
  SmallVector<func::FuncOp, 2> functions;
  auto add = [&](func::FuncOp function) {
    if (function)
      functions.push_back(function);
  };
  switch (kind) {
  case ActionKind::Forward:
    add(stage.forward);
    break;
  case ActionKind::Backward:
    add(stage.backward);
    add(stage.backwardInput);
    add(stage.backwardWeight);
    break;
  case ActionKind::BackwardInput:
    add(stage.backwardInput);
    break;
  case ActionKind::BackwardWeight:
    add(stage.backwardWeight);
    break;
  case ActionKind::Unshard:
    add(stage.unshard);
    break;
  case ActionKind::OptimizerStep:
    add(stage.update);
    break;
  default:
    break;
  }
  return functions;
}

static bool returns(func::FuncOp function, RoleKind kind) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(function, i); role && role.getKind() == kind)
      return true;
  return false;
}

/// Whether each gradient is the sum so far, and what depends on neither sums nor buffers: then
/// microbatches may be added in any order.
bool Prover::areGradientsFreeOfOrder() {
  llvm::StringSet<> states = statesOfMicrobatches();
  for (const auto &[name, value] : globalResults) {
    StringRef rest = name;
    if (!rest.consume_front("microbatch gradient "))
      continue;
    Tensor added = value;
    auto before = arguments.find(("microbatch accumulator " + rest).str());
    if (before != arguments.end()) {
      Tensor taken = before->second.global;
      taken.meaning = terms.scale(std::move(taken.meaning), Rational(-1));
      std::optional<Tensor> difference = globalEvaluator->addValues(added, std::move(taken));
      if (!difference)
        return false;
      added = std::move(*difference);
    }
    if (terms.dependsOn(added.meaning, states))
      return false;
  }
  return true;
}

/// The pipeline's axis of the mesh is for its schedule alone.
static bool usesAxis(ModuleOp module, StringRef axis) {
  auto isOn = [&](dist::PlacementAttr placement) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis) : std::nullopt;
    return on && !on->isSameOnAllRanks();
  };
  auto places = [&](Type type) { return isOn(dist::getPlacement(type)); };
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (isOn(function.getArgAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr)))
        return true;
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (isOn(function.getResultAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr)))
        return true;
  }
  return module
      .walk([&](Operation *op) {
        auto axes = op->getAttrOfType<ArrayAttr>("axes");
        bool communicates = op->getName().getDialectNamespace() == "dist" && axes &&
                            llvm::is_contained(axes, StringAttr::get(op->getContext(), axis));
        if (auto convert = dyn_cast<dist::ConvertOp>(op))
          communicates |= convert.getAxis() == axis;
        if (auto bucket = dyn_cast<train::BucketOp>(op))
          for (std::optional<ArrayAttr> names : {bucket.getAxes(), bucket.getScatter()})
            communicates |=
                names && llvm::is_contained(*names, StringAttr::get(op->getContext(), axis));
        bool isPlaced = llvm::any_of(op->getResultTypes(), places);
        for (Region &region : op->getRegions())
          for (Block &block : region)
            isPlaced |= llvm::any_of(block.getArgumentTypes(), places);
        return communicates || isPlaced ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {
/// Where the actions of one rank stand that run once per step.
struct OncePerStep {
  llvm::DenseMap<unsigned, size_t> steps, lastReduce;
  llvm::StringMap<size_t> sums;
};
} // namespace

/// Checks that sums over stages come between their terms and the updates, on each rank.
static std::string checkStageSums(const train::ProgramFunctions &program,
                                  const schedule::Schedule &schedule, ArrayRef<OncePerStep> ranks) {
  for (const train::StageSum &sum : train::listStageSums(program)) {
    std::string name = "stage_sum." + sum.name.getValue().str();
    for (auto [rank, once] : llvm::enumerate(ranks)) {
      auto entered = once.sums.find(name);
      if (entered == once.sums.end())
        return llvm::formatv("rank {0} never enters collective \"{1}\"", rank, name);
      for (unsigned stage : sum.producers)
        if (auto found = once.lastReduce.find(stage);
            found != once.lastReduce.end() && found->second >= entered->second)
          return llvm::formatv("rank {0} enters collective \"{1}\" before stage {2} has its term",
                               rank, name, stage);
      for (unsigned stage : sum.consumers)
        if (auto found = once.steps.find(stage);
            found != once.steps.end() && found->second <= entered->second)
          return llvm::formatv("rank {0} takes step{1} before collective \"{2}\"", rank, stage,
                               name);
    }
  }
  return "";
}

LogicalResult Prover::checkSchedule() {
  auto ops = llvm::to_vector(local.getOps<pipeline::ScheduleOp>());
  if (ops.empty())
    return success();
  auto isWrong = [&](const Twine &what) {
    fail(("schedule '" + ops.front().getName() + "'").str(), what);
    return success();
  };
  if (ops.size() > 1)
    return isWrong("the program has " + Twine(ops.size()) + " schedules");
  pipeline::ScheduleOp op = ops.front();
  FailureOr<schedule::Schedule> read = op.read();
  FailureOr<train::ProgramFunctions> program =
      train::getProgram(local, train::ProgramForms::Staged);
  if (failed(read) || failed(program))
    return failure();
  const schedule::Schedule &plan = *read;
  ArrayRef<train::ProgramFunctions> stages = program->stages;
  if (stages.size() != plan.numStages())
    return isWrong("it is for " + Twine(plan.numStages()) + " stages, and the program has " +
                   Twine(stages.size()));
  StringRef axis = op.getAxis().value_or("pp");
  if (usesAxis(local, axis))
    return isWrong("functions of stages use '" + axis +
                   "', the mesh axis of the pipeline: others do not run them");

  // Each computation once, on what was made for its microbatch; each transfer with its other end;
  // no deadlock, whichever way transfers are matched.
  schedule::VerifyOptions options;
  options.computeOnly = !op.hasTransfers();
  options.maxProblems = 1;
  for (const train::ProgramFunctions &stage : stages)
    options.buckets.push_back(train::listReducedBuckets(stage).size() + (stage.reduce ? 1 : 0));
  if (plan.forwardOnly)
    options.buckets.clear();
  std::vector<schedule::Problem> problems = schedule::verify(plan, options);
  if (!problems.empty())
    return isWrong(problems.front().str());
  if (!op.hasTransfers() && plan.numRanks() > 1)
    return isWrong("its transfers are implied");

  // Each stage's functions run for each microbatch, or once, and in which order.
  llvm::DenseMap<Operation *, std::vector<unsigned>> order;
  std::vector<OncePerStep> ranks(plan.numRanks());
  std::string unknown;
  for (auto [rank, list] : llvm::enumerate(plan.ranks))
    for (auto [position, action] : llvm::enumerate(list))
      plan.forEachLeaf(action, [&, rank = rank, position = position](Action leaf) {
        if (leaf.kind == ActionKind::Custom && unknown.empty())
          unknown = "it calls '" + plan.customOf(leaf).name + "', of which nothing is known";
        if (leaf.kind == ActionKind::Collective) {
          const schedule::CollectiveAction &collective = plan.collectiveOf(leaf);
          bool isNew = ranks[rank].sums.try_emplace(collective.name, position).second;
          if ((!StringRef(collective.name).starts_with("stage_sum.") || !isNew ||
               collective.ranks.size() != plan.numRanks()) &&
              unknown.empty())
            unknown = "collective '" + collective.name +
                      "' is not a sum over all stages, or is entered twice";
        }
        if (!schedule::hasStage(leaf.kind))
          return;
        if (leaf.kind == ActionKind::OptimizerStep)
          ranks[rank].steps[leaf.stage] = position;
        if (leaf.kind == ActionKind::ReduceGrad)
          ranks[rank].lastReduce[leaf.stage] = position;
        for (func::FuncOp function : functionsOf(stages[leaf.stage], leaf.kind))
          order[function].push_back(leaf.index);
      });
  if (!unknown.empty())
    return isWrong(unknown);
  if (std::string problem = checkStageSums(*program, plan, ranks); !problem.empty())
    return isWrong(problem);

  bool isAnyOrder = false, isKnown = false;
  for (auto [number, stage] : llvm::enumerate(stages)) {
    for (func::FuncOp function : stage.getFunctions()) {
      auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
      const std::vector<unsigned> &runs = order[function];
      if (phase == train::Phase::Reduce)
        continue; // that each is run is checked with the buckets
      if (phase == train::Phase::Unshard) {
        // Before what takes its values, as often as these are freed.
        if (runs.empty())
          return isWrong("stage " + Twine(number) + " is never unsharded");
        continue;
      }
      if (phase == train::Phase::Update) {
        if (runs.size() != 1)
          return isWrong("stage " + Twine(number) + " takes " + Twine(runs.size()) +
                         " optimizer steps");
        continue;
      }
      if (runs.size() != plan.numMicrobatches)
        return isWrong("'" + function.getName() + "' runs for " + Twine(runs.size()) + " of " +
                       Twine(plan.numMicrobatches) + " microbatches");
      if (llvm::is_sorted(runs))
        continue;
      if (returns(function, RoleKind::Buffer))
        return isWrong("'" + function.getName() +
                       "' updates buffers, and runs microbatches in another order");
      if (!returns(function, RoleKind::Gradient))
        continue;
      if (!isKnown)
        isAnyOrder = areGradientsFreeOfOrder();
      isKnown = true;
      if (!isAnyOrder)
        return isWrong("'" + function.getName() +
                       "' runs microbatches in another order, on which gradients depend");
    }
  }
  return success();
}
