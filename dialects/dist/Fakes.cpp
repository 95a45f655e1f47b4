//===- Fakes.cpp - verifiers: from and to what is morally on one rank --------===//

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave::dist;

//===----------------------------------------------------------------------===//
// fake_broadcast and fake_reduce
//===----------------------------------------------------------------------===//

LogicalResult FakeBroadcastOp::verify() {
  // 1. to 3. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult FakeBroadcastOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}

Value FakeBroadcastOp::getViewSource() {
  return getInput();
}

LogicalResult FakeReduceOp::verify() {
  // 2.
  if (failed(verifyReduction(*this, Reduction::Sum)))
    return failure();
  // 1., 3. and 4. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult FakeReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}

int64_t FakeReduceOp::getBytesSent(int64_t ranks) {
  int64_t bytes = bytesOf(getInput().getType());
  return 2 * (bytes - bytes / ranks);
}

//===----------------------------------------------------------------------===//
// fake_scatter and fake_gather
//===----------------------------------------------------------------------===//

static Redistribution describeScatter(FakeScatterOp op) {
  Redistribution what = describe(op);
  what.scattered = op.getDim();
  return what;
}

LogicalResult FakeScatterOp::verify() {
  // 2.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1., 3. and 4. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeScatter(*this));
}

LogicalResult FakeScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describeScatter(*this), symbols);
}

Value FakeScatterOp::getViewSource() {
  return getInput();
}

static Redistribution describeGather(FakeGatherOp op) {
  Redistribution what = describe(op);
  what.gathered = op.getDim();
  return what;
}

LogicalResult FakeGatherOp::verify() {
  // 2.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1., 3. and 4. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeGather(*this));
}

LogicalResult FakeGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describeGather(*this), symbols);
}

int64_t FakeGatherOp::getBytesSent(int64_t ranks) {
  int64_t bytes = bytesOf(getResult().getType());
  return bytes - bytes / ranks;
}
