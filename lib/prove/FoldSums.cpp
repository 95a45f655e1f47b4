//===- FoldSums.cpp - long sums as one term ---------------------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::DynamicAPInt;
using llvm::SmallVector;

/// A number by which the meanings are divided, so that multiples of them are ops of one term: the
/// greatest of which all coefficients are multiples; negative where they are, together. In deep
/// models it gets smaller with each layer, whose coefficients then have thousands of digits: where
/// the largest coefficient is that much larger, it is taken instead.
Rational Terms::contentOf(ArrayRef<const Meaning *> meanings) {
  // Most sums count all summands alike.
  const Rational *same = nullptr;
  bool areSame = true;
  for (const Meaning *meaning : meanings)
    for (const Summand &summand : *meaning) {
      const Rational &own = summand.coefficient;
      areSame &= !same || (same->num == own.num && same->den == own.den);
      same = &own;
    }
  if (same && areSame)
    return reduce(*same);
  DynamicAPInt numerator(0), denominator(1);
  Rational total(0), largest(0);
  for (const Meaning *meaning : meanings)
    for (const Summand &summand : *meaning) {
      Rational reduced = reduce(summand.coefficient);
      numerator = gcd(numerator, abs(reduced.num));
      denominator = lcm(denominator, reduced.den);
      total += reduced;
      largest = std::max(largest, reduced < Rational(0) ? -reduced : reduced);
    }
  Rational content(numerator, denominator);
  // Of a multiple of the meanings, it is the same.
  constexpr int64_t kMaxRatio = int64_t(1) << 40;
  if (largest > content * Rational(kMaxRatio))
    content = largest;
  return total < Rational(0) ? -content : content;
}

bool Terms::isWhole(ArrayRef<Index> indices, ArrayRef<int64_t> sizes) const {
  SmallVector<Var> seen;
  return llvm::all_of(llvm::zip(indices, sizes), [&](auto entry) {
    auto [index, size] = entry;
    SmallVector<Index::Part, 4> parts(index.getParts());
    llvm::sort(parts, [](const auto &a, const auto &b) { return a.coefficient < b.coefficient; });
    int64_t stride = 1;
    for (const Index::Part &part : parts) {
      if (part.coefficient != stride || llvm::is_contained(seen, part.var) ||
          variables.getSize(part.var) == 1)
        return false;
      seen.push_back(part.var);
      stride *= variables.getSize(part.var);
    }
    return index.getConstant() == 0 && stride == size;
  });
}

/// A sum without conditions, of which nothing is but one part and no sum is taken.
bool Terms::isWholeSum(const Summand &summand) const {
  return summand.bound.empty() && summand.guards.empty() &&
         terms[summand.reference.term].numSummands > 0 && isWhole(summand.reference);
}

/// Sums of more summands are one term.
constexpr unsigned kLong = 8;

bool Terms::isFolded(const Summand &summand) const {
  return terms[summand.reference.term].numSummands > kLong && isWholeSum(summand);
}

/// The sum as a multiple of one term.
Summand Terms::asOne(Meaning meaning) {
  Summand whole;
  whole.coefficient = contentOf(&meaning);
  for (Summand &summand : meaning)
    summand.coefficient = summand.coefficient / whole.coefficient;
  whole.reference = wrap(std::move(meaning));
  return whole;
}

/// One term of blocks of summands and of `rest`, whose terms come later. In order of terms each
/// `kLong` summands are a block, so that what is added last changes only the last one.
Meaning Terms::foldInBlocks(Meaning blocks, Meaning rest) {
  llvm::stable_sort(
      rest, [](const Summand &a, const Summand &b) { return a.reference.term < b.reference.term; });
  auto begin = rest.begin();
  for (auto at = begin; at != rest.end(); ++at)
    // Those of one term have no order, and stay together.
    if (at - begin >= kLong && at->reference.term != std::prev(at)->reference.term) {
      blocks.push_back(asOne(Meaning(begin, at)));
      begin = at;
    }
  blocks.insert(blocks.end(), begin, rest.end());
  return {asOne(std::move(blocks))};
}

/// A long sum without conditions as one term.
Meaning Terms::fold(Meaning meaning) {
  if (meaning.size() <= kLong ||
      llvm::any_of(meaning, [](const Summand &summand) { return !summand.guards.empty(); }))
    return meaning;
  if (breaks(Lemma::LongSum))
    for (Summand &summand : meaning)
      summand.coefficient = Rational(1);
  return foldInBlocks({}, std::move(meaning));
}

/// The normal form of a sum of one that is folded and of a few whose terms come later. Nothing if
/// it is another one.
std::optional<Meaning> Terms::addToFolded(const Meaning &meaning) {
  auto folded = llvm::find_if(meaning, [&](const Summand &summand) { return isFolded(summand); });
  if (folded == meaning.end() || folded->coefficient == Rational(0))
    return std::nullopt;
  Meaning added(meaning.begin(), folded);
  added.insert(added.end(), std::next(folded), meaning.end());
  added = flatten(std::move(added));
  if (added.empty())
    return Meaning{*folded};
  TermId last = terms[folded->reference.term].lastTerm;
  if (llvm::any_of(added, [&](const Summand &summand) {
        return !summand.guards.empty() || summand.reference.term <= last;
      }))
    return std::nullopt;
  Meaning parts, blocks;
  unfold(*folded, parts);
  for (Summand &part : parts)
    (terms[part.reference.term].kind == Term::Kind::Sum ? blocks : added)
        .push_back(std::move(part));
  return foldInBlocks(std::move(blocks), std::move(added));
}

/// The summands of a term that is a sum, without the conditions on it.
void Terms::unfold(const Summand &folded, Meaning &result) {
  const Term &sum = terms[folded.reference.term];
  Substitution digits;
  for (auto [i, index] : llvm::enumerate(folded.reference.indices))
    digits[i] = index;
  for (const Summand &part : sum.body) {
    Summand inner = part;
    for (Var &bound : inner.bound) {
      Var fresh = variables.make(sum.boundSizes[bound - sum.sizes.size()]);
      digits[bound] = Index::of(fresh);
      bound = fresh;
    }
    substitute(inner, digits);
    inner.coefficient *= folded.coefficient;
    result.push_back(std::move(inner));
  }
}

Meaning Terms::partsOf(const Meaning &meaning) {
  return llvm::any_of(meaning, [&](const Summand &summand) { return isFolded(summand); })
             ? flatten(meaning)
             : meaning;
}

Meaning Terms::partOf(const Meaning &meaning) {
  Meaning part(meaning.begin(), meaning.begin() + std::min<size_t>(meaning.size(), 1));
  while (!part.empty() && isWholeSum(part[0])) {
    Meaning parts;
    unfold(part[0], parts);
    part.assign(1, parts.front());
  }
  return part;
}
