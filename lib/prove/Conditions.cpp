//===- Conditions.cpp - conditions on places ---------------------------------===//
//
// A condition is an interval in which an index lies. What always holds is dropped, what says which
// value a summed digit has leaves one term of the sum, and what speaks of several digits speaks of
// one, where it can.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

void cleave::prove::chooseSign(Guard &guard, ArrayRef<Var> bound) {
  // By how often each factor is added and taken off: of free digits first, and the largest first.
  llvm::SmallVector<std::tuple<bool, int64_t, int64_t>, 4> factors;
  for (const Index::Part &part : guard.index.getParts())
    factors.push_back({llvm::is_contained(bound, part.var), -std::abs(part.coefficient),
                       part.coefficient > 0 ? 1 : -1});
  llvm::sort(factors);
  int64_t sign = 0;
  for (unsigned i = 0; i < factors.size(); ++i) {
    auto [isBound, size, factor] = factors[i];
    sign += factor;
    bool isLast = i + 1 == factors.size() || std::get<0>(factors[i + 1]) != isBound ||
                  std::get<1>(factors[i + 1]) != size;
    if (isLast && sign != 0)
      break;
  }
  if (sign == 0 && !factors.empty())
    sign = guard.index.getParts()[0].coefficient;
  if (sign < 0)
    guard = withOtherSign(guard);
}

/// Takes constants out of guards, and makes those of one index one. `takesSigns`: those of the
/// index with the other sign, too; `bound` are digits of the sum.
static void uniteGuards(SmallVectorImpl<Guard> &guards, ArrayRef<Var> bound, bool takesSigns) {
  SmallVector<Guard> united;
  for (Guard guard : guards) {
    int64_t constant = guard.index.getConstant();
    guard = {guard.index - Index(constant), guard.low - constant, guard.high - constant};
    if (takesSigns)
      chooseSign(guard, bound);
    auto *same = llvm::find_if(united, [&](const Guard &g) { return g.index == guard.index; });
    if (same == united.end()) {
      united.push_back(std::move(guard));
      continue;
    }
    same->low = std::max(same->low, guard.low);
    same->high = std::min(same->high, guard.high);
  }
  guards.assign(united.begin(), united.end());
}

static int64_t divideDown(int64_t number, int64_t by) {
  return number >= 0 ? number / by : -((by - 1 - number) / by);
}

namespace {
/// A number as `unit` times what its major digits say, and a rest from `least` to `greatest`.
struct Split {
  Index major;
  int64_t unit, least, greatest;
};
} // namespace

/// All of an index, the fewest major digits first.
static SmallVector<Split, 4> splitsOf(const Index &index, const Variables &variables) {
  SmallVector<Index::Part, 4> parts(index.getParts());
  llvm::sort(parts, [](const auto &a, const auto &b) {
    return std::abs(a.coefficient) > std::abs(b.coefficient);
  });
  SmallVector<Split, 4> splits;
  int64_t unit = 0;
  Index minor = index;
  for (auto [i, part] : llvm::enumerate(parts)) {
    unit = std::gcd(unit, std::abs(part.coefficient));
    minor = minor - Index::of(part.var, part.coefficient);
    Index major;
    for (const Index::Part &digit : ArrayRef(parts).take_front(i + 1))
      major = major + Index::of(digit.var, digit.coefficient / unit);
    auto [least, greatest] = variables.getRange(minor);
    splits.push_back({major, unit, least, greatest});
  }
  return splits;
}

/// A condition on a number of several digits that begins and ends at multiples of the minor ones is
/// one on the major ones.
static void takeMajor(Guard &guard, const Variables &variables) {
  for (const Split &split : splitsOf(guard.index, variables)) {
    // What is taken off counts from the next multiple.
    int64_t rest = split.least < 0 ? split.unit - 1 : 0;
    if (split.unit == 1 || split.least < -rest || split.greatest >= split.unit - rest ||
        (guard.low + rest) % split.unit || (guard.high + rest) % split.unit)
      continue;
    guard = {split.major, (guard.low + rest) / split.unit, (guard.high + rest) / split.unit};
    return;
  }
}

/// A condition on a multiple of a number is one on the number.
static void divideByFactor(Guard &guard) {
  int64_t factor = 0;
  for (const Index::Part &part : guard.index.getParts())
    factor = std::gcd(factor, std::abs(part.coefficient));
  if (factor < 2 || guard.index.getConstant() != 0)
    return;
  Index number;
  for (const Index::Part &part : guard.index.getParts())
    number = number + Index::of(part.var, part.coefficient / factor);
  auto divideUp = [&](int64_t end) { return -divideDown(-end, factor); };
  guard = {std::move(number), divideUp(guard.low), divideUp(guard.high)};
}

bool Terms::simplifyGuards(Summand &summand) {
  do
    if (!solveGuards(summand))
      return false;
  while (arePieces && equatePlaces(summand));
  return !arePieces || dropImplied(summand);
}

/// Whether they may hold: what always does is dropped, and what fixes a digit of a sum is solved.
bool Terms::solveGuards(Summand &summand) {
  if ((arePieces || arePartsSummed) && !breaks(Lemma::ConditionOnDigits)) {
    uniteGuards(summand.guards, summand.bound, arePieces);
    for (Guard &guard : summand.guards)
      takeMajor(guard, variables);
  }
  uniteGuards(summand.guards, summand.bound, arePieces);
  for (unsigned i = 0; i < summand.guards.size();) {
    Guard &guard = summand.guards[i];
    if (!breaks(Lemma::ConditionOnDigits))
      divideByFactor(guard);
    auto [least, greatest] = variables.getRange(guard.index);
    // Of two that mean the same there is one form.
    guard.low = std::max(guard.low, least);
    guard.high = std::min(guard.high, greatest + 1);
    if (guard.low >= guard.high)
      return false;
    if (least >= guard.low && (greatest < guard.high || breaks(Lemma::ConditionHolds))) {
      summand.guards.erase(summand.guards.begin() + i);
      continue;
    }
    // An equation that gives a bound digit: the sum over it has one term.
    bool isSolved = false;
    if (guard.high == guard.low + 1) {
      for (const Index::Part &part : guard.index.getParts()) {
        auto *bound = llvm::find(summand.bound, part.var);
        if (bound == summand.bound.end() || std::abs(part.coefficient) != 1)
          continue;
        Index rest = guard.index - Index::of(part.var, part.coefficient) - Index(guard.low);
        Index solution = rest * -part.coefficient;
        int64_t size = variables.getSize(part.var);
        Substitution digits;
        digits[part.var] = solution;
        summand.bound.erase(bound);
        guard = {breaks(Lemma::ConditionSolved) ? Index() : solution, 0, size};
        substitute(summand, digits);
        isSolved = true;
        break;
      }
    }
    if (isSolved) {
      uniteGuards(summand.guards, summand.bound, arePieces);
      i = 0;
    } else {
      ++i;
    }
  }
  return true;
}

/// The equation between places that a condition is, or that follows from it: of a number of several
/// digits that lies in one block of the minor ones, the major ones are known.
std::optional<Guard> Terms::equationOf(const Guard &guard) const {
  if (guard.high == guard.low + 1)
    return guard;
  for (const Split &split : splitsOf(guard.index, variables)) {
    int64_t block = divideDown(guard.low, split.unit);
    if (split.least < 0 || split.greatest >= split.unit ||
        divideDown(guard.high - 1, split.unit) != block || breaks(Lemma::ConditionOnDigits))
      continue;
    return Guard{split.major, block, block + 1};
  }
  return std::nullopt;
}

/// Where a condition says that a place is another one, the other one stands for it in all else.
bool Terms::equatePlaces(Summand &summand) {
  for (unsigned i = 0; i < summand.guards.size(); ++i) {
    std::optional<Guard> equation = equationOf(summand.guards[i]);
    // What is at one place stays a value at any place.
    if (!equation || equation->index.getParts().size() < 2)
      continue;
    // The digit that was made first, as those of ranks' places are.
    auto known = llvm::find_if(equation->index.getParts(), [](const Index::Part &part) {
      return std::abs(part.coefficient) == 1;
    });
    if (known == equation->index.getParts().end())
      continue;
    Var var = known->var;
    Index rest = equation->index - Index::of(var, known->coefficient) - Index(equation->low);
    auto mentions = [&](const Index &index) { return index.getCoefficient(var) != 0; };
    bool isUsed = llvm::any_of(summand.reference.indices, mentions);
    for (unsigned j = 0; j < summand.guards.size(); ++j)
      isUsed |= j != i && mentions(summand.guards[j].index);
    if (!isUsed)
      continue;
    Substitution digits;
    digits[var] = breaks(Lemma::EqualPlaces) ? Index() : rest * -known->coefficient;
    Guard own = summand.guards[i];
    substitute(summand, digits);
    summand.guards[i] = std::move(own);
    return true;
  }
  return false;
}

/// Drops what an equation between places implies; false where it contradicts it.
bool Terms::dropImplied(Summand &summand) {
  for (unsigned i = 0; i < summand.guards.size(); ++i) {
    std::optional<Guard> equation = equationOf(summand.guards[i]);
    if (!equation)
      continue;
    for (const Index::Part &part : equation->index.getParts()) {
      if (std::abs(part.coefficient) != 1)
        continue;
      Index rest = equation->index - Index::of(part.var, part.coefficient) - Index(equation->low);
      auto [least, greatest] = variables.getRange(rest * -part.coefficient);
      least = std::max<int64_t>(least, 0);
      greatest = std::min(greatest, variables.getSize(part.var) - 1);
      for (unsigned j = 0; j < summand.guards.size(); ++j) {
        const Guard &guard = summand.guards[j];
        if (j == i || guard.index != Index::of(part.var))
          continue;
        if (greatest < guard.low || least >= guard.high)
          return false;
        if (least < guard.low || greatest >= guard.high)
          continue;
        summand.guards.erase(summand.guards.begin() + j);
        return dropImplied(summand);
      }
    }
  }
  return true;
}
