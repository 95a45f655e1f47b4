//===- Partition.cpp - from a placed global program to a local one -----------===//

#include "lib/placement/partition/Partition.h"
#include "lib/placement/partition/LocalOps.h"
#include "lib/placement/partition/LocalSignatures.h"
#include "lib/placement/partition/LocalValues.h"
#include "lib/placement/partition/Prefetch.h"
#include "lib/placement/partition/RankClasses.h"

#include "dialects/dist/Placed.h"
#include "lib/typing/GradientFlow.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

/// Builds the local function of one global function.
class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp global, const LocalSignature &signature,
                      PartitionContext &context)
      : global(global), signature(signature), context(context), builder(global.getContext()),
        values(builder, context) {}

  /// The local function; the global one stays.
  FailureOr<func::FuncOp> run();

private:
  LogicalResult partitionOp(Operation &op);
  LogicalResult partitionReturn(Operation &op);
  LogicalResult checkAccumulator(train::AccumulateOp op, ArrayRef<AxisPlacement> taken);
  FailureOr<SmallVector<AxisPlacements>> operandEntries(Operation &op);
  FailureOr<SmallVector<AxisPlacements>> resultEntries(Operation &op);

  func::FuncOp global;
  const LocalSignature &signature;
  PartitionContext &context;
  OpBuilder builder;
  LocalValues values;
};

} // namespace

/// The function without a body, with the local types and without placements by attribute.
static func::FuncOp createLike(func::FuncOp global, const LocalSignature &signature) {
  OpBuilder builder(global);
  auto local =
      func::FuncOp::create(builder, global.getLoc(), global.getName(),
                           builder.getFunctionType(signature.arguments, signature.results));
  for (NamedAttribute attribute : global->getDiscardableAttrs())
    local->setAttr(attribute.getName(), attribute.getValue());
  local.setVisibility(global.getVisibility());
  if (ArrayAttr attributes = global.getAllArgAttrs())
    local.setAllArgAttrs(attributes);
  if (ArrayAttr attributes = global.getAllResultAttrs())
    local.setAllResultAttrs(attributes);
  dist::erasePlacements(local);
  Block &body = local.getBody().emplaceBlock();
  for (auto [type, argument] : llvm::zip_equal(signature.arguments, global.getArguments()))
    body.addArgument(type, argument.getLoc());
  return local;
}

FailureOr<SmallVector<AxisPlacements>> FunctionPartitioner::operandEntries(Operation &op) {
  SmallVector<AxisPlacements> all;
  for (OpOperand &operand : op.getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType())) {
      all.emplace_back(context.axes.size(), AxisPlacement::replicate());
      continue;
    }
    FailureOr<AxisPlacements> entries = context.entriesOf(dist::getPlacementOf(operand), [&] {
      InFlightDiagnostic diagnostic = op.emitOpError();
      diagnostic << "operand " << operand.getOperandNumber();
      return diagnostic;
    });
    if (failed(entries))
      return failure();
    all.push_back(*entries);
  }
  return all;
}

FailureOr<SmallVector<AxisPlacements>> FunctionPartitioner::resultEntries(Operation &op) {
  SmallVector<AxisPlacements> all;
  for (OpResult result : op.getResults()) {
    if (!isa<RankedTensorType>(result.getType())) {
      all.emplace_back(context.axes.size(), AxisPlacement::replicate());
      continue;
    }
    FailureOr<AxisPlacements> entries = context.entriesOf(dist::getPlacementOf(result), [&] {
      InFlightDiagnostic diagnostic = op.emitOpError();
      diagnostic << "result " << result.getResultNumber();
      return diagnostic;
    });
    if (failed(entries))
      return failure();
    all.push_back(*entries);
  }
  return all;
}

/// What several values have on one axis.
static AxisPlacements along(unsigned axis, ArrayRef<AxisPlacements> all) {
  AxisPlacements entries;
  for (const AxisPlacements &one : all)
    entries.push_back(one[axis]);
  return entries;
}

/// The accumulator of a step's first microbatch is empty: nothing that could be redistributed.
LogicalResult FunctionPartitioner::checkAccumulator(train::AccumulateOp op,
                                                    ArrayRef<AxisPlacement> taken) {
  FailureOr<AxisPlacements> made = context.entriesOf(dist::getPlacementOf(op.getAccumulator()),
                                                     [&] { return op.emitOpError("accumulator"); });
  if (failed(made))
    return failure();
  if (equalUpToOrder(*made, taken))
    return success();
  return op.emitOpError("takes its accumulator as ")
         << describe(taken) << ", which is made as " << describe(*made)
         << "; it is empty for the first microbatch, so it cannot be redistributed: give the "
            "parameter's gradient the placement of the accumulator, or leave it open";
}

LogicalResult FunctionPartitioner::partitionOp(Operation &op) {
  if (isa<dist::DistDialect>(op.getDialect()))
    return op.emitOpError(
        "communicates: expected a single-device program; --partition inserts the communication");
  FailureOr<SmallVector<AxisPlacements>> operands = operandEntries(op);
  FailureOr<SmallVector<AxisPlacements>> results = resultEntries(op);
  if (failed(operands) || failed(results))
    return failure();
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op))
    if (failed(checkAccumulator(accumulate, (*operands)[1])))
      return failure();
  SmallVector<AxisStrategy, 2> strategies;
  for (auto [i, axis] : llvm::enumerate(context.axes)) {
    FailureOr<AxisStrategy> strategy =
        findStrategy(&op, axis, along(i, *operands), along(i, *results));
    if (failed(strategy))
      return failure();
    strategies.push_back(std::move(*strategy));
  }
  SmallVector<Value> locals;
  for (auto [operand, entries] : llvm::zip_equal(op.getOperands(), *operands)) {
    FailureOr<Value> local = values.get(operand, entries, &op);
    if (failed(local))
      return failure();
    locals.push_back(*local);
  }
  FailureOr<SmallVector<Value>> made = buildLocalOp(builder, &op, locals, strategies, context);
  if (failed(made))
    return failure();
  for (auto [result, local] : llvm::zip_equal(op.getResults(), *made))
    values.define(result, local);
  return success();
}

/// Results lie as the signature says; what it has as I is made so.
LogicalResult FunctionPartitioner::partitionReturn(Operation &op) {
  SmallVector<Value> locals;
  for (OpOperand &operand : op.getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    FailureOr<Value> local = values.get(operand.get(), signature.resultEntries[number], &op);
    if (failed(local))
      return failure();
    Value value = *local;
    if (dist::PlacementAttr wanted = dist::getPlacement(signature.results[number]))
      for (const MeshAxis &axis : context.axes)
        if (dist::AxisPlacement entry = *wanted.get(axis.name.getValue()); entry.isSameOnAllRanks())
          value =
              context.convertSameness(builder, op.getLoc(), value, axis.name, entry.isInvariant());
    locals.push_back(value);
  }
  func::ReturnOp::create(builder, op.getLoc(), locals);
  return success();
}

/// Drops unused ops: views that were made again after a redistribution of their source.
static void eraseUnused(func::FuncOp function) {
  for (Operation *op = function.front().getTerminator()->getPrevNode(); op;) {
    Operation *previous = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
    op = previous;
  }
}

FailureOr<func::FuncOp> FunctionPartitioner::run() {
  func::FuncOp local = createLike(global, signature);
  Block &body = local.front();
  builder.setInsertionPointToEnd(&body);
  for (auto [from, to] : llvm::zip_equal(global.getArguments(), body.getArguments()))
    values.define(from, to);
  for (Operation &op : global.front().without_terminator())
    if (failed(partitionOp(op)))
      return failure();
  if (failed(partitionReturn(*global.front().getTerminator())))
    return failure();
  eraseUnused(local);
  prefetchParameters(local, context.settings.prefetch);
  return local;
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

/// The axes along which several ranks lie.
static FailureOr<SmallVector<MeshAxis>> axesOf(dist::MeshOp mesh, bool uneven) {
  SmallVector<MeshAxis> axes;
  for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>()) {
    if (axis.getSize() == 0)
      return mesh.emitOpError("expects a known size of axis \"")
             << axis.getName() << "\" for --partition: local shapes depend on it, found '?'";
    if (axis.getSize() > 1)
      axes.push_back({StringAttr::get(mesh.getContext(), axis.getName()), axis.getSize(), uneven});
  }
  return axes;
}

LogicalResult placement::partition(ModuleOp module, const PartitionSettings &settings) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() &&
        (dist::isPlaced(function) || function->hasAttr(train::kPhaseAttrName)))
      functions.push_back(function);
  dist::MeshOp mesh = dist::getMesh(module);
  if (functions.empty() || !mesh)
    return module.emitError("expects a program with placements on one mesh, found ")
           << (functions.empty()                       ? "no placements"
               : module.getOps<dist::MeshOp>().empty() ? "no mesh"
                                                       : "several meshes");
  for (func::FuncOp function : functions)
    if (!function.getBody().hasOneBlock())
      return function.emitError("expects functions of one block for --partition");
  FailureOr<SmallVector<MeshAxis>> axes = axesOf(mesh, settings.uneven);
  if (failed(axes))
    return failure();
  if (axes->empty()) {
    // One rank: the program is local already.
    for (func::FuncOp function : functions)
      dist::erasePlacements(function);
    return success();
  }
  SmallVector<RankClass> classes = findRankClasses(functions, *axes);
  for (auto [number, rankClass] : llvm::enumerate(classes)) {
    PartitionContext context(mesh, rankClass.axes, settings);
    LocalSignatures signatures(functions, context);
    if (failed(signatures.run()))
      return failure();
    for (func::FuncOp function : functions) {
      context.strides = {};
      context.localStrides = {};
      context.holdsGradients = holdsGradients(function);
      FailureOr<func::FuncOp> local =
          FunctionPartitioner(function, signatures.of(function), context).run();
      if (failed(local))
        return failure();
      if (!rankClass.ranks)
        continue;
      (*local)->setAttr(train::kRanksAttrName, rankClass.ranks);
      local->setSymName((function.getSymName() + "_" + Twine(number)).str());
    }
  }
  for (func::FuncOp function : functions)
    function.erase();
  return success();
}
