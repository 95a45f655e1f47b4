//===- ClipGradients.cpp - bound or measure the norm of all gradients together -===//
//
// In the update, where one update has all gradients. The stages of a pipeline each have some: a
// stage's reduce function then gives the square of its gradients' norm, a term of a sum over
// stages, and the updates scale by the root of that sum, or give it only.
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
#define GEN_PASS_DEF_MEASUREGRADIENTNORM
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
/// Makes a program compute the norm of its gradients, and clip them where there is a maximum.
class JointNorm {
public:
  JointNorm(ModuleOp module, std::optional<double> maxNorm)
      : module(module), context(module.getContext()), maxNorm(maxNorm) {}

  LogicalResult run() {
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return failure();
    if (!program->hasUpdate())
      return module.emitError() << "has no update function, so there are no gradients to "
                                << (maxNorm ? "clip" : "measure")
                                << "; export it with an optimizer";
    if (program->isStaged())
      return failure(failed(addToStages(*program)) ||
                     failed(train::getProgram(module, train::ProgramForms::Staged)));
    FailureOr<SmallVector<TakenGradient>> gradients = findGradients(*program);
    if (failed(gradients))
      return failure();
    return gradients->empty() ? success() : addToUpdate(program->update, *gradients);
  }

  /// The gradients of which the norm is.
  int64_t count() const { return numGradients; }

private:
  /// The update gives the norm from then on, and scales by it.
  void use(ImplicitLocOpBuilder &b, func::FuncOp update, ArrayRef<TakenGradient> gradients,
           Value norm) {
    if (maxNorm)
      scaleToNorm(b, gradients, norm, *maxNorm);
    backward::addResult(update, norm, train::RoleAttr::get(context, RoleKind::Output, kNorm));
  }

  static LogicalResult refuseSecond(func::FuncOp update) {
    return update.emitError() << "already computes the norm of its gradients; clip or measure them "
                                 "once";
  }

  LogicalResult addToUpdate(func::FuncOp update, ArrayRef<TakenGradient> gradients) {
    if (backward::findResult(update, RoleKind::Output, StringAttr::get(context, kNorm)))
      return refuseSecond(update);
    numGradients += gradients.size();
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

    use(b, update, gradients, makeNorm(b, getValues(gradients)));
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  LogicalResult addToStages(train::ProgramFunctions &program) {
    for (const train::StageSum &sum : train::listStageSums(program))
      if (sum.name == kSquares)
        return refuseSecond(program.stages[sum.consumers.front()].update);
    SmallVector<Value> all;
    for (train::ProgramFunctions &stage : program.stages) {
      if (!stage.update)
        continue;
      FailureOr<SmallVector<TakenGradient>> gradients = findGradients(stage);
      if (failed(gradients) ||
          failed(reduceBeforeUpdate(stage, *gradients, "a norm across stages")))
        return failure();
      llvm::append_range(all, getValues(*gradients));
    }
    if (all.empty())
      return success();
    // Squares of a narrow type would overflow where its norms do not.
    RankedTensorType type = getNormType(all);
    if (type.getElementTypeBitWidth() < 32)
      type = cast<RankedTensorType>(type.clone(Float32Type::get(context)));
    for (train::ProgramFunctions &stage : program.stages) {
      if (!stage.update)
        continue;
      FailureOr<SmallVector<TakenGradient>> gradients = findGradients(stage);
      if (succeeded(gradients) && !gradients->empty())
        addToStage(stage, *gradients, type);
    }
    return success();
  }

  /// The stage's term of the sum, and its root in the update. `type` is that of all stages' terms.
  void addToStage(train::ProgramFunctions &stage, ArrayRef<TakenGradient> gradients,
                  RankedTensorType type) {
    func::FuncOp reduce = stage.reduce, update = stage.update;
    auto role = train::RoleAttr::get(context, RoleKind::StageSum, kSquares);
    SmallVector<Value> reduced = getReduced(stage, gradients);
    ImplicitLocOpBuilder b(reduce.getLoc(), backward::getReturn(reduce));
    Value norm = convertScalar(b, makeNorm(b, reduced), type);
    backward::addResult(reduce, aten::MulOp::create(b, type, norm, norm), role);

    BlockArgument squares = backward::addArgument(update, type, role, update.getLoc());
    b.setLoc(update.getLoc());
    b.setInsertionPoint(getFirstUser(gradients));
    use(b, update, gradients, aten::SqrtOp::create(b, type, squares));
    numGradients += gradients.size();
  }

  ModuleOp module;
  MLIRContext *context;
  std::optional<double> maxNorm;
  int64_t numGradients = 0;
};

struct ClipGradients : gradients::impl::ClipGradientsBase<ClipGradients> {
  using ClipGradientsBase::ClipGradientsBase;

  void runOnOperation() override {
    if (!std::isfinite(maxNorm) || maxNorm <= 0) {
      getOperation().emitError() << "expects a positive max-norm, found " << double(maxNorm);
      return signalPassFailure();
    }
    JointNorm norm(getOperation(), maxNorm);
    if (failed(norm.run()))
      signalPassFailure();
    numClipped += norm.count();
  }
};

struct MeasureGradientNorm : gradients::impl::MeasureGradientNormBase<MeasureGradientNorm> {
  using MeasureGradientNormBase::MeasureGradientNormBase;

  void runOnOperation() override {
    JointNorm norm(getOperation(), std::nullopt);
    if (failed(norm.run()))
      signalPassFailure();
    numMeasured += norm.count();
  }
};
} // namespace
