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

FailureOr<SmallVector<OpOperand *>>
cleave::gradients::findGradients(const train::ProgramFunctions &part) {
  func::FuncOp update = part.update;
  SmallVector<OpOperand *> gradients;
  llvm::DenseMap<train::RoleAttr, Value> reduced = mapResults(part.reduce);
  for (Operation &op : update.front()) {
    auto step = dyn_cast<train::OptimizerStepOpInterface>(op);
    if (!step)
      continue;
    OpOperand *gradient = &step.getGradientMutable();
    auto placement = dist::getPlacement(gradient->get().getType());
    // An untyped shard looks like a whole gradient: its norm would be silently too small.
    if (Operation *scatter = placement ? nullptr : findScattering(gradient->get(), reduced)) {
      InFlightDiagnostic diagnostic = op.emitError()
                                      << "takes a sharded gradient without a placement; its norm "
                                         "over all ranks needs `#dist.on` types";
      diagnostic.attachNote(scatter->getLoc()) << "the gradient is scattered here";
      return diagnostic;
    }
    for (const dist::AxisEntry &entry :
         placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
      if (entry.placement.isPartial() || entry.placement.isVarying()) {
        InFlightDiagnostic diagnostic =
            op.emitError() << "takes a gradient that is " << entry.placement << " over axis "
                           << entry.axis << "; reduce it before computing its norm";
        diagnostic.attachNote(gradient->get().getLoc()) << "the gradient is produced here";
        return diagnostic;
      }
    gradients.push_back(gradient);
  }
  return gradients;
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

/// The 2-norm of a whole gradient, of which this rank may hold a part.
static Value makeTensorNorm(ImplicitLocOpBuilder &b, Value gradient) {
  auto tensor = cast<RankedTensorType>(gradient.getType());
  dist::PlacementAttr placement = dist::getPlacement(tensor);
  SmallVector<Attribute> axes;
  for (const dist::AxisEntry &entry :
       placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
    if (entry.placement.isShard())
      axes.push_back(entry.axis);
  auto scalar = RankedTensorType::get({}, aten::toReal(tensor.getElementType()));
  if (axes.empty())
    return aten::LinalgVectorNormOp::create(b, dist::withPlacement(scalar, placement), gradient,
                                            b.getF64FloatAttr(2.0), nullptr, nullptr, nullptr);
  dist::PlacementAttr partial = placement, whole = placement;
  for (Attribute axis : axes) {
    StringRef name = cast<StringAttr>(axis);
    partial = partial.with(name, dist::AxisPlacement::partial());
    whole = whole.with(name, dist::AxisPlacement::replicate());
  }
  if (aten::isComplex(tensor.getElementType())) {
    // Squares of absolute values are those of both parts.
    SmallVector<int64_t> shape(tensor.getShape());
    shape.push_back(2);
    tensor = RankedTensorType::get(shape, scalar.getElementType(), placement);
    gradient = aten::ViewAsRealOp::create(b, tensor, gradient);
  }
  Value square = aten::MulOp::create(b, tensor, gradient, gradient);
  Value sum = aten::SumOp::create(b, dist::withPlacement(scalar, partial), square, TypeAttr());
  Value all =
      dist::AllReduceOp::create(b, TypeRange{dist::withPlacement(scalar, whole)}, ValueRange{sum},
                                dist::ReductionAttr::get(b.getContext(), dist::Reduction::Sum),
                                placement.getMesh(), b.getArrayAttr(axes))
          ->getResult(0);
  return aten::SqrtOp::create(b, all.getType(), all);
}

Value cleave::gradients::toElement(ImplicitLocOpBuilder &b, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return aten::ToCopyOp::create(b, type.clone(element), value, TypeAttr::get(element), BoolAttr(),
                                StringAttr());
}

Value cleave::gradients::makeNorm(ImplicitLocOpBuilder &b, ArrayRef<Value> gradients) {
  // As torch does: norms of the tensors, then the norm of these.
  RankedTensorType scalar = getNormType(gradients);
  SmallVector<Value> norms;
  for (Value gradient : gradients)
    norms.push_back(toElement(b, makeTensorNorm(b, gradient), scalar.getElementType()));
  auto stacked =
      dist::withPlacement(RankedTensorType::get({int64_t(norms.size())}, scalar.getElementType()),
                          dist::getPlacement(scalar));
  Value all = aten::StackOp::create(b, stacked, norms, IntegerAttr());
  return aten::LinalgVectorNormOp::create(b, scalar, all, b.getF64FloatAttr(2.0), nullptr, nullptr,
                                          nullptr);
}

void cleave::gradients::scaleToNorm(ImplicitLocOpBuilder &b, ArrayRef<OpOperand *> gradients,
                                    Value norm, double maxNorm) {
  auto scalar = cast<RankedTensorType>(norm.getType());
  Value shifted = aten::AddScalarOp::create(b, scalar, norm, b.getF64FloatAttr(1e-6), Attribute());
  Value inverse = aten::ReciprocalOp::create(b, scalar, shifted);
  Value factor = aten::MulScalarOp::create(b, scalar, inverse, b.getF64FloatAttr(maxNorm));
  Value bounded = aten::ClampOp::create(b, scalar, factor, Attribute(), b.getF64FloatAttr(1.0));
  // What ranks may use differently scales what they may not only as the same on all of them.
  llvm::SmallDenseMap<dist::PlacementAttr, Value, 4> converted;
  auto convertFor = [&](dist::PlacementAttr placement) {
    Value &value = converted[placement];
    if (value)
      return value;
    value = bounded;
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
  for (OpOperand *gradient : gradients) {
    auto type = cast<RankedTensorType>(gradient->get().getType());
    Value scale =
        toElement(b, convertFor(dist::getPlacement(type)), aten::toReal(type.getElementType()));
    gradient->set(aten::MulOp::create(b, gradient->get().getLoc(), type, gradient->get(), scale));
  }
}
