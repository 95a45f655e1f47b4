//===- CheckSession.cpp - whether a program runs as options say ---------------===//

#include "runtime/session/CheckSession.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace cleave::runtime;

llvm::Error cleave::runtime::checkDeferrable(const Program &program) {
  if (llvm::is_contained(program.microbatchPhases(), Phase::BackwardWeight))
    return llvm::Error::success();
  return makeError("program '{0}' has no function of phase backward_weight, so its weight "
                   "gradients cannot be deferred; cleave-opt --split-backward creates one",
                   program.path());
}

llvm::Error cleave::runtime::checkReplicable(const Program &program,
                                             const SessionOptions &options) {
  if (options.check.isOn && !program.isTyped())
    return makeError("program '{0}': --check replicated expects a typed program, whose types say "
                     "what is equal; found no placements",
                     program.path());
  return llvm::Error::success();
}

llvm::Error cleave::runtime::checkAdopted(const Program &program, const SessionOptions &options) {
  for (const auto &[name, memory] : options.adopted) {
    const ValueInfo *found = nullptr;
    for (llvm::ArrayRef<ValueInfo> values :
         {llvm::ArrayRef(program.weights()), llvm::ArrayRef(program.optimizerStates())})
      for (const ValueInfo &value : values)
        if (value.fileName == name)
          found = &value;
    if (!found)
      return makeError("program '{0}' has no weight or optimizer state '{1}' to adopt memory for",
                       program.path(), name);
    if (found->type != memory.type)
      return makeError("program '{0}': {1}: expected adopted memory of {2}, found {3}",
                       program.path(), name, found->type.str(), memory.type.str());
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::checkActions(const Program &program, bool isScheduled) {
  if (isScheduled)
    return llvm::Error::success();
  for (const ActionFunction &function : program.impl().actionFunctions)
    for (const ValueInfo &value : function.part.signature.results)
      if (value.role != RoleKind::Output)
        return makeError("program '{0}': call \"{1}\" of its schedule replaces '{2}', so it needs "
                         "the schedule's {3} ranks; one rank runs the stages without the schedule",
                         program.path(), function.name, value.fileName, program.schedule()->ranks);
  return llvm::Error::success();
}

static llvm::Error checkScheduled(const ScheduleInfo &schedule, const SessionOptions &options) {
  if (schedule.microbatches != options.microbatches)
    return makeError("schedule '{0}' is for {1} microbatches per step, found {2}", schedule.name,
                     schedule.microbatches, options.microbatches);
  if (options.weightGradients == WeightGradients::Deferred)
    return makeError(
        "schedule '{0}' determines when weight gradients run, so they cannot be deferred",
        schedule.name);
  return llvm::Error::success();
}

/// Where a step has several microbatches, the gradients that an update takes, or that are shown,
/// must be sums over them.
static llvm::Error checkAccumulated(const Program &program, const SessionOptions &options) {
  llvm::StringSet<> accumulated;
  for (const ValueInfo &value : program.arguments(Phase::Microbatch))
    if (value.role == RoleKind::Accumulator) {
      accumulated.insert(value.name);
      for (const ValueInfo &member : value.members)
        accumulated.insert(member.name);
    }
  bool isForwardOnly = program.schedule() && program.schedule()->isForwardOnly;
  llvm::ArrayRef<ValueInfo> wanted = program.arguments(Phase::Update);
  if (options.keepOutputs && !isForwardOnly)
    wanted = program.results(Phase::Microbatch);
  for (const ValueInfo &value : wanted)
    if (value.role == RoleKind::Gradient && !accumulated.contains(value.name))
      return makeError("the program does not accumulate the gradient of '{0}', so it runs one "
                       "microbatch per step, not {1}",
                       value.name, options.microbatches);
  return llvm::Error::success();
}

llvm::Error cleave::runtime::checkMicrobatches(const Program &program,
                                               const SessionOptions &options, bool isScheduled) {
  if (options.microbatches < 1)
    return makeError("expected at least one microbatch, found {0}", options.microbatches);
  if (isScheduled)
    if (llvm::Error error = checkScheduled(*program.schedule(), options))
      return error;
  if (options.microbatches > 1)
    if (llvm::Error error = checkAccumulated(program, options))
      return error;
  if (options.weightGradients == WeightGradients::Deferred)
    return checkDeferrable(program);
  return llvm::Error::success();
}
