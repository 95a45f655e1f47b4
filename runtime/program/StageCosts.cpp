//===- StageCosts.cpp - what each rank of a schedule needs --------------------===//

#include "cleave/Session.h"
#include "dialects/dist/Dist.h"
#include "lib/memory/StepState.h"
#include "lib/pipeline/RankMemory.h"
#include "runtime/program/MicrobatchFrames.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/program/StepWork.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace cleave;
using namespace cleave::runtime;
using schedule::Action;
using schedule::ActionKind;

namespace {
/// The stages in the device's memory, and in the host's if they use it.
struct Plans {
  std::vector<pipeline::StageMemory> device, host;
};
} // namespace

static std::vector<pipeline::StageMemory> planStages(const Program::Impl &impl,
                                                     memory::Space space) {
  std::vector<pipeline::StageMemory> plans(impl.functions.stages.size());
  for (auto [number, plan] : llvm::enumerate(plans)) {
    std::vector<mlir::func::FuncOp> functions;
    for (const PhaseFunction &part : impl.phaseFunctions)
      if (part.stage == int64_t(number) && llvm::is_contained(impl.microbatchPhases, part.phase))
        functions.push_back(part.function);
    plan = pipeline::measureStage(functions, space);
    if (space == memory::Space::Device)
      plan.unshard = pipeline::measureUnshard(impl.functions.stages[number].unshard);
  }
  return plans;
}

static Plans planStages(const Program::Impl &impl) {
  Plans plans{planStages(impl, memory::Space::Device), {}};
  if (impl.contains<dist::OffloadOp>())
    plans.host = planStages(impl, memory::Space::Host);
  return plans;
}

/// How often a rank runs the functions of its stages, by what its list says.
static StepWork measureWork(const Program::Impl &impl, int64_t place,
                            const std::vector<pipeline::StageMemory> &plans) {
  const schedule::Schedule &schedule = impl.schedule->program;
  std::map<std::pair<int64_t, ActionKind>, int64_t> runs;
  StepWork work;
  for (Action action : schedule.ranks[place])
    schedule.forEachLeaf(action, [&](Action leaf) {
      ++runs[{leaf.stage, leaf.kind}];
      if (leaf.kind == ActionKind::SendForward)
        work.addSend(impl.schedule->info.axis, plans[leaf.stage + 1].input.all);
      else if (leaf.kind == ActionKind::SendBackward)
        work.addSend(impl.schedule->info.axis, plans[leaf.stage - 1].gradient.all);
    });
  auto countRuns = [&](int64_t stage, Phase phase) -> int64_t {
    switch (phase) {
    case Phase::Forward:
      return runs[{stage, ActionKind::Forward}];
    case Phase::Backward:
      return runs[{stage, ActionKind::Backward}];
    case Phase::BackwardInput: // a full backward runs both halves
      return runs[{stage, ActionKind::BackwardInput}] + runs[{stage, ActionKind::Backward}];
    case Phase::BackwardWeight:
      return runs[{stage, ActionKind::BackwardWeight}] + runs[{stage, ActionKind::Backward}];
    case Phase::Unshard:
      return runs[{stage, ActionKind::Unshard}];
    default:
      return 1;
    }
  };
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (schedule.topology.rankOf(unsigned(part.stage)) == place)
      work.add(part.function, countRuns(part.stage, part.phase));
  return work;
}

static ProgramCosts computeCosts(const Program &program, int64_t place, const Plans &plans) {
  const Program::Impl &impl = program.impl();
  ProgramCosts costs;
  memory::StepState state;
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (impl.schedule->program.topology.rankOf(unsigned(part.stage)) == place) {
      state.add(part.function);
      costs.arenaBytes = std::max(costs.arenaBytes, memory::getArenaBytes(part.function));
    }
  costs.parameterBytes = state.parameterBytes;
  costs.bufferBytes = state.bufferBytes;
  costs.optimizerStateBytes = state.optimizerStateBytes;
  costs.inputBytes = state.inputBytes;
  costs.gradientBytes = state.gradientBytes + state.bucketBytes;
  costs.bucketBytes = state.bucketBytes;
  pipeline::RankList list(impl.schedule->program, unsigned(place));
  pipeline::RankMemory values = list.follow(plans.device);
  costs.savedBytes = values.heldBytes;
  costs.activationPeakBytes = values.valuePeakBytes;
  costs.gatheredBytes = values.gatheredBytes;
  costs.stateBytes = state.getStateBytes();
  costs.frameBytes = planStageFrames(program, place).bytes;
  costs.peakBytes = costs.stateBytes + costs.arenaBytes + costs.frameBytes + state.gradientBytes +
                    values.peakBytes;
  if (!plans.host.empty())
    costs.hostPeakBytes = list.follow(plans.host).peakBytes;
  measureWork(impl, place, plans.device).writeTo(costs);
  return costs;
}

ProgramCosts cleave::runtime::computeStageCosts(const Program &program, int64_t place) {
  return ::computeCosts(program, place, planStages(program.impl()));
}

std::vector<ProgramCosts> cleave::runtime::computeScheduleCosts(const Program &program) {
  Plans plans = planStages(program.impl());
  std::vector<ProgramCosts> costs;
  for (int64_t place = 0; place < program.schedule()->ranks; ++place)
    costs.push_back(::computeCosts(program, place, plans));
  return costs;
}

std::string cleave::runtime::describeSchedule(const Program &program,
                                              const std::vector<ProgramCosts> &costs) {
  const ProgramSchedule &plan = *program.impl().schedule;
  std::string text =
      llvm::formatv("schedule '{0}': {1} rank{2} along \"{3}\", {4} microbatches per step\n",
                    plan.info.name, plan.info.ranks, plan.info.ranks == 1 ? "" : "s",
                    plan.info.axis, plan.info.microbatches)
          .str();
  for (int64_t place = 0; place < plan.info.ranks; ++place) {
    std::map<ActionKind, int64_t> counts;
    for (Action action : plan.program.ranks[place])
      plan.program.forEachLeaf(action, [&](Action leaf) { ++counts[leaf.kind]; });
    std::vector<std::string> words, stages;
    for (unsigned stage : plan.program.topology.stagesOf(unsigned(place)))
      stages.push_back(std::to_string(stage));
    for (auto [kind, count] : counts)
      words.push_back(llvm::formatv("{0} {1}", count, schedule::getKindName(kind)));
    text += llvm::formatv("  rank {0}: stage{1} {2}; {3}; peak {4}, of it state {5}\n", place,
                          stages.size() == 1 ? "" : "s", llvm::join(stages, ", "),
                          llvm::join(words, ", "), describeBytes(costs[place].peakBytes),
                          describeBytes(costs[place].stateBytes))
                .str();
  }
  return text;
}

llvm::Error cleave::runtime::checkScheduleMemoryLimit(const Program &program, int64_t limit) {
  for (auto [place, costs] : llvm::enumerate(computeScheduleCosts(program))) {
    if (costs.peakBytes > limit)
      return llvm::createStringError(
          llvm::inconvertibleErrorCode(),
          llvm::formatv("program '{0}' needs {1} of memory on rank {2} along \"{3}\" by schedule "
                        "'{4}', more than --memory-limit {5}:\n{6}",
                        program.path(), describeBytes(costs.peakBytes), place,
                        program.schedule()->axis, program.schedule()->name, describeBytes(limit),
                        llvm::StringRef(describeMemory(costs)).rtrim())
              .str());
  }
  return llvm::Error::success();
}
