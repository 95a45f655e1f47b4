//===- StageAssignment.cpp - which pipeline stage runs an op ------------------===//

#include "lib/pipeline/StageAssignment.h"
#include "dialects/dist/Dist.h"
#include "lib/memory/MemoryPlan.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace cleave::pipeline;
namespace train = cleave::train;
namespace dist = cleave::dist;
namespace memory = cleave::memory;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// Ops that every stage may run for itself
//===----------------------------------------------------------------------===//

/// What a value is computed from.
namespace {
enum Origin : unsigned { kNone = 0, kParameter = 1, kData = 2, kNeverShared = 4 };
} // namespace

static unsigned originOf(train::RoleAttr role) {
  switch (role.getKind()) {
  case RoleKind::Parameter:
    return kParameter;
  case RoleKind::Input:
  case RoleKind::Target:
    return kData;
  case RoleKind::Buffer:
  case RoleKind::Constant:
    return kNone;
  default: // random state: a number is drawn once
    return kNeverShared;
  }
}

void StageAssignment::findParameters() {
  func::FuncOp function = graph.getFunction();
  for (BlockArgument argument : function.getArguments())
    if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
        role.getKind() == RoleKind::Parameter)
      parameters[role.getName()] = argument;
}

void StageAssignment::findShared() {
  func::FuncOp function = graph.getFunction();
  llvm::DenseMap<Value, unsigned> origins;
  for (BlockArgument argument : function.getArguments()) {
    unsigned origin = graph.isUpdatedBuffer(argument)
                          ? unsigned(kNeverShared)
                          : originOf(train::getArgumentRole(function, argument.getArgNumber()));
    origins[argument] = origin;
    if (!(origin & (kParameter | kNeverShared)))
      anywhere.insert(argument);
  }
  for (Operation &op : function.front().without_terminator()) {
    unsigned origin = kNone;
    for (Value operand : op.getOperands())
      origin |= origins.lookup(operand);
    if ((origin & kParameter) && (origin & kData))
      origin |= kNeverShared;
    for (Value result : op.getResults())
      origins[result] = origin;
    if (!graph.isForward(&op) || (origin & kNeverShared))
      continue;
    shared.insert(&op);
    if (!(origin & kParameter))
      anywhere.insert(op.result_begin(), op.result_end());
  }
}

//===----------------------------------------------------------------------===//
// The forward
//===----------------------------------------------------------------------===//

LogicalResult StageAssignment::placeByMarks() {
  Block &body = graph.getFunction().front();
  SmallVector<Operation *> marked; // by stage, one each
  llvm::DenseSet<Operation *> floating;
  for (Operation &op : body.without_terminator()) {
    if (!isPlaced(&op))
      continue;
    auto mark = op.getAttrOfType<IntegerAttr>(train::kStageAttrName);
    std::optional<unsigned> lowest;
    Operation *producer = nullptr;
    for (Value operand : op.getOperands())
      if (Operation *source = operand.getDefiningOp(); source && stages.contains(source))
        if (unsigned stage = stages.lookup(source); !lowest || stage > *lowest) {
          lowest = stage;
          producer = source;
        }
    if (!mark) {
      stages[&op] = lowest.value_or(0);
      if (!lowest)
        floating.insert(&op);
      continue;
    }
    constexpr int64_t kMaxStages = 1 << 16;
    if (mark.getInt() >= kMaxStages)
      return op.emitError() << "is marked for stage " << mark.getInt() << "; there are at most "
                            << kMaxStages;
    unsigned stage = static_cast<unsigned>(mark.getInt());
    if (lowest && stage < *lowest) {
      InFlightDiagnostic diagnostic = op.emitError() << "is marked for stage " << stage
                                                     << ", but takes a value of stage " << *lowest;
      diagnostic.attachNote(producer->getLoc()) << "the value is produced here";
      return diagnostic;
    }
    stages[&op] = stage;
    if (marked.size() <= stage)
      marked.resize(stage + 1);
    marked[stage] = &op;
  }
  if (marked.empty())
    return graph.getFunction().emitError()
           << "has no op of the forward that is marked with '" << train::kStageAttrName
           << "'; mark some, or use the options 'count' or 'at'";
  for (auto [stage, op] : llvm::enumerate(marked))
    if (!op)
      return graph.getFunction().emitError() << "has ops marked for stage " << marked.size() - 1
                                             << ", but none for stage " << stage;
  numStages = marked.size();
  // What depends on no stage's value goes to who needs it first.
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!floating.contains(&op))
      continue;
    std::optional<unsigned> first;
    for (Operation *user : op.getUsers())
      if (stages.contains(user))
        first = std::min(first.value_or(numStages - 1), stages.lookup(user));
    stages[&op] = first.value_or(0);
  }
  return success();
}

/// Whether one of the module paths in `location` is `module` or inside it.
static bool isInModule(Location location, StringRef module) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    StringRef path = name.getName().getValue();
    return (path.consume_front(module) && (path.empty() || path.front() == '.')) ||
           isInModule(name.getChildLoc(), module);
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    return llvm::any_of(fused.getLocations(),
                        [&](Location part) { return isInModule(part, module); });
  return false;
}

/// A stage begins at each of `beginnings`, in the order of the function.
void StageAssignment::placeInOrder(ArrayRef<Operation *> beginnings) {
  numStages = beginnings.size() + 1;
  unsigned stage = 0;
  for (Operation &op : graph.getFunction().front().without_terminator()) {
    if (!isPlaced(&op))
      continue;
    if (stage < beginnings.size() && beginnings[stage] == &op)
      ++stage;
    stages[&op] = stage;
  }
}

LogicalResult StageAssignment::placeByModules(ArrayRef<std::string> modules) {
  func::FuncOp function = graph.getFunction();
  SmallVector<Operation *> beginnings;
  Operation *firstOp = nullptr;
  for (const std::string &module : modules) {
    Operation *first = nullptr;
    for (Operation &op : function.front().without_terminator()) {
      if (!isPlaced(&op))
        continue;
      if (!firstOp)
        firstOp = &op;
      if (isInModule(op.getLoc(), module)) {
        first = &op;
        break;
      }
    }
    if (!first)
      return function.emitError() << "has no op of the forward in module '" << module
                                  << "', named by the option 'at'";
    if (first == firstOp)
      return first->emitError() << "is the first op of the forward, so no stage can begin with its "
                                   "module '"
                                << module << "', named by the option 'at'";
    if (!beginnings.empty() && graph.getOrder(first) <= graph.getOrder(beginnings.back()))
      return first->emitError() << "of module '" << module
                                << "' does not come after those of the module before it in the "
                                   "option 'at'";
    beginnings.push_back(first);
  }
  placeInOrder(beginnings);
  return success();
}

//===----------------------------------------------------------------------===//
// The backward
//===----------------------------------------------------------------------===//

/// Where the forward has each value: arguments and what stages compute for themselves where they
/// are used, the others from the stage that makes them to the last that uses them.
void StageAssignment::findPresence() {
  Block &body = graph.getFunction().front();
  llvm::SmallBitVector none(numStages);
  auto at = [&](Value value) -> llvm::SmallBitVector & {
    return presence.try_emplace(value, none).first->second;
  };
  for (BlockArgument argument : body.getArguments())
    if (!graph.isTangent(argument))
      at(argument);
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (graph.isTangent(&op) || !graph.isForward(&op))
      continue;
    llvm::SmallBitVector users = none;
    if (auto found = stages.find(&op); found != stages.end()) {
      users.set(found->second);
      for (Value result : op.getResults()) {
        llvm::SmallBitVector &there = at(result);
        there.set(found->second, std::max<int>(there.find_last(), found->second) + 1);
        earliest[result] = found->second;
      }
    } else {
      for (Value result : op.getResults())
        users |= at(result);
    }
    for (Value operand : op.getOperands())
      at(operand) |= users;
  }
  // What only the backward computes is where its operands are.
  for (Operation &op : body.without_terminator()) {
    if (graph.isTangent(&op) || graph.isForward(&op))
      continue;
    llvm::SmallBitVector there = whereAllPresent(&op, /*onlyPlaced=*/false);
    if (there.all())
      there.reset(); // of constants alone: anywhere
    bool isBound =
        llvm::any_of(op.getOperands(), [&](Value operand) { return earliest.contains(operand); });
    unsigned stage = earliestStage(&op);
    for (Value result : op.getResults()) {
      presence[result] = there;
      if (isBound)
        earliest[result] = stage;
    }
  }
}

/// Stages that have all operands that are not tangents; `onlyPlaced` leaves out what any stage can
/// have. All stages if there are none.
llvm::SmallBitVector StageAssignment::whereAllPresent(Operation *op, bool onlyPlaced) const {
  llvm::SmallBitVector there(numStages, true);
  for (Value operand : op->getOperands()) {
    if (graph.isTangent(operand) || (onlyPlaced && !earliest.contains(operand)))
      continue;
    auto found = presence.find(operand);
    if (found != presence.end() && found->second.any())
      there &= found->second;
  }
  return there;
}

unsigned StageAssignment::earliestStage(Operation *op) const {
  unsigned stage = 0;
  for (Value operand : op->getOperands())
    stage = std::max(stage, earliest.lookup(operand));
  return stage;
}

/// The last stage that the gradients which `op` takes have reached.
unsigned StageAssignment::latestOfTangents(Operation *op) const {
  func::FuncOp function = graph.getFunction();
  unsigned stage = numStages - 1;
  for (Value operand : op->getOperands()) {
    if (Operation *producer = operand.getDefiningOp()) {
      if (graph.isTangent(operand))
        stage = std::min(stage, stages.lookup(producer));
      continue;
    }
    auto argument = cast<BlockArgument>(operand);
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (role.getKind() != RoleKind::Accumulator)
      continue;
    // A gradient gathers where the parameter is first used.
    if (BlockArgument parameter = parameters.lookup(role.getName()))
      stage = std::min(stage, getFirstConsumer(parameter));
  }
  return stage;
}

void StageAssignment::placeBackward() {
  auto lastUpTo = [](const llvm::SmallBitVector &there, unsigned stage) {
    return there.find_prev(stage + 1);
  };
  for (Operation &op : graph.getFunction().front().without_terminator()) {
    if (!graph.isTangent(&op))
      continue;
    unsigned reached = latestOfTangents(&op);
    int stage = lastUpTo(whereAllPresent(&op, /*onlyPlaced=*/false), reached);
    if (stage < 0)
      stage = lastUpTo(whereAllPresent(&op, /*onlyPlaced=*/true), reached);
    if (stage < 0)
      stage = static_cast<int>(std::min(reached, earliestStage(&op)));
    stages[&op] = static_cast<unsigned>(stage);
  }
}

/// The ops that compute a part of one parameter's gradient and nothing else, with the parameter.
llvm::DenseMap<Operation *, BlockArgument> StageAssignment::findContributions() const {
  func::FuncOp function = graph.getFunction();
  llvm::DenseMap<Operation *, BlockArgument> contributions;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    if (!graph.isTangent(&op) || !op.hasOneUse())
      continue;
    Operation *user = *op.user_begin();
    BlockArgument parameter;
    auto accumulate = dyn_cast<train::AccumulateOp>(user);
    if (auto gathered =
            accumulate ? dyn_cast<BlockArgument>(accumulate.getAccumulator()) : BlockArgument())
      parameter =
          parameters.lookup(train::getArgumentRole(function, gathered.getArgNumber()).getName());
    else if (llvm::all_of(user->getOperands(), [&](Value v) { return graph.isTangent(v); }))
      // Views, sums and copies of the gradient lead on, what computes another one from it does not.
      parameter = contributions.lookup(user);
    if (parameter)
      contributions[&op] = parameter;
  }
  return contributions;
}

/// The values of the forward that cross back to `target` if `value` is used there; none where that
/// is made of parameters that `target` lacks.
std::optional<SmallVector<Value>> StageAssignment::listSentBack(Value value,
                                                                unsigned target) const {
  llvm::DenseSet<Value> visited;
  SmallVector<Value> worklist = {value}, sent;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    auto found = presence.find(next);
    bool isThere = anywhere.contains(next) ||
                   (found != presence.end() && found->second.test(target)) ||
                   sentBack.contains({next, target});
    if (isThere || !visited.insert(next).second)
      continue;
    Operation *producer = next.getDefiningOp();
    if (!producer)
      return std::nullopt;
    if (stages.contains(producer))
      sent.push_back(next);
    else // each stage that needs it computes it
      worklist.append(producer->operand_begin(), producer->operand_end());
  }
  return sent;
}

/// The bytes that cross to `target` if `op`, a part of a gradient, runs there: its operands, or
/// what those are computed from, where that can run there too and is less. None where it cannot
/// run there.
std::optional<int64_t> StageAssignment::countBytesTaken(Operation *op, unsigned target,
                                                        bool mayTakeBack) const {
  Operation *terminator = graph.getFunction().front().getTerminator();
  int64_t bytes = 0;
  for (Value operand : op->getOperands()) {
    if (!graph.isTangent(operand)) {
      std::optional<SmallVector<Value>> sent = listSentBack(operand, target);
      if (!sent || (!sent->empty() && !mayTakeBack))
        return std::nullopt;
      for (Value value : *sent)
        bytes += memory::getByteSize(value.getType());
      continue;
    }
    Operation *producer = operand.getDefiningOp();
    if (!producer || stages.lookup(producer) <= target)
      continue;
    bool isThere = llvm::any_of(operand.getUsers(), [&](Operation *user) {
      return user != op && user != terminator && stages.lookup(user) <= target;
    });
    if (isThere)
      continue;
    int64_t fewest = memory::getByteSize(operand.getType());
    if (auto found = fewestBytes.find(producer); found != fewestBytes.end())
      fewest = std::min(fewest, found->second);
    bytes += fewest;
  }
  return bytes;
}

/// Whether `op` shows what was gathered: gathered where it is used, less crosses.
static bool isViewOfGathered(Operation *op) {
  Operation *producer = op;
  while (producer && producer->getNumResults() == 1 &&
         memory::getViewSource(producer->getResult(0)))
    producer = producer->getOperand(0).getDefiningOp();
  return producer != op && isa_and_nonnull<dist::AllGatherOp>(producer);
}

/// Moves an op of the backward to the stage that needs its results, where no more crosses then.
void StageAssignment::sinkBackward() {
  Block &body = graph.getFunction().front();
  // What computes one parameter's gradient moves as a whole, or from where it is least: the sum of
  // two embeddings' gradients has as many bytes as each, what they are computed from has few.
  llvm::DenseMap<Operation *, BlockArgument> contributions = findContributions();
  for (Operation &op : body.without_terminator()) {
    BlockArgument parameter = contributions.lookup(&op);
    if (!parameter)
      continue;
    unsigned target = getFirstConsumer(parameter);
    if (target < stages.lookup(&op))
      if (std::optional<int64_t> bytes = countBytesTaken(&op, target, /*mayTakeBack=*/true))
        fewestBytes[&op] = *bytes;
  }
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!graph.isTangent(&op) || op.use_empty())
      continue;
    unsigned target = 0;
    int64_t resultBytes = 0;
    bool isReturned = false;
    for (Value result : op.getResults()) {
      resultBytes += memory::getByteSize(result.getType());
      for (Operation *user : result.getUsers()) {
        if (user == body.getTerminator())
          isReturned = true;
        else
          target = std::max(target, stages.lookup(user));
      }
    }
    if (isReturned || target >= stages.lookup(&op))
      continue;
    BlockArgument parameter = contributions.lookup(&op);
    std::optional<int64_t> bytes = countBytesTaken(&op, target, /*mayTakeBack=*/bool(parameter));
    if (!bytes)
      continue;
    // In doubt a gradient of a parameter goes to the parameter, and all else stays, as does a
    // stage's contribution to the gradient of a parameter that it uses itself.
    bool isElsewhere = parameter && !presence.lookup(parameter).test(stages.lookup(&op));
    if (isElsewhere || isViewOfGathered(&op) ? *bytes <= resultBytes : *bytes < resultBytes) {
      stages[&op] = target;
      for (Value operand : op.getOperands()) {
        if (graph.isTangent(operand))
          continue;
        std::optional<SmallVector<Value>> sent = listSentBack(operand, target);
        for (Value value : *sent)
          sentBack.insert({value, target});
      }
    }
  }
}

void StageAssignment::placeResults() {
  func::FuncOp function = graph.getFunction();
  llvm::DenseMap<StringAttr, BlockArgument> buffers;
  for (BlockArgument argument : function.getArguments())
    if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
        role.getKind() == RoleKind::Buffer)
      buffers[role.getName()] = argument;
  auto tiedArgument = [&](train::RoleAttr role) -> std::optional<unsigned> {
    BlockArgument owner;
    if (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Parameter)
      owner = parameters.lookup(role.getName());
    else if (role.getKind() == RoleKind::Buffer)
      owner = buffers.lookup(role.getName());
    return owner ? std::optional<unsigned>(getFirstConsumer(owner)) : std::nullopt;
  };
  for (auto [index, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    Operation *producer = value.getDefiningOp();
    if (auto found = stages.find(producer); producer && found != stages.end()) {
      resultStages.push_back(found->second);
      continue;
    }
    // An argument, or what any stage can compute: where its owner is.
    unsigned stage = tiedArgument(train::getResultRole(function, index)).value_or(0);
    resultStages.push_back(std::max(stage, earliest.lookup(value)));
  }
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

FailureOr<StageAssignment> StageAssignment::create(const backward::JointGraph &graph,
                                                   const StageRequest &request) {
  StageAssignment assignment(graph);
  assignment.findParameters();
  assignment.findShared();
  LogicalResult placed = success();
  switch (request.kind) {
  case StageRequest::Kind::Marks:
    placed = assignment.placeByMarks();
    break;
  case StageRequest::Kind::Modules:
    placed = assignment.placeByModules(request.modules);
    break;
  case StageRequest::Kind::Cost:
    placed = assignment.placeByCost(request);
    break;
  }
  if (failed(placed))
    return failure();
  assignment.costs.resize(assignment.numStages);
  for (auto [op, stage] : assignment.stages)
    assignment.costs[stage] += assignment.costOf(op);
  assignment.findPresence();
  assignment.placeBackward();
  assignment.sinkBackward();
  assignment.placeResults();
  return assignment;
}

std::optional<unsigned> StageAssignment::getStage(Operation *op) const {
  auto found = stages.find(op);
  return found == stages.end() ? std::nullopt : std::optional<unsigned>(found->second);
}

std::optional<unsigned> StageAssignment::getForwardStage(Operation *op) const {
  return isPlaced(op) ? getStage(op) : std::nullopt;
}

unsigned StageAssignment::getFirstConsumer(BlockArgument argument) const {
  auto found = presence.find(argument);
  return found == presence.end() ? 0 : std::max(0, found->second.find_first());
}
