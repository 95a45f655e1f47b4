//===- ClipGradients.cpp - bound the norm of all gradients together ----------===//
//
// In the update, where one update has all gradients. The stages of a pipeline each have some: a
// stage's reduce function then gives the square of its gradients' norm, a term of a sum over
// stages, and the updates scale by the root of that sum.
//
//===----------------------------------------------------------------------===//

#include "passes/gradients/GradientNorm.h"
#include "passes/gradients/Passes.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/train/Stages.h"
#include "lib/backward/PhaseFunction.h"
#include "lib/backward/SignatureEditor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
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

static SmallVector<Value> getValues(ArrayRef<TakenGradient> gradients) {
  return llvm::map_to_vector(gradients, [](const TakenGradient &each) { return each.value; });
}

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
      if (failed(gradients) || failed(reduceBeforeUpdate(stage, *gradients)))
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

  /// Moves what the update does to each gradient before the optimizer takes it (reductions, waiting
  /// for buckets) to the stage's reduce function, so that the update takes what is left to scale:
  /// the new values of `gradients`.
  LogicalResult reduceBeforeUpdate(train::ProgramFunctions &stage,
                                   MutableArrayRef<TakenGradient> gradients) {
    if (gradients.empty())
      return success();
    func::FuncOp update = stage.update;
    llvm::SetVector<Operation *> moved;
    llvm::SmallSetVector<BlockArgument, 16> taken;
    auto visit = [&](Value value) {
      if (auto argument = dyn_cast<BlockArgument>(value))
        taken.insert(argument);
      else
        moved.insert(value.getDefiningOp());
    };
    for (const TakenGradient &gradient : gradients)
      visit(gradient.value);
    for (size_t i = 0; i < moved.size(); ++i)
      llvm::for_each(moved[i]->getOperands(), visit);
    for (BlockArgument argument : taken)
      if (train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
          role.getKind() != RoleKind::Gradient)
        return update.emitError() << "computes a gradient from " << role
                                  << "; clipping across stages supports gradients only";

    // What is scaled is named by the parameter that it updates.
    llvm::SmallDenseSet<Value> passed;
    SmallVector<train::RoleAttr> roles;
    for (const TakenGradient &gradient : gradients) {
      if (!gradient.parameter)
        return gradient.getFirstUser()->emitError()
               << "expects to update a parameter of the stage, found another value";
      if (!passed.insert(gradient.value).second)
        return gradient.getFirstUser()->emitError()
               << "takes the gradient with which another parameter of the stage is updated";
      roles.push_back(train::RoleAttr::get(&getContext(), RoleKind::Gradient, gradient.parameter));
    }

    if (!stage.reduce) {
      OpBuilder b(update);
      stage.reduce = backward::makePhaseFunction(b, update, train::Phase::Reduce);
      stage.reduce->remove();
      SymbolTable(getOperation()).insert(stage.reduce, Block::iterator(update));
    }
    backward::SignatureEditor reduce(stage.reduce), signature(update);
    IRMapping mapping;
    for (BlockArgument argument : taken)
      mapping.map(argument, takeFromReduce(reduce, argument, signature.getRole(argument)));
    OpBuilder b(backward::getReturn(stage.reduce));
    for (Operation &op : update.front())
      if (moved.contains(&op))
        b.clone(op, mapping);
    for (auto &&[gradient, role] : llvm::zip_equal(gradients, roles)) {
      Value before = gradient.value;
      reduce.addResult(mapping.lookup(before), role);
      BlockArgument reduced = signature.addArgument(before.getType(), role, before.getLoc());
      before.replaceUsesWithIf(reduced,
                               [&](OpOperand &use) { return !moved.contains(use.getOwner()); });
      gradient.value = reduced;
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(update.front())))
      if (moved.contains(&op) && op.use_empty())
        op.erase();
    train::RoleAttr kept;
    for (BlockArgument argument : taken)
      if (argument.use_empty())
        signature.eraseArgument(argument);
      else if (!kept)
        kept = signature.getRole(argument);
    reduce.commit();
    signature.commit();
    if (kept)
      return update.emitError() << "uses " << kept << " for more than the update of its parameter";
    return success();
  }

  /// What stands for the update's argument in the reduce function, which no longer gives it.
  static Value takeFromReduce(backward::SignatureEditor &reduce, BlockArgument argument,
                              train::RoleAttr role) {
    if (auto result = reduce.findResult(role.getKind(), role.getName())) {
      Value value = backward::getReturn(reduce.getFunction()).getOperand(*result);
      reduce.eraseResult(*result);
      return value;
    }
    return reduce.addArgument(argument.getType(), role, argument.getLoc());
  }

  /// The stage's term of the sum, and the scaling by it. `type` is that of all stages' terms.
  void clipStage(train::ProgramFunctions &stage, ArrayRef<TakenGradient> gradients,
                 RankedTensorType type) {
    func::FuncOp reduce = stage.reduce, update = stage.update;
    auto role = train::RoleAttr::get(&getContext(), RoleKind::StageSum, kSquares);
    backward::SignatureEditor signature(reduce);
    SmallVector<Value> reduced;
    for (const TakenGradient &gradient : gradients) {
      train::RoleAttr name =
          train::getArgumentRole(update, cast<BlockArgument>(gradient.value).getArgNumber());
      reduced.push_back(backward::getReturn(reduce).getOperand(
          *signature.findResult(name.getKind(), name.getName())));
    }
    ImplicitLocOpBuilder b(reduce.getLoc(), backward::getReturn(reduce));
    Value norm = convertTo(b, makeNorm(b, reduced), type);
    backward::addResult(reduce, aten::MulOp::create(b, type, norm, norm), role);

    BlockArgument squares = backward::addArgument(update, type, role, update.getLoc());
    b.setLoc(update.getLoc());
    b.setInsertionPoint(getFirstUser(gradients));
    clipTo(b, update, gradients, aten::SqrtOp::create(b, type, squares));
    numClipped += gradients.size();
  }

  /// `norm` in the type that all stages agree on: another stage's may be wider, or R where this
  /// one's is I.
  static Value convertTo(ImplicitLocOpBuilder &b, Value norm, RankedTensorType type) {
    norm = toElement(b, norm, type.getElementType());
    dist::PlacementAttr wanted = dist::getPlacement(type);
    for (const dist::AxisEntry &entry :
         wanted ? wanted.getEntries() : ArrayRef<dist::AxisEntry>()) {
      dist::PlacementAttr found = dist::getPlacement(norm.getType());
      if (*found.get(entry.axis) != entry.placement)
        norm = dist::ConvertOp::create(
            b, dist::withPlacement(type, found.with(entry.axis, entry.placement)), norm,
            IntegerAttr());
    }
    return norm;
  }
};
} // namespace
