//===- AtenMeaning.cpp - what adds, multiplies, fills and takes parts -------===//
//
// Ops that are more than a core: sums are sums of meanings, products of matrices are sums of
// products, a constant is a number, and a part is a change of index.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/train/Train.h"
#include "lib/prove/Evaluator.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

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
  bool isReal = isa<FloatType>(element);
  // A sum in which each operand counts so often.
  auto addUp = [&](ArrayRef<Rational> factors, Rational constant) -> std::optional<Tensor> {
    bool isNumber = true;
    std::optional<Tensor> result = combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      Meaning sum = terms.number(constant);
      Bounds bounds;
      for (auto [meaning, factor] : llvm::zip(meanings, factors)) {
        Meaning scaled = terms.scale(meaning, terms.breaks(Lemma::Sum) ? Rational(1) : factor);
        // inf less inf is not a number, and neither is zero times inf.
        if (isReal) {
          Bounds own = fractions.boundsOf(scaled);
          isNumber &= (bounds.low || own.high) && (bounds.high || own.low) &&
                      (factor != Rational(0) || fractions.boundsOf(meaning).isReal());
          bounds.low &= own.low;
          bounds.high &= own.high;
        }
        llvm::append_range(sum, scaled);
      }
      sum = terms.normalize(std::move(sum));
      return isReal ? fractions.sum(std::move(sum)) : sum;
    });
    return isNumber ? result : opaque(op->getResult(0).getType());
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
    return isReal && llvm::any_of(factors, [](const Meaning &factor) { return factor.empty(); }) &&
           llvm::any_of(factors, [&](const Meaning &factor) {
             return !fractions.boundsOf(factor).isReal();
           });
  };
  Core undefined = functionOf("times", element);
  undefined.isUnbounded = true;
  if (isa<aten::MulOp>(op) && isReal)
    return combine([&](ArrayRef<Meaning> meanings, const Extent &extent) {
      if (terms.breaks(Lemma::Product))
        return meanings[0];
      if (isNoNumber(meanings))
        return terms.apply(undefined, meanings, {}, {}, {});
      return fractions.isFraction(meanings[0]) || fractions.isFraction(meanings[1])
                 ? fractions.product(meanings[0], meanings[1])
                 : terms.apply(product, meanings, {}, {}, {});
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
    else if (isReal)
      return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
        return fractions.quotient(meanings[0], meanings[1]);
      });
    return applied(quotient);
  }
  if (isReal && isa<aten::ExpOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return fractions.exponential(meanings[0]);
    });
  if (isReal && isa<aten::LogOp>(op))
    return combine([&](ArrayRef<Meaning> meanings, const Extent &) {
      return fractions.logarithm(meanings[0]);
    });
  if (isReal && terms.takesShares() && isa<aten::MaximumOp>(op))
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
  left.meaning = terms.apply(productOf(element), {left.meaning, right.meaning}, {}, {}, {});
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

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

std::optional<Tensor> Evaluator::slice(const Tensor &whole, unsigned dim, int64_t start,
                                       int64_t step, int64_t length) {
  Tensor value = whole;
  SmallVector<Digit, 2> digits = digitsOf(value.dims[dim], terms.variables);
  int64_t size = digits.empty() ? 1 : digits.front().size * digits.front().stride;
  if (start == 0 && step == 1 && length == size)
    return value;
  // Along the major digit: the part begins and ends at multiples of its stride.
  int64_t stride = digits.empty() ? 1 : digits.front().stride;
  if (digits.size() > 1 && (step != 1 || start % stride || length % stride))
    return std::nullopt;
  if (digits.empty())
    return std::nullopt;
  Index place(terms.breaks(Lemma::Slice) ? 0 : start / stride);
  SmallVector<Var, 2> rest(value.dims[dim].begin() + 1, value.dims[dim].end());
  if (length / stride != 1) {
    Var var = terms.variables.make(length / stride);
    rest.insert(rest.begin(), var);
    place = place + Index::of(var, step);
  }
  Substitution change;
  change[digits.front().var] = place;
  substitute(value.meaning, change);
  value.dims[dim] = rest;
  value.meaning = terms.normalize(std::move(value.meaning));
  return value;
}

std::optional<Tensor> Evaluator::reshape(const Tensor &value, ArrayRef<int64_t> shape) {
  // In row-major order all dimensions are one.
  Tensor flat{{}, value.meaning};
  auto &digits = flat.dims.emplace_back();
  for (const auto &dim : value.dims)
    digits.insert(terms.breaks(Lemma::Reshape) ? digits.begin() : digits.end(), dim.begin(),
                  dim.end());
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(shape)) {
    strides.push_back(stride);
    stride *= size;
  }
  if (!cut(terms, flat, 0, strides))
    return std::nullopt;
  Tensor result{{}, std::move(flat.meaning)};
  ArrayRef<Var> rest = flat.dims[0];
  for (int64_t size : shape) {
    auto &dim = result.dims.emplace_back();
    for (int64_t product = 1; product < size; rest = rest.drop_front()) {
      dim.push_back(rest.front());
      product *= terms.variables.getSize(rest.front());
    }
  }
  coarsen(terms, result);
  return result;
}

Tensor Evaluator::select(Tensor value, unsigned dim, int64_t place) {
  Substitution change;
  for (const Digit &digit : digitsOf(value.dims[dim], terms.variables))
    change[digit.var] = Index(terms.breaks(Lemma::Select) ? 0 : place / digit.stride % digit.size);
  substitute(value.meaning, change);
  value.dims.erase(value.dims.begin() + dim);
  value.meaning = terms.normalize(std::move(value.meaning));
  return value;
}

bool Evaluator::evaluateParts(Operation *op, ArrayRef<const Tensor *> operands,
                              std::vector<Tensor> &results) {
  auto integer = [&](StringRef name, int64_t fallback) {
    auto attribute = op->getAttrOfType<IntegerAttr>(name);
    return attribute ? attribute.getInt() : fallback;
  };
  if (!isa<aten::SliceOp, aten::SelectOp, aten::SplitOp, aten::SplitWithSizesOp, aten::UnbindOp>(
          op))
    return false;
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  int64_t dim = integer("dim", 0);
  dim += dim < 0 ? type.getRank() : 0;
  int64_t size = type.getDimSize(dim);
  if (isa<aten::SliceOp>(op)) {
    int64_t start = integer("start", 0);
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    int64_t length = tensorOf(op->getResult(0).getType()).getDimSize(dim);
    std::optional<Tensor> part = slice(*operands[0], dim, start, integer("step", 1), length);
    if (!part || length == 0)
      return false;
    results.push_back(std::move(*part));
  } else if (isa<aten::SelectOp>(op)) {
    int64_t place = integer("index", 0);
    results.push_back(select(*operands[0], dim, place < 0 ? place + size : place));
  } else if (isa<aten::UnbindOp>(op)) {
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      results.push_back(select(*operands[0], dim, i));
  } else {
    int64_t start = 0;
    for (Type result : op->getResultTypes()) {
      int64_t length = tensorOf(result).getDimSize(dim);
      std::optional<Tensor> part =
          length ? slice(*operands[0], dim, start, 1, length) : std::nullopt;
      if (!part) {
        results.clear();
        return false;
      }
      results.push_back(std::move(*part));
      start += length;
    }
  }
  for (Tensor &result : results)
    coarsen(terms, result);
  return true;
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

/// Whether it is the operand again, or that in another type.
static bool isCopy(Operation *op) {
  return isa<aten::CloneOp, aten::LiftFreshCopyOp, aten::ToCopyOp, aten::AliasOp, aten::DetachOp>(
      op);
}

static bool isReshape(Operation *op) {
  return isa<aten::ViewOp, aten::UnsafeViewOp, aten::UnsqueezeOp, aten::SqueezeOp,
             aten::SqueezeDimOp, aten::SqueezeDimsOp>(op);
}

Tensor Evaluator::opaque(Type type, StringRef kind) {
  RankedTensorType tensor = tensorOf(type);
  if (!tensor)
    return {};
  Tensor value{makeDims(terms, tensor.getShape()), {}};
  SmallVector<Index> indices;
  SmallVector<int64_t> sizes;
  auto add = [&](Var var) {
    indices.push_back(Index::of(var));
    sizes.push_back(terms.variables.getSize(var));
  };
  for (const Axis &axis : axes)
    llvm::for_each(axis.digits, add);
  for (const auto &dim : value.dims)
    llvm::for_each(dim, add);
  // Unlike anything else in either program.
  std::string name = (kind + " " + llvm::Twine(terms.variables.make(1))).str();
  value.meaning = terms.leaf(name, sizes, indices);
  return value;
}

std::vector<Tensor> Evaluator::evaluate(Operation *op, ArrayRef<const Tensor *> given,
                                        std::string &unknown) {
  std::vector<Tensor> results = evaluatePlain(op, given, unknown);
  for (Tensor &result : results)
    result.rows.reset();
  if (evaluateRows(op, given, results))
    unknown.clear();
  return results;
}

std::vector<Tensor> Evaluator::evaluatePlain(Operation *op, ArrayRef<const Tensor *> given,
                                             std::string &unknown) {
  std::vector<Tensor> results;
  // A digit is a place in one operand: i.view(-1, 1) and i.view(1, -1) are taken at two.
  SmallVector<const Tensor *> operands(given);
  SmallVector<Tensor, 2> renamed;
  renamed.reserve(operands.size());
  llvm::SmallDenseSet<Var> taken;
  if (operands.size() > 1)
    for (const Tensor *&operand : operands) {
      auto isTaken = [&](Var var) { return taken.contains(var); };
      if (llvm::any_of(operand->dims, [&](const auto &dim) { return llvm::any_of(dim, isTaken); }))
        operand = &renamed.emplace_back(withOwnDigits(terms, *operand));
      for (const auto &dim : operand->dims)
        taken.insert(dim.begin(), dim.end());
    }
  bool isKnown = false;
  StringRef dialect = op->getName().getDialectNamespace();
  auto by = [&](StringRef name, bool isMade) {
    step = name;
    return isMade;
  };
  if (dialect == "dist") {
    isKnown = by("dist", evaluateDist(op, operands, results));
    if (auto swapped = dyn_cast<dist::AllToAllOp>(op); swapped && !isKnown)
      if (std::optional<Tensor> value = swapParts(op, *operands[0])) {
        results.push_back(std::move(*value));
        isKnown = by("rows", true);
      }
  } else if ((dialect == "aten" || dialect == "train") && isPure(op)) {
    // Only ops that are functions of their operands: what else there is may hide anything.
    bool isSame = isCopy(op) && (terms.breaks(Lemma::Copy) ||
                                 tensorOf(op->getOperand(0).getType()).getElementType() ==
                                     tensorOf(op->getResult(0).getType()).getElementType());
    if (isSame) {
      results.push_back(*operands[0]);
      isKnown = by("copy", true);
    } else if (isa<aten::RandomOpInterface>(op)) {
      isKnown = by("draw", evaluateRandom(op, operands, results));
    } else if (std::optional<Tensor> value =
                   isReshape(op)
                       ? reshape(*operands[0], tensorOf(op->getResult(0).getType()).getShape())
                       : std::nullopt) {
      results.push_back(std::move(*value));
      isKnown = by("reshape", true);
    } else if (std::optional<Tensor> value = evaluateSpecial(op, operands)) {
      results.push_back(std::move(*value));
      isKnown = by("arithmetic", true);
    } else if (std::optional<Tensor> value = terms.takesPieces() && isa<aten::CatOp>(op)
                                                 ? concatenate(op, operands)
                                                 : std::nullopt) {
      results.push_back(std::move(*value));
      isKnown = by("concatenation", true);
    } else {
      isKnown = by("rows", evaluateCounts(op, operands, results)) ||
                by("part", evaluateParts(op, operands, results)) ||
                by("lookup", evaluateLookUp(op, operands, results)) ||
                by("attention", attention(op, operands, results)) ||
                by("statistics", evaluateStatistics(op, operands, results)) ||
                by("order", evaluateOrder(op, operands, results)) ||
                by("rule", evaluateByRule(op, operands, results));
    }
  }
  if (isKnown)
    return results;
  unknown = ("'" + op->getName().getStringRef() + "' has no meaning for the prover here").str();
  results.clear();
  for (Type type : op->getResultTypes())
    results.push_back(opaque(type));
  return results;
}
