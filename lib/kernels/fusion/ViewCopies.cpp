//===- ViewCopies.cpp - a view for every use --------------------------------===//

#include "lib/kernels/fusion/ViewCopies.h"
#include "lib/kernels/fusion/RowOp.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::kernels;

ViewCopies::ViewCopies(Block &block) {
  // Users come before what they use, so that views of views are copied too.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!isRepeatable(&op) || op.use_empty() || op.getResult(0).hasOneUse())
      continue;
    llvm::SmallVector<OpOperand *> uses;
    for (OpOperand &use : op.getUses())
      uses.push_back(&use);
    OpBuilder builder(&block, std::next(op.getIterator()));
    llvm::SmallVector<Operation *, 4> &its = copies[&op];
    its.push_back(&op);
    for (OpOperand *use : llvm::ArrayRef(uses).drop_front()) {
      its.push_back(builder.clone(op));
      use->set(its.back()->getResult(0));
    }
  }
}

void ViewCopies::join(std::vector<Cluster> &clusters) {
  llvm::DenseMap<Operation *, unsigned> clusterOf;
  for (auto [i, cluster] : llvm::enumerate(clusters))
    for (Operation *op : cluster.ops)
      clusterOf[op] = i + 1;
  llvm::DenseSet<Operation *> gone;
  // What views view comes first.
  for (auto &[first, its] : llvm::reverse(copies)) {
    llvm::SmallVector<Operation *, 4> kept;
    for (Operation *copy : its) {
      Operation **same = llvm::find_if(kept, [&](Operation *other) {
        return other->getOperand(0) == copy->getOperand(0) &&
               clusterOf.lookup(other) == clusterOf.lookup(copy);
      });
      if (same == kept.end()) {
        kept.push_back(copy);
        continue;
      }
      copy->replaceAllUsesWith(*same);
      gone.insert(copy);
    }
    its = std::move(kept);
  }
  for (Cluster &cluster : clusters)
    llvm::erase_if(cluster.ops, [&](Operation *op) { return gone.contains(op); });
  for (Operation *op : gone)
    op->erase();
}
