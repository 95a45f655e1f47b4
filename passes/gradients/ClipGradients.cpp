//===- ClipGradients.cpp - bound the norm of all gradients together ----------===//
//
// In the update, where one update has all gradients. The stages of a pipeline each have some: a
// stage's reduce function then gives the square of its gradients' norm, a term of a sum over
// stages, and the updates scale by the root of that sum.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/GradientNorm.h"
#include "passes/gradients/Passes.h"
#include "passes/gradients/ReduceFunction.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/train/Stages.h"
#include "lib/backward/PhaseFunction.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

namespace cleave::gradients {
#define GEN_PASS_DEF_CLIPGRADIENTS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;
using namespace cleave::gradients;
using train::RoleKind;

/// The sum over stages that the norm is the root of, and the norm as an output of the update: what
/// runs report.
static constexpr StringLiteral kSquares = "gradient_norm_squared", kNorm = "gradient_norm";

static Operation *getFirstUser(ArrayRef<TakenGradient> gradients) {
  Operation *first = gradients.front().getFirstUser();
  for (const TakenGradient &gradient : gradients)
    if (Operation *user = gradient.getFirstUser(); user->isBeforeInBlock(first))
      first = user;
  return first;
}

/// Moves what makes the gradients, which is made of gradients alone, before `position`.
static void hoistGradients(ArrayRef<TakenGradient> gradients, Operation *position) {
  llvm::SetVector<Operation *> made;
  auto visit = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && position->isBeforeInBlock(op))
      made.insert(op);
  };
  for (const TakenGradient &gradient : gradients)
    visit(gradient.value);
  for (size_t i = 0; i < made.size(); ++i)
    llvm::for_each(made[i]->getOperands(), visit);
  SmallVector<Operation *> ordered(made.begin(), made.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : ordered)
    op->moveBefore(position);
}

namespace {
struct ClipGradients : gradients::impl::ClipGradientsBase<ClipGradients> {
  using ClipGradientsBase::ClipGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!std::isfinite(maxNorm) || maxNorm <= 0) {
      module.emitError() << "expects a positive max-norm, found " << double(maxNorm);
      return signalPassFailure();
    }
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->hasUpdate()) {
      module.emitError() << "has no update function, so there are no gradients to clip; export it "
                            "with an optimizer";
      return signalPassFailure();
    }
    if (program->isStaged()) {
      if (failed(clipStages(*program)) ||
          failed(train::getProgram(module, train::ProgramForms::Staged)))
        signalPassFailure();
      return;
    }
    FailureOr<SmallVector<TakenGradient>> gradients = findGradients(*program);
    if (failed(gradients))
      return signalPassFailure();
    if (!gradients->empty() && failed(clip(program->update, *gradients)))
      signalPassFailure();
  }

  /// Scales by the norm, which the update gives from then on.
  void clipTo(ImplicitLocOpBuilder &b, func::FuncOp update, ArrayRef<TakenGradient> gradients,
              Value norm) {
    scaleToNorm(b, gradients, norm, maxNorm);
    backward::addResult(update, norm, train::RoleAttr::get(&getContext(), RoleKind::Output, kNorm));
  }

  LogicalResult clip(func::FuncOp update, ArrayRef<TakenGradient> gradients) {
    if (backward::findResult(update, RoleKind::Output, StringAttr::get(&getContext(), kNorm)))
      return update.emitError() << "already clips its gradients";
    numClipped += gradients.size();
    // After the last gradient, before the first optimizer step. Moves renumber the block, so all
    // comparisons come before them.
    Operation *last = nullptr, *first = getFirstUser(gradients);
    bool isFused = true;
    for (const TakenGradient &gradient : gradients) {
      if (Operation *op = gradient.value.getDefiningOp();
          op && (!last || last->isBeforeInBlock(op)))
        last = op;
      isFused &= isa<train::OptimizerStepOpInterface>(gradient.getFirstUser());
    }
    ImplicitLocOpBuilder b(update.getLoc(), update.getContext());
    if (last && !last->isBeforeInBlock(first) && isFused) {
      // Some gradients are made between optimizer steps: the steps move after all of them.
      llvm::SetVector<Operation *> early;
      for (const TakenGradient &gradient : gradients)
        if (gradient.getFirstUser()->isBeforeInBlock(last))
          early.insert(gradient.getFirstUser());
      Operation *position = last;
      for (Operation *step : early) {
        step->moveAfter(position);
        position = step;
      }
      b.setInsertionPointAfter(last);
    } else {
      // Steps of many ops stay where they are.
      hoistGradients(gradients, first);
      b.setInsertionPoint(first);
    }

    clipTo(b, update, gradients, makeNorm(b, getValues(gradients)));
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  LogicalResult clipStages(train::ProgramFunctions &program) {
    for (const train::StageSum &sum : train::listStageSums(program))
      if (sum.name == kSquares)
        return func::FuncOp(program.stages[sum.consumers.front()].update).emitError()
               << "already clips its gradients";
    SmallVector<Value> all;
    for (train::ProgramFunctions &stage : program.stages) {
      if (!stage.update)
        continue;
      FailureOr<SmallVector<TakenGradient>> gradients = findGradients(stage);
      if (failed(gradients) ||
          failed(reduceBeforeUpdate(stage, *gradients, "clipping across stages")))
        return failure();
      llvm::append_range(all, getValues(*gradients));
    }
    if (all.empty())
      return success();
    // Squares of a narrow type would overflow where its norms do not.
    RankedTensorType type = getNormType(all);
    if (type.getElementTypeBitWidth() < 32)
      type = cast<RankedTensorType>(type.clone(Float32Type::get(&getContext())));
    for (train::ProgramFunctions &stage : program.stages) {
      if (!stage.update)
        continue;
      FailureOr<SmallVector<TakenGradient>> gradients = findGradients(stage);
      if (succeeded(gradients) && !gradients->empty())
        clipStage(stage, *gradients, type);
    }
    return success();
  }

  /// The stage's term of the sum, and the scaling by it. `type` is that of all stages' terms.
  void clipStage(train::ProgramFunctions &stage, ArrayRef<TakenGradient> gradients,
                 RankedTensorType type) {
    func::FuncOp reduce = stage.reduce, update = stage.update;
    auto role = train::RoleAttr::get(&getContext(), RoleKind::StageSum, kSquares);
    SmallVector<Value> reduced = getReduced(stage, gradients);
    ImplicitLocOpBuilder b(reduce.getLoc(), backward::getReturn(reduce));
    Value norm = convertScalar(b, makeNorm(b, reduced), type);
    backward::addResult(reduce, aten::MulOp::create(b, type, norm, norm), role);

    BlockArgument squares = backward::addArgument(update, type, role, update.getLoc());
    b.setLoc(update.getLoc());
    b.setInsertionPoint(getFirstUser(gradients));
    clipTo(b, update, gradients, aten::SqrtOp::create(b, type, squares));
    numClipped += gradients.size();
  }
};
} // namespace
