//===- Tensor.cpp - dimensions as digits, and ops by their sharding rules ---===//

#include "lib/replay/Tensor.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Softmax.h"
#include "dialects/dist/Placed.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using sharding::FactorReduction;
using sharding::ShardingRule;

//===----------------------------------------------------------------------===//
// Digits of dimensions
//===----------------------------------------------------------------------===//

SmallVector<Digit> Ops::digitsOf(ArrayRef<Var> vars) const {
  SmallVector<Digit> digits;
  int64_t stride = 1;
  for (Var var : llvm::reverse(vars)) {
    digits.insert(digits.begin(), {var, forms.sizeOf(var), stride});
    stride *= forms.sizeOf(var);
  }
  return digits;
}

Index Ops::placeIn(ArrayRef<Var> vars) const {
  Index place;
  for (Digit digit : digitsOf(vars))
    place = place.plus(digit.var, digit.stride);
  return place;
}

SmallVector<SmallVector<Var, 2>, 4> Ops::makeDims(ArrayRef<int64_t> shape) {
  SmallVector<SmallVector<Var, 2>, 4> dims(shape.size());
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size != 1)
      dims[dim].push_back(forms.make(size));
  return dims;
}

static int64_t sizeOf(ArrayRef<Digit> digits) {
  return digits.empty() ? 1 : digits[0].size * digits[0].stride;
}

/// Sorted, each dividing the next, and 1 the first; nothing if they do not.
static std::optional<SmallVector<int64_t>> chainOf(SmallVector<int64_t> strides, int64_t size) {
  strides.push_back(1);
  llvm::sort(strides);
  strides.erase(llvm::unique(strides), strides.end());
  llvm::erase(strides, size);
  for (auto [i, stride] : llvm::enumerate(strides)) {
    int64_t next = i + 1 < strides.size() ? strides[i + 1] : size;
    if (stride <= 0 || next % stride || next <= stride)
      return std::nullopt;
  }
  return strides;
}

/// `digit` by finer digits that cut it.
static std::optional<Index> express(const Digit &digit, ArrayRef<Digit> finer) {
  Index index;
  int64_t covered = 1;
  for (const Digit &part : finer)
    if (part.size > 1 && part.stride >= digit.stride && part.stride < digit.stride * digit.size) {
      if (part.stride % digit.stride)
        return std::nullopt;
      index = index.plus(part.var, part.stride / digit.stride);
      covered *= part.size;
    }
  return covered == digit.size ? std::optional(index) : std::nullopt;
}

bool Ops::cut(Tensor &value, unsigned dim, ArrayRef<int64_t> strides) {
  SmallVector<Digit> old = digitsOf(value.dims[dim]);
  SmallVector<int64_t> all(strides);
  for (const Digit &digit : old)
    all.push_back(digit.stride);
  int64_t size = ::sizeOf(old);
  auto chain = chainOf(all, size);
  if (!chain)
    return false;
  SmallVector<Digit> finer;
  value.dims[dim].clear();
  for (auto [i, stride] : llvm::enumerate(*chain)) {
    int64_t count = (i + 1 < chain->size() ? (*chain)[i + 1] : size) / stride;
    finer.push_back({forms.make(count), count, stride});
    value.dims[dim].insert(value.dims[dim].begin(), finer.back().var);
  }
  Digits digits;
  for (const Digit &digit : old) {
    std::optional<Index> index = express(digit, finer);
    if (!index)
      return false;
    digits[digit.var] = *index;
  }
  replace(value.form, digits);
  return true;
}

bool Ops::cutAlike(Tensor &left, unsigned leftDim, Tensor &right, unsigned rightDim,
                   Digits &digits) {
  auto strides = [&](ArrayRef<Var> vars) {
    return llvm::map_to_vector(digitsOf(vars), [](const Digit &digit) { return digit.stride; });
  };
  auto &mine = left.dims[leftDim], &other = right.dims[rightDim];
  if (::sizeOf(digitsOf(mine)) != ::sizeOf(digitsOf(other)) ||
      !cut(left, leftDim, strides(other)) || !cut(right, rightDim, strides(mine)) ||
      mine.size() != other.size())
    return false;
  for (auto [a, b] : llvm::zip(mine, other))
    digits[b] = Index::of(a);
  return true;
}

bool Ops::alignTo(Tensor &left, Tensor &right, std::optional<unsigned> but) {
  Digits digits;
  if (left.dims.size() != right.dims.size())
    return false;
  for (unsigned dim = 0; dim < left.dims.size(); ++dim)
    if (dim != but && !cutAlike(left, dim, right, dim, digits))
      return false;
  replace(right.form, digits);
  return true;
}

bool Ops::areEqual(Tensor left, Tensor right) {
  return alignTo(left, right) && forms.areEqual(left.form, right.form, /*byCase=*/true);
}

std::optional<Tensor> Ops::add(Tensor left, Tensor right) {
  if (!alignTo(left, right))
    return std::nullopt;
  left.form = forms.add(left.form, right.form);
  return left;
}

std::optional<Tensor> Ops::multiplyMatrices(Tensor left, Tensor right, Type element) {
  Digits digits;
  if (left.dims.size() != 2 || right.dims.size() != 2 || !cutAlike(left, 1, right, 0, digits))
    return std::nullopt;
  replace(right.form, digits);
  std::optional<Form> product = forms.apply(productOf(element), {left.form, right.form});
  if (!product)
    return std::nullopt;
  return Tensor{{left.dims[0], right.dims[1]}, forms.sum(*product, left.dims[1])};
}

//===----------------------------------------------------------------------===//
// Sharding rules
//===----------------------------------------------------------------------===//

Function cleave::replay::functionOf(StringRef name, Type element) {
  Function function;
  llvm::raw_string_ostream(function.key) << name << ' ' << element;
  return function;
}

Function cleave::replay::productOf(Type element) {
  Function function = functionOf("product", element);
  function.isProduct = true;
  return function;
}

bool cleave::replay::isRead(const sharding::Factor &factor) {
  bool isSummed = factor.reduction == FactorReduction::None ||
                  factor.reduction == FactorReduction::Sum ||
                  factor.reduction == FactorReduction::Avg;
  return factor.isWhole() || !factor.addends.empty() || !isSummed;
}

static bool isReadBy(const ShardingRule &rule, unsigned factor, unsigned result) {
  auto has = [&](const sharding::TensorFactors &tensor) {
    return ShardingRule::contains(tensor, factor);
  };
  return isRead(rule.factors[factor]) &&
         (has(rule.results[result]) || llvm::any_of(rule.operands, has));
}

/// The op cut along each factor of its rule, as far as its operands are: what `build` makes of one
/// element of each, summed over the factors that the result lacks.
std::optional<Tensor> Ops::byRule(Operation *op, const ShardingRule &rule,
                                  ArrayRef<Tensor> operands, unsigned result, Build build) {
  size_t numFactors = rule.factors.size();
  std::vector<SmallVector<int64_t>> cuts(numFactors);
  auto visit = [&](auto see) {
    for (auto [i, tensor] : llvm::enumerate(rule.operands)) {
      if (!tensorOf(op->getOperand(i).getType()))
        continue;
      if (tensor.size() != operands[i].dims.size())
        return false;
      for (auto [dim, factors] : llvm::enumerate(tensor)) {
        int64_t size = 1;
        for (unsigned factor : factors)
          size *= rule.factors[factor].size;
        if (size != ::sizeOf(digitsOf(operands[i].dims[dim])) || !see(i, dim, factors))
          return false;
      }
    }
    return true;
  };
  if (!visit([&](unsigned i, unsigned dim, ArrayRef<unsigned> factors) {
        for (const Digit &digit : digitsOf(operands[i].dims[dim])) {
          int64_t stride = 1;
          for (unsigned factor : llvm::reverse(factors)) {
            int64_t end = stride * rule.factors[factor].size;
            if (digit.stride >= stride && digit.stride < end) {
              if (digit.stride % stride)
                return false;
              cuts[factor].push_back(digit.stride / stride);
            }
            stride = end;
          }
        }
        return true;
      }))
    return std::nullopt;
  std::vector<SmallVector<Digit>> digits(numFactors);
  for (unsigned i = 0; i < numFactors; ++i) {
    int64_t size = rule.factors[i].size;
    auto chain = chainOf(cuts[i], size);
    if (!chain)
      return std::nullopt;
    for (auto [j, stride] : llvm::enumerate(*chain)) {
      int64_t count = (j + 1 < chain->size() ? (*chain)[j + 1] : size) / stride;
      digits[i].insert(digits[i].begin(), {forms.make(count), count, stride});
    }
  }
  std::vector<Digits> places(operands.size());
  std::vector<llvm::SmallDenseSet<unsigned>> seen(operands.size());
  if (!visit([&](unsigned i, unsigned dim, ArrayRef<unsigned> factors) {
        SmallVector<Digit> finer;
        int64_t stride = 1;
        for (unsigned factor : llvm::reverse(factors)) {
          if (!seen[i].insert(factor).second && rule.factors[factor].size > 1)
            return false;
          for (const Digit &digit : digits[factor])
            finer.push_back({digit.var, digit.size, digit.stride * stride});
          stride *= rule.factors[factor].size;
        }
        for (const Digit &digit : digitsOf(operands[i].dims[dim])) {
          std::optional<Index> index = express(digit, finer);
          if (!index)
            return false;
          places[i][digit.var] = *index;
        }
        return true;
      }))
    return std::nullopt;

  Tensor value;
  Extent extent;
  llvm::SmallDenseSet<unsigned> kept;
  for (unsigned i = 0; i < numFactors; ++i)
    if (isReadBy(rule, i, result))
      extent.read.push_back(llvm::to_vector<2>(llvm::make_first_range(
          llvm::map_range(digits[i], [](const Digit &d) { return std::pair(d.var, 0); }))));
  for (const sharding::DimFactors &factors : rule.results[result]) {
    auto &dim = value.dims.emplace_back();
    for (unsigned factor : factors) {
      int64_t size = rule.factors[factor].size;
      if (!kept.insert(factor).second && size > 1)
        return std::nullopt;
      if (isRead(rule.factors[factor])) {
        dim.push_back(forms.make(size));
        extent.results.push_back(Index::of(dim.back()));
        extent.resultSizes.push_back(size);
      } else {
        for (const Digit &digit : digits[factor])
          dim.push_back(digit.var);
      }
    }
  }
  SmallVector<Var> bound;
  Rational scale(1);
  Digits first;
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    if (kept.contains(i) || isRead(factor))
      continue;
    FactorReduction reduction = rule.reductionAt(i, result);
    for (const Digit &digit : digits[i])
      if (reduction == FactorReduction::None)
        first[digit.var] = Index();
      else
        bound.push_back(digit.var);
    if (reduction == FactorReduction::Avg)
      scale = scale / Rational(factor.size);
  }
  std::vector<Form> taken;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    taken.push_back(operand.form);
    replace(taken.back(), places[i]);
    replace(taken.back(), first);
    taken.back() = forms.normal(taken.back());
  }
  auto make = [&](ArrayRef<Form> given) { return build(given, extent); };
  std::optional<Form> made = make(taken);
  if (!made)
    made = byCase(taken, make);
  if (!made)
    return std::nullopt;
  value.form = forms.scale(forms.sum(*made, bound), scale);
  return value;
}

/// The value and a bias, which is added once, not with each term of a sum.
std::optional<Tensor> Ops::withBias(Operation *op, ShardingRule rule, ArrayRef<Tensor> operands,
                                    std::optional<Tensor> value, unsigned bias,
                                    const Rational &factor) {
  for (sharding::Factor &each : rule.factors)
    each.reduction = FactorReduction::None;
  std::optional<Tensor> once =
      byRule(op, rule, operands, 0, [&](ArrayRef<Form> given, const Extent &) {
        return std::optional(forms.scale(given[bias], factor));
      });
  return value && once ? add(std::move(*value), std::move(*once)) : std::nullopt;
}

/// What makes two ops one function of elements: all but operands and sizes. As the log has it.
static std::string keyOf(Operation *op, const ShardingRule &rule, unsigned result, StringRef left) {
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
    if (StringRef name = attribute.getName();
        !sizes.contains(name) && name != left && name != "output_mask" && name != "bias_sizes")
      os << ' ' << name << '=' << attribute.getValue();
  for (Type type : op->getOperandTypes())
    if (RankedTensorType tensor = tensorOf(type))
      os << ' ' << tensor.getElementType();
  os << " -> " << elementOf(op->getResult(result));
  SmallVector<int> numbers;
  int count = 0;
  for (unsigned i = 0; i < rule.factors.size(); ++i)
    numbers.push_back(isReadBy(rule, i, result) ? count++ : -1);
  SmallVector<const sharding::TensorFactors *> tensors;
  for (const sharding::TensorFactors &tensor : rule.operands)
    tensors.push_back(&tensor);
  tensors.push_back(&rule.results[result]);
  for (const sharding::TensorFactors *tensor : count ? tensors : decltype(tensors)()) {
    os << " [";
    for (const sharding::DimFactors &dim : *tensor) {
      for (unsigned factor : dim)
        if (numbers[factor] >= 0)
          os << numbers[factor] << ':' << rule.factors[factor].size;
      os << ',';
    }
    os << ']';
  }
  return key;
}

/// Whether each element of the result is that of the only operand with the same factors.
static bool isMove(Operation *op, const ShardingRule &rule) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      !llvm::any_of(rule.linear, [](const auto &group) { return group.moves; }) ||
      elementOf(op->getOperand(0)) != elementOf(op->getResult(0)))
    return false;
  return llvm::all_of(llvm::enumerate(rule.factors), [&](auto entry) {
    return entry.value().size == 1 ||
           (!entry.value().isWhole() && ShardingRule::contains(rule.results[0], entry.index()));
  });
}

static bool isElementLoss(Operation *op) {
  return isa<aten::MseLossOp, aten::HuberLossOp, aten::SmoothL1LossOp, aten::SoftMarginLossOp,
             aten::BinaryCrossEntropyOp>(op);
}

/// What the gradient of a loss of elements is divided by; 0 if it is none, or that is not known.
static int64_t divisorOf(Operation *op) {
  if (!isa<aten::MseLossBackwardOp, aten::HuberLossBackwardOp, aten::SmoothL1LossBackwardOp,
           aten::SoftMarginLossBackwardOp, aten::BinaryCrossEntropyBackwardOp>(op))
    return 0;
  auto reduction = op->getAttrOfType<IntegerAttr>("reduction");
  if (reduction && reduction.getInt() != aten::meanReduction)
    return 1;
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  bool isOfAll = tensorOf(op->getOperand(1).getType()).getShape() == type.getShape();
  return isOfAll ? type.getNumElements() : 0;
}

/// Whether what the op makes first is made of this operand: a convolution adds its bias afterwards,
/// and of its gradients that of the input takes the weight, and that of the weight the input.
static bool takes(Operation *op, unsigned result, unsigned operand) {
  if (isa<aten::ConvolutionOp>(op))
    return operand < 2;
  return !isa<aten::ConvolutionBackwardOp>(op) || operand == 0 || (result == 0 && operand == 2) ||
         (result == 1 && operand == 1);
}

/// The type of a number's parts: a complex number is linear in its two parts, and they are in it.
static Type realOf(Type element) {
  auto complex = dyn_cast<ComplexType>(element);
  return complex ? complex.getElementType() : element;
}

bool Ops::rule(Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results) {
  ShardingRule known = sharding::getShardingRule(op);
  if (known.kind == sharding::OpKind::Random ||
      (known.kind == sharding::OpKind::Factory && op->getNumOperands() == 0))
    known = ShardingRule::opaque(op, "its elements depend on their places");
  // First by the rule; where operands are cut in another way, as a function of all elements.
  for (bool isOpaque : {false, true}) {
    results.clear();
    ShardingRule rule =
        isOpaque ? ShardingRule::opaque(op, "its operands are cut otherwise") : known;
    int64_t divisor = isOpaque ? 0 : divisorOf(op);
    if (divisor > 1)
      for (sharding::Factor &factor : rule.factors)
        factor.wholeReason = nullptr;
    auto convolution = dyn_cast<aten::ConvolutionOp>(op);
    bool hasBias = !isOpaque && convolution && convolution.getBias();
    bool isOfAll = isOpaque && !isa<aten::ConvolutionBackwardOp>(op);
    if (hasBias)
      for (sharding::Factor &factor : rule.factors)
        factor.addends.clear();
    for (unsigned i = 0; i < op->getNumResults(); ++i) {
      RankedTensorType type = tensorOf(op->getResult(i).getType());
      if (!type) {
        results.emplace_back();
        continue;
      }
      Function function;
      bool isOfElement = divisor || (isElementLoss(op) && !rule.isOpaque());
      function.key = keyOf(op, rule, i, isOfElement ? "reduction" : "");
      function.isUnbounded = llvm::any_of(op->getAttrs(), [](NamedAttribute attribute) {
        auto number = dyn_cast<FloatAttr>(attribute.getValue());
        return number && !number.getValue().isFinite();
      });
      noteMarks(op, function);
      function.isChoice = isa<aten::WhereOp, aten::MaskedFillScalarOp>(op);
      if (auto filled = dyn_cast<aten::MaskedFillScalarOp>(op))
        if (auto number = filled->getAttrOfType<FloatAttr>("value"))
          function.isFromBelow = number.getValue().isInfinity() && number.getValue().isNegative();
      if (isa<aten::SoftmaxOp, aten::SafeSoftmaxOp>(op))
        function.scores = 0;
      else if (isa<aten::FlashAttentionForCpuOp, aten::FlashAttentionForCpuBackwardOp>(op))
        function.scores = isa<aten::FlashAttentionForCpuOp>(op) ? 3 : 6;
      for (const sharding::LinearGroup &group : rule.linear)
        if (llvm::is_contained(group.results, i) &&
            llvm::all_of(group.operands, [&](unsigned operand) {
              return realOf(elementOf(op->getOperand(operand))) == realOf(type.getElementType());
            }))
          function.linear.emplace_back(group.operands);
      if (hasBias)
        function.linear = {{0}, {1}};
      bool moves = isMove(op, rule);
      std::optional<Tensor> value = byRule(
          op, rule, operands, i,
          [&](ArrayRef<Form> given, const Extent &extent) -> std::optional<Form> {
            if (moves)
              return given[0];
            std::vector<Form> taken(given.begin(), given.end());
            for (unsigned operand = 0; operand < taken.size(); ++operand)
              if (!isOfAll && !takes(op, i, operand))
                taken[operand].clear();
            return forms.apply(function, taken, extent.read, extent.results, extent.resultSizes);
          });
      if (hasBias)
        value = withBias(op, rule, operands, std::move(value), 2, Rational(1));
      if (!value)
        break;
      if (divisor)
        value->form = forms.scale(std::move(value->form), Rational(1) / Rational(divisor));
      results.push_back(std::move(*value));
    }
    if (results.size() == op->getNumResults())
      return true;
  }
  return false;
}
