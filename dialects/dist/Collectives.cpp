//===- Collectives.cpp - verifiers: every rank gives and every rank takes ----===//

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave::dist;

/// What a ring's rank sends to reduce or gather a value of `bytes` bytes: all parts but its own.
static int64_t ringBytes(int64_t bytes, int64_t ranks) {
  return bytes - bytes / ranks;
}

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  // 1. to 5. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}

int64_t AllReduceOp::getBytesSent(int64_t ranks) {
  return 2 * ringBytes(bytesOf(getInputs().getTypes()), ranks);
}

//===----------------------------------------------------------------------===//
// all_gather
//===----------------------------------------------------------------------===//

static Redistribution describeGather(AllGatherOp op) {
  Redistribution what = describe(op);
  what.gathered = op.getDim();
  return what;
}

LogicalResult AllGatherOp::verify() {
  // 3.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1., 2., 4. and 5. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeGather(*this));
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describeGather(*this), symbols);
}

int64_t AllGatherOp::getBytesSent(int64_t ranks) {
  return ringBytes(bytesOf(getResultTypes()), ranks);
}

//===----------------------------------------------------------------------===//
// reduce_scatter
//===----------------------------------------------------------------------===//

static Redistribution describeScatter(ReduceScatterOp op) {
  Redistribution what = describe(op);
  what.scattered = op.getDim();
  return what;
}

LogicalResult ReduceScatterOp::verify() {
  // 4.
  if (failed(verifyDim(*this, "dim", getDim())))
    return failure();
  // 1. to 3., 5. and 6. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeScatter(*this));
}

LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describeScatter(*this), symbols);
}

int64_t ReduceScatterOp::getBytesSent(int64_t ranks) {
  return ringBytes(bytesOf(getInputs().getTypes()), ranks);
}

//===----------------------------------------------------------------------===//
// all_to_all
//===----------------------------------------------------------------------===//

static Redistribution describeExchange(AllToAllOp op) {
  Redistribution what = describe(op);
  what.gathered = op.getConcat();
  what.scattered = op.getSplit();
  return what;
}

LogicalResult AllToAllOp::verify() {
  // 2.
  if (failed(verifyDim(*this, "split", getSplit())) ||
      failed(verifyDim(*this, "concat", getConcat())))
    return failure();
  // 1., 3. and 4. (the mesh and the sizes: verifySymbolUses)
  return verifyRedistribution(describeExchange(*this));
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describeExchange(*this), symbols);
}

int64_t AllToAllOp::getBytesSent(int64_t ranks) {
  return ringBytes(bytesOf(getInput().getType()), ranks);
}
