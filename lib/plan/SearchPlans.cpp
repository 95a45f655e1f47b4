// Plans of a search, carried out and simulated.
#include "lib/plan/Search.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/model/P2P.h"
#include "lib/support/Error.h"

#include <cmath>

using namespace cleave::plan;
using cleave::makeError;
namespace schedule = cleave::schedule;

llvm::Expected<Candidate> Search::simulate(const Plan &plan) {
  if (!staged || staged->first != plan.shape) {
    auto program = programs.stage(plan.shape);
    if (!program)
      return program.takeError();
    staged.emplace(plan.shape, std::move(*program));
  }
  auto candidate = simulate(plan, staged->second, std::numeric_limits<double>::infinity());
  if (!candidate)
    return candidate;
  PlanBound bound = boundPlan(plan);
  candidate->bound = std::max({candidate->bound, boundLayers(plan.shape), bound.seconds});
  candidate->memoryBound = bound.memory;
  return candidate;
}

/// What is known of one of a shape's schedules.
static PlanBound find(const Space &space, const Plan &plan, llvm::ArrayRef<PlanBound> bounds) {
  if (!bounds.empty())
    for (auto [name, bound] : llvm::zip_equal(space.listSchedules(plan.shape), bounds))
      if (name == plan.schedule)
        return bound;
  return {};
}

double Search::boundUndividedMemory(const Plan &plan) {
  const Shape &shape = plan.shape;
  if (!undivided || undivided->first != shape)
    undivided.emplace(shape, boundBy(programs.sampleUndivided(shape), shape));
  return find(space, plan, undivided->second).memory;
}

PlanBound Search::boundPlan(const Plan &plan) {
  const Shape &shape = plan.shape;
  // A shape's schedules are asked for one after the other.
  if (!bounded || bounded->first != shape) {
    std::vector<PlanBound> most(space.listSchedules(shape).size());
    // Samples are there until others are asked for.
    for (auto sample :
         {&Programs::sampleUndivided, &Programs::sampleStages, &Programs::sampleGathering})
      for (auto [bound, other] : llvm::zip(most, boundBy((programs.*sample)(shape), shape)))
        bound = {std::max(bound.seconds, other.seconds), std::max(bound.memory, other.memory)};
    bounded.emplace(shape, std::move(most));
  }
  return find(space, plan, bounded->second);
}

/// Compares the stages of a whole program to what follows for them from samples.
llvm::Error Search::confirmSamples(const Shape &shape, const simulate::ProgramWork &whole,
                                   bool isExact) {
  // FSDP's communication is not in samples, or not all that waits for it.
  isExact &= shape.layout.sharding != Sharding::Fsdp;
  for (auto sample : {&Programs::sampleStages, &Programs::sampleGathering})
    if (const StageSamples *samples = (programs.*sample)(shape))
      if (llvm::Error error = confirmSamples(shape, whole, *samples, isExact))
        return error;
  return llvm::Error::success();
}

llvm::Error Search::confirmSamples(const Shape &shape, const simulate::ProgramWork &whole,
                                   const StageSamples &samples, bool isExact) {
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(space.programs[shape.layout.program].layers);
  int64_t begin = 0;
  for (auto [end, stage] : llvm::zip_equal(ends, describeStages(cluster, whole))) {
    std::optional<StageSample> sample = samples.get(begin, end);
    if (!sample)
      return llvm::Error::success();
    for (auto [name, pass] : {std::pair("forward", &StageSample::forward),
                              {"backward", &StageSample::backward},
                              {"input gradient", &StageSample::input},
                              {"weight gradient", &StageSample::weight}}) {
      double found = (stage.*pass).seconds(), expected = (sample.value().*pass).seconds();
      double slack = rounding * expected;
      if (found < expected - slack || (isExact && found > expected + slack))
        return makeError("the {0} of layers {1} to {2} takes {3:e9} s, by samples {4:e9} s", name,
                         begin, end - 1, found, expected);
    }
    double slack = rounding * sample->savedBytes;
    if (stage.savedBytes < sample->savedBytes - slack ||
        (isExact && stage.savedBytes > sample->savedBytes + slack))
      return makeError("layers {0} to {1} keep {2} bytes, by samples {3}", begin, end - 1,
                       stage.savedBytes, sample->savedBytes);
    if (samples.hasTemporary(shape.layout) &&
        stage.microbatchBytes < sample->microbatchBytes * (1 - rounding))
      return makeError("layers {0} to {1} take {2} bytes while they run, by samples {3}", begin,
                       end - 1, stage.microbatchBytes, sample->microbatchBytes);
    begin = end;
  }
  return llvm::Error::success();
}

llvm::Error Search::confirm(const Candidate &candidate, bool isExact) {
  if (candidate.plan.shape.recompute == Recompute::Budget)
    return llvm::Error::success(); // was carried out with all of its layers
  auto program = programs.stageWhole(candidate.plan);
  if (!program)
    return program.takeError();
  if (llvm::Error error = confirmSamples(candidate.plan.shape, program->work, isExact))
    return error;
  auto whole = simulate(candidate.plan, *program, std::numeric_limits<double>::infinity());
  if (!whole)
    return whole.takeError();
  auto isSame = [](double a, double b) { return std::abs(a - b) <= rounding * std::abs(b); };
  if (!isSame(whole->step.seconds, candidate.step.seconds))
    return makeError("{0} s with one of equal layers, {1} s with all of them",
                     candidate.step.seconds, whole->step.seconds);
  if (!isSame(whole->step.maxMemory(), candidate.step.maxMemory()))
    return makeError("{0} bytes with one of equal layers, {1} bytes with all of them",
                     candidate.step.maxMemory(), whole->step.maxMemory());
  return llvm::Error::success();
}

bool Search::isOver() const {
  // What is begun when the time is nearly over may take as long as a whole program again.
  constexpr double spare = 2, most = 0.5, ofBudgets = 1.0 / 6;
  if (!options.timer)
    return false;
  double whole = std::isinf(best) ? 0 : programs.estimateWhole(bestPlan.shape.layout.program);
  double kept = std::min(spare * whole / options.timer->getLimit(), most);
  // Where the best plan keeps all that it computes, a budget gains nothing.
  if (keepsTime && bestPlan.shape.recompute != Recompute::None)
    kept += ofBudgets;
  return options.timer->isOver(kept);
}

/// The schedule of a plan, as --build-schedule makes it.
static llvm::Expected<schedule::Schedule> makeSchedule(const Plan &plan, const Space &space,
                                                       const StagedProgram &program) {
  auto built = orderPasses(plan, space, unsigned(program.work.stages.size()));
  if (!built || built->numRanks() == 1)
    return built;
  if (llvm::Error error = program.complete(*built))
    return std::move(error);
  return built;
}

/// A plan that needs no simulation, since its bound is `best` or more, has no seconds.
llvm::Expected<Candidate> Search::simulate(const Plan &plan, const StagedProgram &program,
                                           double best) {
  auto microbatches = unsigned(space.programs[plan.shape.layout.program].microbatches);
  auto order = makeSchedule(plan, space, program);
  if (!order)
    return order.takeError();
  simulate::RunOptions run;
  run.simulation.model = schedule::CommModel::gloo();
  run.schedulesReductions = simulate::hasReductions(*order);
  std::vector<simulate::StageTime> times = simulate::timeStages(cluster, program.work, run);
  simulate::CostTable costs = simulate::costsOfStages(cluster, program.work, times);
  Candidate candidate{plan};
  candidate.bound = cluster.device.stepSeconds +
                    1e-3 * boundSchedule(costs, order->topology, microbatches,
                                         plan.shape.splitsBackward, simulate::hasUpdates(*order));
  candidate.bound *= 1 - rounding;
  if (candidate.bound >= best)
    return candidate;
  if (order->numRanks() > 1) {
    auto explicitOrder = schedule::insertP2P(*order);
    if (!explicitOrder)
      return explicitOrder.takeError();
    order = std::move(explicitOrder);
  }
  auto timeline = simulate::simulate(*order, costs, run.simulation);
  if (!timeline)
    return timeline.takeError();
  candidate.step = simulate::describeStep(cluster, program.work, *order, times,
                                          simulate::measure(*order, *timeline));
  // Where a node's host memory is not known, cleave-sim has no limit, either.
  candidate.fits =
      candidate.step.maxMemory() <= options.memory &&
      (cluster.hostMemory == 0 || candidate.step.maxHostMemory() <= cluster.hostMemory);
  return candidate;
}
