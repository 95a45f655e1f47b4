//===- Squeeze.cpp ----------------------------------------------------------===//

#include "lib/solve/Squeeze.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::solve;

/// What exceeds the limit costs this part of the bound at first, and so much more at each step.
static constexpr double firstPart = 1e-3, growth = 4;
static constexpr unsigned mostSteps = 20, mostNarrowings = 5;
static constexpr unsigned mostSweeps = 300, sweepsPerProbe = 6, sweepsToShrink = 60;
/// Messages agree suddenly: what they say is far above the bound until they do, and within this
/// part of it from then on.
static constexpr double nearlyAgreed = 0.01;
/// They never will where the bound rises by less than this part of itself.
static constexpr double leastRise = 1e-7;
/// What changes by less than this part of itself hardly changes.
static constexpr double hardly = 1e-5;
/// In a round: moves that may change half of the program, and by node those that change few.
static constexpr unsigned largeMoves = 16;
static constexpr double smallMoves = 0.1;
static constexpr unsigned roundsPerProbe = 3, mostRounds = 40;
/// What costs so many times the gap more than the bound is tried before all narrowings.
static constexpr double nearlyEnough = 10;
/// Where prices are a little higher, what may be chosen either way uses less.
static constexpr double factors[] = {1.02, 1.05, 1.1, 1.2, 1.5, 2, 4};

/// Moves that lower the cost until they hardly do.
void Squeeze::descend(double price, unsigned rounds) {
  double before = search.getCost(price);
  unsigned idle = 0;
  auto small = static_cast<unsigned>(static_cast<double>(search.getMovableCount()) * smallMoves);
  for (unsigned round = 0; round < rounds && idle < 2 && !isStopped(); ++round) {
    search.makeMoves({0, price, 1}, largeMoves, false);
    search.makeMoves({0, price, 0}, small, false);
    double after = search.getCost(price);
    idle = before - after <= hardly * std::abs(after) ? idle + 1 : 0;
    before = after;
  }
}

Squeeze::Probe Squeeze::probe(std::vector<double> prices) {
  bool isFree = llvm::all_of(prices, [](double price) { return price == 0; });
  dual.setPrices(prices);
  double bound = dual.settle(hardly, sweepsPerProbe);
  // What messages say differs long from node to node after the bound is good.
  for (unsigned i = sweepsPerProbe; isFree && i < mostSweeps && !isStopped(); i += sweepsPerProbe) {
    bool isNear = dual.getDecodedCost() - bound <= nearlyAgreed * std::abs(bound);
    double before = bound;
    bound = dual.settle(0, sweepsPerProbe);
    // A few sweeps more settle the last differences.
    if (isNear || bound - before <= leastRise * std::abs(bound))
      break;
  }
  search.setPrices(prices);
  search.setBounded(false);
  search.construct(dual.getOrder(), dual.getMessages(), 1);
  descend(1, isFree ? mostRounds : roundsPerProbe);
  return {std::move(prices), search.getCost(0), search.getUsage(), search.getPresent(),
          search.fits()};
}

/// What it pays at these prices for what it uses beyond the limit, less what it saves below.
double Squeeze::getPaid(const Probe &probe, llvm::ArrayRef<double> prices) const {
  double sum = 0;
  for (auto [usage, price] : llvm::zip_equal(probe.usage, prices))
    sum += price * (usage - limit);
  return sum;
}

/// Raises the prices where the limit is exceeded until it no longer is; returns whether it ever is
/// not.
bool Squeeze::bracket() {
  double part = firstPart * std::max(std::abs(dual.getBest().bound), 1.0);
  for (unsigned i = 0; i < mostSteps && !isStopped(); ++i, part *= growth) {
    double norm = 0;
    for (double usage : lower->usage)
      norm += std::pow(std::max(usage - limit, 0.0), 2);
    if (norm == 0)
      return false;
    std::vector<double> prices = lower->prices;
    for (auto [price, usage] : llvm::zip_equal(prices, lower->usage))
      price += part * std::max(usage - limit, 0.0) / norm;
    Probe next = probe(std::move(prices));
    if (next.fits) {
      upper = std::move(next);
      return true;
    }
    lower = std::move(next);
  }
  return false;
}

/// Comes closer to the prices between both at which they cost the same. Returns whether a solution
/// is good enough on the way.
bool Squeeze::narrow() {
  double span = 1;
  bool isTried = false;
  for (unsigned i = 0; i < mostNarrowings && span > 0.05 && !isStopped(); ++i) {
    // What is between both is likely to be near the bound, too.
    if (i > 0 && !isTried && isWithin(upper->cost, nearlyEnough * gap)) {
      isTried = true;
      shrink();
      if (search.fits() && isWithin(search.getCost(0), gap))
        return true;
    }
    // What they cost is linear along the way.
    double atLower =
        upper->cost - lower->cost + getPaid(*upper, lower->prices) - getPaid(*lower, lower->prices);
    double atUpper =
        upper->cost - lower->cost + getPaid(*upper, upper->prices) - getPaid(*lower, upper->prices);
    double part = atLower > atUpper ? atLower / (atLower - atUpper) : 0.5;
    if (part < 0.02 || part > 0.98)
      part = 0.5;
    std::vector<double> prices = lower->prices;
    for (auto [price, other] : llvm::zip_equal(prices, upper->prices))
      price += part * (other - price);
    Probe next = probe(std::move(prices));
    span *= next.fits ? part : 1 - part;
    (next.fits ? upper : lower) = std::move(next);
  }
  return false;
}

/// From what does not fit, tree by tree to what does, and back where there is room.
void Squeeze::shrink() {
  dual.setPrices(upper->prices);
  dual.settle(hardly, sweepsToShrink);
  search.setPrices(upper->prices);
  search.setBounded(false);
  search.setAssignment(lower->assignment);
  for (double factor : factors)
    if (!search.fits() && !isStopped())
      search.makeMoves({0, factor, 0}, search.getMovableCount(), true);
  search.setBounded(true);
  if (!search.fits())
    search.setAssignment(Assignment(search.getBest()));
  descend(0, mostRounds);
}

bool Squeeze::run() {
  lower = probe(std::vector<double>(search.getUsage().size(), 0));
  if (!lower->fits && bracket() && !narrow())
    shrink();
  search.setBounded(true);
  bool hasSolution = search.hasSolution();
  if (hasSolution)
    search.setAssignment(Assignment(search.getBest()));
  dual.restore();
  return hasSolution;
}
