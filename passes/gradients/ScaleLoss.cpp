//===- ScaleLoss.cpp - dynamic scaling of the loss ----------------------------===//
//
// The scale itself, a rule of the module, is the run's: it multiplies the seed of each microbatch.
// Here gradients are divided by it, and what says whether all of them are finite becomes a sum over
// stages, on which updates wait.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/GradientNorm.h"
#include "passes/gradients/Passes.h"
#include "passes/gradients/ReduceFunction.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "lib/backward/PhaseFunction.h"

namespace cleave::gradients {
#define GEN_PASS_DEF_SCALELOSS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;
using namespace cleave::gradients;
using train::RoleKind;

namespace {
struct ScaleLoss : gradients::impl::ScaleLossBase<ScaleLoss> {
  using ScaleLossBase::ScaleLossBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder b(&getContext());
    auto rule = train::LossScalingAttr::getChecked(
        [&] { return module.emitError(); }, &getContext(), b.getF64FloatAttr(initScale),
        b.getF64FloatAttr(growthFactor), b.getF64FloatAttr(backoffFactor), int64_t(growthInterval));
    if (!rule)
      return signalPassFailure();
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (module->hasAttr(train::kLossScalingAttrName)) {
      module.emitError() << "scales its loss already";
      return signalPassFailure();
    }
    if (!program->hasUpdate()) {
      module.emitError() << "has no update function, so there are no gradients to unscale; export "
                            "it with an optimizer";
      return signalPassFailure();
    }
    module->setAttr(train::kLossScalingAttrName, rule);
    if (failed(unscale(*program)) || failed(train::getProgram(module, train::ProgramForms::Staged)))
      signalPassFailure();
  }

  LogicalResult unscale(train::ProgramFunctions &program) {
    SmallVector<train::ProgramFunctions *> parts;
    if (!program.isStaged())
      parts.push_back(&program);
    for (train::ProgramFunctions &stage : program.stages)
      if (stage.update)
        parts.push_back(&stage);
    SmallVector<std::pair<train::ProgramFunctions *, SmallVector<TakenGradient>>> all;
    SmallVector<Value> values;
    for (train::ProgramFunctions *part : parts) {
      FailureOr<SmallVector<TakenGradient>> gradients = findGradients(*part);
      if (failed(gradients) || failed(checkTypes(*gradients)) ||
          failed(reduceBeforeUpdate(*part, *gradients, "scaling of the loss")))
        return failure();
      llvm::append_range(values, getValues(*gradients));
      if (!gradients->empty())
        all.emplace_back(part, std::move(*gradients));
    }
    if (values.empty())
      return getOperation().emitError() << "has an update that takes no gradients to unscale";
    auto scalar =
        cast<RankedTensorType>(getNormType(values).clone(Float32Type::get(&getContext())));
    for (auto &[part, gradients] : all)
      unscalePart(*part, gradients, scalar);
    return success();
  }

  static LogicalResult checkTypes(ArrayRef<TakenGradient> gradients) {
    for (const TakenGradient &gradient : gradients) {
      Type element = cast<RankedTensorType>(gradient.value.getType()).getElementType();
      if (isa<ComplexType>(element) || element.isF16())
        return gradient.getFirstUser()->emitError()
               << "takes a gradient with elements of type " << element
               << ", which scaling of the loss does not support; expected f32, bf16 or f64"
               << (element.isF16() ? ": parameters of f32, and f16 under autocast" : "");
    }
    return success();
  }

  /// `scalar` is the type of the scale, and of all stages' terms.
  void unscalePart(train::ProgramFunctions &part, ArrayRef<TakenGradient> gradients,
                   RankedTensorType scalar) {
    func::FuncOp reduce = part.reduce, update = part.update;
    numUnscaled += gradients.size();
    SmallVector<Value> reduced = getReduced(part, gradients);
    Value scale = backward::addArgument(
        reduce, scalar, train::RoleAttr::get(&getContext(), RoleKind::LossScale), reduce.getLoc());
    func::ReturnOp terminator = backward::getReturn(reduce);
    ImplicitLocOpBuilder b(reduce.getLoc(), terminator);
    Value flag = convertScalar(b, makeFiniteFlag(b, reduced), scalar);
    Value inverse = aten::ReciprocalOp::create(b, scalar, scale);
    for (auto [before, after] : llvm::zip_equal(reduced, scaleBy(b, reduced, inverse)))
      for (OpOperand &result : terminator->getOpOperands())
        if (result.get() == before)
          result.set(after);
    auto role = train::RoleAttr::get(&getContext(), RoleKind::StageSum, train::kNonFiniteGradients);
    backward::addResult(reduce, flag, role);
    // Updates wait for the sum, and are skipped if it is not 0.
    backward::addArgument(update, scalar, role, update.getLoc());
  }
};
} // namespace
