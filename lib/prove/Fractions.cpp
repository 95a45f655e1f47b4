//===- Fractions.cpp - exponentials, logarithms, and shares of sums ---------===//

#include "lib/prove/Fractions.h"
#include "lib/prove/Evaluator.h"

using namespace cleave::prove;
using llvm::ArrayRef;
using llvm::SmallVector;

static Meaning meaningOf(const Reference &reference) {
  Summand summand;
  summand.reference = reference;
  return {std::move(summand)};
}

bool Fractions::hasTag(const Summand &summand, Core::Tag tag) const {
  return summand.bound.empty() && terms.get(summand.reference.term).core.tag == tag;
}

Meaning Fractions::operandOf(const Summand &summand) {
  return terms.getOperands(summand.reference)[0];
}

bool Fractions::areEqual(const Meaning &left, const Meaning &right) {
  auto likeness = [&](const Meaning &meaning) {
    size_t code = 0;
    for (const Summand &summand : meaning)
      code += likenessOf(summand, terms.variables);
    return code;
  };
  return left.size() == right.size() && likeness(left) == likeness(right) &&
         terms.areEqual(left, right);
}

//===----------------------------------------------------------------------===//
// Products and fractions
//===----------------------------------------------------------------------===//

/// Whether it is what a maximum that was taken off brings: an exponential of maxima. Others stay in
/// the products that they are in.
static bool isScale(Terms &terms, const Meaning &factor) {
  auto hasTag = [&](const Summand &summand, Core::Tag tag) {
    return summand.bound.empty() && terms.get(summand.reference.term).core.tag == tag;
  };
  return factor.size() == 1 && hasTag(factor[0], Core::Tag::Exp) &&
         llvm::all_of(terms.getOperands(factor[0].reference)[0], [&](const Summand &summand) {
           return hasTag(summand, Core::Tag::Max) || hasTag(summand, Core::Tag::Maximum) ||
                  hasTag(summand, Core::Tag::OrZero);
         });
}

bool Fractions::isFraction(const Meaning &value) {
  return terms.takesShares() && value.size() == 1 && hasTag(value[0], Core::Tag::Quotient) &&
         isPositive(terms.getOperands(value[0].reference)[1]);
}

void Fractions::factorize(const Meaning &value, Monomial &result, bool isBelow) {
  auto &factors = isBelow ? result.below : result.above;
  if (value.size() == 1 && value[0].bound.empty() && (value[0].guards.empty() || !isBelow)) {
    const Summand summand = value[0];
    result.coefficient = isBelow ? result.coefficient / summand.coefficient
                                 : result.coefficient * summand.coefficient;
    llvm::append_range(result.guards, summand.guards);
    const Term &term = terms.get(summand.reference.term);
    const Core &core = term.core;
    if (core.key == "one" && term.kind == Term::Kind::Leaf)
      return;
    if (term.kind == Term::Kind::Op && core.isProduct && term.readSizes.empty()) {
      std::vector<Meaning> operands = terms.getOperands(summand.reference);
      if (llvm::any_of(operands, [&](const Meaning &factor) { return isScale(terms, factor); })) {
        for (const Meaning &operand : operands)
          factorize(operand, result, isBelow);
        return;
      }
    }
    if (!isBelow && core.tag == Core::Tag::Quotient) {
      std::vector<Meaning> operands = terms.getOperands(summand.reference);
      if (isPositive(operands[1])) {
        factorize(operands[0], result, false);
        factorize(operands[1], result, true);
        return;
      }
    }
    factors.push_back(meaningOf(summand.reference));
    return;
  }
  // Exponentials that all summands have are factors of the sum.
  bool isPlain = value.size() > 1 && llvm::all_of(value, [&](const Summand &summand) {
                   return summand.bound.empty() && terms.get(summand.reference.term).core.isProduct;
                 });
  if (isPlain) {
    std::vector<Monomial> parts;
    for (const Summand &summand : value)
      factorize({summand}, parts.emplace_back(), false);
    bool isAny = false;
    for (unsigned i = 0; i < parts[0].above.size();) {
      const Meaning factor = parts[0].above[i];
      SmallVector<unsigned> at;
      if (isScale(terms, factor))
        for (const Monomial &part : parts) {
          auto found = llvm::find_if(part.above,
                                     [&](const Meaning &other) { return areEqual(factor, other); });
          if (found == part.above.end())
            break;
          at.push_back(found - part.above.begin());
        }
      if (at.size() != parts.size()) {
        ++i;
        continue;
      }
      for (auto [part, place] : llvm::zip(parts, at))
        part.above.erase(part.above.begin() + place);
      factors.push_back(factor);
      isAny = true;
    }
    if (isAny) {
      Meaning rest;
      for (const Monomial &part : parts)
        llvm::append_range(rest, build(part));
      factors.push_back(terms.normalize(std::move(rest)));
      return;
    }
  }
  factors.push_back(value);
}

/// Whether the factor above is the whole of the one below, which is 1 where that is 0; and what
/// else is above is zero there anyhow.
bool Fractions::isShareOfNothing(const Monomial &monomial, unsigned below, unsigned above) {
  const Meaning &divisor = monomial.below[below];
  if (terms.breaks(Lemma::ShareOfNothing) || divisor.size() != 1 ||
      !hasTag(divisor[0], Core::Tag::OrOne))
    return false;
  Meaning whole = operandOf(divisor[0]);
  if (!areEqual(monomial.above[above], whole))
    return false;
  bool vanishes = false;
  for (auto [i, factor] : llvm::enumerate(monomial.above)) {
    if (!boundsOf(factor).isReal())
      return false;
    vanishes |= i != above && vanishesWith(factor, whole);
  }
  return vanishes;
}

void Fractions::cancel(Monomial &monomial) {
  auto &above = monomial.above, &below = monomial.below;
  // Where its conditions hold: elsewhere it is 0.
  Case region;
  llvm::copy_if(monomial.guards, std::back_inserter(region),
                [&](const Guard &guard) { return isOnDigit(guard, places); });
  for (unsigned i = 0; i < below.size();) {
    bool isGone = false;
    auto isDecided = [&](const Guard &guard) {
      return llvm::any_of(region, [&](const Guard &part) { return part.index == guard.index; });
    };
    bool isOther = llvm::any_of(
        below[i], [&](const Summand &summand) { return llvm::any_of(summand.guards, isDecided); });
    Meaning here = isOther ? within(terms, below[i], region) : Meaning();
    for (unsigned j = 0; j < above.size() && !isGone; ++j) {
      const Meaning &factor = above[j];
      if (areEqual(factor, below[i])) {
        isGone = isPositive(below[i]);
      } else if (isOther && areEqual(within(terms, factor, region), here)) {
        isGone = isPositive(here);
      } else if (isShareOfNothing(monomial, i, j)) {
        isGone = true;
      } else if (!factor.empty()) {
        // What is there only where a condition holds.
        for (const Guard &guard : factor[0].guards) {
          if (isGone || !isOnDigit(guard, places) ||
              !llvm::all_of(factor, [&](const Summand &summand) {
                return llvm::any_of(summand.guards, [&](const Guard &own) {
                  return own.index == guard.index && own.low == guard.low && own.high == guard.high;
                });
              }))
            continue;
          const Case there{guard};
          Meaning whole = within(terms, below[i], there);
          isGone = areEqual(within(terms, factor, there), whole) && isPositive(whole);
          if (isGone)
            monomial.guards.push_back(guard);
        }
      }
      if (isGone)
        above.erase(above.begin() + j);
    }
    if (isGone)
      below.erase(below.begin() + i);
    else
      ++i;
  }
}

Meaning Fractions::multiplyAll(ArrayRef<Meaning> factors) {
  if (factors.empty())
    return terms.number(Rational(1));
  if (factors.size() == 1)
    return factors[0];
  Core core = productOf(element);
  core.linear.clear();
  for (unsigned i = 0; i < factors.size(); ++i)
    core.linear.push_back({i});
  return terms.apply(core, factors, {}, {}, {});
}

Meaning Fractions::build(Monomial monomial) {
  Meaning above = multiplyAll(monomial.above);
  if (!monomial.guards.empty()) {
    limitTo(above, monomial.guards);
    above = terms.normalize(std::move(above));
  }
  above = terms.scale(std::move(above), monomial.coefficient);
  if (monomial.below.empty())
    return above;
  return terms.apply(quotientOf(element), {above, multiplyAll(monomial.below)}, {}, {}, {});
}

Meaning Fractions::product(const Meaning &left, const Meaning &right) {
  if (!terms.takesShares())
    return terms.apply(productOf(element), {left, right}, {}, {}, {});
  Monomial monomial;
  factorize(left, monomial, false);
  factorize(right, monomial, false);
  if (!terms.breaks(Lemma::FractionCancels))
    cancel(monomial);
  return build(std::move(monomial));
}

Meaning Fractions::productOfAny(const Meaning &left, const Meaning &right) {
  return isFraction(left) || isFraction(right)
             ? product(left, right)
             : terms.apply(productOf(element), {left, right}, {}, {}, {});
}

/// Takes scales out of what is below, if it is a whole or 1: where the whole is 0, the fraction is
/// 0 by any number. What is left of it.
Meaning Fractions::takeScales(const Meaning &above, const Meaning &below, Monomial &result) {
  if (below.size() != 1 || below[0].coefficient != Rational(1) || !below[0].guards.empty() ||
      !hasTag(below[0], Core::Tag::OrOne) || terms.breaks(Lemma::ShareOfNothing))
    return below;
  Meaning whole = operandOf(below[0]);
  if (!vanishesWith(above, whole))
    return below;
  Monomial parts;
  factorize(whole, parts, false);
  std::vector<Meaning> scales;
  llvm::erase_if(parts.above, [&](const Meaning &factor) {
    bool isTaken = isScale(terms, factor) && isPositive(factor);
    if (isTaken)
      scales.push_back(factor);
    return isTaken;
  });
  Meaning rest = build(std::move(parts));
  if (!isNotNegative(rest))
    return below;
  llvm::append_range(result.below, scales);
  return orOne(rest);
}

Meaning Fractions::quotient(const Meaning &above, const Meaning &below) {
  if (!terms.takesShares() || !isPositive(below))
    return terms.apply(quotientOf(element), {above, below}, {}, {}, {});
  Monomial monomial;
  factorize(above, monomial, false);
  factorize(takeScales(above, below, monomial), monomial, true);
  if (!terms.breaks(Lemma::FractionCancels))
    cancel(monomial);
  return build(std::move(monomial));
}

Meaning Fractions::sum(Meaning value) {
  if (!terms.takesShares() || llvm::count_if(value, [&](const Summand &summand) {
                                return hasTag(summand, Core::Tag::Quotient);
                              }) < 2)
    return value;
  SmallVector<std::pair<Meaning, Meaning>> shares;
  Meaning rest;
  unsigned merged = 0;
  for (const Summand &summand : value) {
    if (!hasTag(summand, Core::Tag::Quotient)) {
      rest.push_back(summand);
      continue;
    }
    std::vector<Meaning> operands = terms.getOperands(summand.reference);
    if (!isPositive(operands[1])) {
      rest.push_back(summand);
      continue;
    }
    Meaning above = terms.scale(std::move(operands[0]), summand.coefficient);
    limitTo(above, Case(summand.guards.begin(), summand.guards.end()));
    above = terms.normalize(std::move(above));
    auto *same = llvm::find_if(
        shares, [&](const auto &share) { return areEqual(share.second, operands[1]); });
    if (same == shares.end()) {
      shares.push_back({std::move(above), std::move(operands[1])});
      continue;
    }
    ++merged;
    if (!terms.breaks(Lemma::FractionsAdd))
      same->first = terms.add(std::move(same->first), above);
  }
  if (!merged)
    return value;
  for (const auto &[above, below] : shares)
    llvm::append_range(rest, quotient(above, below));
  return terms.normalize(std::move(rest));
}

//===----------------------------------------------------------------------===//
// Exponentials and logarithms
//===----------------------------------------------------------------------===//

Meaning Fractions::exponential(const Meaning &value) {
  auto plain = [&](const Meaning &power) {
    Core core = functionOf("exp", element);
    return terms.apply(core, power, {}, {}, {});
  };
  if (!terms.takesShares())
    return plain(value);
  Monomial monomial;
  Meaning rest;
  SmallVector<Meaning> mayBeZero;
  bool isAny = false;
  for (const Summand &summand : value) {
    bool isOnce = summand.coefficient == Rational(1), isBelow = summand.coefficient == Rational(-1);
    bool isWhole = summand.guards.empty() && summand.bound.empty() && (isOnce || isBelow);
    if (isWhole && hasTag(summand, Core::Tag::Log) && !terms.breaks(Lemma::ExpOfLog)) {
      Meaning operand = operandOf(summand);
      bool isAbove0 = isPositive(operand);
      if (isAbove0 || (isOnce && llvm::all_of(operand, [&](const Summand &part) {
                         return isNotNegative(part, /*strictly=*/false);
                       }))) {
        factorize(operand, monomial, isBelow);
        if (!isAbove0)
          mayBeZero.push_back(operand);
        isAny = true;
        continue;
      }
    }
    if (isWhole &&
        (hasTag(summand, Core::Tag::Max) || hasTag(summand, Core::Tag::Maximum) ||
         hasTag(summand, Core::Tag::OrZero)) &&
        boundsOf(Meaning{summand}).isReal() && !terms.breaks(Lemma::ExpOfSum)) {
      monomial.above.push_back(plain({summand}));
      isAny = true;
      continue;
    }
    rest.push_back(summand);
  }
  if (!isAny)
    return plain(value);
  // Zero times what is not a number is nothing that could be said.
  if (!mayBeZero.empty()) {
    Meaning others;
    for (const Summand &summand : value)
      if (!hasTag(summand, Core::Tag::Log))
        others.push_back(summand);
    if (mayBeZero.size() > 1 || !boundsOf(others).isReal() || !monomial.below.empty())
      return plain(value);
  }
  if (!rest.empty())
    monomial.above.push_back(plain(rest));
  cancel(monomial);
  return build(std::move(monomial));
}

Meaning Fractions::logarithm(const Meaning &value) {
  Core core = functionOf("log", element);
  auto plain = [&](const Meaning &operand) { return terms.apply(core, operand, {}, {}, {}); };
  if (!terms.takesShares() || value.empty() || terms.breaks(Lemma::LogOfProduct))
    return plain(value);
  Monomial monomial;
  factorize(value, monomial, false);
  Meaning powers;
  auto take = [&](std::vector<Meaning> &factors, int64_t sign) {
    llvm::erase_if(factors, [&](const Meaning &factor) {
      if (!isScale(terms, factor))
        return false;
      Meaning power = operandOf(factor[0]);
      if (!boundsOf(power).isReal())
        return false;
      llvm::append_range(powers, terms.scale(std::move(power), Rational(sign)));
      return true;
    });
  };
  take(monomial.above, 1);
  take(monomial.below, -1);
  if (powers.empty())
    return plain(value);
  Meaning rest = build(std::move(monomial));
  if (!areEqual(rest, terms.number(Rational(1))))
    llvm::append_range(powers, plain(rest));
  return terms.normalize(std::move(powers));
}

Meaning Fractions::maximum(const Meaning &left, const Meaning &right) {
  Core core = functionOf("maximum", element);
  core.tag = Core::Tag::Maximum;
  return terms.apply(core, {left, right}, {}, {}, {});
}

Meaning Fractions::orOne(const Meaning &value) {
  if (isPositive(value))
    return value;
  Core core = functionOf("or one", element);
  core.tag = Core::Tag::OrOne;
  return terms.apply(core, value, {}, {}, {});
}

std::optional<Meaning> Fractions::orZero(const Meaning &value) {
  if (boundsOf(value).isReal())
    return value;
  if (!isNumberOrBottom(value))
    return std::nullopt;
  // log 1, of what is 1 there.
  if (hasTag(value[0], Core::Tag::Log))
    return logarithm(orOne(operandOf(value[0])));
  Core core = functionOf("or zero", element);
  core.tag = Core::Tag::OrZero;
  return terms.apply(core, value, {}, {}, {});
}
