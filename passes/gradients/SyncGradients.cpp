//===- SyncGradients.cpp - one all-reduce per gradient -----------------------===//

#include "passes/gradients/Passes.h"

#include "dialects/train/Program.h"
#include "lib/backward/PhaseFunction.h"
#include "lib/backward/SignatureEditor.h"
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
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->hasUpdate()) {
      if (failed(reduceByFunctions(*program)))
        return signalPassFailure();
      return;
    }
    dist::MeshOp mesh = findOrMakeMesh(module);
    if (!mesh)
      return signalPassFailure();
    for (const train::ProgramFunctions &part : program->getParts())
      if (part.update && failed(reduceInUpdate(part.update, mesh)))
        return signalPassFailure();
    if (failed(divideInputs(*program)) || failed(checkReductions(*program)))
      return signalPassFailure();
  }

  /// What a function of phase reduce has made of gradients before the update, such as their norm,
  /// is of whole ones only if they were summed before it.
  LogicalResult checkReductions(const train::ProgramFunctions &program) {
    for (const train::ProgramFunctions &part : program.getParts()) {
      func::FuncOp reduce = part.reduce;
      for (unsigned i = 0; reduce && i < reduce.getNumResults(); ++i)
        if (train::RoleAttr role = train::getResultRole(reduce, i);
            role.getKind() == train::RoleKind::Gradient &&
            !isa<BlockArgument>(reduce.front().getTerminator()->getOperand(i)))
          return reduce.emitError() << "returns " << role << ", which it has of a rank's own "
                                    << "microbatches; sum gradients over '" << axis
                                    << "' before --scale-loss and --clip-gradients";
    }
    return success();
  }

  dist::MeshOp findOrMakeMesh(ModuleOp module) {
    auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
    if (meshes.size() > 1) {
      meshes[1].emitError() << "is a second mesh; expected one mesh to reduce over";
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

  Value sum(OpBuilder &b, Value gradient, Type type, FlatSymbolRefAttr mesh, ArrayAttr axes) {
    ++numReduced;
    auto reduction = dist::ReductionAttr::get(b.getContext(), dist::Reduction::Sum);
    return dist::AllReduceOp::create(b, gradient.getLoc(), type, gradient, reduction, mesh, axes)
        .getResult(0);
  }
  Value sum(OpBuilder &b, Value gradient, dist::MeshOp mesh) {
    return sum(b, gradient, gradient.getType(), FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
               b.getStrArrayAttr({axis}));
  }

  LogicalResult reduceInUpdate(func::FuncOp update, dist::MeshOp mesh) {
    auto b = OpBuilder::atBlockBegin(&update.front());
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
                                          << "' already; a second sum would scale it";
          diagnostic.attachNote(user->getLoc()) << "reduced here";
          return diagnostic;
        }
      if (dist::getPlacement(argument.getType()))
        return update.emitError() << "takes " << role << " of type " << argument.getType()
                                  << "; the update of a program with placements already contains "
                                     "the sums that its types require";
      Value reduced = sum(b, argument, mesh);
      argument.replaceAllUsesExcept(reduced, reduced.getDefiningOp());
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Without an update
  //===--------------------------------------------------------------------===//

  /// A gradient of a parameter, as a function of the microbatch gives it.
  struct Gradient {
    func::FuncOp function;
    unsigned result;
    train::RoleAttr role;
    RankedTensorType type;
  };

  /// Who updates parameters is not in the program: gradients gather over the step's microbatches,
  /// and a function of phase reduce gives them back as sums, over the axis or, where gradients have
  /// placements, as these say.
  LogicalResult reduceByFunctions(const train::ProgramFunctions &program) {
    bool isTyped = false, hasGradients = false;
    for (const train::ProgramFunctions &part : program.getParts()) {
      if (part.reduce)
        return func::FuncOp(part.reduce).emitError()
               << "already reduces gradients; a second sum would scale them";
      for (const Gradient &gradient : findGradients(part)) {
        hasGradients = true;
        isTyped |= bool(dist::getPlacement(gradient.type));
      }
    }
    if (!hasGradients)
      return getOperation().emitError()
             << "has no gradients of parameters to reduce; export it for training, or run "
                "--autodiff first";
    dist::MeshOp mesh;
    if (!isTyped && !(mesh = findOrMakeMesh(getOperation())))
      return failure();
    for (const train::ProgramFunctions &part : program.getParts())
      reduceByFunction(part, mesh);
    return isTyped ? success() : divideInputs(program);
  }

  static SmallVector<Gradient> findGradients(const train::ProgramFunctions &part) {
    llvm::SmallDenseSet<StringAttr> parameters;
    for (func::FuncOp function : part.getFunctions())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (train::RoleAttr role = train::getArgumentRole(function, i);
            role.getKind() == train::RoleKind::Parameter)
          parameters.insert(role.getName());
    SmallVector<Gradient> gradients;
    for (func::FuncOp function : part.getMicrobatchFunctions())
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (train::RoleAttr role = train::getResultRole(function, i);
            role.getKind() == train::RoleKind::Gradient && parameters.contains(role.getName()))
          gradients.push_back(
              {function, i, role, cast<RankedTensorType>(function.getResultTypes()[i])});
    return gradients;
  }

  /// `mesh` is null if gradients have placements.
  void reduceByFunction(const train::ProgramFunctions &part, dist::MeshOp mesh) {
    std::optional<backward::SignatureEditor> signature, reduce;
    for (const Gradient &gradient : findGradients(part)) {
      func::FuncOp function = gradient.function;
      if (!signature || signature->getFunction() != function) {
        if (signature)
          signature->commit();
        signature.emplace(function);
      }
      accumulate(gradient, *signature);
      dist::PlacementAttr placement = dist::getPlacement(gradient.type), reduced = placement;
      SmallVector<Attribute> axes;
      for (const dist::AxisEntry &entry :
           placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
        if (entry.placement.isPartialSum()) {
          axes.push_back(entry.axis);
          reduced = reduced.with(entry.axis, dist::AxisPlacement::replicate());
        }
      if (placement && axes.empty())
        continue;
      if (!reduce) {
        OpBuilder b(function);
        func::FuncOp made = backward::makePhaseFunction(b, function, train::Phase::Reduce);
        made->remove();
        SymbolTable(getOperation()).insert(made, std::next(Block::iterator(function)));
        reduce.emplace(made);
      }
      Value made = backward::getReturn(function).getOperand(gradient.result);
      Value taken = reduce->addArgument(gradient.type, gradient.role, made.getLoc());
      OpBuilder b(backward::getReturn(reduce->getFunction()));
      Value total = placement ? sum(b, taken, dist::withPlacement(gradient.type, reduced),
                                    placement.getMesh(), b.getArrayAttr(axes))
                              : sum(b, taken, mesh);
      reduce->addResult(total, gradient.role);
    }
    for (std::optional<backward::SignatureEditor> *editor : {&signature, &reduce})
      if (*editor)
        (*editor)->commit();
  }

  /// Adds the gradient up over microbatches where it is made, unless it is added up already.
  static void accumulate(const Gradient &gradient, backward::SignatureEditor &signature) {
    StringAttr name = gradient.role.getName();
    if (signature.findArgument(train::RoleKind::Accumulator, name))
      return;
    func::ReturnOp terminator = backward::getReturn(signature.getFunction());
    Value made = terminator.getOperand(gradient.result);
    auto role = train::RoleAttr::get(name.getContext(), train::RoleKind::Accumulator, name);
    Value accumulator = signature.addArgument(gradient.type, role, made.getLoc());
    OpBuilder b(terminator);
    if (made.getDefiningOp())
      b.setInsertionPointAfterValue(made);
    terminator.setOperand(gradient.result,
                          train::AccumulateOp::create(b, made.getLoc(), made, accumulator));
  }

  //===--------------------------------------------------------------------===//
  // Inputs
  //===--------------------------------------------------------------------===//

  LogicalResult divideInputs(const train::ProgramFunctions &program) {
    for (func::FuncOp function : program.getMicrobatchFunctions())
      if (failed(divideInputs(function)))
        return failure();
    return success();
  }

  /// Batched inputs are from now on each rank's part of the batch.
  LogicalResult divideInputs(func::FuncOp function) {
    Builder b(&getContext());
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      train::RoleAttr role = train::getArgumentRole(function, i);
      NamedAttrList list(function.getArgAttrDict(i));
      if (!role.getBatch()) {
        attributes.push_back(list.getDictionary(&getContext()));
        continue;
      }
      SmallVector<Attribute> over;
      if (role.getOver() && llvm::is_contained(role.getOver().getAsValueRange<StringAttr>(), axis))
        return function.emitError() << "takes " << role << ", which is divided over '" << axis
                                    << "' already; a second sum of gradients would scale them";
      if (role.getOver())
        llvm::append_range(over, role.getOver());
      over.push_back(b.getStringAttr(axis));
      list.set(train::kRoleAttrName,
               train::RoleAttr::get(&getContext(), role.getKind(), role.getName(), role.getSlot(),
                                    role.getBatch(), b.getArrayAttr(over), role.getAliases(),
                                    role.getFrozen()));
      attributes.push_back(list.getDictionary(&getContext()));
    }
    // All at once: each list of attributes lives as long as the context.
    function.setAllArgAttrs(attributes);
    return success();
  }
};
} // namespace
