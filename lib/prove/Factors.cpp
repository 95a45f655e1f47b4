//===- Factors.cpp - factors of sums of products ----------------------------===//

#include "lib/prove/Term.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

/// Whether it is a product of elements, and no sum over what is read.
bool Terms::isPlainProduct(TermId id) const {
  const Term &term = terms[id];
  return term.kind == Term::Kind::Op && term.core.isProduct && term.readSizes.empty() &&
         term.numKept == term.sizes.size();
}

/// Of a product its factors, of another value itself.
void Terms::appendFactors(const Reference &reference, std::vector<Reference> &factors) const {
  if (!isPlainProduct(reference.term)) {
    factors.push_back(reference);
    return;
  }
  Substitution digits;
  for (auto [i, index] : llvm::enumerate(reference.indices))
    digits[i] = index;
  for (Reference operand : terms[reference.term].operands) {
    for (Index &index : operand.indices)
      index = substitute(index, digits);
    factors.push_back(std::move(operand));
  }
}

Meaning Terms::multiply(Core core, ArrayRef<Meaning> factors) {
  core.linear.clear();
  for (unsigned i = 0; i < factors.size(); ++i)
    core.linear.push_back({i});
  return apply(core, factors, {}, {}, {});
}

/// A sum over digits of a product is the product of factors without these digits, and of a sum for
/// each of the others that are taken along the same ones. Where a digit goes through several
/// factors of which one is such a sum itself, both are one: so that there is one form, in whatever
/// order digits are summed.
bool Terms::separateFactors(const Summand &summand, Meaning &result) {
  TermId id = summand.reference.term;
  if (!areFactors || !isPlainProduct(id) || terms[id].mayBeInfinite)
    return false;
  const Core core = terms[id].core;
  auto mentions = [](const Reference &reference, Var var) {
    return llvm::any_of(reference.indices,
                        [&](const Index &index) { return index.getCoefficient(var) != 0; });
  };
  SmallVector<Var> bound(ArrayRef<Var>(summand.bound));
  if (llvm::any_of(summand.guards, [&](const Guard &guard) {
        return llvm::any_of(bound, [&](Var var) { return guard.index.getCoefficient(var) != 0; });
      }))
    return false;

  Rational coefficient = summand.coefficient;
  std::vector<Reference> factors;
  appendFactors(summand.reference, factors);
  auto isSumOfProducts = [&](const Reference &reference) {
    const Term &own = terms[reference.term];
    if (own.kind != Term::Kind::Sum || own.body.size() != 1 || !own.body[0].guards.empty())
      return false;
    TermId inner = own.body[0].reference.term;
    return isPlainProduct(inner) && terms[inner].core.key == core.key;
  };
  bool isOpened = false;
  for (unsigned i = 0; i < bound.size(); ++i) {
    auto uses = [&](const Reference &factor) { return mentions(factor, bound[i]); };
    if (llvm::count_if(factors, uses) < 2)
      continue;
    auto opened = llvm::find_if(
        factors, [&](const Reference &factor) { return uses(factor) && isSumOfProducts(factor); });
    if (opened == factors.end())
      continue;
    Summand whole;
    whole.reference = *opened;
    factors.erase(opened);
    Meaning parts;
    unfold(whole, parts);
    coefficient *= parts[0].coefficient;
    llvm::append_range(bound, parts[0].bound);
    appendFactors(parts[0].reference, factors);
    isOpened = true;
    --i;
  }

  // Places may cancel: what depends on a digit no more is as many times its value.
  llvm::erase_if(bound, [&](Var var) {
    if (llvm::any_of(factors, [&](const Reference &factor) { return mentions(factor, var); }))
      return false;
    countsOpen |= variables.getSize(var) == kOpenSize;
    coefficient *= Rational(variables.getSize(var));
    isOpened = true;
    return true;
  });

  // Those that a digit goes through belong together.
  SmallVector<unsigned> groups;
  for (unsigned i = 0; i < factors.size(); ++i)
    groups.push_back(i);
  for (Var var : bound) {
    std::optional<unsigned> first;
    for (auto [i, factor] : llvm::enumerate(factors)) {
      if (!mentions(factor, var) || breaks(Lemma::FactorsApart))
        continue;
      unsigned old = groups[i];
      first = first ? *first : old;
      for (unsigned &group : groups)
        group = group == old ? *first : group;
    }
  }
  bool isOne = llvm::all_equal(groups);
  if (isOne && !isOpened)
    return false;
  std::vector<Meaning> operands;
  for (unsigned group = 0; group < factors.size(); ++group) {
    std::vector<Meaning> own;
    SmallVector<Var> along;
    for (auto [i, factor] : llvm::enumerate(factors)) {
      if (groups[i] != group)
        continue;
      own.push_back(normalize(instantiate(factor, Substitution())));
      for (Var var : bound)
        if (mentions(factor, var) && !llvm::is_contained(along, var))
          along.push_back(var);
    }
    if (own.empty())
      continue;
    Meaning made = multiply(core, own);
    operands.push_back(isOne ? made : sum(std::move(made), along));
  }
  for (Summand &part : isOne ? operands[0] : multiply(core, operands)) {
    part.coefficient *= coefficient;
    if (isOne)
      llvm::append_range(part.bound, bound);
    llvm::append_range(part.guards, summand.guards);
    normalizeSummand(std::move(part), result);
  }
  return true;
}

/// Makes two products that differ in one factor one, if the sum of these is one value: that of the
/// places of some ranks, where a sum has moved inwards, and that of the next.
bool Terms::joinFactors(Meaning &meaning) {
  auto hasInterval = [](const Summand &summand) {
    return llvm::any_of(summand.guards, [&](const Guard &guard) {
      return llvm::any_of(summand.bound,
                          [&](Var digit) { return guard.index == Index::of(digit); });
    });
  };
  for (unsigned i = 0; i < meaning.size() && !breaks(Lemma::SumInwards); ++i) {
    if (!hasInterval(meaning[i]))
      continue;
    Summand a = withoutIntervals(meaning[i]);
    if (!a.guards.empty() || !isPlainProduct(a.reference.term))
      continue;
    const Core core = terms[a.reference.term].core;
    for (unsigned j = 0; j < meaning.size(); ++j) {
      if (i == j)
        continue;
      Summand b = hasInterval(meaning[j]) ? withoutIntervals(meaning[j]) : meaning[j];
      // Of more digits there are too many ways.
      constexpr unsigned kMost = 3;
      if (!b.guards.empty() || !isPlainProduct(b.reference.term) || a.bound.size() > kMost ||
          terms[b.reference.term].core.key != core.key || a.bound.size() != b.bound.size())
        continue;
      SmallVector<unsigned> order(a.bound.size());
      std::iota(order.begin(), order.end(), 0);
      do {
        Substitution digits;
        bool fits = true;
        for (auto [own, place] : llvm::zip(b.bound, order)) {
          fits &= variables.getSize(own) == variables.getSize(a.bound[place]);
          digits[own] = Index::of(a.bound[place]);
        }
        if (!fits)
          continue;
        std::vector<Reference> all, others;
        appendFactors(a.reference, all);
        appendFactors(b.reference, others);
        std::vector<Meaning> factors;
        Meaning different;
        for (Reference &factor : all) {
          auto same = llvm::find_if(others, [&](const Reference &other) {
            return other.term == factor.term &&
                   llvm::all_of(llvm::zip(other.indices, factor.indices), [&](auto pair) {
                     return substitute(std::get<0>(pair), digits) == std::get<1>(pair);
                   });
          });
          if (same == others.end()) {
            Summand own;
            own.coefficient = a.coefficient;
            own.reference = factor;
            different.push_back(std::move(own));
            continue;
          }
          others.erase(same);
          factors.push_back(normalize(instantiate(factor, Substitution())));
        }
        if (different.size() != 1 || others.size() != 1)
          continue;
        Meaning other = instantiate(others[0], digits);
        other[0].coefficient = b.coefficient;
        different.push_back(std::move(other[0]));
        different = normalize(std::move(different));
        if (different.size() != 1)
          continue;
        factors.push_back(std::move(different));
        meaning.erase(meaning.begin() + std::max(i, j));
        meaning.erase(meaning.begin() + std::min(i, j));
        for (Summand &part : multiply(core, factors)) {
          part.bound.append(a.bound);
          normalizeSummand(std::move(part), meaning);
        }
        return true;
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
  return false;
}
