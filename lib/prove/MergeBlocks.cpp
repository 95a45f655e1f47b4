//===- MergeBlocks.cpp - sums of blocks around a rank's own -----------------===//
//
// What is one block at each place `digit + away` that exists, for all `away` on one side of it, or
// on both, is all blocks there.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

/// How far away the place of a summand is, as its condition on the digit says.
static std::optional<int64_t> awayOf(const Summand &summand, Var digit, int64_t size) {
  if (summand.guards.empty())
    return 0;
  const Guard &guard = summand.guards[0];
  if (summand.guards.size() > 1 || guard.index != Index::of(digit))
    return std::nullopt;
  if (guard.low > 0 && guard.high == size)
    return -guard.low;
  if (guard.low == 0 && guard.high < size)
    return size - guard.high;
  return std::nullopt;
}

/// Digits of which a condition speaks alone, and that are not summed.
static SmallVector<Var> digitsOfConditions(const Meaning &meaning) {
  SmallVector<Var> digits;
  for (const Summand &summand : meaning)
    if (summand.guards.size() == 1) {
      ArrayRef<Index::Part> parts = summand.guards[0].index.getParts();
      if (parts.size() == 1 && parts[0].coefficient == 1 &&
          !llvm::is_contained(summand.bound, parts[0].var) &&
          !llvm::is_contained(digits, parts[0].var))
        digits.push_back(parts[0].var);
    }
  return digits;
}

/// Whether there is a summand of the term for each place on one side of the digit: most sums in
/// which a ring has not come round have none, which is seen before any two are compared.
static bool mayBeAllOf(const Meaning &meaning, TermId term, Var digit, int64_t size) {
  llvm::BitVector before(size), behind(size);
  for (const Summand &summand : meaning) {
    std::optional<int64_t> away =
        summand.reference.term == term ? awayOf(summand, digit, size) : std::nullopt;
    if (away && *away)
      (*away < 0 ? before : behind).set(std::abs(*away));
  }
  return int64_t(before.count()) == size - 1 || int64_t(behind.count()) == size - 1;
}

namespace {

/// A summand that differs from another one only in where it is taken: how far away it is, and how
/// much further in each index.
struct Block {
  unsigned place;
  int64_t away;
  SmallVector<int64_t> steps;
};

} // namespace

static std::vector<Block> blocksLike(const Summand &base, const Meaning &meaning, Var digit,
                                     const Variables &variables) {
  std::vector<Block> blocks;
  for (unsigned i = 0; i < meaning.size(); ++i) {
    const Summand &other = meaning[i];
    if (other.reference.term != base.reference.term || other.bound.size() != base.bound.size())
      continue;
    std::optional<int64_t> away = awayOf(other, digit, variables.getSize(digit));
    if (!away || !isSame(other.coefficient, base.coefficient))
      continue;
    std::optional<Substitution> matched =
        matchDigits(base.bound, base.reference, other.bound, other.reference, variables);
    if (!matched)
      continue;
    Block block{i, *away, {}};
    bool isShift = true;
    for (auto [here, there] : llvm::zip(base.reference.indices, other.reference.indices)) {
      Index step = there - substitute(here, *matched);
      isShift &= step.isConstant();
      block.steps.push_back(step.getConstant());
    }
    if (isShift)
      blocks.push_back(std::move(block));
  }
  return blocks;
}

/// So much further in each index for one place; nothing if that is a fraction, or 0.
static std::optional<SmallVector<int64_t>> unitOf(const Block &block, int64_t places) {
  SmallVector<int64_t> unit;
  bool isMoved = false;
  for (int64_t step : block.steps) {
    if (step % places)
      return std::nullopt;
    unit.push_back(step / places);
    isMoved |= unit.back() != 0;
  }
  return isMoved ? std::optional(unit) : std::nullopt;
}

/// The blocks around `base`, which is `from` away, that lie `unit` further for each place: those
/// that together are all on one side, or on both, as one sum.
bool Terms::joinAround(Meaning &meaning, const Summand &base, Var digit, int64_t from,
                       ArrayRef<int64_t> unit,
                       const llvm::DenseMap<int64_t, unsigned> &summandsByAway) {
  int64_t size = variables.getSize(digit), low = 1 - size, high = size - 1;
  auto hasAll = [&](int64_t low, int64_t high) {
    for (int64_t away = low; away <= high; ++away)
      if (!summandsByAway.contains(away))
        return false;
    return true;
  };
  size_t like = llvm::count_if(meaning, [&](const Summand &other) {
    return other.reference.term == base.reference.term &&
           isSame(other.coefficient, base.coefficient);
  });
  bool isBefore = hasAll(low, -1), isBehind = hasAll(1, high), isHere = summandsByAway.contains(0);
  bool isAll = isBefore && isBehind && isHere;
  // What else there is may belong to it, once it is complete.
  bool isAlone = summandsByAway.size() == like;
  if (!isAll && isBefore)
    high = isHere && isAlone ? 0 : -1;
  else if (!isAll && isBehind)
    low = isHere && isAlone ? 0 : 1;
  else if (!isAll)
    return false;
  // Of two, one is before, or behind: that needs no sum.
  if (size == 2 && low == high)
    return false;
  // Blocks on one side only belong to what is left of the rank's own.
  bool isOneSided = low > 0 || high < 0;
  auto mayBeOwn = [&](const Summand &other) {
    return other.reference.term == base.reference.term && other.guards.size() == 1 &&
           other.bound.size() == base.bound.size() && !awayOf(other, digit, size);
  };
  if (isOneSided && llvm::none_of(meaning, mayBeOwn))
    return false;
  Summand joined = base;
  Var block = variables.make(size);
  joined.bound.push_back(block);
  joined.guards.clear();
  for (auto [index, step] : llvm::zip(joined.reference.indices, unit))
    index = index + (Index::of(block) - Index::of(digit) - Index(from)) * step;
  if (high < size - 1)
    joined.guards.push_back({Index::of(digit) - Index::of(block), -high, size});
  else if (low > 1 - size)
    joined.guards.push_back({Index::of(block) - Index::of(digit), low, size});
  SmallVector<unsigned> gone;
  for (int64_t away = low; away <= high; ++away)
    gone.push_back(summandsByAway.lookup(away));
  llvm::sort(gone, std::greater<unsigned>());
  Meaning rest = meaning;
  for (unsigned place : gone)
    rest.erase(rest.begin() + place);
  if (isOneSided) {
    rest.push_back(std::move(joined));
    if (!joinPrefix(rest))
      return false;
  } else {
    normalizeSummand(std::move(joined), rest);
  }
  meaning = std::move(rest);
  return true;
}

bool Terms::joinBlocks(Meaning &meaning) {
  if (breaks(Lemma::BlocksAround))
    return false;
  for (Var digit : digitsOfConditions(meaning)) {
    int64_t size = variables.getSize(digit);
    if (int64_t(meaning.size()) < size - 1 || size < 2)
      continue;
    llvm::SmallDenseMap<TermId, bool> known;
    // What was tried, by one of the blocks.
    std::set<std::pair<unsigned, SmallVector<int64_t>>> tried;
    for (unsigned first = 0; first < meaning.size(); ++first) {
      const Summand base = meaning[first];
      std::optional<int64_t> from = awayOf(base, digit, size);
      if (!from || base.guards.empty())
        continue;
      TermId term = base.reference.term;
      auto [found, isNew] = known.try_emplace(term, false);
      if (isNew)
        found->second = mayBeAllOf(meaning, term, digit, size);
      if (!found->second)
        continue;
      std::vector<Block> blocks = blocksLike(base, meaning, digit, variables);
      for (const Block &second : blocks) {
        int64_t places = second.away - *from;
        auto unit = places ? unitOf(second, places) : std::nullopt;
        if (!unit || tried.count({first, *unit}))
          continue;
        llvm::DenseMap<int64_t, unsigned> summandsByAway;
        for (const Block &block : blocks)
          if (llvm::all_of(llvm::zip(block.steps, *unit), [&](auto pair) {
                return std::get<0>(pair) == std::get<1>(pair) * (block.away - *from);
              })) {
            summandsByAway.try_emplace(block.away, block.place);
            tried.insert({block.place, *unit});
          }
        if (joinAround(meaning, base, digit, *from, *unit, summandsByAway))
          return true;
      }
    }
  }
  return false;
}
