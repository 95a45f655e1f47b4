//===- GradientPaths.cpp - from a gradient's op to the optimizer -------------===//

#include "passes/gradients/GradientPaths.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Verify.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::gradients;

namespace {
class Finder {
public:
  Finder(const train::ProgramFunctions &program, const train::ProgramFunctions &part)
      : program(program), part(part), consumer(part.update ? part.update : part.reduce),
        reduce(part.update ? part.reduce : func::FuncOp()) {}

  FailureOr<std::vector<GradientPath>> find();

private:
  void findProducers();
  void findReduceArguments();
  void findVaryingAxes();
  LogicalResult checkVarying(const GradientPath &path, train::RoleAttr role);
  LogicalResult findContribution(GradientPath &path, train::RoleAttr role);
  LogicalResult findReductions(GradientPath &path, train::RoleAttr role);
  LogicalResult refuseOtherReductions(Value value, train::RoleAttr role);
  LogicalResult addReduction(GradientPath &path, Operation *op, ArrayAttr axes,
                             SmallVectorImpl<Attribute> &into, train::RoleAttr role);

  const train::ProgramFunctions &program, &part;
  /// The function that takes reduced gradients in the end, and one before it, if any.
  func::FuncOp consumer, reduce;
  DenseMap<StringAttr, std::pair<func::FuncOp, unsigned>> producers;
  /// By function, and by the gradient's name: its accumulator.
  DenseMap<std::pair<Operation *, StringAttr>, BlockArgument> accumulators;
  /// Of the reduce function, by the gradient's name.
  DenseMap<StringAttr, BlockArgument> reduceArguments;
  /// Axes along which ranks compute different things.
  DenseSet<Attribute> varying;
};
} // namespace

/// Which function that runs for each microbatch gives which gradient, and adds it to what.
void Finder::findProducers() {
  for (func::FuncOp function : part.getMicrobatchFunctions()) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (train::RoleAttr role = train::getResultRole(function, i);
          role.getKind() == train::RoleKind::Gradient)
        producers[role.getName()] = {function, i};
    for (BlockArgument argument : function.getArguments())
      if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
          role.getKind() == train::RoleKind::Accumulator)
        accumulators[{function, role.getName()}] = argument;
  }
}

void Finder::findReduceArguments() {
  for (BlockArgument argument : reduce ? reduce.getArguments() : MutableArrayRef<BlockArgument>())
    if (train::RoleAttr role = train::getArgumentRole(reduce, argument.getArgNumber());
        role.getKind() == train::RoleKind::Gradient)
      reduceArguments[role.getName()] = argument;
}

/// Ranks differ along the axes that divide inputs, and along those of ops whose results differ:
/// whatever communicates but gives all ranks the same. What differs in one stage does in the next.
void Finder::findVaryingAxes() {
  for (func::FuncOp function : program.getMicrobatchFunctions()) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (ArrayAttr over = train::getArgumentRole(function, i).getOver())
        varying.insert(over.begin(), over.end());
    for (Operation &op : function.front()) {
      if (auto index = dyn_cast<dist::AxisIndexOp>(op))
        varying.insert(index.getAxes().begin(), index.getAxes().end());
      auto communication = dyn_cast<dist::CommunicationOpInterface>(op);
      if (communication && !isa<dist::AllReduceOp, dist::AllGatherOp, dist::BroadcastOp>(op))
        varying.insert(communication.getAxesAttr().begin(), communication.getAxesAttr().end());
    }
  }
}

/// Without types this is the only sign of a sum that just multiplies; with them the verifiers see
/// it.
LogicalResult Finder::checkVarying(const GradientPath &path, train::RoleAttr role) {
  if (dist::getPlacement(path.type))
    return success();
  for (Attribute axis : llvm::concat<const Attribute>(path.axes, path.scatter))
    if (!varying.contains(axis)) {
      InFlightDiagnostic diagnostic = path.reductions.front()->emitError()
                                      << "reduces " << role << " over " << axis
                                      << ", on which it does not vary: no input is divided over "
                                         "that axis, so the sum would only scale it";
      diagnostic.attachNote(path.value.getLoc()) << "the gradient is produced here";
      return diagnostic;
    }
  return success();
}

FailureOr<std::vector<GradientPath>> Finder::find() {
  findProducers();
  findReduceArguments();
  findVaryingAxes();
  std::vector<GradientPath> paths;
  for (BlockArgument argument : consumer.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(consumer, argument.getArgNumber());
    if (role.getKind() != train::RoleKind::Gradient)
      continue;
    if (isa<train::BucketType>(argument.getType()))
      return consumer.emitError() << "has the bucket " << role.getName()
                                  << " already; gradients are bucketed once";
    GradientPath path;
    path.name = role.getName();
    path.consumer = consumer;
    path.argument = argument.getArgNumber();
    std::tie(path.producer, path.result) = producers.lookup(role.getName());
    // The program's verifier has seen to it that some function makes it.
    if (!path.producer) {
      InFlightDiagnostic diagnostic =
          consumer.emitError()
          << "takes " << role
          << ", which is already in a bucket; gradients are bucketed once, before --clip-gradients";
      diagnostic.attachNote(reduce.getLoc()) << "removed from its bucket here";
      return diagnostic;
    }
    if (failed(findContribution(path, role)))
      return failure();
    path.type = cast<RankedTensorType>(path.value.getType());
    auto sum =
        path.accumulate ? cast<RankedTensorType>(path.accumulate.getResult().getType()) : path.type;
    path.element = sum.getElementType();
    if (!isa<FloatType, ComplexType>(path.type.getElementType()))
      return consumer.emitError()
             << "takes " << role << " of type " << path.type
             << ", which cannot be bucketed: it is not of a floating-point or complex type";
    if (failed(findReductions(path, role)) || failed(checkVarying(path, role)))
      return failure();
    paths.push_back(std::move(path));
  }
  return paths;
}

/// What a microbatch adds: the operand of the accumulation, whose only purpose is this result.
LogicalResult Finder::findContribution(GradientPath &path, train::RoleAttr role) {
  Operation *terminator = path.producer.front().getTerminator();
  Value result = terminator->getOperand(path.result);
  path.value = result;
  BlockArgument accumulator = accumulators.lookup({path.producer, role.getName()});
  if (!accumulator)
    return success();
  auto accumulate = result.getDefiningOp<train::AccumulateOp>();
  bool isPlain = accumulate && accumulate.getAccumulator() == accumulator &&
                 accumulator.hasOneUse() && result.hasOneUse();
  if (!isPlain) {
    InFlightDiagnostic diagnostic = path.producer.emitError()
                                    << "makes " << role
                                    << ", which cannot be bucketed: it is not exactly one "
                                       "`train.accumulate` into its accumulator";
    diagnostic.attachNote(result.getLoc()) << "produced here";
    for (Operation *user : accumulator.getUsers())
      if (user != accumulate)
        diagnostic.attachNote(user->getLoc()) << "the accumulator is used here";
    for (Operation *user : result.getUsers())
      if (user != terminator)
        diagnostic.attachNote(user->getLoc()) << "the sum is used here";
    return diagnostic;
  }
  path.accumulate = accumulate;
  path.value = accumulate.getGradient();
  return success();
}

LogicalResult Finder::addReduction(GradientPath &path, Operation *op, ArrayAttr axes,
                                   SmallVectorImpl<Attribute> &into, train::RoleAttr role) {
  for (Attribute axis : axes) {
    if (llvm::is_contained(path.axes, axis) || llvm::is_contained(path.scatter, axis)) {
      InFlightDiagnostic diagnostic = op->emitError()
                                      << "reduces " << role << " over " << axis << " again";
      Operation *first =
          *llvm::find_if(path.reductions, llvm::IsaPred<dist::CommunicationOpInterface>);
      diagnostic.attachNote(first->getLoc()) << "first reduced here";
      return diagnostic;
    }
    into.push_back(axis);
  }
  path.mesh = cast<dist::CommunicationOpInterface>(op).getMeshAttr();
  path.reductions.push_back(op);
  return success();
}

/// What awaits a communication that only starts (--overlap-communication).
static dist::WaitOp findWait(Operation *started) {
  return started->hasOneUse() ? dyn_cast<dist::WaitOp>(*started->user_begin()) : dist::WaitOp();
}

/// Whether `op` sums one value, in one op or by a start and a wait.
template <typename Op> static bool isSumOfOne(Op op) {
  return op.getInputs().size() == 1 && op.getReduction().getKind() == dist::Reduction::Sum &&
         (!op.isStarted() || findWait(op));
}

static Type elementOf(Value value) {
  return cast<RankedTensorType>(dist::valueTypeOf(value.getType())).getElementType();
}

/// The cast to another floating-point type that is the only use of `value`, if it is.
static Operation *findCast(Value value) {
  auto cast = value.hasOneUse() ? dyn_cast<aten::AtenOpInterface>(*value.user_begin())
                                : aten::AtenOpInterface();
  bool isCast = cast && cast.getSchemaName() == "aten::_to_copy" &&
                isa<FloatType>(elementOf(value)) && isa<FloatType>(elementOf(cast->getResult(0)));
  return isCast ? cast.getOperation() : nullptr;
}

/// The chain of sums that begins at the argument of the reduce function, or of the consumer.
LogicalResult Finder::findReductions(GradientPath &path, train::RoleAttr role) {
  Value value = consumer.getArgument(path.argument);
  if (BlockArgument argument = reduceArguments.lookup(role.getName())) {
    path.reduceArgument = argument.getArgNumber();
    value = argument;
  }
  // Casts belong to the path where a reduction follows, or the end of the reduce function.
  SmallVector<Operation *> casts;
  Value end = value; // without the casts so far
  auto takeCasts = [&] {
    path.reductions.append(casts);
    casts.clear();
    // A bucket has one type, no narrower than those in which the program reduces.
    if (dist::getElementBits(elementOf(value)) > dist::getElementBits(path.element))
      path.element = elementOf(value);
  };
  while (value.hasOneUse()) {
    OpOperand &use = *value.getUses().begin();
    Operation *user = use.getOwner();
    if (Operation *cast = findCast(value)) {
      casts.push_back(cast);
      value = cast->getResult(0);
      continue;
    }
    if (auto all = dyn_cast<dist::AllReduceOp>(user); all && isSumOfOne(all)) {
      takeCasts();
      if (failed(addReduction(path, all, all.getAxes(), path.axes, role)))
        return failure();
    } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(user);
               scatter && isSumOfOne(scatter) && path.axes.empty() &&
               (path.scatter.empty() ||
                path.scatterDim == static_cast<int64_t>(scatter.getDim()))) {
      // Scattered over one axis and then another, as over both, the first one major.
      takeCasts();
      path.scatterDim = scatter.getDim();
      if (failed(addReduction(path, scatter, scatter.getAxes(), path.scatter, role)))
        return failure();
    } else if (reduce && user == reduce.front().getTerminator()) {
      path.reductions.append(casts);
      casts.clear();
      path.reduceResult = use.getOperandNumber();
      end = value = consumer.getArgument(path.argument);
      continue;
    } else {
      break;
    }
    value = user->getResult(0);
    if (dist::WaitOp wait = findWait(user)) {
      path.reductions.push_back(wait);
      value = wait.getResult();
    }
    end = value;
  }
  value = end;
  // A bucket gives gradients back in the type in which they are contributed, from which a narrower
  // one can be made, not a wider one.
  if (Type given = elementOf(value), contributed = path.type.getElementType();
      given != contributed) {
    Operation *cast = findCast(value);
    if (cast && elementOf(cast->getResult(0)) == contributed) {
      path.reductions.push_back(cast);
      value = cast->getResult(0);
    } else if (dist::getElementBits(given) >= dist::getElementBits(contributed)) {
      return consumer.emitError() << "takes " << role
                                  << ", which cannot be bucketed: microbatches contribute "
                                  << contributed << ", but its sum of " << given
                                  << " is not only converted to that";
    }
  }
  path.reduced = value;
  if (path.reduceArgument && !path.reduceResult) {
    InFlightDiagnostic diagnostic =
        reduce.emitError() << "takes " << role
                           << ", which cannot be bucketed: a bucket sums over mesh axes and "
                              "scatters once, but the gradient has further communication here";
    for (Operation *user : value.getUsers())
      diagnostic.attachNote(user->getLoc()) << "it is used here";
    return diagnostic;
  }
  return refuseOtherReductions(value, role);
}

LogicalResult Finder::refuseOtherReductions(Value value, train::RoleAttr role) {
  for (Operation *user : value.getUsers())
    if (isa<dist::AllReduceOp, dist::ReduceScatterOp>(user)) {
      InFlightDiagnostic diagnostic =
          consumer.emitError()
          << "takes " << role
          << ", which cannot be bucketed: its reduction is not a sum, or not its only use";
      diagnostic.attachNote(user->getLoc()) << "reduced here";
      return diagnostic;
    }
  return success();
}

FailureOr<std::vector<GradientPath>>
cleave::gradients::findGradientPaths(const train::ProgramFunctions &program,
                                     const train::ProgramFunctions &part) {
  return Finder(program, part).find();
}
