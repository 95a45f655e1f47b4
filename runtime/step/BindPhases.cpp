//===- BindPhases.cpp - binding the functions of a rank -----------------------===//

#include "dialects/exec/Lowered.h"
#include "runtime/io/Error.h"
#include "runtime/step/StepContext.h"

#include "llvm/ADT/DenseSet.h"

using namespace cleave::runtime;
namespace exec = cleave::exec;

/// Instructions know addresses: a function that writes to the microbatch's frame has some for each
/// frame. So has one that reads there, if it is to overwrite what is dead.
static unsigned countExecutors(const StepContext &context, const PhaseFunction &part) {
  exec::LoweredAttr lowered = exec::getLowered(part.function);
  if (!lowered || lowered.getFrame() == 0)
    return 1;
  mlir::func::FuncOp function = part.function;
  bool writesFrame = llvm::any_of(function->getRegion(0).getOps(), [](mlir::Operation &op) {
    return llvm::any_of(op.getResults(), [](mlir::OpResult result) {
      return exec::getResultMemory(result).kind == exec::ResultMemory::Frame;
    });
  });
  // One that the schedule never runs is bound all the same.
  bool knowsFrame = writesFrame || context.options.poisonsDeadMemory;
  return knowsFrame ? std::max(context.frames.stages[part.stage].numSlots, 1u) : 1;
}

/// Sets what watches the runs of a function. `takesFault`: it is the first one of a microbatch.
static llvm::Error observe(StepContext &context, BoundPhase &bound, bool takesFault) {
  const SessionOptions &options = context.options;
  bound.observers.onOp = options.onOp;
  if (!context.device.isHost())
    bound.observers.device = &context.device;
  if (options.nameRanges)
    bound.observers.names = context.device.plugin();
  if (!context.services.checksReplication)
    return llvm::Error::success();
  bound.observers.checker = std::make_unique<ReplicationChecker>(*context.ranks);
  if (!options.check.fault || !takesFault)
    return llvm::Error::success();
  const InjectedFault &fault = *options.check.fault;
  int64_t count = bound.executors.front()->numInstructions();
  int ranks = context.ranks->ranks();
  if (fault.rank >= ranks || fault.op >= count)
    return makeError("a fault on rank {0} in op {1}, but there are {2} ranks and {3} ops, both "
                     "counted from 0",
                     fault.rank, fault.op, ranks, count);
  if (fault.rank == context.ranks->rank())
    bound.observers.fault = fault.op;
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<BoundPhase>>
cleave::runtime::bindPhase(StepContext &context, const PhaseFunction &part, bool takesFault) {
  const PlaceIndex &places = context.places;
  auto result = std::make_unique<BoundPhase>();
  result->phase = part.phase;
  result->stage = part.stage;
  for (const ValueInfo &value : part.signature.results)
    result->results.push_back(places.ofResult(part, value));
  for (const ValueInfo &value : part.signature.arguments) {
    llvm::Expected<Place> place = places.ofArgument(part, value);
    if (!place)
      return place.takeError();
    for (const Place &made : result->results)
      if (made.isTied && made.kind == place->kind && made.index == place->index)
        place->isTied = true;
    result->arguments.push_back(*place);
  }
  unsigned numSlots = countExecutors(context, part);
  for (unsigned slot = 0; slot < numSlots; ++slot) {
    context.services.frame = context.frameOffset(part.stage, slot);
    llvm::Expected<BoundFunction> bound = Binder(part.function, context.services).bind();
    if (!bound)
      return makeError("program '{0}': {1}", context.program.path(),
                       llvm::toString(bound.takeError()));
    result->executors.push_back(
        std::make_unique<Executor>(std::move(*bound), part.phase, &context.arena));
  }
  if (llvm::Error error = observe(context, *result, takesFault))
    return error;
  return result;
}

llvm::Error cleave::runtime::bindPhases(StepContext &context) {
  BoundPhases &phases = context.phases;
  for (const PhaseFunction &part : context.program.impl().phaseFunctions) {
    phases.byFunction.push_back(nullptr);
    if (!context.stages.runs(part))
      continue;
    bool isFirst =
        part.phase == context.program.microbatchPhases().front() && phases.microbatch.empty();
    llvm::Expected<std::unique_ptr<BoundPhase>> bound = bindPhase(context, part, isFirst);
    if (!bound)
      return bound.takeError();
    phases.byFunction.back() = bound->get();
    BoundPhases::List &list = part.phase == Phase::Unshard  ? phases.unshard
                              : part.phase == Phase::Reduce ? phases.reduce
                              : part.phase == Phase::Update ? phases.update
                                                            : phases.microbatch;
    list.push_back(std::move(*bound));
  }
  // A microbatch's functions run in this order.
  llvm::SmallDenseSet<int64_t> ended;
  for (const std::unique_ptr<BoundPhase> &bound : llvm::reverse(phases.microbatch))
    bound->endsFrame = ended.insert(bound->stage).second;
  return llvm::Error::success();
}
