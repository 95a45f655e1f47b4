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

//===----------------------------------------------------------------------===//
// ragged_all_to_all
//===----------------------------------------------------------------------===//

/// The numbers of rows that a rank sends and receives: what they are along axes that the op does
/// not run along must not differ where the rows do not.
static LogicalResult verifyNumbers(RaggedAllToAllOp op, const Redistribution &what, StringRef name,
                                   Value numbers) {
  auto type = cast<RankedTensorType>(numbers.getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(64))
    return op.emitOpError("expects `")
           << name << "` to have one dimension and dtype i64, found " << type;
  if (failed(verifyPlacement(what, type, PlacementKind::V)))
    return failure();
  PlacementAttr rows = getPlacement(op.getInput().getType()), placement = getPlacement(type);
  if (bool(rows) != bool(placement))
    return op.emitOpError("expects placements on all operands or on none, found ")
           << op.getInput().getType() << " and " << type;
  if (!rows)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    if (llvm::is_contained(what.axes, entry.axis) || entry.placement.isSameOnAllRanks())
      continue;
    std::optional<AxisPlacement> along = rows.get(entry.axis.getValue());
    if (entry.placement.kind != PlacementKind::V || !along || along->kind != PlacementKind::V)
      return op.emitOpError("expects `") << name << "` to be the same on all ranks along axis '"
                                         << entry.axis.getValue() << "', found " << type;
  }
  return success();
}

LogicalResult RaggedAllToAllOp::verify() {
  // 1. (the mesh: verifySymbolUses)
  Redistribution what = describe(*this);
  if (failed(verifyAxes(what)))
    return failure();
  // 2.
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(valueTypeOf(getResult().getType()));
  if (from.getRank() == 0)
    return emitOpError("expects an operand with rows, found ") << from;
  if (to.getRank() != from.getRank() || to.getElementType() != from.getElementType() ||
      to.getShape().drop_front() != from.getShape().drop_front())
    return emitOpError("expects a result of the operand's type but for the number of rows, found ")
           << from << " and " << to;
  // 4.
  for (Type type : {Type(from), Type(to)})
    if (failed(verifyPlacement(what, type, PlacementKind::V)))
      return failure();
  if (failed(verifyOtherAxes(what, from, to)))
    return failure();
  if (PlacementAttr placement = getPlacement(from))
    for (const AxisEntry &entry : placement.getEntries())
      if (entry.placement.isShard(0))
        return emitOpError("expects whole rows along axis '")
               << entry.axis.getValue() << "', found " << from;
  // 3. and 4. (as many as there are ranks: verifySymbolUses)
  return success(succeeded(verifyNumbers(*this, what, "sends", getSends())) &&
                 succeeded(verifyNumbers(*this, what, "receives", getReceives())));
}

LogicalResult RaggedAllToAllOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // 1.
  Redistribution what = describe(*this);
  if (failed(verifyOnMesh(what, symbols)))
    return failure();
  // 3.
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  std::optional<int64_t> ranks = mesh.countRanks(getAxes());
  std::pair<StringRef, Value> lists[] = {{"sends", getSends()}, {"receives", getReceives()}};
  for (auto [name, list] : lists) {
    int64_t size = cast<RankedTensorType>(list.getType()).getDimSize(0);
    if (ranks && size != *ranks)
      return emitOpError("expects `")
             << name << "` to have an element for each of " << *ranks << " ranks, found " << size;
  }
  return success();
}

/// Where ranks get equal numbers of rows. A buffer may have room for more than there are.
int64_t RaggedAllToAllOp::getBytesSent(int64_t ranks) {
  return ringBytes(std::min(bytesOf(getInput().getType()), bytesOf(getResult().getType())), ranks);
}
