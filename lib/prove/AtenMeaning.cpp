//===- AtenMeaning.cpp - what adds, multiplies and fills --------------------===//
//
// Ops that are more than a core: sums are sums of meanings, products of matrices are sums of
// products, and a constant is a number.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/train/Train.h"
#include "lib/prove/Evaluator.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using sharding::ShardingRule;

/// The number that a finite scalar is.
static std::optional<Rational> numberOf(Attribute scalar) {
  if (auto number = dyn_cast_or_null<FloatAttr>(scalar))
    return number.getValue().isFinite() ? std::optional(exactly(number.getValueAsDouble()))
                                        : std::nullopt;
  if (auto number = dyn_cast_or_null<IntegerAttr>(scalar))
    return Rational(number.getType().isInteger(1) ? int64_t(number.getValue().getBoolValue())
                                                  : number.getInt());
  return std::nullopt;
}

static std::optional<Rational> numberOr(Operation *op, StringRef name, int64_t fallback) {
  Attribute scalar = op->getAttr(name);
  return scalar ? numberOf(scalar) : std::optional(Rational(fallback));
}

/// Whether all tensors have one type of numbers, in which sums and products are those of the reals
/// but for rounding.
static bool isInOneType(Operation *op) {
  RankedTensorType result = tensorOf(op->getResult(0).getType());
  if (!result || result.getElementType().isInteger(1))
    return false;
  return llvm::all_of(op->getOperandTypes(), [&](Type type) {
    RankedTensorType tensor = tensorOf(type);
    return tensor && tensor.getElementType() == result.getElementType();
  });
}

Core cleave::prove::productOf(Type element) {
  Core core;
  llvm::raw_string_ostream(core.key) << "product " << element;
  core.linear = {{0}, {1}};
  core.isProduct = true;
  return core;
}

bool cleave::prove::takesOff(const Meaning &sum, const Terms &terms, Fractions &fractions) {
  constexpr unsigned kMost = 1'000;
  llvm::SmallDenseMap<TermId, bool> signs;
  SmallVector<std::pair<TermId, bool>> pending;
  auto isBoth = [&](const Summand &summand, bool isTakenOff) {
    if (fractions.boundsOf({summand}).isReal())
      return false;
    isTakenOff ^= summand.coefficient < Rational(0);
    auto [sign, isFirst] = signs.try_emplace(summand.reference.term, isTakenOff);
    if (isFirst)
      pending.push_back({summand.reference.term, isTakenOff});
    return !isFirst && sign->second != isTakenOff;
  };
  if (llvm::any_of(sum, [&](const Summand &summand) { return isBoth(summand, false); }))
    return true;
  while (!pending.empty()) {
    auto [id, isTakenOff] = pending.pop_back_val();
    const Term &term = terms.get(id);
    for (const Summand &summand : term.body)
      if (isBoth(summand, isTakenOff))
        return true;
    for (ArrayRef<unsigned> group : term.core.linear)
      for (unsigned operand : group) {
        Summand taken;
        taken.reference = term.operands[operand];
        if (isBoth(taken, isTakenOff))
          return true;
      }
    if (signs.size() > kMost)
      return true;
  }
  return false;
}

std::optional<Tensor> Evaluator::evaluateSpecial(Operation *op, ArrayRef<const Tensor *> operands) {
  if (op->getNumResults() != 1 || !tensorOf(op->getResult(0).getType()))
    return std::nullopt;
  // What lies uninitialized is like nothing else.
  if (isa<aten::EmptyMemoryFormatOp, aten::EmptyLikeOp, aten::NewEmptyStridedOp>(op))
    return opaque(op->getResult(0).getType());
  if (std::optional<Tensor> constant = makeConstant(op))
    return constant;
  if (std::optional<Tensor> range = makeRange(op))
    return range;
  if (!isInOneType(op))
    return std::nullopt;

  auto readsWhole = [](const ShardingRule &rule) {
    return llvm::any_of(rule.factors, [](const sharding::Factor &factor) {
      return factor.size > 1 && isRead(factor);
    });
  };
  auto combine = [&](Build combineMeanings) -> std::optional<Tensor> {
    ShardingRule rule = ruleOf(op);
    if (readsWhole(rule))
      return std::nullopt;
    std::optional<Factors> factors = cutOperands(op, rule, operands);
    if (!factors)
      return std::nullopt;
    return build(op, rule, *factors, 0, combineMeanings);
  };
  Type element = tensorOf(op->getResult(0).getType()).getElementType();
  Fractions fractions = fractionsOf(element);
  Core product = productOf(element);
  bool isFloat = isa<FloatType>(element);
  // A sum in which each operand counts so often.
  auto addUp = [&](ArrayRef<Rational> factors, Rational constant) -> std::optional<Tensor> {
    bool isNumber = true;
    std::optional<Tensor> result = combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      Meaning sum = terms.number(constant);
      Bounds bounds;
      bool isOrdered = true;
      for (auto [meaning, factor] : llvm::zip(meanings, factors)) {
        Meaning scaled = terms.scale(meaning, terms.breaks(Lemma::Sum) ? Rational(1) : factor);
        // Zero times inf is not a number.
        if (isFloat) {
          Bounds own = fractions.boundsOf(scaled);
          isOrdered &= (bounds.low || own.high) && (bounds.high || own.low);
          isNumber &= factor != Rational(0) || fractions.boundsOf(meaning).isReal();
          bounds.low &= own.low;
          bounds.high &= own.high;
        }
        llvm::append_range(sum, scaled);
      }
      // Neither is inf less inf, whatever else is added: what is taken off must not be what is
      // added.
      isNumber &= isOrdered || !takesOff(sum, terms, fractions);
      sum = terms.normalize(std::move(sum));
      return isFloat && isOrdered ? fractions.sum(std::move(sum)) : sum;
    });
    if (isNumber || !result)
      return result;
    // What infinities make is not a sum of the reals, but still a function of the operands.
    Core core;
    llvm::raw_string_ostream key(core.key);
    key << "sum of infinities " << element << ' ' << constant.num << '/' << constant.den;
    for (const Rational &factor : factors)
      key << ' ' << factor.num << '/' << factor.den;
    core.isUnbounded = true;
    return combine([&](ArrayRef<Meaning> meanings, const Extent &extent) {
      return terms.apply(core, meanings, extent.read, extent.results, extent.resultSizes);
    });
  };

  if (isa<aten::AddOp, aten::SubOp>(op)) {
    std::optional<Rational> alpha = numberOr(op, "alpha", 1);
    if (!alpha)
      return std::nullopt;
    return addUp({Rational(1), isa<aten::SubOp>(op) ? -*alpha : *alpha}, Rational(0));
  }
  if (isa<train::AccumulateOp>(op))
    return addUp({Rational(1), Rational(1)}, Rational(0));
  if (isa<aten::AddScalarOp, aten::SubScalarOp, aten::RsubScalarOp>(op)) {
    std::optional<Rational> alpha = numberOr(op, "alpha", 1), other = numberOr(op, "other", 0);
    if (!alpha || !other)
      return std::nullopt;
    if (isa<aten::RsubScalarOp>(op))
      return addUp(-*alpha, *other);
    return addUp(Rational(1), *alpha * (isa<aten::SubScalarOp>(op) ? -*other : *other));
  }
  if (isa<aten::NegOp>(op))
    return addUp(Rational(-1), Rational(0));
  if (isa<aten::MulScalarOp, aten::DivScalarOp>(op)) {
    std::optional<Rational> other = numberOr(op, "other", 1);
    bool divides = isa<aten::DivScalarOp>(op);
    if (!other || (divides && *other == Rational(0)))
      return std::nullopt;
    return addUp(divides ? Rational(1) / *other : *other, Rational(0));
  }
  // Zero times what may be infinite is no zero.
  auto isNoNumber = [&](ArrayRef<Meaning> factors) {
    return isFloat && llvm::any_of(factors, [](const Meaning &factor) { return factor.empty(); }) &&
           llvm::any_of(factors, [&](const Meaning &factor) {
             return !fractions.boundsOf(factor).isReal();
           });
  };
  Core undefined = functionOf("times", element);
  undefined.isUnbounded = true;
  if (isa<aten::MulOp>(op) && isFloat)
    return combine([&](ArrayRef<Meaning> meanings, const Extent &extent) {
      if (terms.breaks(Lemma::Product))
        return meanings[0];
      if (isNoNumber(meanings))
        return terms.apply(undefined, meanings, {}, {}, {});
      return fractions.productOfAny(meanings[0], meanings[1]);
    });
  if (isa<aten::MulOp, aten::MmOp, aten::BmmOp, aten::MvOp, aten::DotOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &extent) {
      return terms.breaks(Lemma::Product)
                 ? meanings[0]
                 : terms.apply(isNoNumber(meanings) ? undefined : product, meanings, extent.read,
                               extent.results, extent.resultSizes);
    });
  auto applied = [&](const Core &core) {
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return terms.apply(core, meanings, {}, {}, {});
    });
  };
  if (isa<aten::DivOp>(op)) {
    Core quotient = quotientOf(element);
    if (terms.breaks(Lemma::Quotient))
      quotient.linear.push_back({1});
    else if (isFloat)
      return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
        return fractions.quotient(meanings[0], meanings[1]);
      });
    return applied(quotient);
  }
  if (isFloat && isa<aten::ExpOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return fractions.exponential(meanings[0]);
    });
  if (isFloat && isa<aten::LogOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return fractions.logarithm(meanings[0]);
    });
  if (isFloat && terms.takesShares() && isa<aten::MaximumOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return fractions.maximum(meanings[0], meanings[1]);
    });
  if (isa<aten::RsqrtOp>(op))
    return applied(functionOf("rsqrt", element));
  if (isa<aten::SqrtOp>(op))
    return applied(rootOf(element));
  if (isa<aten::SumOp, aten::SumDimIntListOp, aten::MeanOp, aten::MeanDimOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) { return meanings[0]; });

  if (isa<aten::AddmmOp, aten::BaddbmmOp>(op)) {
    std::optional<Rational> beta = numberOr(op, "beta", 1), alpha = numberOr(op, "alpha", 1);
    if (!beta || !alpha)
      return std::nullopt;
    ShardingRule rule = ruleOf(op);
    // The bias is added once, not to each term of the sum.
    for (sharding::Factor &factor : rule.factors)
      factor.addends.clear();
    if (readsWhole(rule))
      return std::nullopt;
    std::optional<Factors> factors = cutOperands(op, rule, operands);
    if (!factors)
      return std::nullopt;
    std::optional<Tensor> value =
        build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &extent) {
          return terms.scale(terms.apply(product, meanings.drop_front(), extent.read,
                                         extent.results, extent.resultSizes),
                             *alpha);
        });
    // The same digits again, for the bias: no factor that it has is summed.
    for (sharding::Factor &factor : rule.factors)
      if (factor.reduction == sharding::FactorReduction::Sum)
        factor.reduction = sharding::FactorReduction::None;
    std::optional<Tensor> bias =
        build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &) {
          return terms.scale(meanings[0], terms.breaks(Lemma::BiasOnce) ? Rational(0) : *beta);
        });
    if (!value || !bias)
      return std::nullopt;
    return addValues(*value, *bias);
  }
  return std::nullopt;
}

std::optional<Tensor> Evaluator::addValues(Tensor left, Tensor right) {
  if (llvm::any_of(left.dims, [&](const auto &dim) { return sizeOf(dim, terms.variables) == 0; }))
    return left;
  Substitution digits;
  for (unsigned dim = 0; dim < left.dims.size(); ++dim)
    if (!cutAlike(terms, left, dim, right, dim, digits))
      return std::nullopt;
  substitute(right.meaning, digits);
  left.meaning = terms.add(std::move(left.meaning), right.meaning);
  coarsen(terms, left);
  return left;
}

std::optional<Tensor> Evaluator::multiply(Tensor left, Tensor right, Type element) {
  Substitution digits;
  for (unsigned dim = 0; dim < left.dims.size(); ++dim)
    if (!cutAlike(terms, left, dim, right, dim, digits))
      return std::nullopt;
  substitute(right.meaning, digits);
  // A share that is dropped is one, as it is where 'aten.mul' takes it.
  left.meaning = fractionsOf(element).productOfAny(left.meaning, right.meaning);
  coarsen(terms, left);
  return left;
}

std::optional<Tensor> Evaluator::multiplyMatrices(Tensor left, Tensor right, Type element) {
  Substitution digits;
  if (left.dims.size() != 2 || right.dims.size() != 2 ||
      !cutAlike(terms, left, 1, right, 0, digits))
    return std::nullopt;
  substitute(right.meaning, digits);
  Tensor result{{left.dims[0], right.dims[1]}, {}};
  result.meaning = terms.sum(
      terms.apply(productOf(element), {left.meaning, right.meaning}, {}, {}, {}), left.dims[1]);
  coarsen(terms, result);
  return result;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::optional<Tensor> Evaluator::makeConstant(Operation *op) {
  Attribute scalar;
  if (isa<aten::ZerosOp, aten::ZerosLikeOp, aten::ZeroOp, aten::NewZerosOp>(op))
    scalar = Builder(op->getContext()).getI64IntegerAttr(0);
  else if (isa<aten::OnesOp, aten::OnesLikeOp, aten::NewOnesOp>(op))
    scalar = Builder(op->getContext()).getI64IntegerAttr(1);
  else if (isa<aten::FullOp, aten::FullLikeOp, aten::NewFullOp>(op))
    scalar = op->getAttr("fill_value");
  else if (isa<aten::FillScalarOp>(op))
    scalar = op->getAttr("value");
  else if (isa<aten::ScalarTensorOp>(op))
    scalar = op->getAttr("s");
  if (!scalar)
    return std::nullopt;
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  Type element = type.getElementType();
  Tensor value{makeDims(terms, type.getShape()), {}};
  std::optional<Rational> number = numberOf(scalar);
  bool isExact = false;
  if (number && isa<FloatType>(element)) {
    if (auto real = dyn_cast<FloatAttr>(scalar)) {
      bool loses = false;
      APFloat converted = real.getValue();
      converted.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                        &loses);
      isExact = !loses;
    } else {
      // Small integers are in every type.
      isExact = *number <= Rational(256) && *number >= Rational(-256);
    }
  } else if (number && element.isInteger(1)) {
    isExact = *number == Rational(0) || *number == Rational(1);
  } else if (number && isa<IntegerType>(element)) {
    isExact = number->den == 1 && *number <= Rational(127) && *number >= Rational(-128);
    isExact |= number->den == 1 && element.isSignlessInteger(64);
  }
  if (isExact) {
    value.meaning = terms.number(terms.breaks(Lemma::Constant) ? Rational(0) : *number);
    return value;
  }
  auto real = dyn_cast<FloatAttr>(scalar);
  bool isInfinite = real && real.getValue().isInfinity() && isa<FloatType>(element);
  if (isInfinite && terms.takesShares()) {
    value.meaning = infinity(real.getValue().isNegative(), element);
    return value;
  }
  // What the type rounds, infinities, and NaN.
  Core core;
  core.isUnbounded = !number;
  if (isInfinite) {
    core.tag = Core::Tag::Infinite;
    core.number = real.getValue().isNegative() ? -1 : 1;
  }
  llvm::raw_string_ostream(core.key) << "constant " << scalar << " of " << element;
  value.meaning = terms.apply(core, {}, {}, {}, {});
  return value;
}

std::optional<Tensor> Evaluator::makeRange(Operation *op) {
  if (!isa<aten::ArangeOp, aten::ArangeStartOp, aten::ArangeStartStepOp>(op))
    return std::nullopt;
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  auto start = numberOr(op, "start", 0), step = numberOr(op, "step", 1);
  auto isSmall = [](const Rational &number) {
    return number.den == 1 && number < Rational(1 << 20) && number > Rational(-(1 << 20));
  };
  // Positions beyond 2^24 are not in every type of real numbers.
  Type element = type.getElementType();
  if (!start || !step || !isSmall(*start) || !isSmall(*step) ||
      type.getNumElements() > (element.isSignlessInteger(64) ? kFar >> 21 : 1 << 20))
    return std::nullopt;
  if (!element.isSignlessInteger(64) && !element.isF32() && !element.isF64())
    return std::nullopt;
  Tensor value{makeDims(terms, type.getShape()), {}};
  Index place = placeIn(value.dims[0], terms.variables);
  Index first(terms.breaks(Lemma::Range) ? 0 : int64_t(start->num));
  value.meaning = terms.position(place * int64_t(step->num) + first);
  return value;
}
