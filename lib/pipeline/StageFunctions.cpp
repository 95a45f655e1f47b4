//===- StageFunctions.cpp - builds the functions of pipeline stages -----------===//
//
// By demand: a stage's results need ops, these need operands, and what another stage makes is asked
// of the neighbour on the way to it, which forwards it.
//
//===----------------------------------------------------------------------===//

#include "lib/pipeline/StageFunctions.h"
#include "dialects/dist/Dist.h"
#include "lib/backward/FsdpSplit.h"
#include "lib/backward/MicrobatchParts.h"
#include "lib/memory/MemoryPlan.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// What each stage holds
//===----------------------------------------------------------------------===//

namespace {
/// One stage's part of the joint function; crossing values are named by those of that function.
struct StageContents {
  llvm::DenseSet<Operation *> ops;
  llvm::DenseSet<Value> seen;
  /// From the stage before and to the one after; gradients the other way.
  llvm::DenseSet<Value> valuesIn, valuesOut, gradientsIn, gradientsOut;
};

class Outliner {
public:
  Outliner(const backward::JointGraph &graph, const StageAssignment &assignment)
      : graph(graph), assignment(assignment), contents(assignment.getNumStages()) {
    func::FuncOp function = graph.getFunction();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (BlockArgument argument : function.getArguments())
        if (graph.isUpdatedBuffer(argument) &&
            train::getArgumentRole(function, argument.getArgNumber())
                .isTiedTo(train::getResultRole(function, i)))
          bufferStages[argument] = assignment.getResultStage(i);
  }

  LogicalResult collect() {
    func::FuncOp function = graph.getFunction();
    for (auto [index, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
      need(assignment.getResultStage(index), value);
    while (!worklist.empty()) {
      auto [stage, value] = worklist.pop_back_val();
      if (contents[stage].seen.insert(value).second && failed(provide(stage, value)))
        return failure();
    }
    return success();
  }

  const StageContents &get(unsigned stage) const { return contents[stage]; }

  /// Values in the order of the joint function.
  SmallVector<Value> sort(const llvm::DenseSet<Value> &values) const {
    auto key = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value))
        return std::make_tuple(0u, argument.getArgNumber(), 0u);
      auto result = cast<OpResult>(value);
      return std::make_tuple(1u, graph.getOrder(result.getOwner()), result.getResultNumber());
    };
    SmallVector<Value> sorted(values.begin(), values.end());
    llvm::sort(sorted, [&](Value a, Value b) { return key(a) < key(b); });
    return sorted;
  }

private:
  void need(unsigned stage, Value value) { worklist.emplace_back(stage, value); }

  LogicalResult provide(unsigned stage, Value value) {
    std::optional<unsigned> producer = stage;
    Operation *op = value.getDefiningOp();
    if (op)
      producer = assignment.getStage(op);
    else if (auto found = bufferStages.find(value); found != bufferStages.end())
      producer = found->second;
    if (!op && *producer > stage) {
      func::FuncOp function = graph.getFunction();
      return function.emitError() << "has "
                                  << train::getArgumentRole(
                                         function, cast<BlockArgument>(value).getArgNumber())
                                  << ", which stage " << *producer << " updates, but stage "
                                  << stage << " reads; put both into one stage";
    }
    if (!producer || *producer == stage) {
      if (op && contents[stage].ops.insert(op).second)
        for (Value operand : op->getOperands())
          need(stage, operand);
      return success();
    }
    if (*producer < stage) {
      contents[stage].valuesIn.insert(value);
      contents[stage - 1].valuesOut.insert(value);
      need(stage - 1, value);
      return success();
    }
    contents[stage].gradientsIn.insert(value);
    contents[stage + 1].gradientsOut.insert(value);
    need(stage + 1, value);
    return success();
  }

  const backward::JointGraph &graph;
  const StageAssignment &assignment;
  SmallVector<StageContents> contents;
  llvm::DenseMap<Value, unsigned> bufferStages;
  SmallVector<std::pair<unsigned, Value>> worklist;
};

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Builds the functions of all stages.
class StageWriter {
public:
  StageWriter(const train::ProgramFunctions &program, const backward::JointGraph &graph,
              const StageAssignment &assignment, const Outliner &outliner)
      : program(program), graph(graph), assignment(assignment), outliner(outliner),
        crossingNames(train::ProgramFunctions()), savedNames(train::ProgramFunctions()) {
    outlined.stages.resize(assignment.getNumStages());
    outlined.traffic.resize(assignment.getNumStages() - 1);
  }

  LogicalResult writeMicrobatch(const SavePolicy &policy);
  LogicalResult writeUpdates();
  void nameFunctions();

  OutlinedStages outlined;

private:
  func::FuncOp writeJoint(unsigned stage);
  void countTraffic();
  LogicalResult splitFsdp(ArrayRef<func::FuncOp> joints);
  LogicalResult divide(ArrayRef<func::FuncOp> joints, const SavePolicy &policy);
  StringRef nameOf(Value value) {
    std::string &name = names[value];
    if (name.empty())
      name = crossingNames.makeName(value);
    return name;
  }

  const train::ProgramFunctions &program;
  const backward::JointGraph &graph;
  const StageAssignment &assignment;
  const Outliner &outliner;
  backward::SavedNames crossingNames, savedNames;
  llvm::DenseMap<Value, std::string> names;
  llvm::DenseSet<Value> takenArguments;
};
} // namespace

static bool isPendingSum(Type type) {
  dist::PlacementAttr placement = dist::getPlacement(type);
  return placement && llvm::any_of(placement.getEntries(), [](const dist::AxisEntry &entry) {
           return entry.placement.isPartial();
         });
}

/// The stage's part of the microbatch as one function, between what it takes and gives.
func::FuncOp StageWriter::writeJoint(unsigned stage) {
  func::FuncOp function = graph.getFunction();
  const StageContents &contents = outliner.get(stage);
  backward::PartBuilder builder(function, train::Phase::Microbatch);
  SmallVector<Operation *> ops(contents.ops.begin(), contents.ops.end());
  llvm::sort(ops,
             [&](Operation *a, Operation *b) { return graph.getOrder(a) < graph.getOrder(b); });
  for (Operation *op : ops)
    builder.addOp(op);
  backward::TiedResults given;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (assignment.getResultStage(i) == stage) {
      builder.addResult(i);
      given.add(train::getResultRole(function, i));
    }
  for (Value value : outliner.sort(contents.valuesOut))
    builder.save(value, nameOf(value), RoleKind::Crossing);
  for (Value value : outliner.sort(contents.gradientsOut))
    builder.save(value, nameOf(value), RoleKind::CrossingGradient);
  builder.addArguments([&](BlockArgument argument, bool isUsed) {
    if (contents.valuesIn.contains(argument))
      return false;
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    // The first stage, which is written last, has the unused ones.
    bool isTaken =
        isUsed || (stage == 0 && !takenArguments.contains(argument)) || given.contains(role);
    if (isTaken)
      takenArguments.insert(argument);
    return isTaken;
  });
  for (Value value : outliner.sort(contents.valuesIn))
    builder.addSaved(value, nameOf(value), RoleKind::Crossing);
  for (Value value : outliner.sort(contents.gradientsIn))
    builder.addSaved(value, nameOf(value), RoleKind::CrossingGradient);
  func::FuncOp joint = builder.build([](Operation *from, Operation *clone) {
    clone->removeDiscardableAttr(train::kStageAttrName);
    // Tags bind the partition of the stage, which comes yet.
    if (Attribute tag = from->getDiscardableAttr(train::kCheckpointAttrName))
      clone->setDiscardableAttr(train::kCheckpointAttrName, tag);
  });
  if (Attribute draws = function->getAttr(train::kDrawsAttrName))
    joint->setAttr(train::kDrawsAttrName, draws);
  return joint;
}

void StageWriter::countTraffic() {
  for (auto [stage, traffic] : llvm::enumerate(outlined.traffic)) {
    for (Value value : outliner.get(unsigned(stage)).valuesOut) {
      ++traffic.values, traffic.valueBytes += memory::getByteSize(value.getType());
      traffic.pending += isPendingSum(value.getType());
    }
    for (Value value : outliner.get(unsigned(stage)).gradientsIn) {
      ++traffic.gradients, traffic.gradientBytes += memory::getByteSize(value.getType());
      traffic.pending += isPendingSum(value.getType());
    }
  }
}

/// Moves collectives of parameters and gradients out of all stages' microbatches.
LogicalResult StageWriter::splitFsdp(ArrayRef<func::FuncOp> joints) {
  std::vector<train::ProgramFunctions> parts = outlined.stages;
  llvm::StringSet<> taken;
  for (auto [joint, part] : llvm::zip_equal(joints, parts)) {
    part.microbatch = joint;
    for (const auto &name : backward::listResultNames(part))
      taken.insert(name.getKey());
  }
  for (auto [part, stage] : llvm::zip_equal(parts, outlined.stages)) {
    auto split = backward::splitFsdpCollectives(part, /*number=*/0, taken);
    if (failed(split))
      return failure();
    stage.unshard = split->unshard;
    stage.reduce = split->reduce;
  }
  return success();
}

/// What each stage saves.
static FailureOr<std::vector<backward::Partition>>
choosePartitions(ArrayRef<JointStage> stages, const SavePolicy &policy, Location location,
                 std::vector<RankBudget> &ranks) {
  if (policy.policy == backward::PartitionPolicy::Budget) {
    FailureOr<StagePartitions> chosen = chooseStagePartitions(stages, *policy.budget, location);
    if (failed(chosen))
      return failure();
    ranks = std::move(chosen->ranks);
    return std::move(chosen->stages);
  }
  std::vector<backward::Partition> partitions;
  for (const JointStage &stage : stages) {
    FailureOr<backward::RecomputeModel> model =
        backward::RecomputeModel::create(stage.graph, policy.level);
    if (failed(model))
      return failure();
    partitions.push_back(backward::choosePartition(stage.graph, *model, policy.policy));
  }
  return partitions;
}

/// A forward and a backward of each stage.
LogicalResult StageWriter::divide(ArrayRef<func::FuncOp> joints, const SavePolicy &policy) {
  std::vector<JointStage> stages;
  for (auto [joint, stage] : llvm::zip_equal(joints, outlined.stages)) {
    FailureOr<backward::JointGraph> part =
        backward::JointGraph::create(joint, /*mayLackBackward=*/true);
    if (failed(part))
      return failure();
    stages.push_back({std::move(*part), stage.update, stage.unshard});
  }
  auto partitions = choosePartitions(stages, policy, graph.getFunction().getLoc(), outlined.ranks);
  if (failed(partitions))
    return failure();
  bool isForwardOnly = graph.getBackwardResults().empty();
  for (auto [joint, partition, stage] : llvm::zip_equal(stages, *partitions, outlined.stages)) {
    SmallVector<std::string> saved;
    for (Value value : partition.saved)
      saved.push_back(savedNames.makeName(value));
    backward::MicrobatchParts parts = backward::buildParts(joint.graph, partition, saved);
    stage.forward = parts.forward;
    if (isForwardOnly)
      parts.backward.erase();
    else
      stage.backward = parts.backward;
  }
  return success();
}

LogicalResult StageWriter::writeMicrobatch(const SavePolicy &policy) {
  unsigned numStages = assignment.getNumStages();
  // Names in the order of the program, whatever the order of building.
  for (unsigned stage = 0; stage < numStages; ++stage)
    for (const auto *values : {&outliner.get(stage).valuesOut, &outliner.get(stage).gradientsOut})
      for (Value value : outliner.sort(*values))
        (void)nameOf(value);
  countTraffic();
  SmallVector<func::FuncOp> joints(numStages);
  for (unsigned stage = numStages; stage-- > 0;)
    joints[stage] = writeJoint(stage);
  LogicalResult result = success();
  if (policy.splitsFsdp)
    result = splitFsdp(joints);
  if (succeeded(result))
    result = divide(joints, policy);
  for (func::FuncOp joint : joints)
    joint.erase();
  return result;
}

/// Each stage's update: what the new values of its parameters are computed from.
LogicalResult StageWriter::writeUpdates() {
  func::FuncOp update = program.update, microbatch = graph.getFunction();
  if (!update)
    return success();
  llvm::StringMap<unsigned> owners;
  for (BlockArgument argument : microbatch.getArguments())
    if (train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
        role.getKind() == RoleKind::Parameter)
      owners[role.getNameOrEmpty()] = assignment.getFirstConsumer(argument);
  for (unsigned i = 0; i < microbatch.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(microbatch, i);
        role.getKind() == RoleKind::Gradient)
      owners[role.getNameOrEmpty()] = assignment.getResultStage(i);

  Operation *terminator = update.front().getTerminator();
  for (auto [stage, functions] : llvm::enumerate(outlined.stages)) {
    SmallVector<unsigned> results;
    llvm::DenseSet<Value> needed;
    for (unsigned i = 0; i < update.getNumResults(); ++i)
      if (owners.lookup(train::getResultRole(update, i).getNameOrEmpty()) == stage) {
        results.push_back(i);
        needed.insert(terminator->getOperand(i));
      }
    if (results.empty())
      continue;
    backward::PartBuilder builder(update, train::Phase::Update);
    llvm::SetVector<Operation *> ops;
    SmallVector<Value> worklist(needed.begin(), needed.end());
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op || !ops.insert(op))
        continue;
      needed.insert(op->operand_begin(), op->operand_end());
      worklist.append(op->operand_begin(), op->operand_end());
    }
    SmallVector<Operation *> sorted(ops.begin(), ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : sorted)
      builder.addOp(op);
    for (unsigned index : results)
      builder.addResult(index);
    for (BlockArgument argument : update.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
      bool isOwned = role.getKind() == RoleKind::Gradient ||
                     role.getKind() == RoleKind::Parameter ||
                     role.getKind() == RoleKind::OptimizerState;
      if (isOwned && needed.contains(argument) && owners.lookup(role.getNameOrEmpty()) != stage)
        return update.emitError() << "computes new values of stage " << stage << " from " << role
                                  << " of stage " << owners.lookup(role.getNameOrEmpty())
                                  << "; a stage's update can only use values of its stage (outline "
                                     "stages before passes "
                                     "that join gradients, such as --clip-gradients)";
    }
    backward::TiedResults given(update, results);
    builder.addArguments([&](BlockArgument argument, bool isUsed) {
      return isUsed || given.contains(train::getArgumentRole(update, argument.getArgNumber()));
    });
    functions.update = builder.build();
  }
  return success();
}

/// `forward_0`, `update_3`: by phase and stage, and order as a step runs them.
void StageWriter::nameFunctions() {
  llvm::StringSet<> taken;
  auto module = cast<ModuleOp>(graph.getFunction()->getParentOp());
  train::ProgramFunctions whole;
  whole.stages = outlined.stages;
  llvm::SmallDenseSet<Operation *> outlinedFunctions;
  for (func::FuncOp function : whole.getFunctions())
    outlinedFunctions.insert(function);
  for (Operation &op : *module.getBody())
    if (auto symbol = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
        symbol && !outlinedFunctions.contains(&op))
      taken.insert(symbol.getValue());
  auto i64 = IntegerType::get(module.getContext(), 64);
  for (auto [number, stage] : llvm::enumerate(outlined.stages))
    for (func::FuncOp function : stage.getFunctions()) {
      auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
      std::string name = (train::stringifyPhase(phase) + "_" + Twine(number)).str();
      while (!taken.insert(name).second)
        name += "_";
      function.setName(name);
      function->setAttr(train::kStageAttrName, IntegerAttr::get(i64, number));
    }
  for (func::FuncOp function : whole.getFunctions())
    function->moveBefore(graph.getFunction());
}

FailureOr<OutlinedStages> cleave::pipeline::buildStages(const train::ProgramFunctions &program,
                                                        const backward::JointGraph &graph,
                                                        const StageAssignment &assignment,
                                                        const SavePolicy &policy) {
  Outliner outliner(graph, assignment);
  if (failed(outliner.collect()))
    return failure();
  StageWriter writer(program, graph, assignment, outliner);
  // A budget is of updates' states, too.
  if (failed(writer.writeUpdates()) || failed(writer.writeMicrobatch(policy)))
    return failure();
  writer.nameFunctions();
  return std::move(writer.outlined);
}
