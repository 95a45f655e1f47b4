//===- ClipGradients.cpp - bound the norm of all gradients together ----------===//
//
// What torch.nn.utils.clip_grad_norm_ does, in the update: op by op the same, so that on one rank
// the bits are the same. A gradient that is sharded over mesh axes adds its squares over them
// first.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/Passes.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/train/Program.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

namespace cleave::gradients {
#define GEN_PASS_DEF_CLIPGRADIENTS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;

namespace {
struct ClipGradients : gradients::impl::ClipGradientsBase<ClipGradients> {
  using ClipGradientsBase::ClipGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!std::isfinite(maxNorm) || maxNorm <= 0) {
      module.emitError() << "expects a positive max-norm, found " << double(maxNorm);
      return signalPassFailure();
    }
    FailureOr<train::Program> program = train::getProgram(module, train::ProgramForms::Any);
    if (failed(program))
      return signalPassFailure();
    if (!program->update) {
      module.emitError() << "has no update function, so there are no gradients to clip; export it "
                            "with an optimizer";
      return signalPassFailure();
    }
    SmallVector<OpOperand *> gradients;
    if (failed(findGradients(program->update, gradients)))
      return signalPassFailure();
    if (gradients.empty())
      return;
    clip(program->update, gradients);
    numClipped += gradients.size();
  }

  /// The gradient operands of the optimizer's ops.
  LogicalResult findGradients(func::FuncOp update, SmallVectorImpl<OpOperand *> &gradients) {
    for (Operation &op : update.front()) {
      OpOperand *gradient = nullptr;
      if (auto adamw = dyn_cast<train::AdamWOp>(op))
        gradient = &adamw.getGradientMutable();
      else if (auto sgd = dyn_cast<train::SGDOp>(op))
        gradient = &sgd.getGradientMutable();
      if (!gradient)
        continue;
      auto placement = dist::getPlacement(gradient->get().getType());
      // An untyped shard looks like a whole gradient: its norm would be silently too small.
      if (auto scatter = gradient->get().getDefiningOp<dist::ReduceScatterOp>();
          scatter && !placement) {
        InFlightDiagnostic diagnostic =
            op.emitError() << "takes a gradient that is sharded without a placement that says so; "
                              "its norm over all ranks needs `#dist.on` types";
        diagnostic.attachNote(scatter.getLoc()) << "the gradient is scattered here";
        return diagnostic;
      }
      for (const dist::AxisEntry &entry :
           placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
        if (entry.placement.isPartial() || entry.placement.isVarying()) {
          InFlightDiagnostic diagnostic =
              op.emitError() << "takes a gradient that is " << entry.placement << " over axis "
                             << entry.axis << ", of which there is no norm before it is reduced";
          diagnostic.attachNote(gradient->get().getLoc()) << "the gradient comes from here";
          return diagnostic;
        }
      gradients.push_back(gradient);
    }
    return success();
  }

  /// The type of a scalar made from values with these placements: where all are I it is I, else R.
  static RankedTensorType scalarType(Type element, ArrayRef<OpOperand *> gradients) {
    auto type = RankedTensorType::get({}, element);
    dist::PlacementAttr joined;
    for (OpOperand *gradient : gradients) {
      dist::PlacementAttr placement = dist::getPlacement(gradient->get().getType());
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
  static Value makeNorm(ImplicitLocOpBuilder &b, OpOperand *operand) {
    Value gradient = operand->get();
    auto tensor = cast<RankedTensorType>(gradient.getType());
    dist::PlacementAttr placement = dist::getPlacement(tensor);
    SmallVector<Attribute> axes;
    for (const dist::AxisEntry &entry :
         placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
      if (entry.placement.isShard())
        axes.push_back(entry.axis);
    auto scalar = RankedTensorType::get({}, tensor.getElementType());
    if (axes.empty())
      return aten::LinalgVectorNormOp::create(b, dist::withPlacement(scalar, placement), gradient,
                                              b.getF64FloatAttr(2.0), nullptr, nullptr, nullptr);
    dist::PlacementAttr partial = placement, whole = placement;
    for (Attribute axis : axes) {
      StringRef name = cast<StringAttr>(axis);
      partial = partial.with(name, dist::AxisPlacement::partial());
      whole = whole.with(name, dist::AxisPlacement::replicate());
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

  /// The element type in which torch.stack would join the norms.
  static Type promote(ArrayRef<OpOperand *> gradients) {
    auto elementOf = [](OpOperand *gradient) {
      return cast<RankedTensorType>(gradient->get().getType()).getElementType();
    };
    Type element = elementOf(gradients.front());
    for (OpOperand *gradient : gradients) {
      Type other = elementOf(gradient);
      if (other.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
        element = other;
      else if (other != element && other.getIntOrFloatBitWidth() == 16)
        element = Float32Type::get(element.getContext()); // f16 with bf16
    }
    return element;
  }

  /// `value` in another element type.
  static Value toElement(ImplicitLocOpBuilder &b, Value value, Type element) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType() == element)
      return value;
    return aten::ToCopyOp::create(b, type.clone(element), value, TypeAttr::get(element), BoolAttr(),
                                  StringAttr());
  }

  void clip(func::FuncOp update, ArrayRef<OpOperand *> gradients) {
    // Behind the last gradient, in front of the first optimizer step.
    Operation *last = nullptr, *first = gradients.front()->getOwner();
    for (OpOperand *gradient : gradients) {
      if (Operation *op = gradient->get().getDefiningOp();
          op && (!last || last->isBeforeInBlock(op)))
        last = op;
      if (gradient->getOwner()->isBeforeInBlock(first))
        first = gradient->getOwner();
    }
    ImplicitLocOpBuilder b(update.getLoc(), update.getContext());
    if (last && !last->isBeforeInBlock(first)) {
      // Some gradients are made between optimizer steps: the steps move behind all of them.
      b.setInsertionPointAfter(last);
      Operation *position = last;
      for (OpOperand *gradient : gradients)
        if (Operation *step = gradient->getOwner(); step->isBeforeInBlock(last)) {
          step->moveAfter(position);
          position = step;
        }
      b.setInsertionPointAfter(last);
    } else {
      b.setInsertionPoint(first);
    }

    // As torch does: norms of the tensors, the norm of these, one factor for all.
    Type element = promote(gradients);
    SmallVector<Value> norms;
    for (OpOperand *gradient : gradients)
      norms.push_back(toElement(b, makeNorm(b, gradient), element));
    RankedTensorType scalar = scalarType(element, gradients);
    auto stacked = dist::withPlacement(RankedTensorType::get({int64_t(norms.size())}, element),
                                       dist::getPlacement(scalar));
    Value all = aten::StackOp::create(b, stacked, norms, IntegerAttr());
    Value norm = aten::LinalgVectorNormOp::create(b, scalar, all, b.getF64FloatAttr(2.0), nullptr,
                                                  nullptr, nullptr);
    Value shifted =
        aten::AddScalarOp::create(b, scalar, norm, b.getF64FloatAttr(1e-6), Attribute());
    Value inverse = aten::ReciprocalOp::create(b, scalar, shifted);
    Value factor = aten::MulScalarOp::create(b, scalar, inverse, b.getF64FloatAttr(maxNorm));
    Value bounded = aten::ClampOp::create(b, scalar, factor, Attribute(), b.getF64FloatAttr(1.0));
    for (OpOperand *gradient : gradients) {
      auto type = cast<RankedTensorType>(gradient->get().getType());
      Value scale = toElement(b, bounded, type.getElementType());
      gradient->set(aten::MulOp::create(b, gradient->get().getLoc(), type, gradient->get(), scale));
    }
  }
};
} // namespace
