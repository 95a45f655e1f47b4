//===- StageWork.cpp - what a program's stages compute and move -------------===//

#include "lib/pipeline/StageWork.h"

#include "dialects/exec/Exec.h"
#include "dialects/train/Stages.h"
#include "lib/aten/CommunicationWork.h"
#include "lib/aten/OpCost.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/pipeline/FunctionStreams.h"
#include "lib/pipeline/RankMemory.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using simulate::FunctionWork;
using simulate::OpWork;
using simulate::ProgramWork;
using simulate::StageWork;

namespace {
/// Which values of a stage's functions one microbatch keeps in memory, and how much that is.
class SavedMemory {
public:
  explicit SavedMemory(llvm::function_ref<bool(Operation *)> isUnsaved = nullptr)
      : isUnsaved(isUnsaved) {}

  /// Bytes of what `function` (and the stage's functions visited before it) makes or receives that
  /// `consumers` take.
  void visit(func::FuncOp function) {
    Operation *terminator = function.front().getTerminator();
    for (auto [index, result] : llvm::enumerate(terminator->getOperands())) {
      train::RoleAttr role = train::getResultRole(function, index);
      if (role && role.getKind() == train::RoleKind::Saved)
        storages[role.getNameOrEmpty()] = resolve(function, result);
    }
  }

  double sumTaken(ArrayRef<func::FuncOp> consumers) const {
    llvm::DenseSet<Value> counted;
    double bytes = 0;
    for (func::FuncOp function : consumers)
      for (unsigned index = 0; function && index < function.getNumArguments(); ++index) {
        train::RoleAttr role = train::getArgumentRole(function, index);
        if (!role || role.getKind() != train::RoleKind::Saved)
          continue;
        Value storage = storages.lookup(role.getNameOrEmpty());
        if (storage && counted.insert(storage).second)
          bytes += double(memory::getByteSize(storage.getType()));
      }
    return bytes;
  }

private:
  /// The value whose memory `value` has; null for memory that is there anyway (parameters, inputs).
  Value resolve(func::FuncOp function, Value value) const {
    Value storage = memory::getStorage(value);
    auto argument = dyn_cast<BlockArgument>(storage);
    if (!argument)
      return isUnsaved && isUnsaved(storage.getDefiningOp()) ? Value() : storage;
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    switch (role ? role.getKind() : train::RoleKind::Input) {
    case train::RoleKind::Saved:
      return storages.lookup(role.getNameOrEmpty());
    case train::RoleKind::Crossing:
    case train::RoleKind::CrossingGradient:
      return storage;
    default:
      return {};
    }
  }

  llvm::function_ref<bool(Operation *)> isUnsaved;
  llvm::StringMap<Value> storages;
};

/// The mesh on which a program runs, if it has one, and its pipeline.
class Mesh {
public:
  Mesh(dist::MeshOp op, const MeasureOptions &options)
      : options(options), ranks(op, [&](StringRef axis) {
          return options.axisSizes ? options.axisSizes->lookup(axis) : 1;
        }) {}

  cost::Group find(ArrayAttr names) const { return ranks.find(names); }

  bool has(StringRef name) const {
    return llvm::any_of(ranks.getAxes(), [&](const auto &axis) { return axis.first == name; });
  }
  int64_t getSize(StringRef name) const {
    for (const auto &[axis, size] : ranks.getAxes())
      if (axis == name)
        return std::max<int64_t>(size, 1);
    return 1;
  }
  /// All ranks, those of a pipeline that is not an axis of the mesh among them.
  int64_t countRanks() const {
    int64_t count = has(options.axis) ? 1 : options.ranks;
    for (const auto &[name, size] : ranks.getAxes())
      count *= std::max<int64_t>(size, 1);
    return count;
  }
  /// How far apart neighbours in the pipeline are; it is the outermost axis unless the mesh has it.
  int64_t getPipelineStride() const {
    int64_t stride = 1;
    for (const auto &[name, size] : llvm::reverse(ranks.getAxes())) {
      if (name == options.axis)
        break;
      stride *= std::max<int64_t>(size, 1);
    }
    return stride;
  }
  /// Ranks with examples of their own where types do not say: all but those of the pipeline.
  int64_t countReplicas() const { return countRanks() / std::max<int64_t>(options.ranks, 1); }

private:
  const MeasureOptions &options;
  aten::MeshRanks ranks;
};

} // namespace

/// As ProgramWork::measureList has it.
static double measureList(const ProgramWork &program, const schedule::Schedule &schedule,
                          unsigned rank) {
  std::vector<StageMemory> stages;
  for (const StageWork &stage : program.stages)
    stages.push_back(*stage.memory);
  return double(RankList(schedule, rank).follow(stages).peakBytes);
}

namespace {
class Measurement {
public:
  Measurement(dist::MeshOp op, const MeasureOptions &options)
      : mesh(op, options), isLeftOut(options.isLeftOut), isUnsaved(options.isUnsaved) {}

  FailureOr<ProgramWork> measure(ArrayRef<train::ProgramFunctions> stages) {
    program.devices = mesh.countRanks();
    program.pipelineStride = mesh.getPipelineStride();
    for (const train::ProgramFunctions &stage : stages) {
      FailureOr<StageWork> work = measure(stage);
      if (failed(work))
        return failure();
      for (auto [number, other] : llvm::enumerate(program.stages))
        if (!other.likeStage && work->hasSameFunctions(other)) {
          work->likeStage = unsigned(number);
          break;
        }
      program.stages.push_back(std::move(*work));
    }
    countExamples(stages);
    // Frames and arenas of lowered functions are not among the values of a list.
    if (!isLowered)
      program.measureList = measureList;
    return std::move(program);
  }

private:
  FailureOr<StageWork> measure(const train::ProgramFunctions &stage) {
    StageWork work;
    // Of a joint function, ops say what they are part of.
    if (stage.microbatch &&
        (failed(append(stage.microbatch, work.forward, work,
                       [](Operation &op) { return !op.hasAttr(train::kBackwardAttrName); })) ||
         failed(append(stage.microbatch, work.backward, work,
                       [](Operation &op) { return op.hasAttr(train::kBackwardAttrName); }))))
      return failure();
    std::pair<func::FuncOp, FunctionWork *> functions[] = {
        {stage.forward, &work.forward},     {stage.backward, &work.backward},
        {stage.backwardInput, &work.input}, {stage.backwardWeight, &work.weight},
        {stage.unshard, &work.unshard},     {stage.reduce, &work.reduce},
        {stage.update, &work.update}};
    for (auto [function, list] : functions)
      if (function && failed(append(function, *list, work, [](Operation &) { return true; })))
        return failure();
    work.hasBackward = bool(stage.backward) || bool(stage.microbatch);
    work.hasHalves = !work.hasBackward || stage.backwardInput || stage.backwardWeight;

    work.forwardBytes = sumResults(stage.forward, train::RoleKind::Crossing);
    for (func::FuncOp function : {stage.backward, stage.backwardInput})
      work.backwardBytes += sumResults(function, train::RoleKind::CrossingGradient);
    SavedMemory saved(isUnsaved);
    if (stage.forward)
      saved.visit(stage.forward);
    work.savedBytes = saved.sumTaken({stage.backward, stage.backwardInput, stage.backwardWeight});
    if (stage.backwardInput)
      saved.visit(stage.backwardInput);
    work.heldBytes = saved.sumTaken({stage.backwardWeight});
    SavedMemory gathered;
    if (stage.unshard)
      gathered.visit(stage.unshard);
    work.gatheredBytes = gathered.sumTaken({stage.microbatch, stage.forward, stage.backward,
                                            stage.backwardInput, stage.backwardWeight});
    work.numReductions = unsigned(train::listReducedBuckets(stage).size()) + (stage.reduce ? 1 : 0);
    addState(stage, work.state);
    countWorkBytes(stage, work);
    if (program.hasHostCopies)
      countHostBytes(stage, work);
    return work;
  }

  static double sumResults(func::FuncOp function, train::RoleKind kind) {
    double bytes = 0;
    for (unsigned index = 0; function && index < function.getNumResults(); ++index)
      if (train::RoleAttr role = train::getResultRole(function, index);
          role && role.getKind() == kind)
        bytes += double(memory::getByteSize(function.getResultTypes()[index]));
    return bytes;
  }

  /// What a rank holds because it runs the stage's functions, each value once. Gradients are there
  /// from the first microbatch to the update.
  void addState(const train::ProgramFunctions &stage, simulate::StateBytes &state) {
    llvm::StringSet<> seen;
    for (func::FuncOp function : stage.getFunctions()) {
      for (unsigned index = 0; index < function.getNumArguments(); ++index) {
        train::RoleAttr role = train::getArgumentRole(function, index);
        double *bytes = role ? getState(role.getKind(), state) : nullptr;
        if (bytes && seen.insert(role.getFileName()).second)
          *bytes += double(memory::getByteSize(function.getArgument(index).getType()));
      }
      for (unsigned index = 0; index < function.getNumResults(); ++index) {
        train::RoleAttr role = train::getResultRole(function, index);
        if (!role || role.getKind() != train::RoleKind::Gradient ||
            !seen.insert(role.getFileName()).second)
          continue;
        state.gradients += getBytes(function.getResultTypes()[index]);
      }
    }
    auto functions = stage.getFunctions();
    const int64_t arena = memory::getArenaBytes(functions);
    state.others += double(arena);
    isLowered |= arena > 0;
  }

  static double getBytes(Type type) {
    if (auto bucket = dyn_cast<train::BucketType>(type))
      return double(memory::getByteSize(bucket.getFlat()));
    return double(memory::getByteSize(type));
  }

  static double *getState(train::RoleKind kind, simulate::StateBytes &state) {
    switch (kind) {
    case train::RoleKind::Parameter:
      return &state.parameters;
    case train::RoleKind::OptimizerState:
      return &state.optimizer;
    case train::RoleKind::Buffer:
    case train::RoleKind::Constant:
    case train::RoleKind::Input:
    case train::RoleKind::Target:
      return &state.others;
    default:
      return nullptr;
    }
  }

  /// What the functions of a microbatch, and those of the step, take at the most beside what
  /// microbatches keep and the state.
  static void countWorkBytes(const train::ProgramFunctions &stage, StageWork &work) {
    auto planned = std::make_shared<StageMemory>(measureStage(stage.getMicrobatchFunctions()));
    planned->unshard = measureUnshard(stage.unshard);
    bool hasHalves = stage.backwardInput || stage.backwardWeight;
    double most = 0, held = 0;
    for (const auto &[index, function] : llvm::enumerate(planned->functions)) {
      double after = double(function.heldBytes);
      most = std::max(most, double(function.peakBytes) - std::max(held, after));
      held = after;
      if (index == 0 || !hasHalves)
        work.microbatchBytes = most;
    }
    // A function that makes all gradients has them at its end: they are counted as gradients.
    if (stage.microbatch)
      work.microbatchBytes = most = std::max(most - work.state.gradients, 0.0);
    for (func::FuncOp function : {stage.unshard, stage.reduce, stage.update}) {
      if (!function)
        continue;
      memory::MemoryPlan once = memory::planMemory(function, /*emptyAccumulators=*/false);
      double kept = function == stage.unshard ? work.gatheredBytes : double(once.resultBytes);
      most = std::max(most, double(once.peakBytes) - kept);
    }
    work.workBytes = most;
    work.memory = std::move(planned);
  }

  static void countHostBytes(const train::ProgramFunctions &stage, StageWork &work) {
    StageMemory memory = measureStage(stage.getMicrobatchFunctions(), memory::Space::Host);
    std::pair<train::Phase, simulate::HostBytes *> phases[] = {
        {train::Phase::Forward, &work.hostForward},
        {train::Phase::Backward, &work.hostBackward},
        {train::Phase::Microbatch, &work.hostBackward},
        {train::Phase::BackwardInput, &work.hostInput},
        {train::Phase::BackwardWeight, &work.hostWeight}};
    for (auto [phase, bytes] : phases)
      if (const memory::FunctionPlan *plan = memory.find(phase))
        *bytes = {double(plan->peakBytes), double(plan->heldBytes)};
  }

  /// All examples of a microbatch, and the tokens of its first input that is made of integers.
  void countExamples(ArrayRef<train::ProgramFunctions> stages) {
    if (stages.empty())
      return;
    const train::ProgramFunctions &first = stages.front();
    func::FuncOp function = first.microbatch ? first.microbatch : first.forward;
    for (unsigned index = 0; function && index < function.getNumArguments(); ++index) {
      train::RoleAttr role = train::getArgumentRole(function, index);
      auto type = dyn_cast<RankedTensorType>(function.getArgument(index).getType());
      if (!role || role.getKind() != train::RoleKind::Input || !type || !role.getBatch())
        continue;
      int64_t batch = *role.getBatch();
      double parts = 1, batchParts = 1;
      if (dist::PlacementAttr placement = dist::getPlacement(type)) {
        for (int64_t dim = 0; dim < type.getRank(); ++dim)
          for (StringAttr axis : placement.getShardingAxes(dim)) {
            parts *= double(mesh.getSize(axis.getValue()));
            batchParts *= dim == batch ? double(mesh.getSize(axis.getValue())) : 1;
          }
      } else {
        parts = batchParts = double(mesh.countReplicas());
      }
      if (program.examples == 0)
        program.examples = double(type.getDimSize(batch)) * batchParts;
      if (type.getElementType().isInteger() && type.getRank() == 2 && program.tokens == 0)
        program.tokens = double(type.getNumElements()) * parts;
    }
  }

  FailureOr<unsigned> findGroup(Operation *op, ArrayAttr axes) {
    auto [entry, isNew] = groups.try_emplace(axes, unsigned(program.groups.size()));
    if (!isNew)
      return entry->second;
    cost::Group ranks = mesh.find(axes);
    if (ranks.size == 0)
      for (StringAttr name : axes.getAsRange<StringAttr>())
        if (mesh.find(ArrayAttr::get(op->getContext(), {name})).size == 0)
          return op->emitOpError("runs along mesh axis '")
                 << name.getValue() << "', whose size is not known: expected it by --axis "
                 << name.getValue() << "=N";
    std::string names = llvm::join(llvm::map_range(axes.getAsRange<StringAttr>(),
                                                   [](StringAttr axis) { return axis.getValue(); }),
                                   ", ");
    program.groups.push_back({names, ranks});
    return entry->second;
  }

  /// The name of an op in reports: `aten.mm`; of a call, what it calls.
  unsigned findName(Operation *op) {
    auto [entry, isNew] = names.try_emplace(op->getName().getAsOpaquePointer(), 0);
    if (isNew) {
      entry->second = unsigned(program.names.size());
      program.names.push_back(op->getName().getStringRef().str());
    }
    return entry->second;
  }

  LogicalResult append(func::FuncOp function, FunctionWork &list, StageWork &stage,
                       llvm::function_ref<bool(Operation &)> belongs) {
    FunctionStreams streams(function);
    bool isUpdate = &list == &stage.update;
    for (Operation &op : function.front().without_terminator()) {
      if (!belongs(op))
        continue;
      if (isa<dist::OffloadOp, dist::ReloadOp>(op)) {
        if (isLeftOut && isLeftOut(&op))
          continue;
        program.hasHostCopies = true;
        streams.appendCopy(&op, findName(&op), list);
        continue;
      }
      if (isa<exec::RecordOp, exec::WaitOp>(op)) {
        streams.appendEvent(&op, list);
        continue;
      }
      if (auto reduce = dyn_cast<train::ReduceBucketOp>(op)) {
        if (failed(appendBucket(reduce, list)))
          return failure();
        continue;
      }
      OpWork work;
      if (auto communication = dyn_cast<dist::CommunicationOpInterface>(op)) {
        if (isLeftOut && isLeftOut(&op))
          continue;
        FailureOr<unsigned> group = findGroup(&op, communication.getAxesAttr());
        if (failed(group))
          return failure();
        static_cast<cost::OpWork &>(work) =
            aten::describeCommunication(communication, program.groups[*group].ranks.size);
        work.group = *group;
        if (communication.isStarted())
          work.starts = streams.start(op.getResults());
      } else if (isa<dist::WaitOp>(op)) {
        std::optional<int> number = streams.find(op.getOperand(0));
        if (!number)
          continue;
        work.awaits = *number;
        work.kernels = 0;
      } else {
        static_cast<cost::OpWork &>(work) = aten::describeWork(&op);
        if (work.kernels == 0 || (isLeftOut && isLeftOut(&op)))
          continue;
        if (double flops = cost::flopsOf(work); flops > 0) {
          bool isProduct = work.kind == OpWork::Product;
          program.flopsOfWidth[size_t(isProduct ? work.product.width : work.width)] += flops;
        }
        if (!isUpdate && !op.hasAttr(train::kRecomputedAttrName))
          stage.modelFlops += double(aten::countFlops(&op));
      }
      work.name = findName(&op);
      streams.awaitReloads(&op, list);
      list.push_back(std::move(work));
    }
    return success();
  }

  /// A bucket is reduced once per step: a reduce-scatter, then an all-reduce of the part.
  LogicalResult appendBucket(train::ReduceBucketOp op, FunctionWork &list) {
    auto type = op.getBucket().getType();
    auto bucket = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(op, type.getSymbol());
    if (!bucket || !bucket.getAxes())
      return success();
    OpWork work;
    work.kind = OpWork::Communication;
    work.isOnce = true;
    work.name = findName(op);
    work.bytes = double(memory::getByteSize(type.getFlat()));
    if (ArrayAttr scatter = bucket.getScatterAttr()) {
      FailureOr<unsigned> group = findGroup(op, scatter);
      if (failed(group))
        return failure();
      work.group = *group;
      work.collective = cost::Collective::ReduceScatter;
      list.push_back(work);
      work.bytes /= double(program.groups[*group].ranks.size);
    }
    if (bucket.getAxesAttr().empty())
      return success();
    FailureOr<unsigned> group = findGroup(op, bucket.getAxesAttr());
    if (failed(group))
      return failure();
    work.group = *group;
    work.collective = cost::Collective::AllReduce;
    list.push_back(work);
    return success();
  }

  Mesh mesh;
  llvm::function_ref<bool(Operation *)> isLeftOut, isUnsaved;
  ProgramWork program;
  bool isLowered = false;
  llvm::DenseMap<Attribute, unsigned> groups;
  llvm::DenseMap<const void *, unsigned> names;
};
} // namespace

/// Meshes of a program have the same axes.
static dist::MeshOp findMesh(ArrayRef<train::ProgramFunctions> stages) {
  for (const train::ProgramFunctions &stage : stages)
    for (func::FuncOp function : stage.getFunctions())
      for (auto mesh : function->getParentOfType<ModuleOp>().getOps<dist::MeshOp>())
        return mesh;
  return {};
}

FailureOr<ProgramWork> pipeline::measureStages(ArrayRef<train::ProgramFunctions> stages,
                                               const MeasureOptions &options) {
  return Measurement(findMesh(stages), options).measure(stages);
}
