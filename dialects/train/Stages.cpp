//===- Stages.cpp - what holds between the stages of a program ----------------===//

#include "dialects/train/Stages.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave::train;

namespace {
/// A crossing value or gradient among the arguments or results of one function.
struct Crossing {
  func::FuncOp function;
  RoleAttr role;
  Type type;
};
/// By name, in the order of the function.
using Crossings = llvm::MapVector<StringAttr, Crossing>;

/// Checks the boundary between two stages in one direction.
class Boundary {
public:
  /// `from` hands values of `kind` to `to`; either may be none, at the ends of the chain.
  Boundary(RoleKind kind, int64_t from, int64_t to) : kind(kind), from(from), to(to) {}

  void addProducer(func::FuncOp function) {
    for (unsigned i = 0; function && i < function.getNumResults(); ++i)
      add(given, function, getResultRole(function, i), function.getResultTypes()[i]);
  }
  void addConsumer(func::FuncOp function) {
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
      add(taken, function, getArgumentRole(function, i), function.getArgumentTypes()[i]);
  }

  LogicalResult check() const {
    for (auto &[name, value] : taken) {
      auto producer = given.find(name);
      if (producer == given.end()) {
        InFlightDiagnostic diagnostic = reportError(value) << "takes " << value.role << ", which ";
        return diagnostic << (from < 0
                                  ? Twine("no stage can provide it: it is the ") +
                                        (kind == RoleKind::Crossing ? "first" : "last") + " stage"
                                  : "stage " + Twine(from) + " does not provide");
      }
      if (producer->second.type != value.type) {
        InFlightDiagnostic diagnostic = reportError(value)
                                        << "takes " << value.role << " of type " << value.type;
        diagnostic.attachNote(func::FuncOp(producer->second.function).getLoc())
            << "stage " << from << " returns it with type " << producer->second.type;
        return diagnostic;
      }
    }
    for (auto &[name, value] : given)
      if (!taken.contains(name)) {
        InFlightDiagnostic diagnostic = reportError(value)
                                        << "returns " << value.role << ", which ";
        return diagnostic << (to < 0
                                  ? Twine("no stage can receive: it is the ") +
                                        (kind == RoleKind::Crossing ? "last" : "first") + " stage"
                                  : "stage " + Twine(to) + " does not take");
      }
    return success();
  }

private:
  void add(Crossings &crossings, func::FuncOp function, RoleAttr role, Type type) {
    if (role.getKind() == kind)
      crossings.insert({role.getName(), {function, role, type}});
  }
  static InFlightDiagnostic reportError(const Crossing &value) {
    return func::FuncOp(value.function).emitError();
  }

  RoleKind kind;
  int64_t from, to;
  Crossings given, taken;
};
} // namespace

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

/// Calls `found(role, type)` for each argument, or result, with a role of `kind`.
static void forEachPort(func::FuncOp function, RoleKind kind, bool isResult,
                        function_ref<void(RoleAttr, Type)> found) {
  if (!function)
    return;
  ArrayRef<Type> types = isResult ? function.getResultTypes() : function.getArgumentTypes();
  for (auto [index, type] : llvm::enumerate(types))
    if (RoleAttr role =
            isResult ? getResultRole(function, index) : getArgumentRole(function, index);
        role.getKind() == kind)
      found(role, type);
}

SmallVector<StageSum> cleave::train::listStageSums(const ProgramFunctions &program) {
  llvm::MapVector<StringAttr, StageSum> sums;
  for (auto [number, stage] : llvm::enumerate(program.stages)) {
    auto at = [&](RoleAttr role, Type type) -> StageSum & {
      return sums.insert({role.getName(), {role.getName(), cast<RankedTensorType>(type), {}, {}}})
          .first->second;
    };
    forEachPort(stage.reduce, RoleKind::StageSum, /*isResult=*/true,
                [&](RoleAttr role, Type type) { at(role, type).producers.push_back(number); });
    forEachPort(stage.update, RoleKind::StageSum, /*isResult=*/false,
                [&](RoleAttr role, Type type) { at(role, type).consumers.push_back(number); });
  }
  return llvm::to_vector(llvm::make_second_range(sums));
}

SmallVector<SharedParameter> cleave::train::listSharedParameters(const ProgramFunctions &program) {
  llvm::MapVector<StringAttr, SharedParameter> updated;
  for (auto [number, stage] : llvm::enumerate(program.stages))
    forEachPort(
        stage.update, RoleKind::Parameter, /*isResult=*/true, [&](RoleAttr role, Type type) {
          updated.insert({role.getName(),
                          {role.getName(), cast<RankedTensorType>(type), unsigned(number), {}}});
        });
  for (auto [number, stage] : llvm::enumerate(program.stages))
    for (func::FuncOp function : stage.getFunctions())
      forEachPort(function, RoleKind::Parameter, /*isResult=*/false, [&](RoleAttr role, Type) {
        auto found = updated.find(role.getName());
        if (found == updated.end() || found->second.updater == number)
          return;
        SmallVector<unsigned> &consumers = found->second.consumers;
        if (consumers.empty() || consumers.back() != number)
          consumers.push_back(number);
      });
  SmallVector<SharedParameter> shared;
  for (SharedParameter &parameter : llvm::make_second_range(updated))
    if (!parameter.consumers.empty())
      shared.push_back(std::move(parameter));
  return shared;
}

SmallVector<BucketOp> cleave::train::listReducedBuckets(const ProgramFunctions &stage) {
  SmallVector<BucketOp> buckets;
  for (func::FuncOp function : stage.getMicrobatchFunctions())
    for (auto reduce : function.getOps<ReduceBucketOp>()) {
      auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
          reduce, reduce.getBucket().getType().getSymbol());
      if (bucket && bucket.getMesh())
        buckets.push_back(bucket);
    }
  return buckets;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static bool isCrossing(RoleAttr role) {
  return role.getKind() == RoleKind::Crossing || role.getKind() == RoleKind::CrossingGradient;
}

/// Terms of sums over stages come from reduce functions, the sums go to updates.
static LogicalResult checkStageSumPlace(func::FuncOp function, Phase phase, RoleAttr role,
                                        StringRef verb) {
  if (phase == (verb == "returns" ? Phase::Reduce : Phase::Update))
    return success();
  return function.emitError() << "of phase " << stringifyPhase(phase) << " " << verb << " " << role
                              << ", but reduce functions return the terms of a sum over stages, "
                                 "and updates take the sum";
}

/// Every sum has terms and consumers, all with the same type.
static LogicalResult checkStageSums(const ProgramFunctions &program) {
  struct Uses {
    func::FuncOp producer, consumer;
    Type type;
  };
  llvm::MapVector<StringAttr, Uses> sums;
  LogicalResult result = success();
  auto add = [&](func::FuncOp function, RoleAttr role, Type type, bool isProducer) {
    Uses &uses = sums[role.getName()];
    func::FuncOp first = uses.producer ? uses.producer : uses.consumer;
    (isProducer ? uses.producer : uses.consumer) = function;
    if (!uses.type)
      uses.type = type;
    if (uses.type == type || failed(result))
      return;
    InFlightDiagnostic diagnostic = function.emitError() << (isProducer ? "returns " : "takes ")
                                                         << role << " of type " << type;
    diagnostic.attachNote(first.getLoc()) << "this function has it with type " << uses.type;
    result = diagnostic;
  };
  for (const ProgramFunctions &stage : program.getParts()) {
    func::FuncOp reduce = stage.reduce, update = stage.update;
    forEachPort(reduce, RoleKind::StageSum, true,
                [&](RoleAttr role, Type type) { add(reduce, role, type, true); });
    forEachPort(update, RoleKind::StageSum, false,
                [&](RoleAttr role, Type type) { add(update, role, type, false); });
  }
  for (auto &[name, uses] : sums) {
    if (failed(result))
      return failure();
    if (!uses.producer)
      return uses.consumer.emitError()
             << "takes the sum over stages " << name << ", for which no stage returns a term";
    if (!uses.consumer)
      return uses.producer.emitError()
             << "returns a term of the sum over stages " << name << ", which no update takes";
    if (!isa<FloatType>(cast<RankedTensorType>(uses.type).getElementType()))
      return uses.producer.emitError()
             << "returns a term of the sum over stages " << name << " of type " << uses.type
             << ", expected elements of a floating-point type";
  }
  return result;
}

/// Which functions may have which crossing values at all.
static LogicalResult checkPlaces(func::FuncOp function, bool isStaged) {
  Phase phase = function->getAttrOfType<PhaseAttr>(kPhaseAttrName).getValue();
  auto check = [&](RoleAttr role, StringRef verb) -> LogicalResult {
    if (role.getKind() == RoleKind::StageSum)
      return checkStageSumPlace(function, phase, role, verb);
    if (!isCrossing(role))
      return success();
    if (!isStaged)
      return function.emitError() << verb << " " << role << ", but the program has no stages";
    bool isForward = role.getKind() == RoleKind::Crossing;
    bool fits = isForward ? phase == Phase::Forward
                          : phase == Phase::Backward || phase == Phase::BackwardInput;
    if (!fits)
      return function.emitError()
             << "of phase " << stringifyPhase(phase) << " " << verb << " " << role << ", but "
             << (isForward ? "values cross from forward to forward"
                           : "gradients cross from one backward (or backward_input) to another");
    return success();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(getArgumentRole(function, i), "takes")))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(getResultRole(function, i), "returns")))
      return failure();
  return success();
}

/// An update is of the stage that has the gradient, and each parameter has one.
static LogicalResult checkUpdates(const ProgramFunctions &program) {
  DenseMap<StringAttr, func::FuncOp> updates;
  for (const ProgramFunctions &stage : program.stages) {
    llvm::DenseSet<StringAttr> gradients;
    for (func::FuncOp function : stage.getFunctions())
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (getResultRole(function, i).getKind() == RoleKind::Gradient)
          gradients.insert(getResultRole(function, i).getName());
    func::FuncOp update = stage.update;
    for (unsigned i = 0; update && i < update.getNumArguments(); ++i) {
      RoleAttr role = getArgumentRole(update, i);
      if (role.getKind() == RoleKind::Gradient && !gradients.contains(role.getName()))
        return update.emitError() << "takes " << role
                                  << ", which no function of the same stage returns";
    }
    for (unsigned i = 0; update && i < update.getNumResults(); ++i) {
      RoleAttr role = getResultRole(update, i);
      if (role.getKind() != RoleKind::Parameter)
        continue;
      auto [first, isNew] = updates.try_emplace(role.getName(), update);
      if (isNew)
        continue;
      InFlightDiagnostic diagnostic = update.emitError() << "returns " << role << " a second time";
      diagnostic.attachNote(first->second.getLoc()) << "this stage's update already returns it";
      return diagnostic;
    }
  }
  return success();
}

/// Numbers are counted by microbatch, so each stage says how many the whole of it draws.
static LogicalResult checkDraws(const ProgramFunctions &program) {
  func::FuncOp first = program.stages.front().forward;
  for (const ProgramFunctions &stage : program.stages) {
    func::FuncOp forward = stage.forward;
    if (forward->getAttr(kDrawsAttrName) == first->getAttr(kDrawsAttrName))
      continue;
    InFlightDiagnostic diagnostic = forward.emitError()
                                    << "expects the same '" << kDrawsAttrName
                                    << "', the count of the whole microbatch, on all stages";
    diagnostic.attachNote(first.getLoc()) << "the first stage's forward is here";
    return diagnostic;
  }
  return success();
}

LogicalResult cleave::train::verifyStages(const ProgramFunctions &program) {
  for (func::FuncOp function : program.getFunctions())
    if (failed(checkPlaces(function, program.isStaged())))
      return failure();
  if (!program.isStaged())
    return checkStageSums(program);
  int64_t last = static_cast<int64_t>(program.stages.size()) - 1;
  for (int64_t s = -1; s <= last; ++s) {
    Boundary forward(RoleKind::Crossing, s, s < last ? s + 1 : -1);
    Boundary backward(RoleKind::CrossingGradient, s < last ? s + 1 : -1, s);
    if (s >= 0) {
      forward.addProducer(program.stages[s].forward);
      backward.addConsumer(program.stages[s].backward);
      backward.addConsumer(program.stages[s].backwardInput);
    }
    if (s < last) {
      forward.addConsumer(program.stages[s + 1].forward);
      backward.addProducer(program.stages[s + 1].backward);
      backward.addProducer(program.stages[s + 1].backwardInput);
    }
    if (failed(forward.check()) || failed(backward.check()))
      return failure();
  }
  return success(succeeded(checkUpdates(program)) && succeeded(checkStageSums(program)) &&
                 succeeded(checkDraws(program)));
}
