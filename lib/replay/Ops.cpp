//===- Ops.cpp - what ops make of values, by the steps of a log -------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/train/Train.h"
#include "lib/replay/Tensor.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using sharding::ShardingRule;

/// Every finite double is a fraction.
static std::optional<Rational> numberOf(Attribute scalar) {
  if (auto number = dyn_cast_or_null<IntegerAttr>(scalar))
    return Rational(number.getType().isInteger(1) ? int64_t(!number.getValue().isZero())
                                                  : number.getInt());
  auto number = dyn_cast_or_null<FloatAttr>(scalar);
  if (!number || !number.getValue().isFinite())
    return std::nullopt;
  int exponent = 0;
  double mantissa = std::frexp(number.getValueAsDouble(), &exponent);
  Rational result(int64_t(std::ldexp(mantissa, 53)));
  Rational factor = exponent < 53 ? Rational(1) / Rational(2) : Rational(2);
  for (int i = 0; i < std::abs(exponent - 53); ++i)
    result *= factor;
  return reduce(result);
}

static std::optional<Rational> numberOr(Operation *op, StringRef name, int64_t fallback) {
  Attribute scalar = op->getAttr(name);
  return scalar ? numberOf(scalar) : std::optional(Rational(fallback));
}

int64_t cleave::replay::integerOr(Operation *op, StringRef name, int64_t fallback) {
  auto attribute = op->getAttrOfType<IntegerAttr>(name);
  return attribute ? attribute.getInt() : fallback;
}

int64_t cleave::replay::dimOf(Operation *op, int64_t rank, StringRef name) {
  int64_t dim = integerOr(op, name, 0);
  return dim + (dim < 0 ? rank : 0);
}

bool cleave::replay::isInOneType(Operation *op, std::optional<ArrayRef<unsigned>> operands) {
  return llvm::all_of(llvm::enumerate(op->getOperandTypes()), [&](auto operand) {
    RankedTensorType tensor = tensorOf(operand.value());
    return (operands && !llvm::is_contained(*operands, operand.index())) ||
           (tensor && tensor.getElementType() == elementOf(op->getResult(0)));
  });
}

std::optional<Tensor> Ops::arithmetic(Operation *op, ArrayRef<Tensor> operands) {
  if (op->getNumResults() != 1 || !tensorOf(op->getResult(0).getType()))
    return std::nullopt;
  if (std::optional<Tensor> value = constant(op))
    return value;
  ShardingRule rule = sharding::getShardingRule(op);
  bool isAddition = isa<aten::AddmmOp, aten::BaddbmmOp>(op);
  for (sharding::Factor &factor : rule.factors) {
    if (isAddition)
      factor.addends.clear();
    if (factor.size > 1 && (factor.isWhole() || !factor.addends.empty()))
      return std::nullopt;
  }
  Type element = elementOf(op->getResult(0));
  if (element.isInteger(1) || !isInOneType(op))
    return std::nullopt;
  std::optional<Rational> alpha = numberOr(op, "alpha", 1), beta = numberOr(op, "beta", 1);
  std::optional<Rational> other = numberOr(op, "other", 1);
  if (!alpha || !beta || !other)
    return std::nullopt;
  // factors[0] * operand 0 + factors[1] * operand 1 + constant
  SmallVector<Rational> factors;
  Rational constant(0);
  if (isa<aten::AddOp, aten::SubOp>(op)) {
    factors = {Rational(1), isa<aten::SubOp>(op) ? -*alpha : *alpha};
  } else if (isa<train::AccumulateOp>(op)) {
    factors = {Rational(1), Rational(1)};
  } else if (isa<aten::AddScalarOp, aten::SubScalarOp>(op)) {
    factors = {Rational(1)};
    constant = *alpha * (isa<aten::SubScalarOp>(op) ? -*other : *other);
  } else if (isa<aten::RsubScalarOp>(op)) {
    factors = {-*alpha};
    constant = *other;
  } else if (isa<aten::NegOp>(op)) {
    factors = {Rational(-1)};
  } else if (isa<aten::MulScalarOp>(op)) {
    factors = {*other};
  } else if (isa<aten::DivScalarOp>(op) && *other != Rational(0)) {
    factors = {Rational(1) / *other};
  } else if (isa<aten::SumOp, aten::SumDimIntListOp, aten::MeanOp, aten::MeanDimOp>(op)) {
    factors = {Rational(1)};
  }
  if (!factors.empty())
    return byRule(op, rule, operands, 0,
                  [&](ArrayRef<Form> given, const Extent &) -> std::optional<Form> {
                    Form sum = forms.number(constant);
                    Forms::Bounds bounds;
                    for (auto [form, factor] : llvm::zip(given, factors)) {
                      Forms::Bounds own = forms.boundsOf(form);
                      if (factor == Rational(0) && !own.isReal())
                        return std::nullopt;
                      if (factor < Rational(0))
                        std::swap(own.low, own.high);
                      if (!(bounds.low || own.high) || !(bounds.high || own.low))
                        return std::nullopt;
                      bounds.low &= own.low;
                      bounds.high &= own.high;
                      sum = forms.add(sum, form, factor);
                    }
                    return std::optional(sum);
                  });
  Function function;
  if (isAddition || isa<aten::MulOp, aten::MmOp, aten::BmmOp, aten::MvOp, aten::DotOp>(op)) {
    function = productOf(element);
  } else if (isa<aten::DivOp>(op)) {
    function = functionOf("quotient", element);
    function.linear = {{0}};
  } else if (isa<aten::ExpOp>(op)) {
    function = functionOf("exp", element);
  } else if (isa<aten::LogOp>(op)) {
    function = functionOf("log", element);
  } else if (isa<aten::RsqrtOp>(op)) {
    function = functionOf("rsqrt", element);
  } else if (isa<aten::SqrtOp>(op)) {
    function = functionOf("root", element);
    function.isRoot = true;
  } else {
    return std::nullopt;
  }
  std::optional<Tensor> value =
      byRule(op, rule, operands, 0, [&](ArrayRef<Form> given, const Extent &extent) {
        return forms.apply(function, isAddition ? given.drop_front() : given, extent.read,
                           extent.results, extent.resultSizes);
      });
  if (!value || !isAddition)
    return value;
  value->form = forms.scale(std::move(value->form), *alpha);
  return withBias(op, rule, operands, std::move(value), 0, *beta);
}

std::optional<Tensor> Ops::constant(Operation *op) {
  Attribute scalar;
  Builder builder(op->getContext());
  if (isa<aten::ZerosOp, aten::ZerosLikeOp, aten::ZeroOp, aten::NewZerosOp>(op))
    scalar = builder.getI64IntegerAttr(0);
  else if (isa<aten::OnesOp, aten::OnesLikeOp, aten::NewOnesOp>(op))
    scalar = builder.getI64IntegerAttr(1);
  else if (isa<aten::FullOp, aten::FullLikeOp, aten::NewFullOp>(op))
    scalar = op->getAttr("fill_value");
  else if (isa<aten::FillScalarOp>(op))
    scalar = op->getAttr("value");
  else if (isa<aten::ScalarTensorOp>(op))
    scalar = op->getAttr("s");
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  Type element = type.getElementType();
  if (scalar) {
    std::optional<Rational> number = numberOf(scalar);
    bool isExact = false;
    if (auto real = dyn_cast<FloatAttr>(scalar); real && number && isa<FloatType>(element)) {
      bool loses = false;
      APFloat converted = real.getValue();
      converted.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                        &loses);
      isExact = !loses;
    } else if (number && number->den == 1) {
      // Integers that every type has: of conditions, of bytes, of the rest.
      int64_t most = element.isInteger(1) ? 1 : isa<IntegerType>(element) ? 127 : 256;
      isExact = abs(number->num) <= most && (most > 1 || number->num >= 0);
      isExact |= element.isSignlessInteger(64);
    }
    Tensor value{makeDims(type.getShape()), {}};
    if (isExact) {
      value.form = forms.number(*number);
      return value;
    }
    Function function;
    llvm::raw_string_ostream(function.key) << "constant " << scalar << " of " << element;
    function.isUnbounded = !number;
    auto real = dyn_cast<FloatAttr>(scalar);
    function.isFromBelow = real && real.getValue().isInfinity() && real.getValue().isNegative();
    std::optional<Form> made = forms.apply(function, {});
    value.form = made.value_or(Form());
    return made ? std::optional(value) : std::nullopt;
  }
  if (!isa<aten::ArangeOp, aten::ArangeStartOp, aten::ArangeStartStepOp>(op))
    return std::nullopt;
  auto start = numberOr(op, "start", 0), step = numberOr(op, "step", 1);
  auto isSmall = [](const Rational &number) {
    return number.den == 1 && abs(number.num) < (1 << 20);
  };
  // So that all places are numbers of the type.
  if (!start || !step || !isSmall(*start) || !isSmall(*step) || type.getNumElements() > 1 << 20 ||
      !(element.isSignlessInteger(64) || element.isF32() || element.isF64()))
    return std::nullopt;
  Tensor value{makeDims(type.getShape()), {}};
  Index place = Index(int64_t(start->num)).plus(placeIn(value.dims[0]), int64_t(step->num));
  value.form = forms.normal(forms.position(place));
  return value;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

std::optional<Tensor> Ops::slice(Tensor value, unsigned dim, int64_t start, int64_t step,
                                 int64_t length) {
  SmallVector<Digit> digits = digitsOf(value.dims[dim]);
  int64_t size = digits.empty() ? 1 : digits[0].size * digits[0].stride;
  if (start == 0 && step == 1 && length == size)
    return value;
  if (digits.empty() || length <= 0 || start < 0 || step <= 0 ||
      start + (length - 1) * step >= size)
    return std::nullopt;
  // Along the major digit, from a multiple of its stride on.
  int64_t stride = digits[0].stride;
  if (digits.size() > 1 && (step != 1 || start % stride || length % stride))
    return std::nullopt;
  Var var = forms.make(length / stride);
  Digits change;
  change[digits[0].var] = Index(start / stride).plus(var, step);
  replace(value.form, change);
  value.dims[dim][0] = var;
  value.form = forms.normal(value.form);
  if (forms.sizeOf(var) == 1)
    value.dims[dim].erase(value.dims[dim].begin());
  return value;
}

std::optional<Tensor> Ops::reshape(const Tensor &value, ArrayRef<int64_t> shape) {
  // In row-major order all dimensions are one.
  Tensor flat{{{}}, value.form};
  for (const auto &dim : value.dims)
    llvm::append_range(flat.dims[0], dim);
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(shape)) {
    strides.push_back(stride);
    stride *= size;
  }
  int64_t size = 1;
  for (Var var : flat.dims[0])
    size *= forms.sizeOf(var);
  if (size != stride || !cut(flat, 0, strides))
    return std::nullopt;
  Tensor result{{}, std::move(flat.form)};
  ArrayRef<Var> rest = flat.dims[0];
  for (int64_t wanted : shape) {
    auto &dim = result.dims.emplace_back();
    for (int64_t product = 1; product < wanted; rest = rest.drop_front()) {
      dim.push_back(rest.front());
      product *= forms.sizeOf(rest.front());
    }
  }
  return result;
}

bool Ops::parts(Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results) {
  if (!isa<aten::SliceOp, aten::SelectOp, aten::SplitOp, aten::SplitWithSizesOp, aten::UnbindOp>(
          op))
    return false;
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  int64_t dim = dimOf(op, type.getRank());
  int64_t size = type.getDimSize(dim), start = 0;
  auto take = [&](int64_t start, int64_t step, int64_t length, bool drops) {
    std::optional<Tensor> part = slice(operands[0], dim, start, step, length);
    // One element of a dimension of several digits: each digit of its place.
    if (!part && length == 1) {
      part = operands[0];
      Digits places;
      for (const Digit &digit : digitsOf(part->dims[dim]))
        places[digit.var] = Index(start / digit.stride % digit.size);
      replace(part->form, places);
      part->form = forms.normal(part->form);
      part->dims[dim].clear();
    }
    if (!part)
      return false;
    if (drops)
      part->dims.erase(part->dims.begin() + dim);
    results.push_back(std::move(*part));
    return true;
  };
  if (isa<aten::SliceOp>(op)) {
    start = integerOr(op, "start", 0);
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    return take(start, integerOr(op, "step", 1),
                tensorOf(op->getResult(0).getType()).getDimSize(dim), false);
  }
  if (isa<aten::SelectOp>(op)) {
    start = integerOr(op, "index", 0);
    return take(start < 0 ? start + size : start, 1, 1, true);
  }
  for (Type result : op->getResultTypes()) {
    bool drops = isa<aten::UnbindOp>(op);
    int64_t length = drops ? 1 : tensorOf(result).getDimSize(dim);
    if (!take(start, 1, length, drops))
      return false;
    start += length;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

const Axis *Ops::findAxis(StringRef name) const {
  const auto *found = llvm::find_if(axes, [&](const Axis &axis) { return axis.name == name; });
  return found == axes.end() ? nullptr : found;
}

std::optional<SmallVector<Axis>> Ops::findAxes(ArrayAttr names) const {
  SmallVector<Axis> found;
  for (auto name : names.getAsRange<StringAttr>()) {
    const Axis *axis = findAxis(name);
    if (!axis)
      return std::nullopt;
    found.push_back(*axis);
  }
  return found;
}

SmallVector<Var> Ops::digitsOf(ArrayRef<Axis> along) const {
  SmallVector<Var> digits;
  for (const Axis &axis : along)
    llvm::append_range(digits, axis.digits);
  return digits;
}

static bool areOpen(ArrayRef<Axis> along) {
  return llvm::any_of(along, [](const Axis &axis) { return axis.size == Forms::kOpen; });
}

static int64_t countRanks(ArrayRef<Axis> along) {
  int64_t ranks = 1;
  for (const Axis &axis : along)
    ranks *= axis.size;
  return ranks;
}

std::optional<Tensor> Ops::reduce(Tensor value, dist::ReductionAttr reduction,
                                  ArrayRef<Axis> along) {
  SmallVector<Var> places = digitsOf(along);
  Rational factor(1);
  switch (reduction.getKind()) {
  case dist::Reduction::PremulSum:
    factor = numberOf(reduction.getFactor()).value_or(Rational(0));
    break;
  case dist::Reduction::Avg:
    factor = Rational(1) / Rational(countRanks(along));
    forms.countsOpen |= areOpen(along);
    break;
  case dist::Reduction::Sum:
    break;
  case dist::Reduction::Max: {
    std::optional<Form> greatest = maximum(value.form, places);
    return greatest ? std::optional(Tensor{value.dims, *greatest}) : std::nullopt;
  }
  default:
    return std::nullopt;
  }
  value.form = forms.scale(forms.sum(std::move(value.form), places), factor);
  return value;
}

std::optional<Tensor> Ops::reduceMember(Tensor value, ArrayAttr summed, ArrayAttr scattered,
                                        unsigned dim) {
  auto whole = summed ? findAxes(summed) : SmallVector<Axis>();
  auto parts = scattered ? findAxes(scattered) : SmallVector<Axis>();
  if (!whole || !parts || areOpen(*parts))
    return std::nullopt;
  for (const SmallVector<Axis> &along : {*whole, *parts})
    value.form = forms.sum(std::move(value.form), digitsOf(along));
  std::optional<Tensor> result =
      parts->empty() ? std::optional(std::move(value)) : shard(std::move(value), dim, *parts);
  if (result)
    result->form = forms.normal(result->form);
  return result;
}

Tensor Ops::gather(Tensor value, unsigned dim, ArrayRef<Axis> along) {
  SmallVector<Var, 2> places = forms.renew(value.form, digitsOf(along));
  value.dims[dim].insert(value.dims[dim].begin(), places.begin(), places.end());
  return value;
}

std::optional<Tensor> Ops::shard(Tensor value, unsigned dim, ArrayRef<Axis> along) {
  SmallVector<Var> places = digitsOf(along);
  int64_t size = 1;
  for (Var var : value.dims[dim])
    size *= forms.sizeOf(var);
  SmallVector<int64_t> strides;
  for (Var place : places) {
    if (size % forms.sizeOf(place))
      return std::nullopt;
    size /= forms.sizeOf(place);
    strides.push_back(size);
  }
  if (!cut(value, dim, strides))
    return std::nullopt;
  Digits digits;
  SmallVector<Var, 2> rest;
  for (const Digit &digit : digitsOf(value.dims[dim])) {
    if (digit.stride < size) {
      rest.push_back(digit.var);
      continue;
    }
    bool isFound = false;
    for (auto [place, stride] : llvm::zip(places, strides))
      if (digit.stride == stride && digit.size == forms.sizeOf(place)) {
        digits[digit.var] = Index::of(place);
        isFound = true;
      }
    if (!isFound)
      return std::nullopt;
  }
  value.dims[dim] = rest;
  replace(value.form, digits);
  return value;
}

std::optional<Tensor> Ops::convert(dist::ConvertOp op, Tensor value) {
  const Axis *axis = findAxis(op.getAxis());
  std::optional<int64_t> dim = op.getSlicedDim();
  if (!axis)
    return std::nullopt;
  auto sizeAt = [&](mlir::Value value) { return tensorOf(value.getType()).getDimSize(*dim); };
  bool isPartial = op.getDestination().isPartial();
  if (dim && sizeAt(isPartial ? op->getOperand(0) : op->getResult(0)) * axis->size !=
                 sizeAt(isPartial ? op->getResult(0) : op->getOperand(0)))
    return std::nullopt;
  if (!isPartial)
    return dim ? shard(std::move(value), *dim, *axis) : std::optional(value);
  if (!dim && !op.getSource().isSameOnAllRanks())
    return std::nullopt;
  // Of what all have the first rank keeps it; of a part each adds its own.
  Index place = placeIn(axis->digits);
  if (dim) {
    Var part = forms.make(axis->size);
    value.dims[*dim].insert(value.dims[*dim].begin(), part);
    place = place.plus(part, -1);
  }
  value.form = where(std::move(value.form), Guard{place, 0, 1});
  return value;
}

bool Ops::communicate(Operation *op, ArrayRef<Tensor> operands, std::vector<Tensor> &results) {
  SmallVector<Axis> along;
  if (auto names = op->getAttrOfType<ArrayAttr>("axes")) {
    auto found = findAxes(names);
    if (!found)
      return false;
    along = *found;
  }
  // Of any number of ranks only what all have together is known.
  if (areOpen(along) && !isa<dist::AllReduceOp>(op))
    return false;
  int64_t ranks = countRanks(along);
  auto grows = [&](mlir::Value from, mlir::Value to, int64_t dim) {
    return tensorOf(from.getType()).getDimSize(dim) * ranks ==
           tensorOf(to.getType()).getDimSize(dim);
  };
  int64_t dim = integerOr(op, "dim", 0);
  auto sum = dist::ReductionAttr::get(op->getContext(), dist::Reduction::Sum);
  if (isa<dist::AxisIndexOp>(op)) {
    results.push_back({{}, forms.normal(forms.position(placeIn(digitsOf(along))))});
    return true;
  }
  for (auto [i, value] : llvm::enumerate(operands)) {
    if (i >= op->getNumResults())
      return false;
    mlir::Value from = op->getOperand(i), to = op->getResult(i);
    std::optional<Tensor> made;
    if (isa<dist::ReinterpretOp, dist::FakeBroadcastOp, dist::WaitOp, dist::OffloadOp,
            dist::ReloadOp>(op)) {
      made = value;
    } else if (auto conversion = dyn_cast<dist::ConvertOp>(op)) {
      made = convert(conversion, value);
    } else if (auto all = dyn_cast<dist::AllReduceOp>(op)) {
      made = reduce(value, all.getReduction(), along);
    } else if (isa<dist::FakeReduceOp>(op)) {
      made = reduce(value, sum, along);
    } else if (isa<dist::AllGatherOp, dist::FakeGatherOp>(op) && grows(from, to, dim)) {
      made = gather(value, dim, along);
    } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op);
               scatter && grows(to, from, dim)) {
      std::optional<Tensor> reduced = reduce(value, scatter.getReduction(), along);
      made = reduced ? shard(*reduced, dim, along) : std::nullopt;
    } else if (isa<dist::FakeScatterOp>(op) && grows(to, from, dim)) {
      made = shard(value, dim, along);
    } else if (isa<dist::AllToAllOp>(op)) {
      int64_t split = integerOr(op, "split", 0), concat = integerOr(op, "concat", 0);
      if (split != concat && grows(to, from, split) && grows(from, to, concat))
        made = shard(gather(value, concat, along), split, along);
    } else if (auto broadcast = dyn_cast<dist::BroadcastOp>(op)) {
      Digits digits;
      for (const Digit &digit : digitsOf(ArrayRef<Var>(digitsOf(along))))
        digits[digit.var] = Index(int64_t(broadcast.getRoot()) / digit.stride % digit.size);
      made = value;
      replace(made->form, digits);
    } else if (auto shift = dyn_cast<dist::ShiftOp>(op); shift && along.size() == 1) {
      // From the rank `by` places before, where there is one, and from the end of the circle.
      int64_t size = along[0].size, by = shift.getBy();
      if (along[0].digits.size() != 1)
        return false;
      by = shift.getWrap() ? ((by % size) + size) % size : by;
      made = Tensor{value.dims, {}};
      for (int64_t turn : {0, 1}) {
        if (turn && (!shift.getWrap() || by == 0))
          continue;
        Digits source;
        source[along[0].digits[0]] = Index::of(along[0].digits[0]).plus(Index(turn * size - by));
        Form form = value.form;
        replace(form, source);
        llvm::append_range(made->form, where(form, Guard{source[along[0].digits[0]], 0, size}));
      }
    }
    if (!made)
      return false;
    made->form = forms.normal(made->form);
    results.push_back(std::move(*made));
  }
  return true;
}

bool Ops::evaluate(Operation *op, StringRef step, ArrayRef<Tensor> operands,
                   std::vector<Tensor> &results) {
  if (step == "dist")
    return op->getName().getDialectNamespace() == "dist" && communicate(op, operands, results);
  // Only functions of their operands: what else there is may hide anything.
  StringRef dialect = op->getName().getDialectNamespace();
  if ((dialect != "aten" && dialect != "train") || !isPure(op))
    return false;
  std::optional<Tensor> value;
  if (step == "copy") {
    if (isa<aten::CloneOp, aten::LiftFreshCopyOp, aten::ToCopyOp, aten::AliasOp, aten::DetachOp>(
            op) &&
        elementOf(op->getOperand(0)) == elementOf(op->getResult(0)))
      value = operands[0];
  } else if (step == "reshape") {
    if (isa<aten::ViewOp, aten::UnsafeViewOp, aten::UnsqueezeOp, aten::SqueezeOp,
            aten::SqueezeDimOp, aten::SqueezeDimsOp>(op))
      value = reshape(operands[0], tensorOf(op->getResult(0).getType()).getShape());
  } else if (step == "arithmetic") {
    value = arithmetic(op, operands);
  } else if (step == "statistics") {
    if (isa<aten::LinalgVectorNormOp, aten::StackOp>(op))
      value = norm(op, operands);
  } else if (step == "order") {
    value = order(op, operands);
  } else if (step == "concatenation") {
    value = concatenate(op, operands);
  } else if (step == "lookup" && isa<aten::IndexSelectOp>(op)) {
    value = selectByPlace(op, operands);
  } else if (step == "part") {
    return parts(op, operands, results);
  } else if (step == "lookup") {
    return lookUp(op, operands, results);
  } else if (step == "rule") {
    return rule(op, operands, results);
  }
  if (value)
    results.push_back(std::move(*value));
  return value.has_value();
}
