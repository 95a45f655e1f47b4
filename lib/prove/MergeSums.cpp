//===- MergeSums.cpp - sums in parts, and products of them ------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

//===----------------------------------------------------------------------===//
// Running sums
//===----------------------------------------------------------------------===//

/// [index >= low] for all that `index` may be above it.
static bool isAtLeast(const Guard &guard, int64_t low, const Variables &variables) {
  return guard.low == low && guard.high > variables.getRange(guard.index).second;
}

/// An upper bound of an index as a lower one of that with the other sign.
static Guard asLowerBound(const Guard &guard, const Variables &variables) {
  if (guard.low > variables.getRange(guard.index).first)
    return guard;
  return withOtherSign(guard);
}

std::optional<Substitution> cleave::prove::matchDigits(ArrayRef<Var> digits,
                                                       const Reference &reference,
                                                       ArrayRef<Var> others, const Reference &other,
                                                       const Variables &variables) {
  Substitution matched;
  SmallVector<Var> left(others);
  for (Var digit : digits) {
    auto *found = llvm::find_if(left, [&](Var candidate) {
      return variables.getSize(candidate) == variables.getSize(digit) &&
             llvm::all_of(llvm::zip(reference.indices, other.indices), [&](auto pair) {
               return std::get<0>(pair).getCoefficient(digit) ==
                      std::get<1>(pair).getCoefficient(candidate);
             });
    });
    if (found == left.end())
      return std::nullopt;
    matched[digit] = Index::of(*found);
    left.erase(found);
  }
  return left.empty() ? std::optional(matched) : std::nullopt;
}

/// Of two lists of conditions the one that differs, if all others are the same. `digits`: those of
/// the second for those of the first.
static std::optional<std::pair<unsigned, unsigned>>
differenceOf(ArrayRef<Guard> here, ArrayRef<Guard> there, const Substitution &digits) {
  if (here.size() != there.size())
    return std::nullopt;
  SmallVector<unsigned> left = llvm::to_vector(llvm::seq<unsigned>(0, there.size()));
  std::optional<unsigned> other;
  for (auto [i, guard] : llvm::enumerate(here)) {
    Index index = substitute(guard.index, digits);
    auto *same = llvm::find_if(left, [&, &guard = guard](unsigned j) {
      return there[j].index == index && there[j].low == guard.low && there[j].high == guard.high;
    });
    if (same != left.end())
      left.erase(same);
    else if (other)
      return std::nullopt;
    else
      other = i;
  }
  if (!other || substitute(here[*other].index, digits) != there[left.front()].index)
    return std::nullopt;
  return std::pair(*other, left.front());
}

/// Makes two that differ only in a guard, one ending where the other begins, one.
bool Terms::joinIntervals(Meaning &meaning) {
  // Most sums have no conditions.
  if (llvm::all_of(meaning, [](const Summand &summand) { return summand.guards.empty(); }))
    return false;
  for (unsigned i = 0; i < meaning.size(); ++i)
    for (unsigned j = 0; j < meaning.size(); ++j) {
      Summand &a = meaning[i], &b = meaning[j];
      if (i == j || a.guards.empty() || a.guards.size() != b.guards.size() ||
          a.reference.term != b.reference.term || a.bound.size() != b.bound.size())
        continue;
      // Most do not meet, or lie elsewhere, which is seen before digits are matched.
      bool mayMeet = llvm::any_of(a.guards, [&](const Guard &guard) {
        return llvm::any_of(b.guards, [&](const Guard &next) { return guard.high == next.low; });
      });
      auto isAsFar = [](auto pair) {
        return std::get<0>(pair).getConstant() == std::get<1>(pair).getConstant();
      };
      if ((!mayMeet && !breaks(Lemma::JoinedIntervals)) ||
          !llvm::all_of(llvm::zip(a.reference.indices, b.reference.indices), isAsFar) ||
          !isSame(a.coefficient, b.coefficient))
        continue;
      std::optional<Substitution> digits =
          matchDigits(a.bound, a.reference, b.bound, b.reference, variables);
      if (!digits ||
          !llvm::all_of(llvm::zip(a.reference.indices, b.reference.indices), [&](auto pair) {
            return substitute(std::get<0>(pair), *digits) == std::get<1>(pair);
          }))
        continue;
      auto different = differenceOf(a.guards, b.guards, *digits);
      if (!different || (a.guards[different->first].high != b.guards[different->second].low &&
                         !breaks(Lemma::JoinedIntervals)))
        continue;
      a.guards[different->first].high = b.guards[different->second].high;
      meaning.erase(meaning.begin() + j);
      return true;
    }
  return false;
}

/// Whether `index` is `all` where the difference of places is `number`.
static bool isWhere(const Index &index, const Index &all, const Index &difference, int64_t number) {
  Index rest = all - index, zero = difference - Index(number);
  if (rest == Index())
    return true;
  const Index::Part &part = zero.getParts().front();
  int64_t coefficient = rest.getCoefficient(part.var);
  return coefficient % part.coefficient == 0 && rest == zero * (coefficient / part.coefficient);
}

/// Makes two that differ only in a guard one, if that of one holds for one number, which its
/// indices may say for what they depend on there: it is the part of one place, beside a longer one.
bool Terms::joinPlace(Meaning &meaning) {
  if (llvm::all_of(meaning, [](const Summand &summand) { return summand.guards.empty(); }))
    return false;
  for (unsigned i = 0; i < meaning.size() && !breaks(Lemma::JoinedPlace); ++i)
    for (unsigned j = 0; j < meaning.size(); ++j) {
      Summand &a = meaning[i], &b = meaning[j];
      if (i == j || a.guards.empty() || a.guards.size() != b.guards.size() ||
          a.reference.term != b.reference.term || a.bound.size() != b.bound.size() ||
          !isSame(a.coefficient, b.coefficient))
        continue;
      std::optional<Substitution> digits =
          matchDigits(a.bound, a.reference, b.bound, b.reference, variables);
      auto different = digits ? differenceOf(a.guards, b.guards, *digits) : std::nullopt;
      if (!different)
        continue;
      Guard &guard = a.guards[different->first];
      const Guard &place = b.guards[different->second];
      bool isBeside = guard.high == place.low || place.high == guard.low;
      if (place.high != place.low + 1 || !isBeside ||
          !llvm::all_of(llvm::zip(a.reference.indices, b.reference.indices), [&](auto pair) {
            return isWhere(std::get<1>(pair), substitute(std::get<0>(pair), *digits), place.index,
                           place.low);
          }))
        continue;
      guard.low = std::min(guard.low, place.low);
      guard.high = std::max(guard.high, place.high);
      meaning.erase(meaning.begin() + j);
      return true;
    }
  return false;
}

/// A sum over the values of a digit of which a condition leaves an interval as one over another
/// digit, which has no other values.
Summand Terms::withoutIntervals(Summand summand) {
  for (Var &digit : summand.bound) {
    auto *guard = llvm::find_if(
        summand.guards, [&](const Guard &guard) { return guard.index == Index::of(digit); });
    if (guard == summand.guards.end())
      continue;
    int64_t low = std::max<int64_t>(guard->low, 0);
    int64_t high = std::min(guard->high, variables.getSize(digit));
    Substitution change;
    Var within = variables.make(high - low);
    change[digit] = Index::of(within) + Index(low);
    summand.guards.erase(guard);
    substitute(summand, change);
    digit = within;
  }
  Meaning plain;
  normalizeSummand(summand, plain);
  return plain.size() == 1 ? plain[0] : summand;
}

/// Makes a sum over places and one over those behind them, or what is at the next place, one.
bool Terms::joinNext(Meaning &meaning) {
  auto without = [](ArrayRef<Var> digits, Var digit) {
    SmallVector<Var> rest(digits);
    llvm::erase(rest, digit);
    return rest;
  };
  for (unsigned i = 0; i < meaning.size(); ++i)
    for (unsigned j = 0; j < meaning.size(); ++j) {
      if (i == j || meaning[i].reference.term != meaning[j].reference.term ||
          meaning[i].bound.empty() || !isSame(meaning[i].coefficient, meaning[j].coefficient))
        continue;
      Summand a = withoutIntervals(meaning[i]), b = withoutIntervals(meaning[j]);
      // Other conditions are the same, and on other digits.
      auto isElsewhere = [](const Summand &summand) {
        return llvm::none_of(summand.guards, [&](const Guard &guard) {
          return llvm::any_of(summand.bound,
                              [&](Var digit) { return guard.index.getCoefficient(digit) != 0; });
        });
      };
      if (a.reference.term != b.reference.term || !isSame(a.coefficient, b.coefficient) ||
          !isElsewhere(a) || !isElsewhere(b) || !hasSameGuards(a, b) ||
          (a.bound.size() != b.bound.size() && a.bound.size() != b.bound.size() + 1))
        continue;
      SmallVector<std::optional<Var>> behind;
      if (a.bound.size() == b.bound.size())
        behind.append(b.bound.begin(), b.bound.end());
      else
        behind.push_back(std::nullopt);
      for (Var digit : a.bound)
        for (std::optional<Var> next : behind) {
          int64_t size = variables.getSize(digit), more = next ? variables.getSize(*next) : 1;
          SmallVector<Var> others =
              next ? without(b.bound, *next) : SmallVector<Var>(b.bound.begin(), b.bound.end());
          std::optional<Substitution> digits =
              matchDigits(without(a.bound, digit), a.reference, others, b.reference, variables);
          if (!digits || size == kOpenSize || more == kOpenSize)
            continue;
          Index begin(breaks(Lemma::SumGoesOn) ? 0 : size);
          (*digits)[digit] = next ? begin + Index::of(*next) : begin;
          if (!llvm::all_of(llvm::zip(a.reference.indices, b.reference.indices), [&](auto pair) {
                return substitute(std::get<0>(pair), *digits) == std::get<1>(pair);
              }))
            continue;
          Summand joined = a;
          Var all = variables.make(size + more);
          Substitution change;
          change[digit] = Index::of(all);
          *llvm::find(joined.bound, digit) = all;
          substitute(joined, change);
          meaning.erase(meaning.begin() + std::max(i, j));
          meaning.erase(meaning.begin() + std::min(i, j));
          normalizeSummand(std::move(joined), meaning);
          return true;
        }
    }
  return false;
}

/// Makes summands one of which each holds where a difference of places is another number, and that
/// together hold for all of its numbers: blocks of a ring that are put where they belong. Where it
/// is one number their indices may say that number for it.
bool Terms::joinDifferences(Meaning &meaning) {
  if (llvm::all_of(meaning, [](const Summand &summand) { return summand.guards.empty(); }))
    return false;
  struct Piece {
    unsigned place;
    Guard guard;
    Reference reference;
  };
  for (unsigned first = 0; first < meaning.size(); ++first) {
    const Summand &a = meaning[first];
    for (const auto &[own, guard] : llvm::enumerate(a.guards)) {
      auto [least, greatest] = variables.getRange(guard.index);
      // By a rank's place alone it is another rank's block (joinBlocks).
      ArrayRef<Index::Part> digits = guard.index.getParts();
      bool isOfRank = digits.size() == 1 && llvm::is_contained(ranks, digits[0].var);
      if (digits.empty() || isOfRank || guard.low != least)
        continue;
      // From the least number on.
      std::vector<Piece> pieces{{first, guard, a.reference}};
      for (bool grows = true; grows && pieces.back().guard.high <= greatest;) {
        grows = false;
        for (auto [i, b] : llvm::enumerate(meaning)) {
          if (b.reference.term != a.reference.term || b.bound.size() != a.bound.size() ||
              !isSame(a.coefficient, b.coefficient))
            continue;
          std::optional<Substitution> digits =
              matchDigits(b.bound, b.reference, a.bound, a.reference, variables);
          auto different = digits ? differenceOf(b.guards, a.guards, *digits) : std::nullopt;
          if (!different || different->second != own ||
              b.guards[different->first].low != pieces.back().guard.high)
            continue;
          Piece piece{unsigned(i), b.guards[different->first], b.reference};
          for (Index &index : piece.reference.indices)
            index = substitute(index, *digits);
          pieces.push_back(std::move(piece));
          grows = true;
          break;
        }
      }
      if (pieces.size() < 2 || pieces.back().guard.high <= greatest)
        continue;
      // As it is where there are several numbers; else it grows evenly from the first to the next.
      auto isOne = [](const Piece &piece) { return piece.guard.high == piece.guard.low + 1; };
      auto several = llvm::find_if(pieces, [&](const Piece &piece) { return !isOne(piece); });
      Index number = guard.index - Index(least);
      Reference all = several != pieces.end() ? several->reference : a.reference;
      bool isAlike = true;
      for (auto [i, index] : llvm::enumerate(all.indices)) {
        if (several == pieces.end()) {
          Index step = pieces[1].reference.indices[i] - index;
          isAlike &= step.isConstant();
          index = index + number * (breaks(Lemma::JoinedDifferences) ? 0 : step.getConstant());
        }
        for (const Piece &piece : pieces) {
          const Index &there = piece.reference.indices[i];
          isAlike &=
              isOne(piece) ? isWhere(there, index, guard.index, piece.guard.low) : there == index;
        }
      }
      if (!isAlike && !breaks(Lemma::JoinedDifferences))
        continue;
      Summand joined = a;
      joined.reference = std::move(all);
      joined.guards.erase(joined.guards.begin() + own);
      SmallVector<unsigned> others;
      for (const Piece &piece : ArrayRef(pieces).drop_front())
        others.push_back(piece.place);
      meaning[first] = std::move(joined);
      llvm::sort(others);
      for (unsigned i : llvm::reverse(others))
        meaning.erase(meaning.begin() + i);
      return true;
    }
  }
  return false;
}

/// `index` is `f` less the place that these digits are, of `count`; returns `f`.
static std::optional<Index> placeBefore(const Index &index, ArrayRef<Var> digits, int64_t count,
                                        const Variables &variables) {
  SmallVector<std::pair<int64_t, Var>> order;
  Index f = index;
  for (Var digit : digits) {
    int64_t stride = -index.getCoefficient(digit);
    order.push_back({stride, digit});
    f = f + Index::of(digit, stride);
  }
  llvm::sort(order);
  int64_t next = 1;
  for (auto [stride, digit] : order) {
    if (stride != next)
      return std::nullopt;
    next *= variables.getSize(digit);
  }
  auto [least, greatest] = variables.getRange(f);
  return next == count && least >= 0 && greatest < count ? std::optional(f) : std::nullopt;
}

/// The sum of what lies in the blocks before block `e`, and of what lies up to `f` in block `e`, is
/// that of all that lies up to `e * size + f`; and so it is behind it.
bool Terms::joinPrefix(Meaning &meaning) {
  // `sign`: 1 before, -1 behind.
  auto join = [&](const Summand &before, const Summand &within, Var block,
                  int64_t sign) -> std::optional<Summand> {
    Guard limit = asLowerBound(within.guards[0], variables);
    if (within.bound.size() + 1 != before.bound.size() || !isAtLeast(limit, 0, variables) ||
        !isSame(within.coefficient, before.coefficient))
      return std::nullopt;
    SmallVector<Var> inner;
    for (Var digit : before.bound)
      if (digit != block)
        inner.push_back(digit);
    std::optional<Substitution> digits =
        matchDigits(inner, before.reference, within.bound, within.reference, variables);
    if (!digits)
      return std::nullopt;
    // Digits that say the place in a block; others, such as heads that share keys, are summed as a
    // whole.
    Index distance = limit.index * sign;
    auto strideOf = [&](Var digit) {
      return -distance.getCoefficient(digits->lookup(digit).getParts()[0].var);
    };
    SmallVector<Var> ofPlace;
    int64_t blocks = variables.getSize(block), count = 1;
    for (Var digit : inner)
      if (strideOf(digit) != 0) {
        ofPlace.push_back(digits->lookup(digit).getParts()[0].var);
        count *= variables.getSize(digit);
      }
    // [block < e], or [block > e], and no condition on the others.
    Guard guard = asLowerBound(before.guards[0], variables);
    if (guard.index.getCoefficient(block) != -sign || !isAtLeast(guard, 1, variables) ||
        llvm::any_of(inner, [&](Var digit) { return guard.index.getCoefficient(digit) != 0; }))
      return std::nullopt;
    Index e = guard.index * sign + Index::of(block);
    auto [least, greatest] = variables.getRange(e);
    std::optional<Index> f = placeBefore(distance, ofPlace, count, variables);
    if (least < 0 || greatest >= blocks || !f)
      return std::nullopt;
    (*digits)[block] = e;
    if (!llvm::all_of(
            llvm::zip(before.reference.indices, within.reference.indices),
            [&](auto pair) { return substitute(std::get<0>(pair), *digits) == std::get<1>(pair); }))
      return std::nullopt;
    Summand joined = before;
    Index place = Index::of(block, count);
    for (Var digit : inner)
      place = place + Index::of(digit, strideOf(digit));
    joined.guards[0] = {(e * count + *f - place) * sign, 0, blocks * count};
    return joined;
  };
  for (unsigned i = 0; i < meaning.size() && !breaks(Lemma::SumBeforeBlock); ++i) {
    if (meaning[i].bound.empty() || meaning[i].guards.size() != 1)
      continue;
    const Guard guard = meaning[i].guards[0];
    for (unsigned j = 0; j < meaning.size(); ++j) {
      if (i == j || meaning[j].guards.size() != 1 ||
          meaning[j].reference.term != meaning[i].reference.term)
        continue;
      SmallVector<std::tuple<Summand, Var, int64_t>, 0> candidates;
      if (meaning[j].bound.size() + 1 == meaning[i].bound.size())
        for (Var block : meaning[i].bound)
          for (int64_t sign : {1, -1})
            candidates.push_back({meaning[i], block, sign});
      // Of two blocks one is before, or behind, which needs no sum: written as one, with a digit of
      // blocks.
      bool isOfTwo = variables.getRange(guard.index) == std::pair<int64_t, int64_t>(0, 1);
      std::optional<Substitution> digits =
          isOfTwo ? matchDigits(meaning[i].bound, meaning[i].reference, meaning[j].bound,
                                meaning[j].reference, variables)
                  : std::nullopt;
      if (digits) {
        // Where the index is 1, block 0 is before; where it is 0, block 1 is behind.
        int64_t sign = guard.low == 1 ? 1 : -1;
        Var block = variables.make(2);
        Summand sum = meaning[i];
        sum.bound.push_back(block);
        sum.guards[0] = {(guard.index - Index::of(block)) * sign, 1, 2};
        bool isShift = true;
        for (auto [index, other] : llvm::zip(sum.reference.indices, meaning[j].reference.indices)) {
          Index step = other - substitute(index, *digits);
          isShift &= step.isConstant();
          index =
              index + (Index::of(block) - guard.index + Index(sign)) * (step.getConstant() * sign);
        }
        if (isShift)
          candidates.push_back({std::move(sum), block, sign});
      }
      for (const auto &[before, block, sign] : candidates) {
        std::optional<Summand> joined = join(before, meaning[j], block, sign);
        if (!joined)
          continue;
        meaning.erase(meaning.begin() + std::max(i, j));
        meaning.erase(meaning.begin() + std::min(i, j));
        normalizeSummand(std::move(*joined), meaning);
        return true;
      }
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static bool isAlike(const Reference &a, const Reference &b) {
  return a.term == b.term && a.indices == b.indices;
}

/// A sum of squares, roots and positive numbers.
bool Terms::isNotNegative(const Meaning &meaning) const {
  return llvm::all_of(meaning, [&](const Summand &summand) {
    const Term &term = terms[summand.reference.term];
    if (!(summand.coefficient > Rational(0)))
      return false;
    if (term.kind == Term::Kind::Sum)
      return isNotNegative(term.body);
    if (summand.reference.term == one || term.core.tag == Core::Tag::Root)
      return true;
    if (!term.core.isProduct || term.operands.size() % 2)
      return false;
    // Each factor twice; those of one term are neighbours.
    SmallVector<const Reference *> left;
    for (const Reference &operand : term.operands) {
      auto *twin =
          llvm::find_if(left, [&](const Reference *other) { return isAlike(*other, operand); });
      if (twin != left.end())
        left.erase(twin);
      else
        left.push_back(&operand);
    }
    return left.empty();
  });
}

std::optional<Meaning> Terms::simplifyProduct(const Core &core, std::vector<Reference> &operands) {
  // A factor that is a product is its factors.
  for (unsigned i = 0; i < operands.size();) {
    const Term &term = terms[operands[i].term];
    if (term.kind != Term::Kind::Op || !term.core.isProduct || term.core.key != core.key ||
        !term.readSizes.empty() || term.numKept != term.sizes.size()) {
      ++i;
      continue;
    }
    Substitution digits;
    for (unsigned digit = 0; digit < term.numKept; ++digit)
      digits[digit] = operands[i].indices[digit];
    std::vector<Reference> inner = term.operands;
    for (Reference &reference : inner)
      for (Index &index : reference.indices)
        index = substitute(index, digits);
    operands.erase(operands.begin() + i);
    operands.insert(operands.begin() + i, inner.begin(), inner.end());
  }
  auto asMeaning = [&](const Reference &reference) {
    Summand summand;
    summand.reference = reference;
    return Meaning{std::move(summand)};
  };
  auto of = [&](unsigned count) {
    Core product = core;
    product.linear.clear();
    for (unsigned i = 0; i < count; ++i)
      product.linear.push_back({i});
    return product;
  };
  // Where factors of sums are looked for, more is tried.
  const size_t kShort = areFactors ? 8 : 4;
  for (unsigned i = 0; i < operands.size(); ++i)
    for (unsigned j = i + 1; j < operands.size(); ++j) {
      if (!isAlike(operands[i], operands[j]))
        continue;
      Reference reference = operands[i];
      Term term = terms[reference.term];
      Meaning square;
      if (term.kind == Term::Kind::Op && term.core.tag == Core::Tag::Root) {
        square = getOperands(reference)[0];
        if (!isNotNegative(square) || breaks(Lemma::RootSquared))
          continue;
      } else if (term.kind == Term::Kind::Sum && term.body.size() > 1 &&
                 term.body.size() <= kShort && term.numSummands <= kShort) {
        Meaning sum = normalize(asMeaning(reference));
        for (unsigned a = 0; a < sum.size(); ++a)
          for (unsigned b = a; b < sum.size(); ++b)
            for (Summand &part : scale(apply(of(2), {Meaning{sum[a]}, Meaning{sum[b]}}, {}, {}, {}),
                                       Rational(a == b ? 1 : 2)))
              square.push_back(std::move(part));
        square = normalize(std::move(square));
      } else {
        continue;
      }
      std::vector<Meaning> rest{std::move(square)};
      for (auto [k, operand] : llvm::enumerate(operands))
        if (k != i && k != j)
          rest.push_back(normalize(asMeaning(operand)));
      if (rest.size() == 1)
        return rest.front();
      return apply(of(rest.size()), rest, {}, {}, {});
    }
  return std::nullopt;
}
