//===- SyncGradients.cpp - one all-reduce per gradient -----------------------===//

#include "passes/gradients/Passes.h"

#include "dialects/train/Program.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

namespace cleave::gradients {
#define GEN_PASS_DEF_SYNCGRADIENTS
#include "passes/gradients/Passes.h.inc"
} // namespace cleave::gradients

using namespace mlir;
using namespace cleave;

namespace {
struct SyncGradients : gradients::impl::SyncGradientsBase<SyncGradients> {
  using SyncGradientsBase::SyncGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<train::Program> program = train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->hasUpdate()) {
      module.emitError() << "has no update function, so there are no accumulated gradients to "
                            "reduce; export it with an optimizer";
      return signalPassFailure();
    }
    dist::MeshOp mesh = findOrMakeMesh(module);
    if (!mesh)
      return signalPassFailure();
    for (const train::Program &part : program->getParts())
      if (part.update && failed(reduceGradients(part.update, mesh)))
        return signalPassFailure();
    for (func::FuncOp function : program->getMicrobatchFunctions())
      if (failed(divideInputs(function)))
        return signalPassFailure();
  }

  dist::MeshOp findOrMakeMesh(ModuleOp module) {
    auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
    if (meshes.size() > 1) {
      meshes[1].emitError() << "is a second mesh; the pass would not know which to reduce over";
      return {};
    }
    if (axis.empty()) {
      module.emitError() << "expects the name of a mesh axis for 'axis', found none";
      return {};
    }
    if (meshes.size() == 1) {
      if (!meshes[0].findAxis(axis)) {
        meshes[0].emitError() << "has no axis named '" << axis
                              << "', over which gradients are to be reduced";
        return {};
      }
      if (size != 0 && meshes[0].findAxis(axis).getSize() != size) {
        meshes[0].emitError() << "expects axis '" << axis << "' to have size " << int64_t(size)
                              << ", found " << meshes[0].findAxis(axis);
        return {};
      }
      return meshes[0];
    }
    if (size < 0) {
      module.emitError() << "expects a positive size for axis '" << axis << "', found "
                         << int64_t(size);
      return {};
    }
    auto b = OpBuilder::atBlockBegin(module.getBody());
    Attribute only = dist::AxisAttr::get(b.getContext(), axis, size);
    auto mesh = dist::MeshOp::create(b, module.getLoc(), "mesh", b.getArrayAttr(only));
    SymbolTable(module).insert(mesh, module.getBody()->begin());
    return mesh;
  }

  LogicalResult reduceGradients(func::FuncOp update, dist::MeshOp mesh) {
    auto b = OpBuilder::atBlockBegin(&update.front());
    auto reduction = dist::ReductionAttr::get(b.getContext(), dist::Reduction::Sum);
    for (BlockArgument argument : update.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
      if (role.getKind() != train::RoleKind::Gradient)
        continue;
      if (isa<train::BucketType>(argument.getType()))
        return update.emitError() << "takes the bucket " << role.getName()
                                  << "; sum gradients over '" << axis
                                  << "' before --bucket-gradients";
      for (Operation *user : argument.getUsers())
        if (auto reduced = dyn_cast<dist::AllReduceOp>(user);
            reduced && llvm::is_contained(reduced.getAxes().getAsValueRange<StringAttr>(), axis)) {
          InFlightDiagnostic diagnostic = update.emitError()
                                          << "reduces " << role << " over '" << axis
                                          << "' already; a second sum would multiply it";
          diagnostic.attachNote(user->getLoc()) << "reduced here";
          return diagnostic;
        }
      if (dist::getPlacement(argument.getType()))
        return update.emitError()
               << "takes " << role << " of type " << argument.getType()
               << "; the update of a program with placements holds the sums that "
                  "its types ask for already";
      auto sum = dist::AllReduceOp::create(b, argument.getLoc(), argument.getType(), argument,
                                           reduction, FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                                           b.getStrArrayAttr({axis}));
      argument.replaceAllUsesExcept(sum.getResult(0), sum);
      ++numReduced;
    }
    return success();
  }

  /// Batched inputs are from now on each rank's part of the batch.
  LogicalResult divideInputs(func::FuncOp function) {
    Builder b(&getContext());
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      train::RoleAttr role = train::getArgumentRole(function, i);
      if (!role.getBatch())
        continue;
      SmallVector<Attribute> over;
      if (role.getOver() && llvm::is_contained(role.getOver().getAsValueRange<StringAttr>(), axis))
        return function.emitError() << "takes " << role << ", which is divided over '" << axis
                                    << "' already; a second sum of gradients would multiply them";
      if (role.getOver())
        llvm::append_range(over, role.getOver());
      over.push_back(b.getStringAttr(axis));
      function.setArgAttr(i, train::kRoleAttrName,
                          train::RoleAttr::get(&getContext(), role.getKind(), role.getName(),
                                               role.getSlot(), role.getBatch(),
                                               b.getArrayAttr(over), role.getAliases(),
                                               role.getFrozen()));
    }
    return success();
  }
};
} // namespace
