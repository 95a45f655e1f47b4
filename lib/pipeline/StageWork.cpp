//===- StageWork.cpp - what a program's stages compute and move -------------===//

#include "lib/pipeline/StageWork.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "lib/aten/OpCost.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using simulate::FunctionWork;
using simulate::OpWork;
using simulate::StageWork;

/// "bf16": of an op's first result, or of its first operand where it has none.
static std::string getElementType(Operation *op) {
  Type type = op->getNumResults()    ? op->getResult(0).getType()
              : op->getNumOperands() ? op->getOperand(0).getType()
                                     : Type();
  auto tensor = dyn_cast_or_null<RankedTensorType>(type);
  std::string text;
  if (tensor)
    llvm::raw_string_ostream(text) << tensor.getElementType();
  return text;
}

namespace {
/// Which values of a stage's functions one microbatch keeps in memory, and how much that is.
class SavedMemory {
public:
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
      return storage;
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

  llvm::StringMap<Value> storages;
};

class Measurement {
public:
  explicit Measurement(const llvm::StringMap<int64_t> *axisSizes) : axisSizes(axisSizes) {}

  FailureOr<StageWork> measure(const train::ProgramFunctions &stage) {
    StageWork work;
    std::pair<func::FuncOp, FunctionWork *> functions[] = {
        {stage.forward, &work.forward},     {stage.backward, &work.backward},
        {stage.backwardInput, &work.input}, {stage.backwardWeight, &work.weight},
        {stage.unshard, &work.unshard},     {stage.reduce, &work.reduce},
        {stage.update, &work.update}};
    for (auto [function, list] : functions)
      if (function && failed(append(function, *list, work)))
        return failure();
    work.hasBackward = bool(stage.backward);
    work.hasHalves = !stage.backward || stage.backwardInput || stage.backwardWeight;

    work.forwardBytes = sumResults(stage.forward, train::RoleKind::Crossing);
    for (func::FuncOp function : {stage.backward, stage.backwardInput})
      work.backwardBytes += sumResults(function, train::RoleKind::CrossingGradient);
    SavedMemory saved;
    saved.visit(stage.forward);
    work.savedBytes = saved.sumTaken({stage.backward, stage.backwardInput, stage.backwardWeight});
    if (stage.backwardInput)
      saved.visit(stage.backwardInput);
    work.heldBytes = saved.sumTaken({stage.backwardWeight});
    return work;
  }

private:
  static double sumResults(func::FuncOp function, train::RoleKind kind) {
    double bytes = 0;
    for (unsigned index = 0; function && index < function.getNumResults(); ++index)
      if (train::RoleAttr role = train::getResultRole(function, index);
          role && role.getKind() == kind)
        bytes += double(memory::getByteSize(function.getResultTypes()[index]));
    return bytes;
  }

  FailureOr<int64_t> countRanks(Operation *op, FlatSymbolRefAttr meshName, ArrayAttr axes) {
    auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(op, meshName);
    int64_t ranks = 1;
    for (StringAttr name : axes.getAsRange<StringAttr>()) {
      dist::AxisAttr axis = mesh ? mesh.findAxis(name.getValue()) : dist::AxisAttr();
      int64_t size = axis ? axis.getSize() : 0;
      if (size == 0)
        size = axisSizes ? axisSizes->lookup(name.getValue()) : 1;
      if (size == 0)
        return op->emitOpError("runs along mesh axis '")
               << name.getValue() << "', whose size is not known: expected it by --axis "
               << name.getValue() << "=N";
      ranks *= size;
    }
    return ranks;
  }

  LogicalResult append(func::FuncOp function, FunctionWork &list, StageWork &stage) {
    llvm::DenseMap<Value, int> started;
    for (Operation &op : function.front().without_terminator()) {
      OpWork work;
      if (auto communication = dyn_cast<dist::CommunicationOpInterface>(op)) {
        FailureOr<int64_t> ranks =
            countRanks(&op, communication.getMeshAttr(), communication.getAxesAttr());
        if (failed(ranks))
          return failure();
        work.sentBytes = double(communication.getBytesSent(*ranks));
        work.messages = *ranks == 1 ? 0 : double(communication.countMessages(*ranks));
        if (communication.isStarted() && work.messages > 0) {
          work.starts = numStarted++;
          for (Value result : op.getResults())
            started[result] = work.starts;
        }
      } else if (isa<dist::WaitOp>(op)) {
        auto found = started.find(op.getOperand(0));
        if (found == started.end())
          continue;
        work.awaits = found->second;
      } else if (auto reduce = dyn_cast<train::ReduceBucketOp>(op)) {
        if (failed(appendBucket(reduce, stage.update)))
          return failure();
        continue;
      } else {
        work.work.bytes = double(aten::countBytes(&op));
        work.work.flops = double(aten::countFlops(&op));
        work.work.elementType = getElementType(&op);
      }
      list.push_back(std::move(work));
    }
    return success();
  }

  /// A bucket is reduced once per step, before the update that waits for it.
  LogicalResult appendBucket(train::ReduceBucketOp op, FunctionWork &update) {
    auto type = op.getBucket().getType();
    auto bucket = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(op, type.getSymbol());
    if (!bucket || !bucket.getAxes())
      return success();
    ArrayAttr none = Builder(op.getContext()).getArrayAttr({});
    ArrayAttr scatter = bucket.getScatterAttr() ? bucket.getScatterAttr() : none;
    FailureOr<int64_t> parts = countRanks(op, bucket.getMeshAttr(), scatter);
    FailureOr<int64_t> ranks = countRanks(op, bucket.getMeshAttr(), bucket.getAxesAttr());
    if (failed(parts) || failed(ranks))
      return failure();
    // A reduce-scatter, then an all-reduce of the part.
    double bytes = double(memory::getByteSize(type.getFlat())), part = bytes / double(*parts);
    OpWork work;
    work.sentBytes = bytes - part + 2 * (part - part / double(*ranks));
    work.messages = double(*parts - 1) + 2 * double(*ranks - 1);
    update.insert(update.begin(), work);
    return success();
  }

  const llvm::StringMap<int64_t> *axisSizes;
  int numStarted = 0;
};
} // namespace

FailureOr<std::vector<StageWork>>
pipeline::measureStages(ArrayRef<train::ProgramFunctions> stages,
                        const llvm::StringMap<int64_t> *axisSizes) {
  Measurement measurement(axisSizes);
  std::vector<StageWork> result;
  for (const train::ProgramFunctions &stage : stages) {
    FailureOr<StageWork> work = measurement.measure(stage);
    if (failed(work))
      return failure();
    result.push_back(std::move(*work));
  }
  return result;
}
