//===- PointToPoint.cpp - verifiers: from one rank to another ----------------===//

#include "dialects/dist/Verify.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::dist;

//===----------------------------------------------------------------------===//
// permute
//===----------------------------------------------------------------------===//

LogicalResult PermuteOp::verify() {
  // 2. (that they are ranks: verifySymbolUses)
  if (getSources().size() != getDestinations().size())
    return emitOpError("expects as many sources as destinations, found ")
           << getSources().size() << " and " << getDestinations().size();
  std::pair<StringRef, ArrayRef<int64_t>> sides[] = {{"sources", getSources()},
                                                     {"destinations", getDestinations()}};
  for (auto [name, ranks] : sides) {
    llvm::DenseSet<int64_t> seen;
    for (int64_t rank : ranks)
      if (!seen.insert(rank).second)
        return emitOpError("lists rank ") << rank << " twice among the " << name;
  }
  // 1., 3. and 4. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult PermuteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1.
  Redistribution what = describe(*this);
  if (failed(verifyOnMesh(what, symbols)))
    return failure();
  // 2.
  for (int64_t rank : getSources())
    if (failed(verifyRankOnMesh(what, "sources", rank, symbols)))
      return failure();
  for (int64_t rank : getDestinations())
    if (failed(verifyRankOnMesh(what, "destinations", rank, symbols)))
      return failure();
  return success();
}

int64_t PermuteOp::getBytesSent(int64_t ranks) {
  bool moves = llvm::any_of(llvm::zip(getSources(), getDestinations()),
                            [](auto pair) { return std::get<0>(pair) != std::get<1>(pair); });
  return moves && ranks > 1 ? bytesOf(getInput().getType()) : 0;
}

//===----------------------------------------------------------------------===//
// shift
//===----------------------------------------------------------------------===//

LogicalResult ShiftOp::verify() {
  // 1. to 3. (the mesh: verifySymbolUses)
  return verifyRedistribution(describe(*this));
}

LogicalResult ShiftOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}

int64_t ShiftOp::getBytesSent(int64_t ranks) {
  return getBy() != 0 && ranks > 1 ? bytesOf(getInput().getType()) : 0;
}

//===----------------------------------------------------------------------===//
// send and receive
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult verifyEnds(Op op) {
  // 2. (that they are ranks: verifySymbolUses)
  if (op.getFrom() == op.getTo())
    return op.emitOpError("expects two different ranks, found ") << op.getFrom() << " twice";
  // 3.
  if (op.getTag() < 0)
    return op.emitOpError("expects a non-negative tag, found ") << op.getTag();
  return success();
}

template <typename Op>
static LogicalResult verifyEndsOnMesh(Op op, SymbolTableCollection &symbols) {
  // 1. and 2.
  Redistribution what = describe(op);
  return success(succeeded(verifyOnMesh(what, symbols)) &&
                 succeeded(verifyRankOnMesh(what, "from", op.getFrom(), symbols)) &&
                 succeeded(verifyRankOnMesh(what, "to", op.getTo(), symbols)));
}

LogicalResult SendOp::verify() {
  // 1. to 4. (the mesh: verifySymbolUses)
  Redistribution what = describe(*this);
  return success(succeeded(verifyAxes(what)) && succeeded(verifyEnds(*this)) &&
                 succeeded(verifyPlacement(what, getInput().getType(), PlacementKind::V)));
}

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyEndsOnMesh(*this, symbols);
}

int64_t SendOp::getBytesSent(int64_t) {
  return bytesOf(getInput().getType());
}

LogicalResult ReceiveOp::verify() {
  // 1. to 4. (the mesh: verifySymbolUses)
  Redistribution what = describe(*this);
  return success(succeeded(verifyAxes(what)) && succeeded(verifyEnds(*this)) &&
                 succeeded(verifyPlacement(what, getResult().getType(), PlacementKind::V)));
}

LogicalResult ReceiveOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyEndsOnMesh(*this, symbols);
}

int64_t ReceiveOp::getBytesSent(int64_t) {
  return 0;
}
