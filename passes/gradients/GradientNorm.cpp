//===- GradientNorm.cpp - the norm of many gradients, and scaling by it --------===//

#include "passes/gradients/GradientNorm.h"

#include "dialects/aten/DTypes.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Reduction.h"

using namespace mlir;
using namespace cleave;
using cleave::gradients::TakenGradient;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// What the function returns, by role.
static llvm::DenseMap<train::RoleAttr, Value> mapResults(func::FuncOp function) {
  llvm::DenseMap<train::RoleAttr, Value> results;
  for (unsigned i = 0; function && i < function.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(function, i))
      results[role] = function.front().getTerminator()->getOperand(i);
  return results;
}

/// The op that leaves each rank a part of `gradient`, an operand of the update, or null. `reduced`
/// is what the update takes from the function that reduces.
static Operation *findScattering(Value gradient,
                                 const llvm::DenseMap<train::RoleAttr, Value> &reduced) {
  if (auto argument = dyn_cast<BlockArgument>(gradient); argument && !reduced.empty()) {
    auto update = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
    if (Value value = role ? reduced.lookup(role) : Value())
      gradient = value;
  }
  Operation *op = gradient.getDefiningOp();
  if (auto wait = dyn_cast_or_null<train::WaitBucketOp>(op)) {
    auto bucket = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(
        op, wait.getBucket().getType().getSymbol());
    return bucket && bucket.getScatter() ? op : nullptr;
  }
  if (auto wait = dyn_cast_or_null<dist::WaitOp>(op))
    op = wait.getOperand().getDefiningOp();
  return isa_and_nonnull<dist::ReduceScatterOp>(op) ? op : nullptr;
}

Operation *TakenGradient::getFirstUser() const {
  Operation *first = uses.front()->getOwner();
  for (OpOperand *use : uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  return first;
}

/// Whether only the sum over ranks that `value` is a term of can be used; without a placement it
/// may be.
static bool mayBePending(Value value) {
  auto placement = dist::getPlacement(value.getType());
  return !placement || llvm::any_of(placement.getEntries(), [](const dist::AxisEntry &entry) {
    return entry.placement.isPartial() || entry.placement.isVarying();
  });
}

/// What rounds a sum that was added up in a wider type than its parameter's (`element`), or null.
static Operation *findRounding(Value sum, Type element) {
  if (!element || !sum.hasOneUse() || cast<ShapedType>(sum.getType()).getElementType() == element)
    return nullptr;
  auto op = dyn_cast<aten::AtenOpInterface>(*sum.user_begin());
  bool isRounding = op && op.getSchemaName() == "aten::_to_copy" &&
                    cast<ShapedType>(op->getResult(0).getType()).getElementType() == element;
  return isRounding ? op.getOperation() : nullptr;
}

/// The element type of each parameter that the update has.
using ParameterTypes = llvm::DenseMap<StringAttr, Type>;

/// Follows a gradient from where the update takes it through what reduces and rounds it.
static void followGradient(Value value, StringAttr name, const ParameterTypes &types,
                           SmallVectorImpl<TakenGradient> &found) {
  while (value.hasOneUse() && mayBePending(value)) {
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (auto wait = dyn_cast<train::WaitBucketOp>(user)) {
      auto bucket = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(
          user, wait.getBucket().getType().getSymbol());
      for (auto [member, gradient] : llvm::zip_equal(bucket.getNames(), wait.getGradients()))
        followGradient(gradient, cast<StringAttr>(member), types, found);
      return;
    }
    if (isa<train::ReduceBucketOp, dist::WaitOp>(user))
      value = user->getResult(0);
    else if (isa<dist::AllReduceOp, dist::ReduceScatterOp>(user))
      value = user->getResult(use.getOperandNumber());
    else
      break;
  }
  if (Operation *rounding = findRounding(value, types.lookup(name)))
    value = rounding->getResult(0);
  TakenGradient gradient{value, {}, name};
  for (OpOperand &use : value.getUses())
    if (!isa<func::ReturnOp, train::OptimizerStepOpInterface>(use.getOwner()))
      gradient.uses.push_back(&use);
  if (!gradient.uses.empty())
    found.push_back(std::move(gradient));
}

/// The parameter that an operand is.
static StringAttr getParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
  return role && role.getKind() == train::RoleKind::Parameter ? role.getName() : StringAttr();
}

/// In the order of their parameters: steps come in that of the buckets, and the last bits of a norm
/// depend on the order.
static SmallVector<TakenGradient> listGradients(func::FuncOp update) {
  SmallVector<TakenGradient> gradients, traced;
  for (Operation &op : update.front())
    if (auto step = dyn_cast<train::OptimizerStepOpInterface>(op)) {
      OpOperand &gradient = step.getGradientMutable();
      gradients.push_back({gradient.get(), {&gradient}, getParameter(op.getOperand(0))});
    }
  llvm::DenseMap<StringAttr, unsigned> order;
  ParameterTypes types;
  for (BlockArgument argument : update.getArguments())
    if (StringAttr parameter = getParameter(argument)) {
      order[parameter] = argument.getArgNumber();
      types[parameter] = cast<ShapedType>(argument.getType()).getElementType();
    }
  for (BlockArgument argument : update.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
    if (role && role.getKind() == train::RoleKind::Gradient)
      followGradient(argument, role.getName(), types, traced);
  }
  llvm::append_range(gradients, traced);
  llvm::stable_sort(gradients, [&](const TakenGradient &a, const TakenGradient &b) {
    return order.lookup(a.parameter) < order.lookup(b.parameter);
  });
  return gradients;
}

FailureOr<SmallVector<TakenGradient>>
cleave::gradients::findGradients(const train::ProgramFunctions &part) {
  SmallVector<TakenGradient> gradients = listGradients(part.update);
  llvm::DenseMap<train::RoleAttr, Value> reduced = mapResults(part.reduce);
  for (const TakenGradient &gradient : gradients) {
    Operation *op = gradient.getFirstUser();
    auto placement = dist::getPlacement(gradient.value.getType());
    // An untyped shard looks like a whole gradient: its norm would be silently too small.
    if (Operation *scatter = placement ? nullptr : findScattering(gradient.value, reduced)) {
      InFlightDiagnostic diagnostic = op->emitError()
                                      << "takes a sharded gradient without a placement; its norm "
                                         "over all ranks needs `#dist.on` types";
      diagnostic.attachNote(scatter->getLoc()) << "the gradient is scattered here";
      return diagnostic;
    }
    for (const dist::AxisEntry &entry :
         placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
      if (entry.placement.isPartial() || entry.placement.isVarying()) {
        InFlightDiagnostic diagnostic =
            op->emitError() << "takes a gradient that is " << entry.placement << " over axis "
                            << entry.axis << "; reduce it before computing its norm";
        diagnostic.attachNote(gradient.value.getLoc()) << "the gradient is produced here";
        return diagnostic;
      }
  }
  return gradients;
}

SmallVector<Value> cleave::gradients::getValues(ArrayRef<TakenGradient> gradients) {
  return llvm::map_to_vector(gradients, [](const TakenGradient &each) { return each.value; });
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The element type in which torch.stack would join the norms.
static Type promote(ArrayRef<Value> gradients) {
  auto elementOf = [](Value gradient) {
    return aten::toReal(cast<RankedTensorType>(gradient.getType()).getElementType());
  };
  Type element = elementOf(gradients.front());
  for (Value gradient : gradients) {
    Type other = elementOf(gradient);
    if (other.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
      element = other;
    else if (other != element && other.getIntOrFloatBitWidth() == 16)
      element = Float32Type::get(element.getContext()); // f16 with bf16
  }
  return element;
}

RankedTensorType cleave::gradients::getNormType(ArrayRef<Value> gradients) {
  auto type = RankedTensorType::get({}, promote(gradients));
  dist::PlacementAttr joined;
  for (Value gradient : gradients) {
    dist::PlacementAttr placement = dist::getPlacement(gradient.getType());
    if (!placement)
      return type;
    if (!joined)
      joined = placement;
    for (const dist::AxisEntry &entry : placement.getEntries()) {
      auto before = joined.get(entry.axis);
      bool isInvariant = before && before->isInvariant() && entry.placement.isInvariant();
      joined = joined.with(entry.axis, isInvariant ? dist::AxisPlacement::invariant()
                                                   : dist::AxisPlacement::replicate());
    }
  }
  return dist::withPlacement(type, joined);
}

/// The axes that shard a tensor.
static SmallVector<Attribute> listShardingAxes(dist::PlacementAttr placement) {
  SmallVector<Attribute> axes;
  for (const dist::AxisEntry &entry :
       placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
    if (entry.placement.isShard())
      axes.push_back(entry.axis);
  return axes;
}

/// The sum of a whole tensor's elements, of which this rank may hold a part.
static Value sumElements(ImplicitLocOpBuilder &b, Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  dist::PlacementAttr placement = dist::getPlacement(type);
  SmallVector<Attribute> axes = listShardingAxes(placement);
  auto scalar = RankedTensorType::get({}, type.getElementType());
  dist::PlacementAttr partial = placement, whole = placement;
  for (Attribute axis : axes) {
    StringRef name = cast<StringAttr>(axis);
    partial = partial.with(name, dist::AxisPlacement::partial());
    whole = whole.with(name, dist::AxisPlacement::replicate());
  }
  Value sum = aten::SumOp::create(b, dist::withPlacement(scalar, partial), tensor, TypeAttr());
  if (axes.empty())
    return sum;
  return dist::AllReduceOp::create(b, TypeRange{dist::withPlacement(scalar, whole)},
                                   ValueRange{sum},
                                   dist::ReductionAttr::get(b.getContext(), dist::Reduction::Sum),
                                   placement.getMesh(), b.getArrayAttr(axes))
      ->getResult(0);
}

/// The 2-norm of a whole gradient, of which this rank may hold a part.
static Value makeTensorNorm(ImplicitLocOpBuilder &b, Value gradient) {
  auto tensor = cast<RankedTensorType>(gradient.getType());
  dist::PlacementAttr placement = dist::getPlacement(tensor);
  auto scalar = RankedTensorType::get({}, aten::toReal(tensor.getElementType()));
  if (listShardingAxes(placement).empty())
    return aten::LinalgVectorNormOp::create(b, dist::withPlacement(scalar, placement), gradient,
                                            b.getF64FloatAttr(2.0), nullptr, nullptr, nullptr);
  if (aten::isComplex(tensor.getElementType())) {
    // Squares of absolute values are those of both parts.
    SmallVector<int64_t> shape(tensor.getShape());
    shape.push_back(2);
    tensor = RankedTensorType::get(shape, scalar.getElementType(), placement);
    gradient = aten::ViewAsRealOp::create(b, tensor, gradient);
  }
  Value all = sumElements(b, aten::MulOp::create(b, tensor, gradient, gradient));
  return aten::SqrtOp::create(b, all.getType(), all);
}

Value cleave::gradients::toElement(ImplicitLocOpBuilder &b, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return aten::ToCopyOp::create(b, type.clone(element), value, TypeAttr::get(element), BoolAttr(),
                                StringAttr());
}

/// Scalars, in the type that `type` is, as one vector.
static Value stackScalars(ImplicitLocOpBuilder &b, ArrayRef<Value> scalars, RankedTensorType type) {
  auto stacked =
      dist::withPlacement(RankedTensorType::get({int64_t(scalars.size())}, type.getElementType()),
                          dist::getPlacement(type));
  return aten::StackOp::create(b, stacked, scalars, IntegerAttr());
}

Value cleave::gradients::makeNorm(ImplicitLocOpBuilder &b, ArrayRef<Value> gradients) {
  // As torch does: norms of the tensors, then the norm of these.
  RankedTensorType scalar = getNormType(gradients);
  SmallVector<Value> norms;
  for (Value gradient : gradients)
    norms.push_back(toElement(b, makeTensorNorm(b, gradient), scalar.getElementType()));
  return aten::LinalgVectorNormOp::create(b, scalar, stackScalars(b, norms, scalar),
                                          b.getF64FloatAttr(2.0), nullptr, nullptr, nullptr);
}

Value cleave::gradients::makeFiniteFlag(ImplicitLocOpBuilder &b, ArrayRef<Value> gradients) {
  // Zero times what is not finite is NaN, which all sums keep.
  Type f32 = b.getF32Type();
  auto scalar = cast<RankedTensorType>(getNormType(gradients).clone(f32));
  SmallVector<Value> flags;
  for (Value gradient : gradients) {
    Value zeros = aten::MulScalarOp::create(b, gradient.getType(), gradient, b.getF64FloatAttr(0));
    flags.push_back(toElement(b, sumElements(b, zeros), f32));
  }
  return aten::SumOp::create(b, scalar, stackScalars(b, flags, scalar), TypeAttr());
}

Value cleave::gradients::convertScalar(ImplicitLocOpBuilder &b, Value scalar,
                                       RankedTensorType type) {
  scalar = toElement(b, scalar, type.getElementType());
  dist::PlacementAttr wanted = dist::getPlacement(type);
  for (const dist::AxisEntry &entry : wanted ? wanted.getEntries() : ArrayRef<dist::AxisEntry>()) {
    dist::PlacementAttr found = dist::getPlacement(scalar.getType());
    if (*found.get(entry.axis) != entry.placement)
      scalar = dist::ConvertOp::create(
          b, dist::withPlacement(type, found.with(entry.axis, entry.placement)), scalar,
          IntegerAttr());
  }
  return scalar;
}

SmallVector<Value> cleave::gradients::scaleBy(ImplicitLocOpBuilder &b, ArrayRef<Value> gradients,
                                              Value factor) {
  auto scalar = cast<RankedTensorType>(factor.getType());
  // What ranks may use differently scales what they may not only as the same on all of them.
  llvm::SmallDenseMap<dist::PlacementAttr, Value, 4> converted;
  auto convertFor = [&](dist::PlacementAttr placement) {
    Value &value = converted[placement];
    if (value)
      return value;
    value = factor;
    for (const dist::AxisEntry &entry :
         placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>()) {
      dist::PlacementAttr found = dist::getPlacement(value.getType());
      if (entry.placement.isInvariant() && !found.get(entry.axis)->isInvariant())
        value = dist::ConvertOp::create(
            b, dist::withPlacement(scalar, found.with(entry.axis, entry.placement)), value,
            IntegerAttr());
    }
    return value;
  };
  return llvm::map_to_vector(gradients, [&](Value gradient) -> Value {
    auto type = cast<RankedTensorType>(gradient.getType());
    Value scale = convertFor(dist::getPlacement(type));
    Type element = aten::toReal(type.getElementType());
    // PyTorch multiplies numbers of 16 bits by a wider factor as it is, and then rounds.
    if (element.getIntOrFloatBitWidth() > 16)
      scale = toElement(b, scale, element);
    Type wide = cast<RankedTensorType>(scale.getType()).getElementType();
    // Where both are scalars, the product is as wide as the factor.
    auto product =
        type.getRank() == 0 && element != wide ? cast<RankedTensorType>(type.clone(wide)) : type;
    Value scaled = aten::MulOp::create(b, gradient.getLoc(), product, gradient, scale);
    return toElement(b, scaled, type.getElementType());
  });
}

void cleave::gradients::scaleToNorm(ImplicitLocOpBuilder &b, ArrayRef<TakenGradient> gradients,
                                    Value norm, double maxNorm) {
  auto scalar = cast<RankedTensorType>(norm.getType());
  Value shifted = aten::AddScalarOp::create(b, scalar, norm, b.getF64FloatAttr(1e-6), Attribute());
  Value inverse = aten::ReciprocalOp::create(b, scalar, shifted);
  Value factor = aten::MulScalarOp::create(b, scalar, inverse, b.getF64FloatAttr(maxNorm));
  Value bounded = aten::ClampOp::create(b, scalar, factor, Attribute(), b.getF64FloatAttr(1.0));
  SmallVector<Value> scaled = scaleBy(b, getValues(gradients), bounded);
  for (auto [gradient, value] : llvm::zip_equal(gradients, scaled))
    for (OpOperand *use : gradient.uses)
      use->set(value);
}
