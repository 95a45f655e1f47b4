//===- FractionBounds.cpp - what is real, and what is positive ---------------===//

#include "lib/prove/Fractions.h"

using namespace cleave::prove;
using llvm::SmallVector;
using llvm::StringRef;

Bounds Fractions::boundsOf(TermId id) {
  if (auto found = known.bounds.find(id); found != known.bounds.end())
    return found->second;
  const Term &term = terms.get(id);
  Bounds bounds, all;
  for (const Reference &operand : term.operands) {
    Bounds own = boundsOf(operand.term);
    all.low &= own.low;
    all.high &= own.high;
  }
  if (term.kind == Term::Kind::Leaf) {
    // Of what has no meaning nothing is known.
    if (StringRef(term.core.key).starts_with("unknown "))
      bounds = {false, false};
  } else if (term.kind == Term::Kind::Sum) {
    for (const Summand &summand : term.body) {
      Bounds own = boundsOf(summand.reference.term);
      bounds.low &= summand.coefficient < Rational(0) ? own.high : own.low;
      bounds.high &= summand.coefficient < Rational(0) ? own.low : own.high;
    }
  } else if (!term.core.isInteger) {
    switch (term.core.tag) {
    case Core::Tag::Exp:
      bounds = {true, all.high};
      break;
    case Core::Tag::Log: {
      // At any place.
      Reference anywhere{id, {}};
      for (int64_t size : term.sizes)
        anywhere.indices.push_back(Index::of(terms.variables.make(size)));
      bounds = {isPositive(terms.getOperands(anywhere)[0]), all.high};
      break;
    }
    case Core::Tag::Maximum:
      bounds = {false, all.high};
      for (const Reference &operand : term.operands)
        bounds.low |= boundsOf(operand.term).low;
      break;
    case Core::Tag::Max:
      bounds = all;
      break;
    case Core::Tag::OrZero:
      bounds = {true, all.high};
      break;
    case Core::Tag::IsZero:
    case Core::Tag::Choice:
    case Core::Tag::Divided:
    case Core::Tag::PlaceInOrder:
      // Integers, whatever they are made of.
      break;
    case Core::Tag::Infinite:
      bounds = {term.core.number > 0, term.core.number < 0};
      break;
    default:
      if (StringRef(term.core.key).starts_with("aten._softmax#") ||
          StringRef(term.core.key).starts_with("aten._safe_softmax#")) {
        // Of -inf a share is zero.
        all.low = true;
      } else if (StringRef(term.core.key).starts_with("aten._scaled_dot_product_flash")) {
        // Shares of numbers, whatever -inf a mask has.
        all = {};
        for (auto [i, operand] : llvm::enumerate(term.operands)) {
          bool isMask = (i == 3 && term.operands.size() == 4) || i == 6;
          Bounds own = boundsOf(operand.term);
          all.low &= own.low || isMask;
          all.high &= own.high;
        }
      }
      if (term.core.isUnbounded)
        bounds = {false, all.high && term.core.isFromBelow};
      else if (StringRef(term.core.key).starts_with("aten.where#") ||
               StringRef(term.core.key).starts_with("aten.masked_fill"))
        bounds = all;
      else if (!all.isReal())
        bounds = {false, false};
    }
  }
  known.bounds[id] = bounds;
  return bounds;
}

Bounds Fractions::boundsOf(const Meaning &value) {
  Bounds bounds;
  for (const Summand &summand : value) {
    Bounds own = boundsOf(summand.reference.term);
    bounds.low &= summand.coefficient < Rational(0) ? own.high : own.low;
    bounds.high &= summand.coefficient < Rational(0) ? own.low : own.high;
  }
  return bounds;
}

/// Whether its term is not below 0, or is above it.
bool Fractions::isNotNegative(const Summand &summand, bool strictly) {
  if (!(summand.coefficient > Rational(0)))
    return false;
  const Term &term = terms.get(summand.reference.term);
  if (term.kind == Term::Kind::Leaf)
    return term.core.key == "one";
  if (term.kind != Term::Kind::Op || !term.readSizes.empty())
    return false;
  // What holds at all places holds at each; what does not may still hold at some.
  bool isWhole = terms.isWhole(summand.reference);
  auto &signs = known.signs[strictly];
  auto found = signs.find(summand.reference.term);
  if (found != signs.end() && (found->second || isWhole))
    return found->second;
  bool holds = isMadeNotNegative(summand, strictly);
  if (isWhole)
    signs[summand.reference.term] = holds;
  return holds;
}

/// The same, by the operands of the op.
bool Fractions::isMadeNotNegative(const Summand &summand, bool strictly) {
  const Term &term = terms.get(summand.reference.term);
  const Core &core = term.core;
  auto isFactor = [&](const Meaning &factor) {
    return strictly ? isPositive(factor)
                    : llvm::all_of(terms.partsOf(factor), [&](const Summand &part) {
                        return isNotNegative(part, /*strictly=*/false);
                      });
  };
  if (core.tag == Core::Tag::Exp)
    return !strictly || boundsOf(operandOf(summand)).isReal();
  if (core.tag == Core::Tag::OrOne)
    return isNotNegative(operandOf(summand));
  if (core.isProduct)
    return llvm::all_of(terms.getOperands(summand.reference), isFactor);
  if (core.tag == Core::Tag::Quotient) {
    std::vector<Meaning> operands = terms.getOperands(summand.reference);
    return isFactor(operands[0]) && isPositive(operands[1]);
  }
  return false;
}

/// Whether, wherever it is taken, its conditions hold for some of what it sums up.
bool Fractions::isSomewhere(const Summand &summand) const {
  if (summand.guards.empty())
    return true;
  if (summand.guards.size() > 1)
    return false;
  const Guard &guard = summand.guards[0];
  Index free(guard.index.getConstant()), bound;
  for (const Index::Part &part : guard.index.getParts()) {
    Index own = Index::of(part.var, part.coefficient);
    (llvm::is_contained(summand.bound, part.var) ? bound : free) =
        (llvm::is_contained(summand.bound, part.var) ? bound : free) + own;
  }
  auto [least, greatest] = terms.variables.getRange(free);
  auto [first, last] = terms.variables.getRange(bound);
  return llvm::any_of(std::array{first, last}, [&](int64_t at) {
    return least + at >= guard.low && greatest + at < guard.high;
  });
}

bool Fractions::isNotNegative(const Meaning &value) {
  return boundsOf(value).high && llvm::all_of(terms.partsOf(value), [&](const Summand &summand) {
           return isNotNegative(summand, /*strictly=*/false);
         });
}

bool Fractions::isPositive(const Meaning &whole) {
  const Meaning value = terms.partsOf(whole);
  // What is infinite is no share of itself.
  if (value.empty() || !isNotNegative(value))
    return false;
  auto holds = [&](const Meaning &there) {
    return llvm::any_of(
        there, [&](const Summand &summand) { return isSomewhere(summand) && isPositive(summand); });
  };
  if (holds(value))
    return true;
  SmallVector<Var> digits;
  for (const Summand &summand : value)
    for (const Guard &guard : summand.guards)
      for (const Index::Part &part : guard.index.getParts())
        if (!llvm::is_contained(summand.bound, part.var) && !llvm::is_contained(digits, part.var))
          digits.push_back(part.var);
  std::optional<std::vector<Case>> regions = listCases(terms, &value, digits);
  return regions && regions->size() > 1 && llvm::all_of(*regions, [&](const Case &region) {
           return holds(within(terms, value, region));
         });
}

bool Fractions::vanishesWith(const Meaning &value, const Meaning &whole) {
  if (!isNotNegative(whole) || !boundsOf(value).isReal())
    return false;
  SmallVector<size_t> codes;
  for (const Summand &other : whole)
    codes.push_back(likenessOf(other, terms.variables));
  auto isPart = [&](Summand summand) {
    Meaning part = terms.normalize({std::move(summand)});
    if (part.size() != 1)
      return false;
    part[0].coefficient = Rational(1);
    size_t code = likenessOf(part[0], terms.variables);
    return llvm::any_of(llvm::zip(codes, whole), [&](auto entry) {
      if (std::get<0>(entry) != code)
        return false;
      Summand other = std::get<1>(entry);
      other.coefficient = Rational(1);
      return terms.areEqual(part, {other});
    });
  };
  return llvm::all_of(value, [&](const Summand &summand) {
    if (isPart(summand))
      return true;
    const Term &term = terms.get(summand.reference.term);
    if (term.kind != Term::Kind::Op || !term.core.isProduct || !term.readSizes.empty())
      return false;
    return llvm::any_of(terms.getOperands(summand.reference), [&](const Meaning &factor) {
      if (factor.size() != 1 || !factor[0].bound.empty())
        return false;
      Summand part = summand;
      llvm::append_range(part.guards, factor[0].guards);
      part.reference = factor[0].reference;
      return isPart(std::move(part));
    });
  });
}

/// Whether it is a number or -inf at all places.
bool Fractions::isNumberOrBottom(const Meaning &value) {
  if (boundsOf(value).isReal())
    return true;
  if (value.size() != 1 || value[0].coefficient != Rational(1) || !value[0].guards.empty())
    return false;
  if (hasTag(value[0], Core::Tag::Log))
    return isNotNegative(operandOf(value[0]));
  return hasTag(value[0], Core::Tag::Maximum) &&
         llvm::all_of(terms.getOperands(value[0].reference),
                      [&](const Meaning &operand) { return isNumberOrBottom(operand); });
}
