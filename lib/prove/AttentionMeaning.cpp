//===- AttentionMeaning.cpp - attention, and blocks of it round a ring ------===//
//
// Attention is shares of sums of exponentials: E(q, s) = exp(scale * query(q) . key(s) + mask(q,
// s)) counts where the mask permits it, W(q) = sum over s of E, and the output at q is the sum of
// E * value(s), by W. So attention to blocks of keys, merged by their logarithms of W, is attention
// to all: W and the sum above it are added up block by block. Where a mask leaves no key of a
// block, W is 0 and its logarithm -inf: ranks that merge blocks look for that (EmptyMeaning.cpp).
//
// Queries and keys that a rank has may both be at places that depend on the rank, as in a ring. E
// is made for any two places first, and taken at those of the rank then: so it is the same function
// wherever queries and keys come from.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Softmax.h"
#include "lib/prove/Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using sharding::FactorId;

namespace {

/// Queries, or keys: digits of the rank's own, and the place in the whole sequence, as one digit.
struct Side {
  SmallVector<Digit, 2> digits;
  SmallVector<Var> vars;
  Index own;
  /// Of `whole` it is `at`.
  Var whole = 0;
  Index at;
  bool isWhole = false;
};

} // namespace

static Side makeSide(ArrayRef<Digit> digits, const Variables &variables) {
  Side side;
  side.digits.assign(digits.begin(), digits.end());
  for (const Digit &digit : llvm::reverse(digits))
    side.vars.push_back(digit.var);
  side.own = placeIn(side.vars, variables);
  return side;
}

/// How often `index` counts the side's own place; nothing if it is not read as one number.
static std::optional<int64_t> countOf(const Index &index, const Side &side) {
  if (side.digits.empty())
    return 0;
  int64_t count = index.getCoefficient(side.digits.front().var);
  for (const Digit &digit : side.digits)
    if (index.getCoefficient(digit.var) != count * digit.stride)
      return std::nullopt;
  return count;
}

static SmallVector<Index *> indicesOf(Meaning &meaning) {
  SmallVector<Index *> indices;
  for (Summand &summand : meaning) {
    for (Index &index : summand.reference.indices)
      indices.push_back(&index);
    for (Guard &guard : summand.guards)
      indices.push_back(&guard.index);
  }
  return indices;
}

/// Finds the place in the whole sequence that the side's places are, by how `meaning` is indexed:
/// those of a rank's block, or of the block of another rank.
static void findWhole(Side &side, Meaning meaning, ArrayRef<Var> places, const Case &region,
                      Variables &variables) {
  int64_t count = sizeOf(side.vars, variables), size = count, offset = 0;
  std::optional<Var> block;
  for (Var place : places) {
    // Only a digit that counts blocks.
    bool isUsed = false, fits = variables.getSize(place) > 1;
    for (const Index *index : indicesOf(meaning)) {
      std::optional<int64_t> own = countOf(*index, side);
      int64_t there = index->getCoefficient(place);
      if (!own) {
        fits = false;
      } else if (side.digits.empty() ? there != 0 : *own != 0) {
        isUsed = true;
        fits &= side.digits.empty() || there == *own * count;
      } else {
        fits &= there == 0;
      }
    }
    if (fits && isUsed && !block) {
      block = place;
      size *= variables.getSize(place);
    }
  }
  if (block) {
    // What the block is away from the rank's own, if all say the same.
    std::optional<int64_t> away;
    bool isSame = true;
    for (const Index *index : indicesOf(meaning)) {
      int64_t unit = side.digits.empty() ? index->getCoefficient(*block) / count
                                         : countOf(*index, side).value_or(0);
      if (!unit)
        continue;
      int64_t constant = index->getConstant();
      isSame &= constant % (unit * count) == 0 && (!away || *away == constant / unit);
      away = constant / unit;
    }
    offset = isSame ? away.value_or(0) : 0;
  }
  side.at = side.own + Index(offset);
  if (block)
    side.at = side.at + Index::of(*block, count);
  auto [least, greatest] = rangeWithin(side.at, region, variables);
  if (least < 0 || greatest >= size)
    return;
  side.whole = variables.make(size);
  side.isWhole = true;
}

/// `meaning` at places of the whole sequences; nothing if it depends on them in another way.
static std::optional<Meaning> overWhole(Meaning meaning, ArrayRef<const Side *> sides) {
  for (Index *index : indicesOf(meaning)) {
    Index rest = *index;
    bool changes = false;
    for (const Side *side : sides) {
      std::optional<int64_t> count = countOf(*index, *side);
      if (!count)
        return std::nullopt;
      // Of a single row, the block says which.
      if (side->digits.empty())
        for (const Index::Part &part : side->at.getParts())
          if (int64_t there = index->getCoefficient(part.var))
            count = there / part.coefficient;
      if (!*count)
        continue;
      rest = rest - side->at * *count + Index::of(side->whole, *count);
      changes = true;
    }
    if (!changes)
      continue;
    for (const Side *side : sides)
      for (const Index::Part &part : side->at.getParts())
        if (rest.getCoefficient(part.var))
          return std::nullopt;
    *index = rest;
  }
  return meaning;
}

namespace {

/// What attention is given, over common digits.
struct Given {
  Meaning query, key, value, mask;
  Meaning gradient, output, logarithm;

  SmallVector<Meaning *> ofQueries() { return {&query, &gradient, &output, &logarithm}; }
  SmallVector<Meaning *> ofKeys() { return {&key, &value}; }
  SmallVector<Meaning *> all() {
    return {&query, &key, &value, &mask, &gradient, &output, &logarithm};
  }
};

} // namespace

/// Takes what is given to the whole sequences, or leaves it as it is.
static void generalize(Given &given, Side &queries, Side &keys, ArrayRef<Var> places,
                       const Case &region, Variables &variables) {
  findWhole(queries, given.query, places, region, variables);
  findWhole(keys, given.key, places, region, variables);
  if (!queries.isWhole || !keys.isWhole) {
    queries.isWhole = keys.isWhole = false;
    return;
  }
  Given whole = given;
  bool fits = true;
  auto take = [&](Meaning &meaning, ArrayRef<const Side *> sides) {
    std::optional<Meaning> taken = overWhole(meaning, sides);
    fits &= taken.has_value();
    if (taken)
      meaning = std::move(*taken);
  };
  for (Meaning *meaning : whole.ofQueries())
    take(*meaning, &queries);
  for (Meaning *meaning : whole.ofKeys())
    take(*meaning, &keys);
  const Side *both[] = {&queries, &keys};
  take(whole.mask, both);
  if (fits)
    given = std::move(whole);
  else
    queries.isWhole = keys.isWhole = false;
}

bool Evaluator::attention(Operation *op, ArrayRef<const Tensor *> operands,
                          std::vector<Tensor> &results) {
  auto forward = dyn_cast<aten::FlashAttentionForCpuOp>(op);
  auto backward = dyn_cast<aten::FlashAttentionForCpuBackwardOp>(op);
  if (!terms.takesShares() || (!forward && !backward))
    return false;
  Type element = tensorOf(op->getOperand(0).getType()).getElementType();
  auto isSame = [&](Type type) { return tensorOf(type).getElementType() == element; };
  if (!(element.isF32() || element.isF64()) || !llvm::all_of(op->getOperandTypes(), isSame) ||
      !llvm::all_of(op->getResultTypes(), isSame))
    return false;
  FloatAttr dropout = forward ? forward.getDropoutPAttr() : backward.getDropoutPAttr();
  if (dropout && !dropout.getValue().isZero())
    return false;
  bool isCausal = forward ? forward.getIsCausal().value_or(false) : backward.getIsCausal();
  unsigned queryAt = forward ? 0 : 1, maskAt = forward ? 3 : 6;
  bool isMasked = op->getNumOperands() > maskAt;

  sharding::ShardingRule rule = sharding::getShardingRule(op);
  if (rule.isOpaque())
    return false;
  for (sharding::Factor &factor : rule.factors)
    factor.wholeReason = nullptr;
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors)
    return false;
  const sharding::TensorFactors &ofQuery = rule.operands[queryAt],
                                &ofKey = rule.operands[queryAt + 1];
  auto digitsOf = [&](const sharding::DimFactors &dim) {
    SmallVector<Digit, 2> digits;
    int64_t stride = 1;
    for (FactorId factor : llvm::reverse(dim)) {
      for (Digit digit : factors->digits[factor])
        digits.push_back({digit.var, digit.size, digit.stride * stride});
      stride *= rule.factors[factor].size;
    }
    return digits;
  };
  auto varsOf = [&](const sharding::DimFactors &dim) {
    llvm::SmallVector<Var, 2> vars;
    SmallVector<Digit, 2> digits = digitsOf(dim);
    for (const Digit &digit : llvm::reverse(digits))
      vars.push_back(digit.var);
    return vars;
  };
  constexpr unsigned kSequence = 2, kWidth = 3;
  const Side queries = makeSide(digitsOf(ofQuery[kSequence]), terms.variables);
  const Side keys = makeSide(digitsOf(ofKey[kSequence]), terms.variables);
  SmallVector<Var> width(varsOf(ofQuery[kWidth])), shared;
  // Heads that share keys: of a key's gradient they are summed.
  for (Var var : varsOf(ofQuery[1]))
    if (!llvm::is_contained(varsOf(ofKey[1]), var))
      shared.push_back(var);
  Substitution contracted;
  SmallVector<Var> across;
  for (Var var : width) {
    across.push_back(terms.variables.make(terms.variables.getSize(var)));
    contracted[var] = Index::of(across.back());
  }
  FloatAttr scaleAttr = forward ? forward.getScaleAttr() : backward.getScaleAttr();
  double headWidth = double(sizeOf(width, terms.variables));
  Rational scale = exactly(scaleAttr ? scaleAttr.getValueAsDouble() : 1.0 / std::sqrt(headWidth));

  Fractions fractions = fractionsOf(element);
  auto times = [&](const Meaning &a, const Meaning &b) { return product(a, b, element); };
  auto contract = [&](Meaning a, Meaning b) {
    substitute(a, contracted);
    substitute(b, contracted);
    return terms.sum(times(a, b), across);
  };

  Given given;
  given.query = factors->operands[queryAt];
  given.key = factors->operands[queryAt + 1];
  given.value = factors->operands[queryAt + 2];
  if (isMasked)
    given.mask = factors->operands[maskAt];
  if (backward) {
    given.gradient = factors->operands[0];
    given.output = factors->operands[4];
    given.logarithm = factors->operands[5];
  }
  for (Meaning *meaning : given.all())
    *meaning = terms.normalize(std::move(*meaning));
  SmallVector<const Meaning *> asked;
  for (Meaning *meaning : given.all())
    asked.push_back(meaning);
  std::optional<std::vector<Case>> regions = listCases(terms, asked, places);
  if (!regions)
    return false;

  // Sums over all keys: W, and what is above it; or the gradients.
  Meaning total, above, ofQueries, ofKeys, ofValues;
  for (const Case &region : *regions) {
    Given there = given;
    for (Meaning *meaning : there.all())
      *meaning = within(terms, *meaning, region);
    if (backward && there.logarithm.size() == 1 &&
        terms.get(there.logarithm[0].reference.term).core.tag == Core::Tag::Infinite) {
      // By an infinite logarithm all shares are zero; exp(inf) is nothing that could be said.
      if (there.logarithm[0].coefficient != Rational(1) || !there.logarithm[0].guards.empty() ||
          terms.get(there.logarithm[0].reference.term).core.number < 0)
        return false;
      continue;
    }
    Side q = queries, k = keys;
    generalize(there, q, k, places, region, terms.variables);
    Substitution back;
    if (q.isWhole) {
      back[q.whole] = q.at;
      back[k.whole] = terms.breaks(Lemma::AnyTwoPlaces) ? k.own : k.at;
    }
    auto add = [&](Meaning &sum, Meaning meaning) {
      substitute(meaning, back);
      limitTo(meaning, region);
      if (isCausal && !terms.breaks(Lemma::CausalMask))
        for (Summand &summand : meaning)
          summand.guards.push_back({queries.own - keys.own, 0, kFar});
      llvm::append_range(sum, meaning);
    };
    Meaning score = terms.add(terms.scale(contract(there.query, there.key), scale), there.mask);
    if (forward) {
      Meaning exponential = fractions.exponential(score);
      add(above, times(exponential, there.value));
      add(total, std::move(exponential));
      continue;
    }
    Meaning share = fractions.exponential(
        terms.add(std::move(score), terms.scale(there.logarithm, Rational(-1))));
    Meaning ofShare = terms.add(contract(there.gradient, there.value),
                                terms.scale(contract(there.gradient, there.output), Rational(-1)));
    Meaning ofScore = terms.scale(times(share, ofShare), scale);
    add(ofQueries, times(ofScore, there.key));
    add(ofKeys, times(ofScore, there.query));
    add(ofValues, times(share, there.gradient));
  }

  auto give = [&](Meaning meaning, const sharding::TensorFactors &dims, bool isOfWidth) {
    Tensor result{{}, std::move(meaning)};
    for (unsigned dim = 0; dim < (isOfWidth ? 4u : 3u); ++dim)
      result.dims.push_back(varsOf(dims[dim]));
    coarsen(terms, result);
    results.push_back(std::move(result));
  };
  if (forward) {
    total = terms.sum(std::move(total), keys.vars);
    above = terms.sum(std::move(above), keys.vars);
    // Where a mask leaves no key, both sums are 0: the kernel takes 1 for W then.
    if (!fractions.isPositive(total)) {
      if (terms.breaks(Lemma::AttentionToNothing) || !fractions.isNotNegative(total) ||
          !fractions.vanishesWith(above, total))
        return false;
      total = fractions.orOne(total);
    }
    give(terms.breaks(Lemma::Attention) ? above : fractions.quotient(above, total), ofQuery, true);
    give(fractions.logarithm(total), ofQuery, false);
    return true;
  }
  SmallVector<Var> over(queries.vars);
  llvm::append_range(over, shared);
  give(terms.sum(std::move(ofQueries), keys.vars), ofQuery, true);
  give(terms.sum(std::move(ofKeys), terms.breaks(Lemma::AttentionGradient) ? shared : over), ofKey,
       true);
  give(terms.sum(std::move(ofValues), over), ofKey, true);
  return true;
}
