//===- StageFrontier.cpp - how stages trade memory for time -------------------===//

#include "lib/pipeline/StageFrontier.h"

#include "lib/backward/MicrobatchParts.h"
#include "lib/backward/SplitFunction.h"
#include "lib/backward/ValueNumbering.h"

#include "mlir/IR/OperationSupport.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// Stages with the same ops
//===----------------------------------------------------------------------===//

/// Bodies hash alike if they have the same ops with the same attributes and types, in one order.
static llvm::hash_code hashOps(func::FuncOp function) {
  llvm::hash_code hash = llvm::hash_value(function.getNumArguments());
  for (Operation &op : function.front())
    hash = llvm::hash_combine(
        hash, OperationEquivalence::computeHash(&op, OperationEquivalence::ignoreHashValue,
                                                OperationEquivalence::ignoreHashValue,
                                                OperationEquivalence::IgnoreLocations));
  return hash;
}

/// Whether both do the same with values that have the same roles. Names may differ, but what is
/// called alike in one is in the other, too.
static bool areAlike(func::FuncOp a, func::FuncOp b) {
  if (a.getFunctionType() != b.getFunctionType())
    return false;
  llvm::DenseMap<StringAttr, StringAttr> names, back;
  auto isSameRole = [&](train::RoleAttr a, train::RoleAttr b) {
    if (!a || !b)
      return !a && !b;
    if (a.getKind() != b.getKind() || bool(a.getName()) != bool(b.getName()))
      return false;
    return !a.getName() ||
           (names.try_emplace(a.getName(), b.getName()).first->second == b.getName() &&
            back.try_emplace(b.getName(), a.getName()).first->second == a.getName());
  };
  for (unsigned index = 0; index < a.getNumArguments(); ++index)
    if (!isSameRole(train::getArgumentRole(a, index), train::getArgumentRole(b, index)))
      return false;
  for (unsigned index = 0; index < a.getNumResults(); ++index)
    if (!isSameRole(train::getResultRole(a, index), train::getResultRole(b, index)))
      return false;
  llvm::DenseMap<Value, Value> partners;
  auto check = [&](Value left, Value right) { return success(partners.lookup(left) == right); };
  auto mark = [&](Value left, Value right) { partners[left] = right; };
  for (auto [left, right] : llvm::zip_equal(a.getArguments(), b.getArguments()))
    mark(left, right);
  for (auto [left, right] : llvm::zip(a.front(), b.front()))
    if (!OperationEquivalence::isEquivalentTo(&left, &right, check, mark,
                                              OperationEquivalence::IgnoreLocations))
      return false;
  return llvm::range_size(a.front()) == llvm::range_size(b.front());
}

StageSearch::StageSearch(ArrayRef<JointStage> stages, const StageBudget &budget)
    : stages(stages), budget(budget), halves(stages.size()) {
  if (!stages.empty())
    times.emplace(stages.front().graph.getFunction()->getParentOfType<ModuleOp>(),
                  budget.mayOffload, budget.cluster);
  std::multimap<size_t, unsigned> firsts;
  for (auto [number, stage] : llvm::enumerate(stages)) {
    func::FuncOp function = stage.graph.getFunction();
    StageMemory &memory = taken.emplace_back();
    memory.input = countTaken(function, RoleKind::Crossing);
    memory.gradient = countTaken(function, RoleKind::CrossingGradient);
    memory.unshard = measureUnshard(stage.unshard);
    size_t hash = hashOps(function);
    auto [begin, end] = firsts.equal_range(hash);
    auto same = std::find_if(begin, end, [&, stages](const auto &entry) {
      return areAlike(stages[entry.second].graph.getFunction(), function);
    });
    sameAs.push_back(same == end ? unsigned(number) : same->second);
    if (same == end)
      firsts.emplace(hash, unsigned(number));
  }
}

//===----------------------------------------------------------------------===//
// Partitions
//===----------------------------------------------------------------------===//

backward::StepForm StageSearch::getForm(unsigned inFlight) const {
  backward::StepForm form;
  form.isLowered = budget.isLowered;
  form.inFlight = std::max(inFlight, 1u);
  form.mayOffload = budget.mayOffload;
  form.hostLinkFactor = backward::getHostLinkFactor(budget.cluster);
  return form;
}

FailureOr<backward::Partition> StageSearch::getPartition(unsigned stage, const BitVector &kept) {
  const backward::JointGraph &graph = stages[stage].graph;
  auto model = backward::RecomputeModel::create(graph, budget.level);
  if (failed(model))
    return failure();
  backward::StepForm form = getForm(1);
  backward::PartitionCosts costs(graph, *model, form,
                                 [&](Operation *op) { return times->get(op); });
  return costs.getPartition(kept);
}

/// What a stage needs whose backward is whole.
static StageMemory describe(const backward::FunctionPeaks &peaks, StageMemory memory) {
  memory.phases = {train::Phase::Forward, train::Phase::Backward};
  memory.functions.assign(2, {});
  memory.functions[0].peakBytes = peaks.forwardBytes;
  memory.functions[0].heldBytes = peaks.heldBytes;
  memory.functions[1].peakBytes = peaks.backwardBytes;
  memory.input.saved = peaks.savedInputBytes;
  return memory;
}

/// What a stage's functions need once --split-backward has split its backward. They are built for
/// that, and erased.
FailureOr<StageMemory> StageSearch::measureHalves(unsigned stage, const BitVector &kept,
                                                  const backward::Partition &partition) {
  auto &of = halves[sameAs[stage]];
  if (auto found = of.find(kept); found != of.end())
    return found->second;
  SmallVector<std::string> names;
  for (size_t value = 0; value < partition.saved.size(); ++value)
    names.push_back(std::to_string(value));
  backward::MicrobatchParts parts = backward::buildParts(stages[stage].graph, partition, names);
  train::ProgramFunctions program;
  program.forward = parts.forward;
  program.backward = parts.backward;
  program.unshard = stages[stage].unshard;
  backward::mergeRepeatedOps(parts.backward);
  auto plan = backward::planSplit(program, parts.backward, {});
  if (failed(plan)) {
    parts.backward.erase();
    parts.forward.erase();
    return failure();
  }
  backward::BackwardHalves split = backward::splitFunction(program, parts.backward, **plan);
  func::FuncOp functions[] = {parts.forward, split.input, split.weight};
  StageMemory memory = measureStage(functions);
  for (func::FuncOp function : functions)
    function.erase();
  of[kept] = memory;
  return memory;
}

/// The points to build halves of: each holds some percent less than the one before.
static std::vector<backward::Frontier::Point> thin(ArrayRef<backward::Frontier::Point> points,
                                                   backward::PartitionCosts &costs) {
  constexpr double least = 0.97;
  std::vector<backward::Frontier::Point> kept;
  double held = 0;
  for (const backward::Frontier::Point &point : llvm::reverse(points)) {
    auto now = double(costs.measureFunctions(point.kept).heldBytes);
    if (!kept.empty() && now > least * held && &point != &points.front())
      continue;
    held = now;
    kept.push_back(point);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

FailureOr<StageFrontier> StageSearch::search(unsigned stage, unsigned inFlight) {
  const backward::JointGraph &graph = stages[stage].graph;
  auto model = backward::RecomputeModel::create(graph, budget.level);
  if (failed(model))
    return failure();
  backward::StepForm form = getForm(inFlight);
  backward::PartitionCosts costs(graph, *model, form,
                                 [&](Operation *op) { return times->get(op); });
  FailureOr<backward::Frontier> found =
      backward::searchPartitions(graph, *model, budget.level, costs, unsigned(stages.size()));
  if (failed(found))
    return failure();
  StageFrontier frontier;
  frontier.inFlight = inFlight;
  bool splits = budget.splitsBackward && !graph.getBackwardResults().empty();
  std::vector<backward::Frontier::Point> points = found->getPoints().vec();
  if (splits)
    points = thin(points, costs);
  for (const backward::Frontier::Point &point : points) {
    backward::FunctionPeaks peaks = costs.measureFunctions(point.kept);
    FailureOr<StageMemory> memory =
        splits ? measureHalves(stage, point.kept, costs.getPartition(point.kept))
               : describe(peaks, taken[stage]);
    if (failed(memory))
      return failure();
    memory->unshard = taken[stage].unshard;
    frontier.points.push_back({point.kept, std::move(*memory), peaks.arenaBytes, peaks.frameBytes,
                               point.costs.time, point.costs.hostBytes});
  }
  return frontier;
}

LogicalResult StageSearch::run(unsigned stage, unsigned inFlight, StageFrontier &frontier) {
  std::pair<unsigned, unsigned> key{sameAs[stage], inFlight};
  auto found = known.find(key);
  if (found == known.end()) {
    FailureOr<StageFrontier> searched = search(stage, inFlight);
    if (failed(searched))
      return failure();
    found = known.emplace(key, std::move(*searched)).first;
  }
  frontier = found->second;
  return success();
}
