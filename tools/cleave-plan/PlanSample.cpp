// Random plans of a space. Most of the time goes into programs: one that is placed serves all
// layouts that are placed alike, one that is cut into stages all of its schedules.
#include "tools/cleave-plan/PlanSample.h"

#include "lib/solve/Timer.h"
#include "lib/support/Error.h"
#include "tools/cleave-plan/Passes.h"
#include "tools/cleave-plan/Report.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace cleave;
using namespace cleave::plan;

namespace {
/// Of a placed program cuts with so many layers are carried out for each way of its backward, and
/// so many are looked at that surely do not fit.
constexpr int64_t layersOfProgram = 400;
constexpr unsigned maxMisses = 6;
/// Random fractions are multiples of its inverse.
constexpr uint64_t maxDraw = 1 << 20;

/// Shapes with the same stages: they differ in which ranks are neighbours.
using Cut = std::vector<Shape>;
/// What a backward recomputes, and whether it is split.
using Backward = std::pair<Recompute, bool>;

class PlanSample {
public:
  PlanSample(const Space &space, Search &search, const SearchResult &result,
             const SampleOptions &options)
      : space(space), search(search), result(result), options(options),
        plansOfProgram(std::clamp(options.count / 20, 1u, 100u)), random(options.seed) {}

  llvm::Error run() {
    // What was drawn may be drawn again once all programs had their turn.
    constexpr unsigned maxTurns = 100;
    std::vector<std::vector<Layout>> programs = listPrograms();
    llvm::shuffle(programs.begin(), programs.end(), random);
    double most = 0;
    for (const std::vector<Layout> &layouts : programs)
      most = std::max(most, weigh(layouts.front()));
    for (unsigned turn = 0; turn < maxTurns && !isFull(); ++turn)
      for (const std::vector<Layout> &layouts : programs) {
        if (isFull())
          break;
        if (double(random() % maxDraw) * most >= weigh(layouts.front()) * maxDraw)
          continue;
        if (llvm::Error error = draw(layouts))
          return error;
      }
    llvm::errs() << llvm::formatv("sample: {0} random plans take at least {1:F4} of the lower "
                                  "bound; {2} refused, {3} too large; of {4} placed programs\n",
                                  numSimulated, least, numRefused, numTooLarge, numPrograms);
    return llvm::Error::success();
  }

private:
  bool isFull() const { return numSimulated >= options.count || solve::isSignalled; }
  /// Of what surely does not fit a few are enough.
  bool isChosenTooLarge() { return random() % 16 == 0; }

  /// How often a program is drawn, beside others: short stages and short rings are carried out in
  /// less time.
  static double weigh(const Layout &layout) {
    return double(layout.pipeline) / double(layout.context);
  }

  /// The layouts of the space, those that are placed alike together.
  std::vector<std::vector<Layout>> listPrograms() const {
    std::vector<std::vector<Layout>> programs;
    for (const Layout &layout : space.listLayouts()) {
      auto isAlike = [&](const std::vector<Layout> &others) {
        return others.front().pipeline == layout.pipeline &&
               getPlacedPart(others.front()) == getPlacedPart(layout);
      };
      auto found = llvm::find_if(programs, isAlike);
      if (found == programs.end())
        programs.push_back({layout});
      else
        found->push_back(layout);
    }
    return programs;
  }

  /// The layouts that are placed alike, but for most of those that surely do not fit.
  std::vector<Layout> chooseLayouts(llvm::ArrayRef<Layout> layouts) {
    std::vector<Layout> chosen;
    for (const Layout &layout : layouts)
      if (search.boundMemory(layout) <= options.memory || isChosenTooLarge())
        chosen.push_back(layout);
      else
        ++numTooLarge;
    return chosen;
  }

  /// Their cuts with this backward, in random order.
  std::vector<Cut> listCuts(llvm::ArrayRef<Layout> layouts, Backward backward) {
    std::vector<Cut> cuts;
    for (const Layout &layout : layouts)
      for (const Shape &shape : space.listShapes(layout)) {
        if (std::make_pair(shape.recompute, shape.splitsBackward) != backward)
          continue;
        auto isAlike = [&](const Cut &cut) {
          Shape other = cut.front();
          other.layout.dataInside = shape.layout.dataInside;
          return other == shape;
        };
        auto found = llvm::find_if(cuts, isAlike);
        if (found == cuts.end())
          cuts.push_back({shape});
        else
          found->push_back(shape);
      }
    llvm::shuffle(cuts.begin(), cuts.end(), random);
    return cuts;
  }

  /// How many of a cut's plans may fit; of the last bounds those of its own program are asked for
  /// only where others do not say that none does.
  unsigned countFitting(const Cut &cut) {
    unsigned count = 0;
    for (const Shape &shape : cut)
      for (const std::string &schedule : space.listSchedules(shape))
        count += search.boundUndividedMemory({shape, schedule}) <= options.memory &&
                 search.boundPlan({shape, schedule}).memory <= options.memory;
    return count;
  }

  /// About as many layers as are carried out: those of the first stage, the last, and one between.
  int64_t countLayers(const Shape &shape) const {
    constexpr int64_t mostStages = 3;
    int64_t stages = shape.numStages();
    return std::min(stages, mostStages) * (space.programs[shape.layout.program].layers / stages);
  }

  /// Some cuts of one placed program that may fit, and rarely one that surely does not.
  std::vector<Cut> chooseCuts(llvm::ArrayRef<Layout> layouts, Backward backward) {
    std::vector<Cut> chosen;
    unsigned numMissed = 0, numPlans = 0;
    int64_t numLayers = 0;
    bool hasTooLarge = false;
    for (Cut &cut : listCuts(layouts, backward)) {
      if (numLayers >= layersOfProgram || numPlans >= plansOfProgram || numMissed >= maxMisses ||
          isFull())
        break;
      unsigned count = countFitting(cut);
      numPlans += count;
      if (count == 0) {
        ++numMissed;
        ++numTooLarge;
        if (hasTooLarge || !isChosenTooLarge())
          continue;
        hasTooLarge = true;
      }
      numLayers += countLayers(cut.front());
      chosen.push_back(std::move(cut));
    }
    // The longest stages first: a program that has these serves shorter ones.
    llvm::stable_sort(
        chosen, [](const Cut &a, const Cut &b) { return a.front().chunks < b.front().chunks; });
    return chosen;
  }

  /// Draws plans of one placed program.
  llvm::Error draw(llvm::ArrayRef<Layout> alike) {
    std::vector<Layout> layouts = chooseLayouts(alike);
    std::vector<Backward> backwards;
    for (Recompute recompute : allRecomputes)
      for (bool splits : {false, true})
        backwards.emplace_back(recompute, splits);
    llvm::shuffle(backwards.begin(), backwards.end(), random);
    const unsigned before = numSimulated;
    for (Backward backward : backwards) {
      // A program that passes refuse, or that never fits, is left after a few cuts.
      constexpr unsigned maxWithoutPlan = 3;
      unsigned numWithoutPlan = 0, simulated = numSimulated;
      for (const Cut &cut : chooseCuts(layouts, backward)) {
        if (llvm::Error error = check(cut))
          return error;
        if (numSimulated == simulated && ++numWithoutPlan == maxWithoutPlan)
          break;
      }
      if (numWithoutPlan == maxWithoutPlan || numSimulated >= before + plansOfProgram || isFull())
        break;
    }
    numPrograms += numSimulated > before;
    return llvm::Error::success();
  }

  llvm::Error check(const Cut &cut) {
    for (const Shape &shape : cut)
      for (const std::string &schedule : space.listSchedules(shape)) {
        if (isFull())
          return llvm::Error::success();
        if (llvm::Error error = check(Plan{shape, schedule}))
          return error;
      }
    return llvm::Error::success();
  }

  llvm::Error check(const Plan &plan) {
    auto candidate = search.simulate(plan);
    if (!candidate) {
      llvm::consumeError(candidate.takeError());
      ++numRefused;
      return llvm::Error::success();
    }
    if (options.confirms)
      if (llvm::Error error = search.confirm(*candidate, /*isExact=*/true))
        return makeError("{0}: {1}", describe(plan, space), llvm::toString(std::move(error)));
    if (candidate->step.maxMemory() < candidate->memoryBound)
      return makeError("the lower bound is wrong: {0} bytes, but {1} needs {2}",
                       candidate->memoryBound, describe(plan, space), candidate->step.maxMemory());
    if (candidate->step.maxMemory() > options.memory) {
      ++numTooLarge;
      return llvm::Error::success();
    }
    ++numSimulated;
    least = std::min(least, candidate->step.seconds / result.bound);
    for (double bound : {result.bound, candidate->bound, search.boundLayout(plan.shape.layout)})
      if (candidate->step.seconds < bound * (1 - 1e-9))
        return makeError("the lower bound is wrong: {0} s, but {1} takes {2} s", bound,
                         describe(plan, space), candidate->step.seconds);
    return llvm::Error::success();
  }

  const Space &space;
  Search &search;
  const SearchResult &result;
  SampleOptions options;
  /// A program that is placed serves several plans: they take less time than that.
  unsigned plansOfProgram;
  std::mt19937_64 random;
  unsigned numSimulated = 0, numRefused = 0, numTooLarge = 0, numPrograms = 0;
  double least = std::numeric_limits<double>::infinity();
};
} // namespace

llvm::Error cleave::plan::samplePlans(const Space &space, Search &search,
                                      const SearchResult &result, const SampleOptions &options) {
  return PlanSample(space, search, result, options).run();
}
