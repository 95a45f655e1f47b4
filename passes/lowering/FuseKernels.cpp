//===- FuseKernels.cpp - join ops to kernels ---------------------------------===//

#include "lib/kernels/fusion/KernelLayout.h"
#include "lib/kernels/fusion/RowOp.h"
#include "lib/kernels/fusion/ViewCopies.h"
#include "lib/kernels/program/RowProgram.h"
#include "passes/lowering/Passes.h"

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <queue>

namespace cleave::lowering {
#define GEN_PASS_DEF_FUSEKERNELS
#include "passes/lowering/Passes.h.inc"
} // namespace cleave::lowering

using namespace mlir;
using namespace cleave;
using kernels::Cluster;

namespace {

/// A region that is to become a kernel's body.
struct Outline {
  llvm::SetVector<Value> inputs, outputs;
};

Outline outline(const Cluster &cluster) {
  Outline result;
  llvm::SmallPtrSet<Operation *, 16> inside(cluster.ops.begin(), cluster.ops.end());
  for (Operation *op : cluster.ops) {
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
        result.inputs.insert(operand);
    for (Value value : op->getResults())
      if (llvm::any_of(value.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        result.outputs.insert(value);
  }
  return result;
}

class FuseKernels : public lowering::impl::FuseKernelsBase<FuseKernels> {
public:
  using FuseKernelsBase::FuseKernelsBase;

  void runOnOperation() override {
    symbols.emplace(getOperation());
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(train::kPhaseAttrName) && llvm::hasSingleElement(function.getBody()))
        functions.push_back(function);
    for (func::FuncOp function : functions)
      fuse(function.getBody().front());
  }

private:
  void fuse(Block &block);
  exec::LaunchOp launch(const Cluster &cluster, const Outline &outlined, exec::KernelOp kernel);
  /// None if the ops have no rows in common by themselves.
  exec::KernelOp getKernel(const Cluster &cluster, const Outline &outlined);
  void sort(Block &block, llvm::DenseMap<Operation *, unsigned> &order);

  std::optional<SymbolTable> symbols;
  /// By the text of the kernel's signature and body.
  llvm::StringMap<exec::KernelOp> kernels;
};

/// `add_gelu`: what it does first, at most four words.
std::string chooseName(const Cluster &cluster) {
  llvm::SmallSetVector<StringRef, 4> words;
  for (Operation *op : cluster.ops) {
    if (words.size() < 4 && !kernels::isView(op))
      words.insert(op->getName().stripDialect().ltrim('_').split('_').first);
  }
  return llvm::join(words, "_");
}

} // namespace

exec::KernelOp FuseKernels::getKernel(const Cluster &cluster, const Outline &outlined) {
  auto typesOf = [](const llvm::SetVector<Value> &values) {
    return llvm::map_to_vector(values,
                               [](Value value) { return dist::erasePlacement(value.getType()); });
  };
  // Not yet in the module: an equal one may be there.
  OpBuilder builder(&getContext());
  SmallVector<Type> inputs = typesOf(outlined.inputs), outputs = typesOf(outlined.outputs);
  auto kernel = exec::KernelOp::create(builder, builder.getUnknownLoc(), "kernel",
                                       builder.getFunctionType(inputs, outputs), StringAttr(),
                                       ArrayAttr(), ArrayAttr());
  Block &body = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (auto [value, type] : llvm::zip(outlined.inputs, inputs))
    mapping.map(value, body.addArgument(type, value.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : cluster.ops) {
    Operation *copy = builder.clone(*op, mapping);
    for (NamedAttribute attribute : llvm::to_vector(copy->getDiscardableAttrs()))
      copy->removeDiscardableAttr(attribute.getName());
    for (Value result : copy->getResults())
      result.setType(dist::erasePlacement(result.getType()));
  }
  SmallVector<Value> results =
      llvm::map_to_vector(outlined.outputs, [&](Value value) { return mapping.lookup(value); });
  exec::ReturnOp::create(builder, builder.getUnknownLoc(), results);

  std::string text;
  llvm::raw_string_ostream os(text);
  kernel->print(os, OpPrintingFlags().assumeVerified().enableDebugInfo(false));
  auto [known, isNew] = kernels.try_emplace(text, kernel);
  if (!isNew) {
    kernel->erase();
    return known->second;
  }
  // Views at the edges may have been all that told rows from columns.
  if (!kernels::analyzeKernel(body)) {
    kernel->erase();
    known->second = nullptr;
    return nullptr;
  }
  kernel.setSymName(chooseName(cluster));
  // After the kernels that are there, or before the functions.
  Block &module = *getOperation().getBody();
  Block::iterator place =
      llvm::find_if(module, [](Operation &op) { return isa<func::FuncOp>(op); });
  symbols->insert(kernel, place);
  ++numKernels;
  return kernel;
}

exec::LaunchOp FuseKernels::launch(const Cluster &cluster, const Outline &outlined,
                                   exec::KernelOp kernel) {
  SmallVector<Location> locations =
      llvm::map_to_vector(cluster.ops, [](Operation *op) { return op->getLoc(); });
  // Position of the last op, until the block is sorted.
  OpBuilder builder(cluster.ops.back());
  auto types = llvm::map_to_vector(outlined.outputs, [](Value value) { return value.getType(); });
  auto launch = exec::LaunchOp::create(builder, locations.back(), types,
                                       FlatSymbolRefAttr::get(kernel.getSymNameAttr()),
                                       outlined.inputs.getArrayRef());
  SmallVector<Value> outputs(outlined.outputs.getArrayRef());
  for (auto [old, made] : llvm::zip(outputs, launch.getResults()))
    old.replaceAllUsesWith(made);
  for (Operation *op : llvm::reverse(cluster.ops))
    op->erase();
  ++numLaunches;
  numFused += cluster.ops.size();
  return launch;
}

/// Puts every op after what makes its operands, as early as `order` says; ops that communicate
/// keep theirs.
void FuseKernels::sort(Block &block, llvm::DenseMap<Operation *, unsigned> &order) {
  llvm::DenseMap<Operation *, unsigned> missing;
  llvm::DenseMap<Operation *, SmallVector<Operation *, 2>> followers;
  Operation *lastCommunication = nullptr;
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  llvm::sort(ops, [&](Operation *a, Operation *b) { return order.lookup(a) < order.lookup(b); });
  auto follow = [&](Operation *before, Operation *after) {
    followers[before].push_back(after);
    ++missing[after];
  };
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        follow(producer, op);
    if (!isa<dist::CommunicationOpInterface>(op))
      continue;
    if (lastCommunication)
      follow(lastCommunication, op);
    lastCommunication = op;
  }
  auto isLater = [&](Operation *a, Operation *b) { return order.lookup(a) > order.lookup(b); };
  std::priority_queue<Operation *, std::vector<Operation *>, decltype(isLater)> ready(isLater);
  for (Operation *op : ops)
    if (!missing.lookup(op))
      ready.push(op);
  while (!ready.empty()) {
    Operation *op = ready.top();
    ready.pop();
    op->moveBefore(block.getTerminator());
    for (Operation *follower : followers.lookup(op))
      if (--missing[follower] == 0)
        ready.push(follower);
  }
}

void FuseKernels::fuse(Block &block) {
  kernels::ViewCopies copies(block);
  std::vector<Cluster> clusters = kernels::findClusters(block, kernels::hasFormula);
  kernels::trimResults(clusters);
  copies.join(clusters);
  kernels::trimOperands(clusters, {minOps});
  copies.join(clusters);
  if (clusters.empty())
    return;
  llvm::DenseMap<Operation *, unsigned> order;
  for (auto [index, op] : llvm::enumerate(block))
    order[&op] = index;
  for (const Cluster &cluster : clusters) {
    Outline outlined = outline(cluster);
    // Dead code stays what it is.
    if (outlined.outputs.empty())
      continue;
    exec::KernelOp kernel = getKernel(cluster, outlined);
    if (!kernel)
      continue;
    // Ops of clusters are gone then; their places in `order` are never looked up again.
    unsigned last = order.lookup(cluster.ops.back());
    order[launch(cluster, outlined, kernel)] = last;
  }
  sort(block, order);
}
