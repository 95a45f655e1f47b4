//===- AnnotatePlacements.cpp - a plan's mesh and placements as attributes --===//

#include "passes/placement/Passes.h"

#include "lib/placement/plan/Apply.h"
#include "lib/placement/plan/ExpertRows.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

namespace cleave::placement {
#define GEN_PASS_DEF_ANNOTATEPLACEMENTS
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

namespace {
struct AnnotatePlacements : placement::impl::AnnotatePlacementsBase<AnnotatePlacements> {
  using AnnotatePlacementsBase::AnnotatePlacementsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (plan.empty()) {
      module.emitError() << "expects a file for the option 'plan', found none";
      return signalPassFailure();
    }
    llvm::Expected<Plan> read = readPlan(plan);
    if (!read) {
      llvm::handleAllErrors(read.takeError(), [&](const PlanError &error) {
        Location place = module.getLoc();
        if (error.line > 0)
          place = FileLineColLoc::get(&getContext(), plan, error.line, 0);
        emitError(place) << error.text;
      });
      return signalPassFailure();
    }
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Any);
    if (failed(program))
      return signalPassFailure();
    dist::MeshOp mesh = findOrMakeMesh(*read);
    if (!mesh)
      return signalPassFailure();
    unsigned exchanged = 0;
    for (func::FuncOp function : program->getMicrobatchFunctions())
      if (failed(exchangeExpertRows(mesh, function, *read, exchanged)))
        return signalPassFailure();
    numExchanged += exchanged;
    Annotations annotations(mesh);
    for (func::FuncOp function : program->getFunctions())
      annotations.addExisting(function);
    PlanApplier applier(mesh, *program, annotations, uneven);
    if (failed(applier.apply(*read)) || failed(annotations.write()))
      return signalPassFailure();
    numPlaced += annotations.size();
  }

  dist::MeshOp findOrMakeMesh(const Plan &read) {
    ModuleOp module = getOperation();
    Builder b(&getContext());
    SmallVector<Attribute> axes;
    for (const AxisSize &axis : read.mesh)
      axes.push_back(dist::AxisAttr::get(b.getContext(), axis.axis, axis.size));
    auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
    if (meshes.size() > 1) {
      meshes[1].emitError() << "is a second mesh; a plan needs exactly one";
      return {};
    }
    if (meshes.size() == 1) {
      for (auto axis : meshes[0].getAxes().getAsRange<dist::AxisAttr>())
        if (axis.getSize() == 0) {
          meshes[0].emitError()
              << "expects sizes for all axes of a mesh to place tensors on, found " << axis;
          return {};
        }
      if (!axes.empty() && meshes[0].getAxes() != b.getArrayAttr(axes)) {
        meshes[0].emitError() << "is not the mesh of the plan '" << plan << "', which has "
                              << b.getArrayAttr(axes);
        return {};
      }
      return meshes[0];
    }
    if (axes.empty()) {
      module.emitError() << "has no mesh, and the plan '" << plan << "' none either; expected "
                         << "\"mesh\" with the axes and their sizes";
      return {};
    }
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    auto mesh = dist::MeshOp::create(builder, module.getLoc(), "mesh", b.getArrayAttr(axes));
    SymbolTable(module).insert(mesh, module.getBody()->begin());
    return mesh;
  }
};
} // namespace
