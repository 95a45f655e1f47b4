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

/// For each of `digits` the one of `others` that is used alike; nothing if there is none.
static std::optional<Substitution> matchDigits(ArrayRef<Var> digits, const Reference &reference,
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
/// that of all that lies up to `e * size + f`.
bool Terms::joinPrefix(Meaning &meaning) {
  auto join = [&](const Summand &before, const Summand &within,
                  Var block) -> std::optional<Summand> {
    if (within.coefficient != before.coefficient || within.guards.size() != 1 ||
        within.reference.term != before.reference.term ||
        within.bound.size() + 1 != before.bound.size() ||
        !isAtLeast(within.guards[0], 0, variables))
      return std::nullopt;
    SmallVector<Var> inner;
    int64_t blocks = variables.getSize(block), count = 1;
    for (Var digit : before.bound)
      if (digit != block) {
        inner.push_back(digit);
        count *= variables.getSize(digit);
      }
    // [block < e], and no condition on the others.
    const Guard &guard = before.guards[0];
    if (guard.index.getCoefficient(block) != -1 || !isAtLeast(guard, 1, variables) ||
        llvm::any_of(inner, [&](Var digit) { return guard.index.getCoefficient(digit) != 0; }))
      return std::nullopt;
    Index e = guard.index + Index::of(block);
    auto [least, greatest] = variables.getRange(e);
    std::optional<Index> f = placeBefore(within.guards[0].index, within.bound, count, variables);
    std::optional<Substitution> digits =
        matchDigits(inner, before.reference, within.bound, within.reference, variables);
    if (least < 0 || greatest >= blocks || !f || !digits)
      return std::nullopt;
    (*digits)[block] = e;
    if (!llvm::all_of(
            llvm::zip(before.reference.indices, within.reference.indices),
            [&](auto pair) { return substitute(std::get<0>(pair), *digits) == std::get<1>(pair); }))
      return std::nullopt;
    Summand joined = before;
    Index place = Index::of(block, count);
    for (Var digit : inner)
      place = place + Index::of(digit, -within.guards[0].index.getCoefficient(
                                           digits->lookup(digit).getParts()[0].var));
    joined.guards[0] = {e * count + *f - place, 0, blocks * count};
    return joined;
  };
  for (unsigned i = 0; i < meaning.size() && !breaks(Lemma::SumBeforeBlock); ++i) {
    if (meaning[i].bound.empty() || meaning[i].guards.size() != 1)
      continue;
    const Guard guard = meaning[i].guards[0];
    bool isOfTwo =
        guard.low == 1 && variables.getRange(guard.index) == std::pair<int64_t, int64_t>(0, 1);
    for (unsigned j = 0; j < meaning.size(); ++j) {
      if (i == j)
        continue;
      SmallVector<std::pair<Summand, Var>, 0> candidates;
      for (Var block : meaning[i].bound)
        candidates.push_back({meaning[i], block});
      // Of two blocks one is before, which needs no sum: written as one, with a digit of blocks.
      std::optional<Substitution> digits =
          isOfTwo && meaning[i].reference.term == meaning[j].reference.term
              ? matchDigits(meaning[i].bound, meaning[i].reference, meaning[j].bound,
                            meaning[j].reference, variables)
              : std::nullopt;
      if (digits) {
        Var block = variables.make(2);
        Summand sum = meaning[i];
        sum.bound.push_back(block);
        sum.guards[0] = {guard.index - Index::of(block), 1, 2};
        bool isShift = true;
        for (auto [index, other] : llvm::zip(sum.reference.indices, meaning[j].reference.indices)) {
          Index step = other - substitute(index, *digits);
          isShift &= step.isConstant();
          index = index + (Index::of(block) - guard.index + Index(1)) * step.getConstant();
        }
        if (isShift)
          candidates.push_back({std::move(sum), block});
      }
      for (const auto &[before, block] : candidates) {
        std::optional<Summand> joined = join(before, meaning[j], block);
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

static bool isSame(const Reference &a, const Reference &b) {
  return a.term == b.term && a.indices == b.indices;
}

/// A sum of squares, roots and positive numbers.
bool Terms::isNotNegative(const Meaning &meaning) const {
  return llvm::all_of(meaning, [&](const Summand &summand) {
    const Term &term = terms[summand.reference.term];
    if (!(summand.coefficient > Rational(0)))
      return false;
    if (summand.reference.term == one || term.core.tag == Core::Tag::Root)
      return true;
    if (!term.core.isProduct || term.operands.size() % 2)
      return false;
    // Each factor twice; those of one term are neighbours.
    SmallVector<const Reference *> left;
    for (const Reference &operand : term.operands) {
      auto *twin =
          llvm::find_if(left, [&](const Reference *other) { return isSame(*other, operand); });
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
  constexpr size_t kShort = 4;
  for (unsigned i = 0; i < operands.size(); ++i)
    for (unsigned j = i + 1; j < operands.size(); ++j) {
      if (!isSame(operands[i], operands[j]))
        continue;
      Reference reference = operands[i];
      Term term = terms[reference.term];
      Meaning square;
      if (term.kind == Term::Kind::Op && term.core.tag == Core::Tag::Root) {
        square = getOperands(reference)[0];
        if (!isNotNegative(square) || breaks(Lemma::RootSquared))
          continue;
      } else if (term.kind == Term::Kind::Sum && term.body.size() > 1 &&
                 term.body.size() <= kShort) {
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
