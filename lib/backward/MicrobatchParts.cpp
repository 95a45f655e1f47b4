//===- MicrobatchParts.cpp - builds a forward and its backward ----------------===//

#include "lib/backward/MicrobatchParts.h"

#include "lib/backward/Offload.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave::backward;
namespace train = cleave::train;

/// The backward, the arguments that it takes, and its ops by those of the graph.
static func::FuncOp buildBackward(const JointGraph &graph, const Partition &partition,
                                  ArrayRef<std::string> names, llvm::DenseSet<Value> &taken,
                                  llvm::DenseMap<Operation *, Operation *> &clones,
                                  unsigned &numRecomputed) {
  PartBuilder builder(graph.getFunction(), train::Phase::Backward);
  for (Operation *op : listBackwardOps(graph, partition))
    builder.addOp(op);
  for (unsigned index : graph.getBackwardResults())
    builder.addResult(index);
  TiedResults tied(graph.getFunction(), graph.getBackwardResults());
  builder.addArguments([&](BlockArgument argument, bool isUsed) {
    // What is not a free argument of the backward reaches it as a saved value.
    bool isTaken =
        (isUsed && (graph.isFreeArgument(argument) || graph.isTangent(argument))) ||
        tied.contains(train::getArgumentRole(graph.getFunction(), argument.getArgNumber()));
    if (isTaken)
      taken.insert(argument);
    return isTaken;
  });
  for (auto [value, name] : llvm::zip_equal(partition.saved, names))
    builder.addSaved(value, name);
  return builder.build([&](Operation *original, Operation *clone) {
    clones[original] = clone;
    if (!graph.isForward(original))
      return;
    clone->setAttr(train::kRecomputedAttrName, UnitAttr::get(clone->getContext()));
    ++numRecomputed;
  });
}

static func::FuncOp buildForward(const JointGraph &graph, const Partition &partition,
                                 ArrayRef<std::string> names,
                                 const llvm::DenseSet<Value> &takenByBackward) {
  func::FuncOp function = graph.getFunction();
  PartBuilder builder(function, train::Phase::Forward);
  for (Operation *op : listForwardOps(graph, partition))
    builder.addOp(op);
  for (unsigned index : graph.getForwardResults())
    builder.addResult(index);
  for (auto [value, name] : llvm::zip_equal(partition.saved, names))
    builder.save(value, name);
  TiedResults tied(function, graph.getForwardResults());
  builder.addArguments([&](BlockArgument argument, bool isUsed) {
    // Unused arguments of the program remain arguments.
    return isUsed || !takenByBackward.contains(argument) ||
           tied.contains(train::getArgumentRole(function, argument.getArgNumber()));
  });
  func::FuncOp forward = builder.build();
  if (Attribute draws = function->getAttr(train::kDrawsAttrName))
    forward->setAttr(train::kDrawsAttrName, draws);
  return forward;
}

MicrobatchParts cleave::backward::buildParts(const JointGraph &graph, const Partition &partition,
                                             ArrayRef<std::string> names) {
  MicrobatchParts parts;
  llvm::DenseSet<Value> takenByBackward;
  llvm::DenseMap<Operation *, Operation *> clones;
  parts.backward =
      buildBackward(graph, partition, names, takenByBackward, clones, parts.numRecomputed);
  parts.forward = buildForward(graph, partition, names, takenByBackward);
  parts.forward->moveBefore(parts.backward);
  if (partition.offloaded.empty())
    return parts;
  llvm::StringMap<Operation *> offloaded;
  for (auto [value, name] : llvm::zip_equal(partition.saved, names))
    if (auto found = partition.offloaded.find(value); found != partition.offloaded.end())
      offloaded[name] = clones.lookup(found->second);
  func::FuncOp functions[] = {parts.forward, parts.backward};
  SavedValues(functions).offload(
      [&](const SavedValues::Saved &each) { return offloaded.contains(each.name.getValue()); },
      [&](StringAttr name, Operation *) { return offloaded.lookup(name.getValue()); });
  return parts;
}
