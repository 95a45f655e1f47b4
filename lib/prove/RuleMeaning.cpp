//===- RuleMeaning.cpp - ops by their sharding rules ------------------------===//
//
// A rule says of each factor that the op may be cut along it. Cut to the end, the op is a core on
// one element of each factor that the result keeps, and a sum of cores over those that it lacks.
// A whole factor the core reads along, and makes whole.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/dist/Placed.h"
#include "lib/prove/Evaluator.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using sharding::FactorId;
using sharding::FactorReduction;
using sharding::OpKind;
using sharding::ShardingRule;

bool cleave::prove::isRead(const sharding::Factor &factor) {
  switch (factor.reduction) {
  case FactorReduction::None:
  case FactorReduction::Sum:
  case FactorReduction::Avg:
    return factor.isWhole() || !factor.addends.empty();
  case FactorReduction::Max:
  case FactorReduction::Min:
  case FactorReduction::Product:
    return true;
  }
  return true;
}

/// Whether the core of this result reads along the factor: of another result it knows nothing.
static bool isReadBy(const ShardingRule &rule, FactorId factor, unsigned result) {
  auto has = [&](const sharding::TensorFactors &tensor) {
    return ShardingRule::contains(tensor, factor);
  };
  return isRead(rule.factors[factor]) &&
         (has(rule.results[result]) || llvm::any_of(rule.operands, has));
}

static int64_t sizeOfFactors(const ShardingRule &rule, ArrayRef<FactorId> factors) {
  int64_t size = 1;
  for (FactorId factor : factors)
    size *= rule.factors[factor].size;
  return size;
}

std::optional<Evaluator::Factors> Evaluator::cutOperands(Operation *op, const ShardingRule &rule,
                                                         ArrayRef<const Tensor *> operands) {
  std::optional<Factors> factors = cutAsTheyAre(op, rule, operands);
  return factors || !terms.takesParts() || rowFactor ? factors : relayOperands(op, rule, operands);
}

std::optional<Evaluator::Factors> Evaluator::cutAsTheyAre(Operation *op, const ShardingRule &rule,
                                                          ArrayRef<const Tensor *> operands) {
  // Where the operands' digits cut each factor.
  std::vector<SmallVector<int64_t>> cuts(rule.factors.size());
  for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
    if (!tensorOf(op->getOperand(i).getType()))
      continue;
    llvm::SmallDenseSet<FactorId> seen;
    for (auto [dim, factors] : llvm::enumerate(tensor)) {
      for (FactorId factor : factors)
        if (rule.factors[factor].size > 1 && !seen.insert(factor).second)
          return std::nullopt;
      int64_t whole = 1;
      for (const Digit &digit : digitsOf(operands[i]->dims[dim], terms.variables)) {
        whole *= digit.size;
        int64_t stride = 1;
        for (FactorId factor : llvm::reverse(factors)) {
          int64_t size = rule.factors[factor].size;
          if (digit.stride >= stride && digit.stride < stride * size) {
            if (digit.stride % stride)
              return std::nullopt;
            cuts[factor].push_back(digit.stride / stride);
          }
          stride *= size;
        }
      }
      if (whole != sizeOfFactors(rule, factors))
        return std::nullopt;
    }
  }

  Factors result;
  result.digits.resize(rule.factors.size());
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    auto chain = chainOf(cuts[i], factor.size);
    if (!chain)
      return std::nullopt;
    if (factor.size == 1)
      continue;
    for (auto [j, stride] : llvm::enumerate(*chain)) {
      int64_t size = (j + 1 < chain->size() ? (*chain)[j + 1] : factor.size) / stride;
      result.digits[i].push_back({terms.variables.make(size), size, stride});
    }
  }

  for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
    Meaning &meaning = result.operands.emplace_back();
    if (!tensorOf(op->getOperand(i).getType()))
      continue;
    Substitution digits;
    for (auto [dim, factors] : llvm::enumerate(tensor)) {
      SmallVector<Digit, 4> finer;
      int64_t stride = 1;
      for (FactorId factor : llvm::reverse(factors)) {
        for (Digit digit : result.digits[factor])
          finer.push_back({digit.var, digit.size, digit.stride * stride});
        stride *= rule.factors[factor].size;
      }
      for (const Digit &digit : digitsOf(operands[i]->dims[dim], terms.variables)) {
        std::optional<Index> index = expressDigit(digit, finer);
        if (!index)
          return std::nullopt;
        digits[digit.var] = *index;
      }
    }
    meaning = operands[i]->meaning;
    substitute(meaning, digits);
  }
  return result;
}

std::optional<Evaluator::Factors> Evaluator::relayOperands(Operation *op, const ShardingRule &rule,
                                                           ArrayRef<const Tensor *> operands) {
  // The dimensions that are this factor alone.
  auto isAlone = [&](const sharding::DimFactors &dim, FactorId factor) {
    return llvm::all_of(dim,
                        [&](FactorId own) { return own == factor || rule.factors[own].size == 1; });
  };
  auto forEach = [&](FactorId factor, auto visit) {
    for (auto [i, tensor] : llvm::enumerate(rule.operands))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        if (llvm::is_contained(factors, factor) && tensorOf(op->getOperand(i).getType()))
          visit(i, dim, isAlone(factors, factor));
  };
  std::vector<Tensor> given;
  for (const Tensor *operand : operands)
    given.push_back(*operand);
  for (FactorId factor = 0; factor < rule.factors.size(); ++factor) {
    // Where all are cut, each part of the dimension may be cut in its own way.
    std::map<int64_t, unsigned> cuts;
    unsigned count = 0;
    bool areAlone = true;
    forEach(factor, [&](unsigned i, unsigned dim, bool isAlone) {
      areAlone &= isAlone;
      ++count;
      for (const Digit &digit : digitsOf(given[i].dims[dim], terms.variables))
        ++cuts[digit.stride];
    });
    SmallVector<int64_t> all, own;
    for (auto [stride, times] : cuts) {
      all.push_back(stride);
      if (times == count)
        own.push_back(stride);
    }
    int64_t size = rule.factors[factor].size;
    if (!areAlone || chainOf(all, size))
      continue;
    own.push_back(size);
    for (auto [low, high] : llvm::zip(ArrayRef(own), ArrayRef(own).drop_front())) {
      SmallVector<int64_t> within;
      for (int64_t stride : all)
        if (stride >= low && stride < high && stride % low == 0)
          within.push_back(stride / low);
      if (high % low || chainOf(within, high / low))
        continue;
      forEach(factor, [&, low = low, high = high](unsigned i, unsigned dim, bool) {
        SmallVector<Digit, 2> digits = digitsOf(given[i].dims[dim], terms.variables);
        auto isBelow = [](int64_t stride) {
          return [stride](const Digit &digit) { return digit.stride < stride; };
        };
        unsigned first = llvm::find_if(digits, isBelow(high)) - digits.begin();
        unsigned last = llvm::find_if(digits, isBelow(low)) - digits.begin();
        if (last - first > 1)
          given[i] = relaid(terms, std::move(given[i]), dim, first, last);
      });
    }
  }
  SmallVector<const Tensor *> cut;
  for (const Tensor &operand : given)
    cut.push_back(&operand);
  return cutAsTheyAre(op, rule, cut);
}

std::optional<Tensor> Evaluator::build(Operation *op, const ShardingRule &rule,
                                       const Factors &factors, unsigned result, Build build) {
  Tensor value;
  Extent extent;
  // Factors that the core reads along keep their number among these, whatever the sizes.
  for (unsigned i = 0; i < rule.factors.size(); ++i)
    if (isReadBy(rule, i, result)) {
      auto &group = extent.read.emplace_back();
      for (const Digit &digit : llvm::reverse(factors.digits[i]))
        group.push_back(digit.var);
    }

  llvm::SmallDenseSet<FactorId> kept;
  for (const sharding::DimFactors &dim : rule.results[result]) {
    auto &digits = value.dims.emplace_back();
    for (FactorId id : dim) {
      const sharding::Factor &factor = rule.factors[id];
      if (!kept.insert(id).second && factor.size > 1)
        return std::nullopt;
      if (isRead(factor)) {
        Var var = terms.variables.make(factor.size);
        extent.results.push_back(Index::of(var));
        extent.resultSizes.push_back(factor.size);
        digits.push_back(var);
      } else {
        for (const Digit &digit : llvm::reverse(factors.digits[id]))
          digits.push_back(digit.var);
      }
    }
  }

  SmallVector<Var> bound;
  Rational scale(1);
  Substitution digits;
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    if (kept.contains(i) || isRead(factor))
      continue;
    FactorReduction reduction = rule.reductionAt(i, result);
    if (reduction == FactorReduction::None) {
      // The result is the same for each part: the first will do.
      for (const Digit &digit : factors.digits[i])
        digits[digit.var] = Index();
      continue;
    }
    for (const Digit &digit : factors.digits[i])
      bound.push_back(digit.var);
    if (reduction == FactorReduction::Avg && !terms.breaks(Lemma::Mean))
      scale = scale / Rational(factor.size);
  }
  std::vector<Meaning> operands = factors.operands;
  for (Meaning &operand : operands) {
    substitute(operand, digits);
    operand = terms.normalize(std::move(operand));
  }
  auto make = [&](ArrayRef<Meaning> given) { return build(given, extent); };
  Meaning made = terms.takesPieces() ? byCase(operands, make) : make(operands);
  // A sum in which infinities may meet is none of the reals.
  if (Type element = tensorOf(op->getResult(result).getType()).getElementType();
      !bound.empty() && isa<FloatType>(element)) {
    Fractions fractions = fractionsOf(element);
    if (takesOff(made, terms, fractions))
      return std::nullopt;
  }
  value.meaning = terms.scale(terms.sum(std::move(made), bound), scale);
  coarsen(terms, value);
  return value;
}

std::optional<Tensor>
Evaluator::buildElements(Operation *op, ArrayRef<const Tensor *> operands,
                         llvm::function_ref<std::optional<Meaning>(ArrayRef<Meaning>)> make) {
  ShardingRule rule = ruleOf(op);
  if (llvm::any_of(rule.factors, [](const sharding::Factor &factor) {
        return factor.size > 1 && isRead(factor);
      }))
    return std::nullopt;
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors)
    return std::nullopt;
  bool fails = false;
  std::optional<Tensor> result =
      build(op, rule, *factors, 0, [&](ArrayRef<Meaning> meanings, const Extent &) {
        std::optional<Meaning> made = make(meanings);
        fails = !made;
        return made.value_or(Meaning());
      });
  return fails ? std::nullopt : result;
}

/// Everything about the op but its operands, the sizes of what it keeps, and `left`.
static std::string keyOf(Operation *op, const ShardingRule &rule, unsigned result,
                         StringRef left = "") {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << op->getName() << '#' << result;
  llvm::SmallDenseSet<StringRef> sizes;
  for (const sharding::SizeAttribute &size : rule.sizeAttributes)
    sizes.insert(size.name);
  NamedAttrList attributes(op->getAttrDictionary());
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (attribute.getName() != dist::kWholeShapeAttr)
      attributes.erase(attribute.getName());
  for (NamedAttribute attribute : attributes.getDictionary(op->getContext()))
    // Which results are wanted none of them depends on; nor do a convolution's gradients on how
    // many elements that of its bias would have, which is a size only where it is wanted.
    if (!sizes.contains(attribute.getName().getValue()) && attribute.getName() != left &&
        attribute.getName() != "output_mask" && attribute.getName() != "bias_sizes")
      os << ' ' << attribute.getName().getValue() << '=' << attribute.getValue();
  for (Type types : op->getOperandTypes())
    if (RankedTensorType tensor = tensorOf(types))
      os << ' ' << tensor.getElementType();
  os << " -> " << tensorOf(op->getResult(result).getType()).getElementType();
  // Where in each tensor it reads along which factor.
  unsigned numRead = 0;
  SmallVector<int> numbers;
  for (unsigned i = 0; i < rule.factors.size(); ++i)
    numbers.push_back(isReadBy(rule, i, result) ? int(numRead++) : -1);
  if (!numRead)
    return key;
  auto write = [&](const sharding::TensorFactors &tensor) {
    os << " [";
    for (const sharding::DimFactors &dim : tensor) {
      for (FactorId factor : dim)
        if (numbers[factor] >= 0)
          os << numbers[factor] << ':' << rule.factors[factor].size;
      os << ',';
    }
    os << ']';
  };
  for (const sharding::TensorFactors &tensor : rule.operands)
    write(tensor);
  write(rule.results[result]);
  return key;
}

/// Whether each element of the result is the element of the only operand with the same factors.
static bool isMove(Operation *op, const ShardingRule &rule) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 || rule.linear.empty() ||
      !llvm::any_of(rule.linear, [](const sharding::LinearGroup &group) { return group.moves; }))
    return false;
  RankedTensorType from = tensorOf(op->getOperand(0).getType());
  RankedTensorType to = tensorOf(op->getResult(0).getType());
  if (!from || !to || from.getElementType() != to.getElementType())
    return false;
  return llvm::all_of(llvm::enumerate(rule.factors), [&](auto entry) {
    return entry.value().size == 1 ||
           (!entry.value().isWhole() && ShardingRule::contains(rule.results[0], entry.index()));
  });
}

//===----------------------------------------------------------------------===//
// Losses of each element
//===----------------------------------------------------------------------===//

static bool isElementLoss(Operation *op) {
  return isa<aten::MseLossOp, aten::HuberLossOp, aten::SmoothL1LossOp, aten::SoftMarginLossOp,
             aten::BinaryCrossEntropyOp>(op);
}

static bool isElementLossGradient(Operation *op) {
  return isa<aten::MseLossBackwardOp, aten::HuberLossBackwardOp, aten::SmoothL1LossBackwardOp,
             aten::SoftMarginLossBackwardOp, aten::BinaryCrossEntropyBackwardOp>(op);
}

/// What a loss's gradient at an element is divided by; then it does not depend on its reduction.
/// Nothing if that cannot be said.
static std::optional<int64_t> divisorOf(Operation *op, ShardingRule &rule) {
  auto reduction = op->getAttrOfType<IntegerAttr>("reduction");
  if (reduction && reduction.getInt() != aten::meanReduction)
    return 1;
  // Kernels divide by the number of elements of `self`.
  RankedTensorType self = tensorOf(op->getOperand(1).getType());
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  if (self.getShape() != type.getShape())
    return std::nullopt;
  for (sharding::Factor &factor : rule.factors)
    factor.wholeReason = nullptr;
  return type.getNumElements();
}

/// Whether a gradient of a convolution is made of its input (1) or weight (2), and not only of the
/// gradient of its result.
static bool takes(unsigned result, unsigned operand) {
  return (result == 0 && operand == 2) || (result == 1 && operand == 1);
}

/// Whether the op may make what is no finite number of such numbers. A limit that is infinite is
/// reached by none, on the side where it limits nothing.
static bool isUnbounded(Operation *op) {
  return llvm::any_of(op->getAttrs(), [&](NamedAttribute attribute) {
    auto real = dyn_cast<FloatAttr>(attribute.getValue());
    if (!real || real.getValue().isFinite())
      return false;
    bool limitsNothing =
        isa<aten::ClampOp>(op) && real.getValue().isInfinity() &&
        attribute.getName() == (real.getValue().isNegative() ? StringRef("min") : StringRef("max"));
    return !limitsNothing;
  });
}

/// The type of a number's parts.
static Type realOf(Type element) {
  auto complex = dyn_cast<ComplexType>(element);
  return complex ? complex.getElementType() : element;
}

bool Evaluator::evaluateByRule(Operation *op, ArrayRef<const Tensor *> operands,
                               std::vector<Tensor> &results) {
  ShardingRule rule = ruleOf(op);
  // Of what is drawn nothing is claimed, nor of positions; and uninitialized elements are any.
  if (rule.kind == OpKind::Random || (rule.kind == OpKind::Factory && op->getNumOperands() == 0))
    rule = ShardingRule::opaque(op, "its elements depend on their places");
  if (terms.breaks(Lemma::WholeDims))
    for (sharding::Factor &factor : rule.factors)
      factor.wholeReason = nullptr;
  std::optional<int64_t> divisor;
  if (isElementLossGradient(op))
    divisor = divisorOf(op, rule);
  // A convolution adds its bias once, not with each term of the sum over channels.
  auto convolution = dyn_cast<aten::ConvolutionOp>(op);
  bool hasBias = convolution && convolution.getBias();
  if (hasBias)
    for (sharding::Factor &factor : rule.factors)
      factor.addends.clear();
  std::optional<Factors> factors = cutOperands(op, rule, operands);
  if (!factors) {
    // Whole, rows would lie as they do in the tensor.
    if (rowFactor)
      return false;
    divisor.reset();
    hasBias = false;
    rule = ShardingRule::opaque(op, "its operands are cut in another way");
    factors = cutOperands(op, rule, operands);
    if (!factors)
      return false;
  }
  bool moves = isMove(op, rule) || (terms.breaks(Lemma::Move) && op->getNumOperands() == 1);
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    RankedTensorType type = tensorOf(op->getResult(i).getType());
    if (!type) {
      results.emplace_back();
      continue;
    }
    Core core;
    // The rule reduces a loss over its elements, as its attribute says.
    bool isOfElement = (isElementLoss(op) && !rule.isOpaque()) || divisor;
    core.key = keyOf(op, rule, i, isOfElement ? "reduction" : "");
    tag(op, core);
    tagOfRows(op, i, core);
    core.isInteger = isa<IntegerType>(type.getElementType());
    core.isUnbounded = isUnbounded(op);
    // Where -inf is written, other elements are as they were.
    if (isa<aten::MaskedFillScalarOp, aten::ScatterValueOp>(op))
      if (auto filled = op->getAttrOfType<FloatAttr>("value"))
        core.isFromBelow = filled.getValue().isInfinity() && filled.getValue().isNegative();
    for (const sharding::LinearGroup &group : rule.linear) {
      if (!llvm::is_contained(group.results, i))
        continue;
      // A conversion is no linear function.
      if (llvm::all_of(group.operands, [&](unsigned operand) {
            Type own = tensorOf(op->getOperand(operand).getType()).getElementType();
            return terms.breaks(Lemma::ConversionIsOp) || own == type.getElementType() ||
                   (realOf(own) == realOf(type.getElementType()) &&
                    !terms.breaks(Lemma::PartsOfComplex));
          }))
        core.linear.emplace_back(group.operands);
    }
    // Without a bias, it is linear in each of the others alone.
    if (hasBias)
      core.linear = {{0}, {1}};
    std::optional<Tensor> value =
        build(op, rule, *factors, i, [&](ArrayRef<Meaning> meanings, const Extent &extent) {
          std::vector<Meaning> given(meanings.begin(), meanings.end());
          if (hasBias)
            given[2].clear();
          if (isa<aten::ConvolutionBackwardOp>(op))
            for (unsigned operand = 1; operand < given.size(); ++operand)
              if (!takes(i, operand) || terms.breaks(Lemma::GradientsTake))
                given[operand].clear();
          return moves ? given[0]
                       : terms.apply(core, given, extent.read, extent.results, extent.resultSizes);
        });
    if (hasBias && value) {
      for (sharding::Factor &factor : rule.factors)
        factor.reduction = FactorReduction::None;
      std::optional<Tensor> bias =
          build(op, rule, *factors, i, [&](ArrayRef<Meaning> meanings, const Extent &) {
            return terms.breaks(Lemma::ChannelsAdd) ? Meaning() : meanings[2];
          });
      value = bias ? addValues(std::move(*value), std::move(*bias)) : std::nullopt;
    }
    if (!value)
      return false;
    if (divisor && !terms.breaks(Lemma::LossByCount))
      value->meaning = terms.scale(std::move(value->meaning), Rational(1) / Rational(*divisor));
    results.push_back(std::move(*value));
  }
  return true;
}
