//===- WholeProgram.cpp - which functions make a program ---------------------===//
//
// Checks what no single function can: the phases that are there, and what they hand each other.
//
//===----------------------------------------------------------------------===//

#include "dialects/train/Stages.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

using namespace mlir;
using namespace cleave::train;

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// The place of a phase's function in `program`, which may be const.
template <typename P> static auto *slotOf(P &program, Phase phase) {
  switch (phase) {
  case Phase::Microbatch:
    return &program.microbatch;
  case Phase::Update:
    return &program.update;
  case Phase::Forward:
    return &program.forward;
  case Phase::Backward:
    return &program.backward;
  case Phase::BackwardInput:
    return &program.backwardInput;
  case Phase::BackwardWeight:
    return &program.backwardWeight;
  case Phase::Unshard:
    return &program.unshard;
  case Phase::Reduce:
    return &program.reduce;
  }
  llvm_unreachable("no such phase");
}

func::FuncOp ProgramFunctions::get(Phase phase) const {
  return *slotOf(*this, phase);
}

SmallVector<func::FuncOp, 3> ProgramFunctions::getMicrobatchFunctions() const {
  SmallVector<func::FuncOp, 3> functions;
  auto add = [&](std::initializer_list<func::FuncOp> list) {
    for (func::FuncOp function : list)
      if (function)
        functions.push_back(function);
  };
  add({microbatch, forward, backward, backwardInput, backwardWeight});
  for (const ProgramFunctions &stage : stages)
    add({stage.forward});
  for (const ProgramFunctions &stage : llvm::reverse(stages))
    add({stage.backward, stage.backwardInput, stage.backwardWeight});
  return functions;
}

SmallVector<func::FuncOp, 8> ProgramFunctions::getFunctions() const {
  SmallVector<func::FuncOp, 8> functions;
  auto addOnceAStep = [&](Phase phase) {
    if (func::FuncOp function = get(phase))
      functions.push_back(function);
    for (const ProgramFunctions &stage : stages)
      if (func::FuncOp function = stage.get(phase))
        functions.push_back(function);
  };
  addOnceAStep(Phase::Unshard);
  llvm::append_range(functions, getMicrobatchFunctions());
  addOnceAStep(Phase::Reduce);
  addOnceAStep(Phase::Update);
  return functions;
}

static DictionaryAttr ranksOf(func::FuncOp function) {
  return function->getAttrOfType<DictionaryAttr>(kRanksAttrName);
}

static LogicalResult findFunctions(ModuleOp module, DictionaryAttr ranks,
                                   ProgramFunctions &program) {
  std::map<int64_t, ProgramFunctions> stages;
  func::FuncOp unstaged, staged;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto phase = function->getAttrOfType<PhaseAttr>(kPhaseAttrName);
    if (!phase || ranksOf(function) != ranks)
      continue;
    auto stage = function->getAttrOfType<IntegerAttr>(kStageAttrName);
    (stage ? staged : unstaged) = function;
    ProgramFunctions &owner = stage ? stages[stage.getInt()] : program;
    func::FuncOp &slot = *slotOf(owner, phase.getValue());
    if (slot) {
      InFlightDiagnostic diagnostic = function.emitError() << "is a second function of phase "
                                                           << stringifyPhase(phase.getValue());
      if (stage)
        diagnostic << " of stage " << stage.getInt();
      diagnostic.attachNote(slot.getLoc()) << "the first is here";
      return diagnostic;
    }
    slot = function;
  }
  if (stages.empty())
    return success();
  if (unstaged) {
    InFlightDiagnostic diagnostic = unstaged.emitError()
                                    << "expects a stage (" << kStageAttrName
                                    << "), as another function of the program has one";
    diagnostic.attachNote(staged.getLoc()) << "the other is here";
    return diagnostic;
  }
  for (auto &[number, stage] : stages) {
    if (number != static_cast<int64_t>(program.stages.size()))
      return stage.getFunctions().front().emitError()
             << "belongs to stage " << number << ", but the program has no stage "
             << program.stages.size();
    program.stages.push_back(std::move(stage));
  }
  return success();
}

/// One microbatch function, or a forward with its whole backward or both of its halves.
static LogicalResult checkPhases(ModuleOp module, ProgramFunctions program, ProgramForms forms,
                                 bool isForwardOnly = false) {
  func::FuncOp backwards[] = {program.backward, program.backwardInput, program.backwardWeight};
  auto conflict = [](func::FuncOp one, func::FuncOp other) {
    auto phaseOf = [](func::FuncOp function) {
      return stringifyPhase(function->getAttrOfType<PhaseAttr>(kPhaseAttrName).getValue());
    };
    InFlightDiagnostic diagnostic = one.emitError() << "has phase " << phaseOf(one)
                                                    << ", which conflicts with a function of phase "
                                                    << phaseOf(other);
    diagnostic.attachNote(other.getLoc()) << "the other is here";
    return diagnostic;
  };
  if (program.microbatch) {
    for (func::FuncOp part : {program.forward, backwards[0], backwards[1], backwards[2]})
      if (part)
        return conflict(part, program.microbatch);
    return success();
  }
  if (!program.forward) {
    for (func::FuncOp part : backwards)
      if (part)
        return part.emitError() << "expects a function of phase forward for this backward";
    return module.emitError()
           << "expects a program: a function with train.phase = #train.phase<microbatch>";
  }
  if (program.backward) {
    for (func::FuncOp part : {program.backwardInput, program.backwardWeight})
      if (part)
        return conflict(part, program.backward);
  } else if (!program.backwardInput && !program.backwardWeight) {
    if (isForwardOnly)
      return success();
    return program.forward.emitError() << "expects a function of phase backward, or two of phases "
                                          "backward_input and backward_weight, for this forward";
  } else if (!program.backwardInput || !program.backwardWeight) {
    return (program.backwardInput ? program.backwardInput : program.backwardWeight).emitError()
           << "expects a function of phase "
           << (program.backwardInput ? "backward_weight" : "backward_input")
           << ", the other half of the backward";
  }
  if (forms == ProgramForms::Joint)
    return program.forward.emitError()
           << "is part of a split microbatch; expected forward and backward in one function of "
              "phase microbatch, as before --partition-joint";
  return success();
}

/// Each stage has a forward; all of them, or none, have a backward.
static LogicalResult checkStagePhases(ModuleOp module, const ProgramFunctions &program,
                                      ProgramForms forms) {
  if (forms != ProgramForms::Staged)
    return program.stages.front().getFunctions().front().emitError()
           << "belongs to a pipeline stage; expected the whole program, as before --outline-stages";
  bool isForwardOnly = llvm::all_of(program.stages, [](const ProgramFunctions &stage) {
    return stage.getMicrobatchFunctions() == ArrayRef(stage.forward);
  });
  for (const ProgramFunctions &stage : program.stages) {
    if (stage.microbatch)
      return func::FuncOp(stage.microbatch).emitError()
             << "expects a forward and a backward of a stage, found a function of phase microbatch";
    if (stage.getMicrobatchFunctions().empty())
      return stage.getFunctions().front().emitError()
             << "expects a function of phase forward of its stage";
    if (failed(checkPhases(module, stage, ProgramForms::Any, isForwardOnly)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What functions hand each other
//===----------------------------------------------------------------------===//

namespace {
/// An argument or result of a phase function.
struct Port {
  func::FuncOp function;
  unsigned index = 0;
  /// Place of the function in the order in which a step runs them.
  unsigned order = 0;
  RoleAttr role;
  Type type;
  Phase phase = Phase::Microbatch;

  Location getLoc() const { return func::FuncOp(function).getLoc(); }
  /// The function's stage, or -1.
  int64_t getStage() const {
    auto stage = func::FuncOp(function)->getAttrOfType<IntegerAttr>(kStageAttrName);
    return stage ? stage.getInt() : -1;
  }
  bool isSaved() const { return role.getKind() == RoleKind::Saved; }
  bool is(std::initializer_list<RoleKind> kinds) const {
    return llvm::is_contained(kinds, role.getKind());
  }
};
using Key = std::pair<unsigned, StringAttr>;

/// Checks the functions of a program against each other.
class Agreement {
public:
  explicit Agreement(const ProgramFunctions &program) : program(program) {
    for (auto [order, function] : llvm::enumerate(program.getFunctions())) {
      Phase phase = function->getAttrOfType<PhaseAttr>(kPhaseAttrName).getValue();
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        arguments.push_back({function, i, unsigned(order), getArgumentRole(function, i),
                             function.getArgumentTypes()[i], phase});
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        results.push_back({function, i, unsigned(order), getResultRole(function, i),
                           function.getResultTypes()[i], phase});
    }
  }

  LogicalResult check() {
    return success(succeeded(checkStepFunctions()) && succeeded(checkArguments()) &&
                   succeeded(checkResults()) && succeeded(checkSaved()) &&
                   succeeded(checkGradients()));
  }

private:
  static Key keyOf(const Port &port) {
    return {static_cast<unsigned>(port.role.getKind()), port.role.getName()};
  }
  static InFlightDiagnostic reportError(const Port &port) {
    func::FuncOp function = port.function;
    return function.emitError();
  }

  /// Unshard has weights and saved values, reduce gradients, and no others.
  LogicalResult checkStepFunctions() {
    for (const Port &port : arguments) {
      if (port.phase == Phase::Unshard &&
          !port.is({RoleKind::Parameter, RoleKind::Buffer, RoleKind::Constant}))
        return reportError(port)
               << "of phase unshard takes " << port.role
               << ", but unsharding starts from parameters, buffers and constants";
      if (port.phase == Phase::Reduce && !port.is({RoleKind::Gradient, RoleKind::LossScale}))
        return reportError(port) << "of phase reduce takes " << port.role
                                 << ", but only gradients can be reduced";
      if (port.phase != Phase::Reduce && port.is({RoleKind::LossScale}))
        return reportError(port) << "of phase " << stringifyPhase(port.phase) << " takes "
                                 << port.role << ", by which reduce functions divide gradients";
    }
    for (const Port &port : results) {
      if (port.phase == Phase::Unshard && !port.isSaved())
        return reportError(port) << "of phase unshard returns " << port.role
                                 << ", but it may return saved values only";
      if (port.phase == Phase::Reduce && !port.is({RoleKind::Gradient, RoleKind::StageSum}))
        return reportError(port) << "of phase reduce returns " << port.role
                                 << ", but only gradients can be reduced";
    }
    return success();
  }

  /// Whether a step runs the function, or one of a microbatch runs it.
  bool isInMicrobatch(const Port &port) const {
    return port.phase != Phase::Update && port.phase != Phase::Reduce;
  }

  /// What is an argument of several functions is the same thing in all of them.
  LogicalResult checkArguments() {
    DenseMap<Key, const Port *> first;
    for (const Port &port : arguments) {
      if (!isInMicrobatch(port))
        continue;
      if (!port.is({RoleKind::Parameter, RoleKind::Buffer, RoleKind::Constant, RoleKind::Input,
                    RoleKind::Target, RoleKind::Seed, RoleKind::Accumulator}))
        continue;
      auto [found, isNew] = first.try_emplace(keyOf(port), &port);
      const Port &other = *found->second;
      if (isNew || (other.role == port.role && other.type == port.type))
        continue;
      InFlightDiagnostic diagnostic = reportError(port)
                                      << "takes " << port.role << " of type " << port.type;
      diagnostic.attachNote(other.getLoc()) << "this function of the microbatch takes it as "
                                            << other.role << " of type " << other.type;
      return diagnostic;
    }
    // The value before or after the update? Only where one function has the buffer is that clear.
    DenseMap<Key, const Port *> updated;
    for (const Port &port : results)
      if (port.role.getKind() == RoleKind::Buffer)
        updated.try_emplace(keyOf(port), &port);
    for (const Port &port : arguments) {
      const Port *producer = updated.lookup(keyOf(port));
      if (!producer || producer->function == port.function)
        continue;
      InFlightDiagnostic diagnostic = reportError(port)
                                      << "takes " << port.role
                                      << ", which another function of the microbatch updates; pass "
                                         "the intended value as a saved one";
      diagnostic.attachNote(producer->getLoc()) << "updated here";
      return diagnostic;
    }
    return success();
  }

  /// Each value has one producer.
  LogicalResult checkResults() {
    DenseMap<Key, const Port *> first;
    for (const Port &port : results) {
      // What crosses is made by each stage that forwards it.
      if (!isInMicrobatch(port) || port.is({RoleKind::Crossing, RoleKind::CrossingGradient}))
        continue;
      auto [found, isNew] = first.try_emplace(keyOf(port), &port);
      if (isNew)
        continue;
      InFlightDiagnostic diagnostic = reportError(port)
                                      << "returns " << port.role << " a second time";
      diagnostic.attachNote(found->second->getLoc()) << "this function already returns it";
      return diagnostic;
    }
    return success();
  }

  LogicalResult checkSaved() {
    DenseMap<StringAttr, const Port *> made;
    DenseMap<StringAttr, const Port *> used;
    for (const Port &port : results)
      if (port.isSaved())
        made[port.role.getName()] = &port;
    for (const Port &port : arguments) {
      if (!port.isSaved())
        continue;
      const Port *producer = made.lookup(port.role.getName());
      if (!producer)
        return reportError(port) << "takes " << port.role
                                 << ", which no function of the program returns";
      auto refuse = [&](const Twine &what, const Twine &note) {
        InFlightDiagnostic diagnostic = reportError(port) << "takes " << port.role << what;
        diagnostic.attachNote(producer->getLoc()) << note;
        return diagnostic;
      };
      if (producer->getStage() != port.getStage())
        return refuse(
            ", which belongs to another stage; values passed between stages have the role crossing",
            "produced here");
      if (producer->order >= port.order)
        return refuse(", which is computed only later", "produced here");
      if (!isInMicrobatch(port) && producer->phase != Phase::Unshard)
        return refuse(", which does not outlive its microbatch",
                      "computed here, by a function that runs for each microbatch");
      if (producer->type != port.type) {
        InFlightDiagnostic diagnostic = reportError(port)
                                        << "takes " << port.role << " of type " << port.type;
        diagnostic.attachNote(producer->getLoc()) << "produced here with type " << producer->type;
        return diagnostic;
      }
      used[port.role.getName()] = &port;
    }
    for (const Port &port : results)
      if (port.isSaved() && !used.contains(port.role.getName()))
        return reportError(port) << "returns " << port.role << ", which no later function takes";
    return success();
  }

  /// The update and the reduction get the gradients that they take, and parameters have one type.
  LogicalResult checkGradients() {
    DenseMap<Key, const Port *> known;
    for (const Port &port : arguments)
      if (isInMicrobatch(port) && port.role.getKind() == RoleKind::Parameter)
        known.try_emplace(keyOf(port), &port);
    for (const Port &port : results)
      if (isInMicrobatch(port) && port.role.getKind() == RoleKind::Gradient)
        known[keyOf(port)] = &port;
    if (failed(checkTaken(Phase::Reduce, known)))
      return failure();
    DenseSet<std::pair<Operation *, StringAttr>> given;
    for (const Port &port : results)
      if (port.phase == Phase::Reduce && port.role.getKind() == RoleKind::Gradient)
        given.insert({port.function, port.role.getName()});
    auto isGivenBack = [&](const Port &port, StringAttr name) {
      return given.contains({port.function, name});
    };
    for (const Port &port : arguments) {
      if (port.phase != Phase::Reduce || !port.is({RoleKind::Gradient}) ||
          isGivenBack(port, port.role.getName()))
        continue;
      // A bucket whose reduction is awaited here is returned as its members.
      auto bucket = dyn_cast<BucketType>(port.type);
      if (!bucket)
        return reportError(port) << "takes " << port.role << " and does not return it";
      auto op = SymbolTable::lookupNearestSymbolFrom<BucketOp>(port.function, bucket.getSymbol());
      for (StringAttr member :
           op ? op.getNames().getAsRange<StringAttr>()
              : ArrayAttr::get(bucket.getContext(), {}).getAsRange<StringAttr>())
        if (!isGivenBack(port, member))
          return reportError(port)
                 << "takes " << port.role << " and does not return the gradient of " << member
                 << ", which is in that bucket";
      known.erase(keyOf(port));
    }
    for (const Port &port : results)
      if (port.phase == Phase::Reduce)
        known[keyOf(port)] = &port;
    return checkTaken(Phase::Update, known);
  }

  LogicalResult checkTaken(Phase phase, const DenseMap<Key, const Port *> &known) {
    func::FuncOp producer = program.getMicrobatchFunctions().front();
    StringRef producerName = program.isSplit() ? "microbatch's functions" : "microbatch function";
    for (const Port &port : arguments) {
      if (port.phase != phase || !port.is({RoleKind::Parameter, RoleKind::Gradient}))
        continue;
      const Port *found = known.lookup(keyOf(port));
      if (found && found->type == port.type)
        continue;
      InFlightDiagnostic diagnostic = reportError(port)
                                      << "takes " << port.role << " of type " << port.type;
      if (!found) {
        bool hasGradients = llvm::any_of(
            results, [](const Port &result) { return result.is({RoleKind::Gradient}); });
        diagnostic.attachNote(producer.getLoc())
            << "the " << producerName << (program.isSplit() ? " have" : " has")
            << " none with that name"
            << (hasGradients ? "" : ", and no gradients at all; cleave-opt --autodiff adds them");
      } else
        diagnostic.attachNote(found->getLoc())
            << (found->phase == Phase::Reduce ? "the reduce function" : "the microbatch function")
            << " has it with type " << found->type;
      return diagnostic;
    }
    return success();
  }

  const ProgramFunctions &program;
  SmallVector<Port> arguments, results;
};
} // namespace

FailureOr<ProgramFunctions> cleave::train::getProgramOf(ModuleOp module, DictionaryAttr ranks,
                                                        ProgramForms forms, bool isVerified) {
  ProgramFunctions program;
  if (failed(findFunctions(module, ranks, program)) ||
      failed(program.isStaged() ? checkStagePhases(module, program, forms)
                                : checkPhases(module, program, forms)))
    return failure();
  if (!isVerified && (failed(Agreement(program).check()) || failed(verifyStages(program))))
    return failure();
  return program;
}

bool cleave::train::isVerifiedProgram(ModuleOp module) {
  return !module.getOps<ProgramOp>().empty();
}

void cleave::train::markProgram(ModuleOp module) {
  if (isVerifiedProgram(module))
    return;
  auto b = OpBuilder::atBlockBegin(module.getBody());
  ProgramOp::create(b, module.getLoc());
}

FailureOr<ProgramFunctions> cleave::train::getProgram(ModuleOp module, ProgramForms forms) {
  for (auto function : module.getOps<func::FuncOp>())
    if (DictionaryAttr ranks = ranksOf(function); ranks && function->hasAttr(kPhaseAttrName))
      return function.emitError() << "is for the ranks " << ranks
                                  << " only, because dimensions do not divide evenly; expected a "
                                     "program with one function for all ranks";
  return getProgramOf(module, DictionaryAttr(), forms, isVerifiedProgram(module));
}
