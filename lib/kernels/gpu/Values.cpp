//===- Values.cpp - the values of a row program's nodes ----------------------------------===//

#include "lib/kernels/gpu/Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;

Lanes PhaseEmitter::emit(NodeId id, const Column &column) {
  if (node(id).columns == 0)
    return Lanes(column.lanes, emitScalar(id));
  Key key(id, column.id, column.shift);
  for (auto *map : {&known, &hoisted})
    if (auto it = map->find(key); it != map->end())
      return it->second;
  return known[key] = emitNode(id, column);
}

/// In Constant's case not remembered: a constant may be needed where another one is out of sight.
Value PhaseEmitter::emitScalar(NodeId id) {
  const Node &scalar = node(id);
  if (scalar.kind == Node::Kind::Constant)
    return scalars.constant(scalar.type, scalar.number, scalar.integer);
  if (auto it = knownScalars.find(id); it != knownScalars.end())
    return it->second;
  Column column;
  column.upper = 1;
  return knownScalars[id] = emitNode(id, column).front();
}

Lanes PhaseEmitter::emitNode(NodeId id, const Column &column) {
  const Node &emitted = node(id);
  switch (emitted.kind) {
  case Node::Kind::Load:
    return emitLoad(id, column);
  case Node::Kind::Constant:
    return Lanes(column.lanes, scalars.constant(emitted.type, emitted.number, emitted.integer));
  case Node::Kind::ColumnIndex: {
    Lanes values;
    Value index = column.index;
    if (!index.getType().isInteger(64))
      index = arith::ExtUIOp::create(b, b.getI64Type(), index);
    for (unsigned lane = 0; lane < column.lanes; ++lane) {
      Value value = arith::AddIOp::create(b, index, scalars.i64(column.shift + lane));
      values.push_back(scalars.convert(value, ComputeType::I64, emitted.type));
    }
    return values;
  }
  case Node::Kind::Map: {
    SmallVector<Lanes> operands;
    for (NodeId operand : emitted.operands)
      operands.push_back(emit(operand, column));
    ComputeType operandType = node(emitted.operands.back()).type;
    Lanes values;
    for (unsigned lane = 0; lane < column.lanes; ++lane) {
      SmallVector<Value> ofLane;
      for (Lanes &operand : operands)
        ofLane.push_back(operand[lane]);
      values.push_back(scalars.map(emitted.function, emitted.type, operandType, ofLane));
    }
    return values;
  }
  case Node::Kind::ReduceRows: {
    Type type = scalars.getType(emitted.type);
    Value pointer = finalPointer(id);
    if (emitted.columns == 0)
      return loadLanes(pointer, type, 1, 1);
    pointer = offsetPointer(offsetPointer(pointer, type, column.index), type, column.shift);
    return loadLanes(pointer, type, column.lanes, std::gcd(int64_t(column.lanes), column.shift));
  }
  case Node::Kind::Slice: {
    Column from = column;
    from.shift += emitted.start;
    from.lower += emitted.start;
    from.upper += emitted.start;
    return emit(emitted.operands[0], from);
  }
  case Node::Kind::Concat:
    return emitConcat(id, column);
  case Node::Kind::Gather:
    return {emitGather(id)};
  case Node::Kind::ReduceColumns:
    break;
  }
  llvm_unreachable("reductions along the row are known before they are used");
}

Lanes PhaseEmitter::emitLoad(NodeId id, const Column &column) {
  const Node &load = node(id);
  Type dtype = program.tensors[load.access.tensor];
  Type element = scalars.getStorageType(dtype);
  OpBuilder::InsertionGuard guard(b);
  bool isHoisted = load.columns != 0 && load.rowDims == 0 && hoistPoint && column.isFixed &&
                   hoistBudget >= int64_t(column.lanes);
  if (isHoisted) {
    hoistBudget -= column.lanes;
    b.setInsertionPoint(hoistPoint);
  }
  auto it = loadPointers.find(id);
  Value pointer = it != loadPointers.end() && !isHoisted ? it->second : rowPointer(load.access);
  if (load.columns != 0 && load.access.columnStride != 0) {
    pointer = offsetPointer(pointer, element, column.index);
    pointer = offsetPointer(pointer, element, column.shift);
  }
  Lanes values;
  if (load.access.columnStride == 0)
    values.assign(column.lanes, loadLanes(pointer, element, 1, 1).front());
  else
    values = loadLanes(pointer, element, column.lanes, alignmentOf(load.access, column));
  for (Value &value : values)
    value = scalars.fromStorage(value, dtype);
  if (isHoisted)
    hoisted[Key(id, column.id, column.shift)] = values;
  return values;
}

/// The operand in whose part the columns are. Where that differs from thread to thread, all that
/// may be it are computed, at columns that they have.
Lanes PhaseEmitter::emitConcat(NodeId id, const Column &column) {
  const Node &concat = node(id);
  Lanes values;
  int64_t start = 0;
  for (auto [operand, width] : llvm::zip(concat.operands, concat.widths)) {
    int64_t end = start + width;
    if (start <= column.lower && column.upper <= end) {
      Column part = column;
      part.shift -= start;
      part.lower -= start;
      part.upper -= start;
      return emit(operand, part);
    }
    if (column.lower < end && start < column.upper) {
      Column part;
      part.lanes = column.lanes;
      part.lower = 0;
      part.upper = width;
      part.id = nextColumn++;
      Value own = arith::AddIOp::create(b, column.index, indexConstant(column.shift - start));
      Value above = arith::MaxSIOp::create(b, own, indexConstant(0));
      part.index = arith::MinSIOp::create(b, above, indexConstant(width - column.lanes));
      Lanes candidates = emit(operand, part);
      if (values.empty()) {
        values = candidates;
      } else {
        Value begins = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, own, indexConstant(0));
        for (auto [value, candidate] : llvm::zip(values, candidates))
          value = arith::SelectOp::create(b, begins, candidate, value);
      }
    }
    start = end;
  }
  return values;
}

/// One column for the row. An index beyond the columns reads the nearest: kernels that allow such
/// indices select another value.
Value PhaseEmitter::emitGather(NodeId id) {
  NodeId from = node(id).operands[0];
  Value index = emitScalar(node(id).operands[1]);
  index = scalars.convert(index, node(node(id).operands[1]).type, ComputeType::I64);
  index = arith::MaxSIOp::create(b, index, scalars.i64(0));
  index = arith::MinSIOp::create(b, index, scalars.i64(node(from).columns - 1));
  Column column;
  column.index =
      indexType.isInteger(64) ? index : Value(arith::TruncIOp::create(b, indexType, index));
  column.upper = node(from).columns;
  column.id = nextColumn++;
  return emit(from, column).front();
}
