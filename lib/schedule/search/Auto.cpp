// The search: published schedules and their variants, evolution of a list scheduler's parameters,
// annealing of the best. Long programs are searched at fewer microbatches, where warm-up and
// cool-down are the same, and their steady state repeated.
#include "lib/schedule/search/Auto.h"

#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/search/Evolution.h"
#include "lib/schedule/search/LocalSearch.h"
#include "lib/schedule/search/Seeds.h"
#include "lib/schedule/search/WeightFill.h"
#include "lib/support/Error.h"

#include <chrono>

using namespace cleave::schedule;
using namespace cleave::schedule::search;
using cleave::makeError;
namespace simulate = cleave::simulate;

namespace {
/// A schedule of the registry that serves the request and fits.
struct Named {
  Schedule program;
  simulate::Metrics metrics;
  std::string name;
};

class AutoSearch {
public:
  explicit AutoSearch(const AutoRequest &request) : request(request) {
    objective.spanFirst = request.spanFirst;
  }

  llvm::Expected<AutoResult> run() {
    auto begin = std::chrono::steady_clock::now();
    if (llvm::Error error = setTopologies())
      return error;
    if (llvm::Error error = collectNamed())
      return error;
    if (llvm::all_of(request.costs.stages, [](const auto &cost) { return cost.hasHalves; }))
      for (const Topology &topology : topologies)
        if (llvm::Error error = searchTopology(topology))
          return error;
    if (!haveResult)
      return makeError("no schedule was found within the memory limit {0}", request.memoryLimit);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(result);
  }

private:
  llvm::Error setTopologies() {
    if (request.microbatches == 0)
      return makeError("a schedule needs at least 1 microbatch, found 0");
    std::vector<TopologyStyle> styles = {TopologyStyle::Loop};
    if (request.topology)
      styles = {*request.topology};
    else if (request.chunks > 1 && request.ranks > 1)
      styles.push_back(TopologyStyle::V);
    for (TopologyStyle style : styles) {
      auto topology = Topology::get(style, request.ranks, request.ranks * request.chunks);
      if (!topology)
        return topology.takeError();
      topologies.push_back(std::move(*topology));
    }
    return llvm::Error::success();
  }

  double valueOf(const simulate::Metrics &metrics) const {
    return request.spanFirst ? metrics.largestSpan + 1e-4 * metrics.makespan
                             : metrics.makespan + 1e-4 * metrics.largestSpan;
  }

  /// Every registered schedule that serves the request and fits; the best becomes the result.
  llvm::Error collectNamed() {
    double makespan = std::numeric_limits<double>::infinity();
    for (const Topology &topology : topologies)
      for (const ScheduleBuilder *builder : ScheduleRegistry::global().all()) {
        auto program = builder->build({request.ranks, request.microbatches, request.chunks,
                                       topology.style(), /*forwardOnly=*/false});
        if (!program) {
          llvm::consumeError(program.takeError());
          continue;
        }
        if (program->forwardOnly || !(program->topology == topology))
          continue;
        if (llvm::Error error = request.costs.checkHalves(*program)) {
          llvm::consumeError(std::move(error));
          continue;
        }
        auto timeline = simulate::simulate(*program, request.costs);
        if (!timeline)
          return timeline.takeError();
        simulate::Metrics metrics = simulate::measure(*program, *timeline);
        if (metrics.maxPeakMemory() > request.memoryLimit * (1 + 1e-9))
          continue;
        makespan = std::min(makespan, metrics.makespan);
        named.push_back({std::move(*program), std::move(metrics), builder->name().str()});
      }
    // Among them one is best by the objective, another may have the least makespan: the result has
    // to be as good as both, so only the latter (or a search result) will do where they differ.
    objective.makespanLimit = makespan;
    for (const Named &candidate : named)
      if (candidate.metrics.makespan <= makespan * (1 + 1e-12))
        consider(candidate.program, candidate.metrics, candidate.name);
    return llvm::Error::success();
  }

  void consider(const Schedule &program, const simulate::Metrics &metrics, llvm::StringRef origin) {
    if (haveResult && valueOf(metrics) >= valueOf(result.metrics))
      return;
    haveResult = true;
    result.program = program;
    result.program.name = "auto";
    result.metrics = metrics;
    result.origin = origin.str();
  }

  llvm::Error considerOrder(const PassOrder &order, const Pipeline &pipeline,
                            llvm::StringRef origin) {
    // Repeating a round may have made an order that cannot run.
    Evaluator evaluator(pipeline);
    if (!evaluator.fitsMemory(order) || !evaluator.run(order))
      return llvm::Error::success();
    Schedule program = toSchedule(order, pipeline.topology, pipeline.microbatches);
    auto timeline = simulate::simulate(program, request.costs);
    if (!timeline)
      return timeline.takeError();
    simulate::Metrics metrics = simulate::measure(program, *timeline);
    if (metrics.maxPeakMemory() <= request.memoryLimit * (1 + 1e-9) &&
        metrics.makespan <= objective.makespanLimit * (1 + 1e-12))
      consider(program, metrics, origin);
    return llvm::Error::success();
  }

  llvm::Error searchTopology(const Topology &topology) {
    auto full = Pipeline::get(topology, request.microbatches, request.costs, request.memoryLimit);
    if (!full)
      return full.takeError();
    LowerBound bound = lowerBound(*full);
    bool first = result.bound.makespan == 0;
    result.bound.makespan =
        first ? bound.makespan : std::min(result.bound.makespan, bound.makespan);
    result.bound.largestSpan =
        first ? bound.largestSpan : std::min(result.bound.largestSpan, bound.largestSpan);
    if (llvm::Error error = checkOneMicrobatch(*full))
      return error;
    // With one chunk weight gradients may be put off over the whole program: no steady state.
    unsigned enough = 3 * request.ranks;
    if (request.chunks == 1 || request.microbatches <= 4 * request.ranks + 8)
      return searchOrders(*full, *full);
    auto reduced = Pipeline::get(topology, enough, request.costs, request.memoryLimit);
    if (!reduced)
      return reduced.takeError();
    return searchOrders(*reduced, *full);
  }

  llvm::Error checkOneMicrobatch(const Pipeline &pipeline) const {
    for (unsigned rank = 0; rank < pipeline.ranks; ++rank) {
      double need = 0;
      for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk)
        need += pipeline.memory[ForwardPass][pipeline.stage(rank, chunk)];
      if (!pipeline.fits(need))
        return makeError("the memory limit {0} is below {1}, what one microbatch alone needs on "
                         "rank {2}",
                         pipeline.memoryLimit, need, rank);
    }
    return llvm::Error::success();
  }

  /// Searches `pipeline` and considers what it finds for `full`, which may have more microbatches.
  llvm::Error searchOrders(const Pipeline &pipeline, const Pipeline &full) {
    Evaluator evaluator(pipeline);
    Objective local = objective;
    Solution best;
    bool reduced = pipeline.microbatches != full.microbatches;
    std::vector<PassOrder> seeds = {oneAtATime(pipeline)};
    if (llvm::Error error = addNamedSeeds(pipeline, seeds))
      return error;
    // At fewer microbatches the limit is what the seeds reach there.
    if (reduced) {
      local.makespanLimit = std::numeric_limits<double>::infinity();
      for (const PassOrder &seed : seeds)
        if (evaluator.fitsMemory(seed) && evaluator.run(seed))
          local.makespanLimit = std::min(local.makespanLimit, evaluator.makespan);
    }
    for (const PassOrder &seed : seeds)
      best.offer(seed, evaluator, local);
    if (pipeline.chunks == 1)
      offerAlternating(pipeline, evaluator, local, best);
    if (pipeline.chunks == 2 && pipeline.topology.style() == TopologyStyle::V)
      offerBlocks(pipeline, evaluator, local, request.seed, best);
    auto finish = [&](llvm::StringRef origin) -> llvm::Error {
      if (!best.exists())
        return llvm::Error::success();
      if (!reduced)
        return considerOrder(best.order, full, origin);
      for (unsigned back = 2; back < 10; ++back)
        if (auto stretched = stretch(pipeline, best.order, full.microbatches, back))
          if (llvm::Error error = considerOrder(*stretched, full, origin))
            return error;
      return llvm::Error::success();
    };
    if (llvm::Error error = finish("seed"))
      return error;
    if (isOptimal())
      return llvm::Error::success();
    double share = request.effort / topologies.size();
    evolve(pipeline, local, 1.2e8 * share, request.seed, best);
    if (llvm::Error error = finish("evolution"))
      return error;
    if (isOptimal() || !best.exists())
      return llvm::Error::success();
    anneal(pipeline, local, PassOrder(best.order), 4e8 * share, request.seed, best);
    return finish("annealing");
  }

  /// Whether the result meets the lower bound of what is minimised (up to rounding).
  bool isOptimal() const {
    if (!haveResult)
      return false;
    double value = request.spanFirst ? result.metrics.largestSpan : result.metrics.makespan;
    double bound = request.spanFirst ? result.bound.largestSpan : result.bound.makespan;
    return value <= bound * (1 + 1e-9);
  }

  static void offerAlternating(const Pipeline &pipeline, Evaluator &evaluator,
                               const Objective &objective, Solution &best) {
    for (int slope = 4; slope <= 40; ++slope)
      for (double threshold : {0.0, 0.25, 0.5, 0.75, 1.0})
        if (auto order = refillWeights(pipeline, alternating(pipeline, slope / 10.0), threshold))
          best.offer(*order, evaluator, objective);
  }

  static void offerBlocks(const Pipeline &pipeline, Evaluator &evaluator,
                          const Objective &objective, uint64_t seed, Solution &best) {
    constexpr unsigned numBlocks = 200;
    Random random(seed);
    for (unsigned block = 0; block < numBlocks; ++block) {
      PassOrder order = orderByDue(pipeline, drawBlock(pipeline, random));
      best.offer(order, evaluator, objective);
      for (double threshold : {0.0, 0.5, 1.0})
        if (auto filled = refillWeights(pipeline, order, threshold))
          best.offer(*filled, evaluator, objective);
    }
  }

  llvm::Error addNamedSeeds(const Pipeline &pipeline, std::vector<PassOrder> &seeds) {
    for (const ScheduleBuilder *builder : ScheduleRegistry::global().all()) {
      auto program = builder->build({request.ranks, pipeline.microbatches, request.chunks,
                                     pipeline.topology.style(), /*forwardOnly=*/false});
      if (!program) {
        llvm::consumeError(program.takeError());
        continue;
      }
      if (!(program->topology == pipeline.topology))
        continue;
      std::optional<PassOrder> order = fromSchedule(*program);
      if (!order)
        continue;
      seeds.push_back(*order);
      if (builder->name() == "zbv")
        for (unsigned count = 1, step = 1 + pipeline.ranks / 64; count < pipeline.ranks;
             count += step)
          seeds.push_back(swapLastGradients(*order, count));
    }
    return llvm::Error::success();
  }

  const AutoRequest &request;
  Objective objective;
  std::vector<Topology> topologies;
  std::vector<Named> named;
  AutoResult result;
  bool haveResult = false;
};
} // namespace

llvm::Expected<AutoResult> cleave::schedule::search::findSchedule(const AutoRequest &request) {
  return AutoSearch(request).run();
}

simulate::CostTable cleave::schedule::search::boundMemory(simulate::CostTable costs) {
  for (simulate::StageCost &cost : costs.stages)
    if (cost.inputMemory < 0) {
      cost.forwardMemory = cost.weightMemory;
      cost.inputMemory = 0;
    }
  return costs;
}
