//===- Rooted.cpp - verifiers: collectives in which one rank is the root -----===//

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave::dist;

template <typename Op>
static LogicalResult verifyRootedOnMesh(Op op, const Redistribution &what,
                                        SymbolTableCollection &symbols) {
  return success(succeeded(verifyOnMesh(what, symbols)) &&
                 succeeded(verifyRankOnMesh(what, "root", op.getRoot(), symbols)));
}

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  // 1., 3. and 4. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult BroadcastOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1. and 2.
  return verifyRootedOnMesh(*this, describe(*this), symbols);
}

int64_t BroadcastOp::getBytesSent(int64_t ranks) {
  return ranks > 1 ? bytesOf(getInput().getType()) : 0;
}

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  // 1. and 3. to 5. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult ReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1. and 2.
  return verifyRootedOnMesh(*this, describe(*this), symbols);
}

int64_t ReduceOp::getBytesSent(int64_t ranks) {
  return ranks > 1 ? bytesOf(getInput().getType()) : 0;
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

static Redistribution describeGather(GatherOp op) {
  Redistribution what = describe(op);
  what.gathered = op.getDim();
  return what;
}

LogicalResult GatherOp::verify() {
  // 3.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1., 4. and 5. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeGather(*this));
}

LogicalResult GatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1., 2. and 4.
  return verifyRootedOnMesh(*this, describeGather(*this), symbols);
}

int64_t GatherOp::getBytesSent(int64_t ranks) {
  return ranks > 1 ? bytesOf(getInput().getType()) : 0;
}

//===----------------------------------------------------------------------===//
// scatter
//===----------------------------------------------------------------------===//

static Redistribution describeScatter(ScatterOp op) {
  Redistribution what = describe(op);
  what.scattered = op.getDim();
  return what;
}

LogicalResult ScatterOp::verify() {
  // 3.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1., 4. and 5. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeScatter(*this));
}

LogicalResult ScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1., 2. and 4.
  return verifyRootedOnMesh(*this, describeScatter(*this), symbols);
}

int64_t ScatterOp::getBytesSent(int64_t ranks) {
  int64_t bytes = bytesOf(getInput().getType());
  return bytes - bytes / ranks;
}
