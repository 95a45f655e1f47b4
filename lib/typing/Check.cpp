//===- Check.cpp - types whole functions --------------------------------------===//

#include "lib/typing/Check.h"

#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/train/EachFunction.h"
#include "dialects/train/Program.h"
#include "lib/typing/ClassComparison.h"
#include "lib/typing/ConflictText.h"
#include "lib/typing/GradientFlow.h"
#include "lib/typing/Inference.h"
#include "lib/typing/KernelInference.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;

static constexpr unsigned kMaxErrors = 20;

/// Pipeline stages lie along this axis of the mesh, the values of one stage do not.
static constexpr StringLiteral kPipelineAxis = "pp";

/// A tensor, or a future of one.
static bool isTensor(Type type) {
  return isa<RankedTensorType>(dist::valueTypeOf(type));
}

bool cleave::placement::isTyped(func::FuncOp function) {
  auto isPlaced = [](Type type) { return bool(dist::getPlacement(type)); };
  if (llvm::any_of(function.getArgumentTypes(), isPlaced) ||
      llvm::any_of(function.getResultTypes(), isPlaced))
    return true;
  return function
      .walk([&](Operation *op) {
        return llvm::any_of(op->getResultTypes(), isPlaced) ? WalkResult::interrupt()
                                                            : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {

class FunctionChecker {
public:
  FunctionChecker(func::FuncOp function) : function(function), flow(function) {}
  LogicalResult run();

private:
  LogicalResult checkPlaced(Value value);
  LogicalResult checkMesh(Value value);
  LogicalResult checkOp(Operation *op);
  LogicalResult checkCompute(Operation *op);
  LogicalResult checkLaunch(exec::LaunchOp launch);
  LogicalResult checkResult(OpResult result, PlacementAttr inferred);

  func::FuncOp function;
  GradientFlow flow;
  /// The first value with a placement: all others have its mesh and axes.
  Value framed;
  PlacementAttr frame;
};

} // namespace

//===----------------------------------------------------------------------===//
// One mesh, one set of axes
//===----------------------------------------------------------------------===//

/// The mesh exists and has the axes; those that it has besides are of size 1.
LogicalResult FunctionChecker::checkMesh(Value value) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(function, frame.getMesh());
  auto error = [&] {
    InFlightDiagnostic diagnostic = function.emitError();
    diagnostic << "'" << function.getName() << "' ";
    return diagnostic;
  };
  if (!mesh) {
    InFlightDiagnostic diagnostic = error() << "expects a dist.mesh " << frame.getMesh()
                                            << ", on which its tensors are placed";
    noteOrigin(diagnostic, value, "a tensor on it");
    return diagnostic;
  }
  for (const AxisEntry &entry : frame.getEntries())
    if (!mesh.findAxis(entry.axis)) {
      InFlightDiagnostic diagnostic = error()
                                      << "places tensors on axis \"" << entry.axis.getValue()
                                      << "\", which mesh " << frame.getMesh() << " does not have";
      diagnostic.attachNote(mesh.getLoc()) << "the mesh is here";
      noteOrigin(diagnostic, value, "a tensor on it");
      return diagnostic;
    }
  bool isOfStage = function->hasAttr(train::kStageAttrName);
  for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
    if (axis.getSize() != 1 && !frame.get(axis.getName()) &&
        !(isOfStage && axis.getName() == kPipelineAxis)) {
      InFlightDiagnostic diagnostic = error() << "expects placements on axis \"" << axis.getName()
                                              << "\" of mesh " << frame.getMesh()
                                              << " too, since several ranks may lie along it";
      noteOrigin(diagnostic, value, "a tensor without one");
      return diagnostic;
    }
  return success();
}

LogicalResult FunctionChecker::checkPlaced(Value value) {
  if (!isTensor(value.getType()))
    return success();
  PlacementAttr placement = dist::getPlacement(value.getType());
  if (placement && haveSameAxes(placement, frame))
    return success();
  InFlightDiagnostic diagnostic = emitError(value.getLoc());
  if (Operation *op = value.getDefiningOp())
    diagnostic << "'" << op->getName() << "' op ";
  else
    diagnostic << "argument " << cast<BlockArgument>(value).getArgNumber() << " of '"
               << function.getName() << "' ";
  if (!placement)
    diagnostic << "expects a placement, as other tensors of the function have, found ";
  else
    diagnostic
        << "expects a placement on the mesh and axes of the function's other tensors, found ";
  diagnostic << value.getType();
  noteOrigin(diagnostic, framed, "another tensor");
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult FunctionChecker::checkResult(OpResult result, PlacementAttr inferred) {
  PlacementAttr declared = dist::getPlacement(result.getType());
  if (!inferred || inferred == declared)
    return success();
  for (const AxisEntry &entry : inferred.getEntries()) {
    AxisPlacement onAxis = *declared.get(entry.axis);
    if (onAxis != entry.placement)
      return emitWrongResult(result, entry.axis, entry.placement, onAxis);
  }
  return success();
}

LogicalResult FunctionChecker::checkCompute(Operation *op) {
  auto carries = [&](Value value) { return flow.carries(value); };
  SmallVector<PlacementAttr> declared;
  for (Type type : op->getResultTypes())
    declared.push_back(dist::getPlacement(type));
  FailureOr<SmallVector<PlacementAttr>> inferred =
      inferPlacements(op, {.carriesGradient = carries, .preferred = declared, .like = frame});
  if (failed(inferred))
    return failure();
  bool isRight = true;
  for (auto [result, placement] : llvm::zip_equal(op->getResults(), *inferred))
    isRight &= succeeded(checkResult(result, placement));
  return success(isRight);
}

/// A kernel's body has no placements of its own: it is typed with those of each launch's operands.
LogicalResult FunctionChecker::checkLaunch(exec::LaunchOp launch) {
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(launch, launch.getKernelAttr());
  bool carriesAny =
      llvm::any_of(launch.getOperands(), [&](Value operand) { return flow.carries(operand); });
  auto carries = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? flow.carries(launch.getOperand(argument.getArgNumber())) : carriesAny;
  };
  KernelPlacements found = inferKernel(launch, kernel, frame, carries);
  if (Operation *op = found.conflict) {
    InFlightDiagnostic diagnostic = launch.emitOpError()
                                    << "runs a kernel in which '" << op->getName()
                                    << "' must not combine operands with these placements: ";
    llvm::interleaveComma(op->getOperands(), diagnostic,
                          [&](Value operand) { diagnostic << found.values.lookup(operand); });
    diagnostic.attachNote(op->getLoc()) << "the op of the kernel is here";
    return diagnostic;
  }
  bool isRight = true;
  for (auto [result, returned] : llvm::zip_equal(
           launch.getResults(), kernel.getBody().front().getTerminator()->getOperands()))
    isRight &= succeeded(checkResult(result, found.values.lookup(returned)));
  return success(isRight);
}

LogicalResult FunctionChecker::checkOp(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  if (auto launch = dyn_cast<exec::LaunchOp>(op))
    return checkLaunch(launch);
  // Communication is checked by its own verifiers, returns and calls by theirs.
  if (dialect == "dist" || dialect == "func")
    return success();
  if (isa<sharding::ShardingRuleOpInterface>(op))
    return checkCompute(op);
  // Buckets, which are not tensors, and what is put in them.
  if (dialect == "train")
    return success();
  // Upstream folds casts that change a placement, and knows no rule.
  if (llvm::any_of(op->getOperandTypes(), isTensor) || llvm::any_of(op->getResultTypes(), isTensor))
    return op->emitOpError(
        "expects tensors without placements; only ops of 'aten', 'train', 'dist' "
        "and 'func' may have them");
  return success();
}

LogicalResult FunctionChecker::run() {
  // Find the function's mesh and axes.
  auto look = [&](Value value) {
    if (!framed && dist::getPlacement(value.getType())) {
      framed = value;
      frame = dist::getPlacement(value.getType());
    }
  };
  llvm::for_each(function.getArguments(), look);
  for (Operation &op : function.getOps())
    llvm::for_each(op.getResults(), look);
  if (!framed)
    return success();
  if (failed(checkMesh(framed)))
    return failure();
  unsigned errors = 0;
  for (Value argument : function.getArguments())
    errors += failed(checkPlaced(argument));
  for (Operation &op : function.getOps()) {
    if (errors >= kMaxErrors) {
      function.emitRemark() << "has more errors, which are not shown";
      return failure();
    }
    unsigned before = errors;
    for (Value result : op.getResults())
      errors += failed(checkPlaced(result));
    // Operands without placements were reported where they are made.
    bool isPlaced = llvm::all_of(op.getOperandTypes(), [&](Type type) {
      return !isTensor(type) ||
             (dist::getPlacement(type) && haveSameAxes(dist::getPlacement(type), frame));
    });
    if (isPlaced && errors == before)
      errors += failed(checkOp(&op));
  }
  return success(errors == 0);
}

LogicalResult cleave::placement::checkSpmdTypes(ModuleOp module) {
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  LogicalResult checked = train::checkEach(functions, [](func::FuncOp function) {
    bool isChecked = !function.isExternal() && isTyped(function);
    return isChecked ? FunctionChecker(function).run() : success();
  });
  // What an op gives is as declared, so signatures can be judged by declarations alone.
  return success(succeeded(checked) && succeeded(checkSignatures(module)) &&
                 succeeded(checkRankClasses(module)));
}
