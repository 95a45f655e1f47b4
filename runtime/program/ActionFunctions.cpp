//===- ActionFunctions.cpp - functions that custom actions run ----------------===//

#include "runtime/program/ActionFunctions.h"
#include "dialects/dist/Dist.h"
#include "lib/pipeline/ScheduleSource.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;
using schedule::Action;
using schedule::ActionKind;

namespace {
/// Reads the functions that one schedule calls.
class Reader {
public:
  Reader(pipeline::ScheduleOp op, const schedule::Schedule &schedule, Program::Impl &impl);
  LogicalResult run();

private:
  LogicalResult add(unsigned rank, size_t position, Action action);
  LogicalResult checkForm(func::FuncOp function);
  LogicalResult checkArguments(func::FuncOp function);
  LogicalResult checkResults(func::FuncOp function);
  LogicalResult checkOutput(func::FuncOp function, train::RoleAttr role);
  LogicalResult checkValues(const PhaseFunction &part, unsigned rank);

  /// An error at the current action, with a note at the function.
  InFlightDiagnostic reportError(func::FuncOp function) {
    Location location = pipeline::ScheduleSource(op, schedule).locate(place);
    InFlightDiagnostic diagnostic = emitError(location) << "'" << op->getName() << "' op " << where;
    diagnostic.attachNote(function.getLoc()) << "the function is here";
    return diagnostic;
  }

  pipeline::ScheduleOp op;
  const schedule::Schedule &schedule;
  Program::Impl &impl;
  schedule::Place place{};
  /// `rank 0, position 3: call "ema" `
  std::string where;
  /// Parameters, buffers, constants and optimizer states: the type, and the ranks along the
  /// pipeline axis that hold it.
  struct State {
    Type type;
    llvm::SmallSet<unsigned, 4> ranks;
  };
  llvm::StringMap<State> states;
  /// File names of other results.
  llvm::StringSet<> outputs;
};
} // namespace

static std::string keyOf(const ValueInfo &value) {
  return std::to_string(unsigned(value.role)) + "\n" + value.name + "\n" + value.slot;
}

static bool isState(train::RoleKind role) {
  return role == train::RoleKind::Parameter || role == train::RoleKind::Buffer ||
         role == train::RoleKind::OptimizerState;
}

Reader::Reader(pipeline::ScheduleOp op, const schedule::Schedule &schedule, Program::Impl &impl)
    : op(op), schedule(schedule), impl(impl) {
  for (const std::vector<ValueInfo> *values : {&impl.weights, &impl.optimizerStates})
    for (const ValueInfo &value : *values)
      states.try_emplace(keyOf(value));
  for (const PhaseFunction &part : impl.phaseFunctions) {
    func::FuncOp function = part.function;
    for (auto [value, type] :
         llvm::zip_equal(part.signature.arguments, function.getArgumentTypes())) {
      auto state = states.find(keyOf(value));
      if (state == states.end())
        continue;
      state->second.type = type;
      state->second.ranks.insert(schedule.topology.rankOf(unsigned(part.stage)));
    }
    for (const ValueInfo &value : part.signature.results)
      outputs.insert(value.fileName);
  }
}

LogicalResult Reader::run() {
  for (auto [rank, list] : llvm::enumerate(schedule.ranks))
    for (auto [position, action] : llvm::enumerate(list)) {
      LogicalResult result = success();
      schedule.forEachLeaf(action, [&, rank = rank, position = position](Action leaf) {
        if (succeeded(result) && leaf.kind == ActionKind::Custom)
          result = add(unsigned(rank), position, leaf);
      });
      if (failed(result))
        return failure();
    }
  return success();
}

LogicalResult Reader::add(unsigned rank, size_t position, Action action) {
  llvm::StringRef name = schedule.customOf(action).name;
  auto function = impl.module->lookupSymbol<func::FuncOp>(name);
  if (!function)
    return success();
  place = {rank, position};
  where = ("rank " + llvm::Twine(rank) + ", position " + llvm::Twine(position) + ": " +
           schedule.str(action) + " ")
              .str();
  auto known = llvm::find_if(impl.actionFunctions, [&](const ActionFunction &each) {
    return each.part.function == function;
  });
  if (known == impl.actionFunctions.end()) {
    if (failed(checkForm(function)) || failed(checkArguments(function)) ||
        failed(checkResults(function)))
      return failure();
    ActionFunction added;
    added.name = name.str();
    added.part = {Phase::Action, function, readSignature(function)};
    for (const ValueInfo &value : added.part.signature.results)
      if (value.role == RoleKind::Output)
        impl.outcomes.push_back(value);
    impl.actionFunctions.push_back(std::move(added));
    known = std::prev(impl.actionFunctions.end());
  }
  if (llvm::is_contained(known->ranks, rank))
    return success();
  known->ranks.push_back(rank);
  return checkValues(known->part, rank);
}

LogicalResult Reader::checkForm(func::FuncOp function) {
  if (auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName))
    return reportError(function) << "expects a function without a phase, found one of phase "
                                 << train::stringifyPhase(phase.getValue());
  if (function.isExternal() || !llvm::hasSingleElement(function.getBody()))
    return reportError(function) << "expects a function with a body of one block";
  for (Operation &inner : function.front()) {
    if (!isa<dist::CommunicationOpInterface>(inner))
      continue;
    InFlightDiagnostic diagnostic = reportError(function)
                                    << "expects a function that does not communicate, found "
                                    << inner.getName();
    diagnostic.attachNote(inner.getLoc()) << "the op is here";
    return diagnostic;
  }
  return success();
}

LogicalResult Reader::checkArguments(func::FuncOp function) {
  llvm::SmallDenseSet<Attribute> seen;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    train::RoleAttr role = train::getArgumentRole(function, i);
    bool fits = role && (isState(role.getKind()) || role.getKind() == train::RoleKind::Constant ||
                         role.getKind() == train::RoleKind::Step);
    if (!fits) {
      InFlightDiagnostic diagnostic = reportError(function);
      diagnostic << "expects parameters, buffers, constants, optimizer states and the step as "
                    "arguments, found argument "
                 << i;
      if (role)
        return diagnostic << " with " << role;
      return diagnostic << " without a role";
    }
    if (!seen.insert(role).second)
      return reportError(function) << "expects each argument once, found " << role << " twice";
  }
  return success();
}

LogicalResult Reader::checkResults(func::FuncOp function) {
  llvm::SmallDenseSet<Attribute> seen;
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i) {
    train::RoleAttr role = train::getResultRole(function, i);
    bool isOutput = role && role.getKind() == train::RoleKind::Output;
    if (!role || !(isOutput || isState(role.getKind()))) {
      InFlightDiagnostic diagnostic = reportError(function);
      diagnostic << "expects outputs and new values of its parameters, buffers and optimizer "
                    "states as results, found result "
                 << i;
      if (role)
        return diagnostic << " with " << role;
      return diagnostic << " without a role";
    }
    if (!seen.insert(role).second)
      return reportError(function) << "expects each result once, found " << role << " twice";
    if (isOutput) {
      if (failed(checkOutput(function, role)))
        return failure();
      continue;
    }
    bool isTaken = false;
    for (unsigned a = 0; a < function.getNumArguments(); ++a) {
      train::RoleAttr taken = train::getArgumentRole(function, a);
      isTaken |= taken.getKind() == role.getKind() && taken.getName() == role.getName() &&
                 taken.getSlot() == role.getSlot();
    }
    if (!isTaken)
      return reportError(function)
             << "expects an argument that result " << i << ", " << role << ", is the new value of";
  }
  return success();
}

LogicalResult Reader::checkOutput(func::FuncOp function, train::RoleAttr role) {
  if (!outputs.insert(role.getFileName()).second)
    return reportError(function) << "expects outputs with unique names, but another function "
                                    "returns "
                                 << role;
  return success();
}

/// The rank holds what the function takes, and no other rank holds what it replaces.
LogicalResult Reader::checkValues(const PhaseFunction &part, unsigned rank) {
  auto find = [&](const ValueInfo &value) {
    auto found = states.find(keyOf(value));
    return found == states.end() ? nullptr : &found->second;
  };
  func::FuncOp function = part.function;
  for (auto [value, type] :
       llvm::zip_equal(part.signature.arguments, function.getArgumentTypes())) {
    if (value.role == RoleKind::Step)
      continue;
    const State *state = find(value);
    if (!state)
      return reportError(part.function)
             << "takes '" << value.fileName << "', which no phase function takes";
    if (!state->ranks.contains(rank))
      return reportError(part.function)
             << "takes '" << value.fileName << "', which rank " << rank << " does not hold";
    if (state->type != type)
      return reportError(part.function) << "takes '" << value.fileName << "' as " << type
                                        << ", but other functions take it as " << state->type;
  }
  for (auto [value, type] : llvm::zip_equal(part.signature.results, function.getResultTypes())) {
    const State *state = value.role == RoleKind::Output ? nullptr : find(value);
    if (!state)
      continue;
    if (state->type != type)
      return reportError(part.function) << "returns '" << value.fileName << "' as " << type
                                        << ", but it takes it as " << state->type;
    if (state->ranks.size() > 1)
      return reportError(part.function) << "replaces '" << value.fileName << "' on rank " << rank
                                        << ", but other ranks also hold it";
  }
  return success();
}

LogicalResult cleave::runtime::readActionFunctions(pipeline::ScheduleOp op,
                                                   const schedule::Schedule &schedule,
                                                   Program::Impl &impl) {
  return Reader(op, schedule, impl).run();
}
