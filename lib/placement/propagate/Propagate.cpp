//===- Propagate.cpp - decides and writes placements, axis by axis -----------===//

#include "lib/placement/propagate/Propagate.h"
#include "lib/placement/Form.h"
#include "lib/placement/propagate/Checks.h"
#include "lib/placement/propagate/Explain.h"
#include "lib/placement/propagate/Orders.h"
#include "lib/placement/propagate/SolveJointly.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::PlacementAttr;

//===----------------------------------------------------------------------===//
// The mesh
//===----------------------------------------------------------------------===//

static FailureOr<SmallVector<Attribute>> parseAxes(ModuleOp module, StringRef description) {
  SmallVector<Attribute> axes;
  SmallVector<StringRef> parts;
  description.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, size] = part.trim().split('=');
    int64_t ranks = 0;
    if (name.trim().empty() || size.trim().getAsInteger(10, ranks) || ranks < 1)
      return module.emitError("expected a mesh such as 'dp=2,tp=2', found '")
             << description << "': '" << part << "' is not an axis with a positive size";
    for (Attribute other : axes)
      if (cast<dist::AxisAttr>(other).getName() == name.trim())
        return module.emitError("expected a mesh with different axes, found '")
               << description << "', which names '" << name.trim() << "' twice";
    axes.push_back(dist::AxisAttr::get(module.getContext(), name.trim(), ranks));
  }
  return axes;
}

FailureOr<dist::MeshOp> propagate::getOrAddMesh(ModuleOp module, StringRef description) {
  SmallVector<dist::MeshOp> meshes(module.getOps<dist::MeshOp>());
  if (meshes.size() > 1) {
    InFlightDiagnostic diagnostic = meshes[1].emitError(
        "expected one mesh, found a second one: tensors are placed on one mesh");
    diagnostic.attachNote(meshes[0].getLoc()) << "the first one is here";
    return diagnostic;
  }
  ArrayAttr described;
  if (!description.empty()) {
    FailureOr<SmallVector<Attribute>> axes = parseAxes(module, description);
    if (failed(axes))
      return failure();
    described = ArrayAttr::get(module.getContext(), *axes);
  }
  if (meshes.empty()) {
    if (!described)
      return module.emitError("has no dist.mesh to place its tensors on; add one, or use the "
                              "option mesh, such as mesh=\"dp=2,tp=2\"");
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToStart(module.getBody());
    if (module.lookupSymbol("mesh"))
      return module.emitError("has a symbol @mesh, the name of the mesh that the option adds");
    return dist::MeshOp::create(builder, module.getLoc(), "mesh", described);
  }
  if (described && described != meshes[0].getAxes())
    return meshes[0].emitError("expected the mesh that the option describes, '")
           << description << "', found another one";
  return meshes[0];
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

static LogicalResult refuseOpaque(const Graph &graph) {
  for (const OpNode &node : graph.ops)
    if (const char *reason = reasonToReplicate(node.op))
      return node.op->emitError() << operatorName(node.op)
                                  << " runs replicated on all ranks, because " << reason
                                  << "; strict propagation rejects this";
  return success();
}

FailureOr<Propagation> propagate::propagate(ModuleOp module, const PropagateOptions &options) {
  Propagation result;
  FailureOr<dist::MeshOp> mesh = getOrAddMesh(module, "");
  if (failed(mesh))
    return failure();
  result.mesh = *mesh;
  result.machine = options.machine;
  for (auto axis : result.mesh.getAxes().getAsRange<dist::AxisAttr>()) {
    if (axis.getSize() == 0)
      return result.mesh.emitError("has axis \"")
             << axis.getName()
             << "\" of size ?; placements need the number of ranks along it: write its size";
    if (axis.getSize() > 1)
      result.axes.push_back(
          {StringAttr::get(module.getContext(), axis.getName()), axis.getSize(), options.uneven});
  }
  FailureOr<Graph> graph = Graph::build(module, options.machine.microbatches);
  if (failed(graph))
    return failure();
  result.graph = std::make_unique<Graph>(std::move(*graph));
  if (failed(checkAnnotations(*result.graph, result.mesh, options.uneven)) ||
      (options.strict && failed(refuseOpaque(*result.graph))))
    return failure();
  if (options.solve) {
    if (failed(solveJointly(result, *options.solve)))
      return failure();
    return result;
  }
  result.solutions.reserve(result.axes.size());
  result.records.reserve(result.axes.size());
  for (MeshAxis axis : result.axes) {
    FailureOr<Candidates> candidates = Candidates::collect(*result.graph, axis, result.solutions);
    if (failed(candidates))
      return failure();
    AxisRecord &record = result.records.emplace_back();
    record.candidates = std::move(*candidates);
    record.problem = std::make_unique<AxisProblem>(*result.graph, record.candidates, result.axes,
                                                   result.machine, ArrayRef(result.solutions));
    result.solutions.push_back(record.problem->solve());
  }
  assignOrders(result);
  return result;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeFunction(const Propagation &propagation, func::FuncOp function) {
  const Graph &graph = *propagation.graph;
  MLIRContext *context = function.getContext();
  StringAttr name = StringAttr::get(context, dist::kPlacementAttr);
  SmallVector<DictionaryAttr> arguments, results;
  auto with = [&](DictionaryAttr old, PlacementAttr placement) {
    NamedAttrList list(old);
    if (placement)
      list.set(name, placement);
    return list.getDictionary(context);
  };
  // All at once: each list of attributes lives as long as the context.
  for (BlockArgument argument : function.getArguments()) {
    auto value = graph.valueOf.find(argument);
    arguments.push_back(
        with(function.getArgAttrDict(argument.getArgNumber()),
             value == graph.valueOf.end() ? PlacementAttr() : propagation.made[value->second]));
  }
  SmallVector<PlacementAttr> returned(function.getNumResults());
  for (const Port &port : graph.ports)
    if (port.isResult && func::FuncOp(port.function) == function)
      returned[port.number] = propagation.taken[port.use];
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    results.push_back(with(function.getResultAttrDict(i), returned[i]));
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(results);
}

void propagate::write(const Propagation &propagation) {
  const Graph &graph = *propagation.graph;
  SetVector<Operation *> functions;
  for (const Port &port : graph.ports)
    functions.insert(func::FuncOp(port.function));
  for (Operation *function : functions)
    writeFunction(propagation, cast<func::FuncOp>(function));
  for (const OpNode &op : graph.ops) {
    MLIRContext *context = op.op->getContext();
    Attribute open = UnitAttr::get(context);
    SmallVector<Attribute> operands, results;
    for (unsigned use : op.operands)
      operands.push_back(use == kNone ? open : Attribute(propagation.taken[use]));
    for (unsigned value : op.results)
      results.push_back(value == kNone ? open : Attribute(propagation.made[value]));
    if (!operands.empty())
      op.op->setAttr(dist::kOperandsAttr, ArrayAttr::get(context, operands));
    if (!results.empty())
      op.op->setAttr(dist::kResultsAttr, ArrayAttr::get(context, results));
  }
}
