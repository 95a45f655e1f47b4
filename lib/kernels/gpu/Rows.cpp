//===- Rows.cpp - the phase of a kernel that walks over rows ------------------------------===//

#include "lib/kernels/gpu/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;

void RowEmitter::run() {
  placeThread();
  writeSums(emitRows());
  finishFunction();
}

void RowEmitter::placeThread() {
  group = scalars.i32(0);
  lane = thread;
  if (mapping.groups() > 1) {
    group = arith::DivUIOp::create(b, thread, scalars.i32(mapping.lanes));
    lane = arith::RemUIOp::create(b, thread, scalars.i32(mapping.lanes));
  }
  part = block;
  tile = scalars.i32(0);
  if (mapping.tiles > 1) {
    part = arith::DivUIOp::create(b, block, scalars.i32(mapping.tiles));
    tile = arith::RemUIOp::create(b, block, scalars.i32(mapping.tiles));
    Value wide = tile;
    if (indexType.isInteger(64))
      wide = arith::ExtUIOp::create(b, indexType, wide);
    tileBase = arith::MulIOp::create(b, wide, indexConstant(mapping.tileColumns()));
  }
  if (!mapping.isLooped)
    for (unsigned slot = 0; slot < mapping.slots; ++slot)
      makeColumn(slot, 0, tileBase);
}

/// The thread's columns in a slot, of a value with so many. `columns` 0: any.
Column RowEmitter::makeColumn(unsigned slot, int64_t count, Value base) {
  if (auto it = columns.find({slot, count}); it != columns.end())
    return it->second;
  int64_t start = slot * mapping.slotColumns(), end = start + mapping.slotColumns();
  bool exists = base ? count % mapping.tileColumns() == 0 : end <= count;
  Column column;
  column.lanes = mapping.vector;
  column.lower = base ? 0 : start;
  column.isFixed = !mapping.isLooped;
  auto anyCount = columns.find({slot, 0});
  if (anyCount != columns.end()) {
    column.index = anyCount->second.index;
  } else {
    Value wide = lane;
    if (indexType.isInteger(64))
      wide = arith::ExtUIOp::create(b, indexType, wide);
    column.index = arith::MulIOp::create(b, wide, indexConstant(mapping.vector));
    column.index = arith::AddIOp::create(b, column.index, indexConstant(start));
    if (base)
      column.index = arith::AddIOp::create(b, column.index, base);
  }
  if (count == 0 || exists) {
    column.id = idsOfSlots.try_emplace(slot, nextColumn).first->second;
    column.upper = base ? std::max<int64_t>(count, end) : end;
  } else {
    column.upper = base ? count : std::min(end, count);
    column.id = nextColumn;
    column.valid = compareIndex(true, column.index, count);
    column.index =
        arith::SelectOp::create(b, column.valid, column.index, indexConstant(column.lower));
  }
  ++nextColumn;
  return columns[{slot, count}] = column;
}

/// Calls `body` for each of the thread's steps over a row of `count` columns; what it returns is
/// handed to the next step.
SmallVector<Value> RowEmitter::forSlots(int64_t count, SmallVector<Value> values, SlotBody body) {
  auto steps = [&](Value base) {
    for (unsigned slot = 0; slot < mapping.slots; ++slot)
      if (base || slot * mapping.slotColumns() < count)
        values = body(slot, makeColumn(slot, count, base), values);
  };
  if (!mapping.isLooped) {
    steps(tileBase);
    return values;
  }
  auto forget = [&] {
    known.clear();
    columns.clear();
    idsOfSlots.clear();
  };
  Value end = indexConstant(llvm::alignTo(count, mapping.tileColumns()));
  auto loop =
      scf::ForOp::create(b, indexConstant(0), end, indexConstant(mapping.tileColumns()), values);
  // The slots are enough work to have at a time; ptxas would unroll until registers spill.
  auto unroll = LLVM::LoopUnrollAttr::get(b.getContext(), /*disable=*/b.getBoolAttr(true), {}, {},
                                          {}, {}, {}, {});
  loop->setAttr("loop_annotation",
                LLVM::LoopAnnotationAttr::get(b.getContext(), {}, {}, {}, unroll, {}, {}, {}, {},
                                              {}, {}, {}, {}, {}, {}, {}));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  forget();
  steps(loop.getInductionVar());
  // Without values the loop has its terminator already.
  if (!values.empty())
    scf::YieldOp::create(b, values);
  forget();
  return SmallVector<Value>(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// What each sum begins with, all in one list.
SmallVector<Value> RowEmitter::firstSums() {
  SmallVector<Value> sums;
  for (NodeId sum : phase.sums)
    if (sumsInRegisters(sum))
      sums.append(numRegisters(sum), scalars.neutral(node(sum).reduction, node(sum).type));
  return sums;
}

/// What does not differ from row to row, columns apart.
void RowEmitter::emitInvariants() {
  std::vector<bool> invariant(program.nodes.size());
  for (NodeId id : phase.nodes) {
    const Node &candidate = node(id);
    bool isSum = candidate.kind == Node::Kind::ReduceRows;
    invariant[id] = candidate.rowDims == 0 && candidate.kind != Node::Kind::ReduceColumns &&
                    (isSum || llvm::all_of(candidate.operands,
                                           [&](NodeId operand) { return invariant[operand]; }));
    if (invariant[id] && candidate.columns == 0)
      emitScalar(id);
  }
}

SmallVector<Value> RowEmitter::emitRows() {
  emitInvariants();
  // Masks of columns are made where all rows see them.
  if (!mapping.isLooped) {
    for (NodeId id : phase.nodes)
      if (int64_t count = node(id).columns)
        for (unsigned slot = 0; slot < mapping.slots; ++slot)
          if (tileBase || slot * mapping.slotColumns() < count)
            makeColumn(slot, count, tileBase);
    for (unsigned store : phase.stores)
      if (int64_t count = program.stores[store].columns)
        for (unsigned slot = 0; slot < mapping.slots; ++slot)
          if (tileBase || slot * mapping.slotColumns() < count)
            makeColumn(slot, count, tileBase);
  }
  SmallVector<Value> sums = firstSums();
  int64_t steps = mapping.rowsPerPart / mapping.groups();
  if (steps == 1)
    return emitRow(scalars.i32(0), sums);
  Value count = scalars.i32(steps);
  if (mapping.rows % mapping.rowsPerPart != 0) {
    // The last part has fewer rows. All threads of a block take as many steps.
    int64_t last = mapping.rows - (mapping.parts - 1) * mapping.rowsPerPart;
    Value isLast = compareIndex(false, part, mapping.parts - 1);
    count = arith::SelectOp::create(b, isLast,
                                    scalars.i32(llvm::divideCeil(last, mapping.groups())), count);
  }
  auto loop = scf::ForOp::create(b, scalars.i32(0), count, scalars.i32(1), sums);
  hoistPoint = loop;
  hoistBudget = mapping.isLooped ? 0 : 32;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  sums = emitRow(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!sums.empty())
    scf::YieldOp::create(b, sums);
  hoistPoint = nullptr;
  return SmallVector<Value>(loop.getResults());
}

/// Row number, coordinates, and where the tensors' parts of the row are.
void RowEmitter::placeRow(Value step) {
  bool isWide = mapping.rows + mapping.rowsPerPart >= (int64_t(1) << 31);
  Type type = isWide ? b.getI64Type() : b.getI32Type();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  auto widen = [&](Value value) -> Value {
    return isWide ? Value(arith::ExtUIOp::create(b, type, value)) : value;
  };
  Value row = arith::MulIOp::create(b, widen(part), constant(mapping.rowsPerPart));
  Value own = arith::MulIOp::create(b, step, scalars.i32(mapping.groups()));
  row = arith::AddIOp::create(b, row, widen(arith::AddIOp::create(b, own, group)));
  rowValid = {};
  if (mapping.groups() > 1 && mapping.rows % mapping.groups() != 0) {
    rowValid = compareIndex(true, row, mapping.rows);
    row = arith::MinSIOp::create(b, row, constant(mapping.rows - 1));
  }
  coordinates.assign(program.rowShape.size(), Value());
  if (mapping.rows == program.rows())
    for (size_t dim = program.rowShape.size(); dim-- > 0;) {
      int64_t size = program.rowShape[dim];
      if (size == 1)
        continue;
      bool isMajor = llvm::all_of(ArrayRef(program.rowShape).take_front(dim),
                                  [](int64_t outer) { return outer == 1; });
      coordinates[dim] = isMajor ? row : Value(arith::RemUIOp::create(b, row, constant(size)));
      if (!isMajor)
        row = arith::DivUIOp::create(b, row, constant(size));
    }
  loadPointers.clear();
  for (NodeId id : phase.nodes)
    if (node(id).kind == Node::Kind::Load)
      loadPointers[id] = rowPointer(node(id).access);
}

SmallVector<Value> RowEmitter::emitRow(Value step, ValueRange sums) {
  auto invariants = knownScalars;
  known.clear();
  placeRow(step);
  emitScalars(0);
  for (unsigned level = 1; level <= phase.numLevels; ++level) {
    reduceRow(level, step);
    emitScalars(level);
  }
  SmallVector<Value> next = finishRow(step, SmallVector<Value>(sums));
  knownScalars = invariants;
  return next;
}

/// Numbers of the row that are known after `level` reductions, before the loops that need them.
void RowEmitter::emitScalars(unsigned level) {
  for (NodeId id : phase.nodes)
    if (node(id).columns == 0 && phase.levels[id] == level)
      emitScalar(id);
}

/// The walk that ends in the reductions of `level`.
void RowEmitter::reduceRow(unsigned level, Value step) {
  std::map<int64_t, SmallVector<NodeId>> byColumns;
  for (NodeId id : phase.nodes)
    if (node(id).kind == Node::Kind::ReduceColumns && phase.levels[id] == level)
      byColumns[node(node(id).operands[0]).columns].push_back(id);
  SmallVector<NodeId> reduced;
  SmallVector<Term> terms;
  for (auto &[count, ids] : byColumns) {
    SmallVector<Value> first;
    for (NodeId id : ids)
      first.push_back(scalars.neutral(node(id).reduction, node(id).type));
    auto add = [&](unsigned, const Column &column, ValueRange sofar) {
      SmallVector<Value> next;
      for (auto [id, value] : llvm::zip(ids, sofar)) {
        RowReduction reduction = node(id).reduction;
        ComputeType type = node(id).type;
        Lanes lanes = emit(node(id).operands[0], column);
        // A tree over the lanes, so that additions do not wait for each other.
        for (size_t width = lanes.size() / 2; width >= 1; width /= 2)
          for (size_t i = 0; i < width; ++i)
            lanes[i] = scalars.combine(reduction, type, lanes[i], lanes[i + width]);
        Value joined = scalars.combine(reduction, type, value, lanes[0]);
        if (column.valid)
          joined = arith::SelectOp::create(b, column.valid, joined, value);
        next.push_back(joined);
      }
      return next;
    };
    SmallVector<Value> values = forSlots(count, first, add);
    for (auto [id, value] : llvm::zip(ids, values)) {
      reduced.push_back(id);
      terms.push_back({value, node(id).reduction, node(id).type});
    }
  }
  // With one reduction in a loop over rows, a fast warp would overwrite what a slow one still
  // reads.
  Value second;
  if (phase.numLevels == 1 && hoistPoint && mapping.lanes > 32) {
    Value odd = arith::AndIOp::create(b, step, scalars.i32(1));
    second = compareIndex(false, odd, 1);
  }
  reduceGroups(terms, mapping.lanes, second);
  for (auto [id, term] : llvm::zip(reduced, terms))
    knownScalars[id] = term.value;
}

/// Null, or whether the row is the first of those that have the same coordinates in `rowDims`.
Value RowEmitter::guardOf(uint32_t rowDims) {
  Value guard = rowValid;
  for (auto [dim, coordinate] : llvm::enumerate(coordinates))
    if (coordinate && !(rowDims >> dim & 1))
      guard = conjunction(guard, compareIndex(false, coordinate, 0));
  return guard;
}

/// What the row adds to a sum: nothing, if it does not exist.
Value RowEmitter::orNeutral(NodeId sum, Value value) {
  if (!rowValid)
    return value;
  return arith::SelectOp::create(b, rowValid, value,
                                 scalars.neutral(node(sum).reduction, node(sum).type));
}

/// The last walk: stores, and sums over rows. Returns the sums with the row's values in them.
SmallVector<Value> RowEmitter::finishRow(Value step, SmallVector<Value> sums) {
  struct Work {
    SmallVector<unsigned> stores;
    SmallVector<std::pair<NodeId, unsigned>> sums; ///< and where its registers begin
  };
  std::map<int64_t, Work> byColumns;
  for (unsigned store : phase.stores)
    byColumns[program.stores[store].columns].stores.push_back(store);
  unsigned next = 0;
  for (NodeId sum : phase.sums) {
    int64_t count = phase.totals.contains(sum) ? node(summed(sum)).columns : node(sum).columns;
    byColumns[count].sums.push_back({sum, next});
    next += sumsInRegisters(sum) ? numRegisters(sum) : 0;
  }
  std::map<unsigned, Value> pointers;
  for (unsigned store : phase.stores)
    pointers[store] = rowPointer(program.stores[store].access);

  for (auto &[count, work] : byColumns) {
    if (count == 0) {
      for (auto [sum, at] : work.sums) {
        Value value = orNeutral(sum, emitScalar(node(sum).operands[0]));
        sums[at] = scalars.combine(node(sum).reduction, node(sum).type, sums[at], value);
      }
      continue;
    }
    auto body = [&](unsigned slot, const Column &column, ValueRange sofar) {
      SmallVector<Value> values(sofar);
      for (auto [sum, at] : work.sums) {
        RowReduction reduction = node(sum).reduction;
        ComputeType type = node(sum).type;
        Lanes lanes = emit(summed(sum), column);
        bool isTotal = node(sum).columns == 0;
        for (Value &value : lanes) {
          value = orNeutral(sum, value);
          if (isTotal && column.valid)
            value =
                arith::SelectOp::create(b, column.valid, value, scalars.neutral(reduction, type));
        }
        if (!sumsInRegisters(sum)) {
          addToPartials(sum, column, lanes, step);
          continue;
        }
        for (auto [i, value] : llvm::enumerate(lanes)) {
          Value &into = values[isTotal ? at : at + slot * mapping.vector + i];
          into = scalars.combine(reduction, type, into, value);
        }
      }
      for (unsigned store : work.stores) {
        Column guarded = column;
        guarded.valid = conjunction(column.valid, guardOf(program.stores[store].rowDims));
        emitStore(store, pointers[store], guarded);
      }
      return values;
    };
    // All loads before the first store: nothing says that they are of different memory, so
    // no later load would be moved up.
    if (!mapping.isLooped)
      forSlots(count, {}, [&](unsigned, const Column &column, ValueRange) {
        for (auto [sum, at] : work.sums)
          emit(summed(sum), column);
        for (unsigned store : work.stores)
          emit(program.stores[store].value, column);
        return SmallVector<Value>();
      });
    sums = forSlots(count, sums, body);
  }
  for (unsigned store : phase.stores)
    if (program.stores[store].columns == 0) {
      Value isOwner =
          conjunction(compareIndex(false, lane, 0), guardOf(program.stores[store].rowDims));
      if (mapping.tiles > 1)
        isOwner = conjunction(isOwner, compareIndex(false, tile, 0));
      Column one;
      one.index = indexConstant(0);
      one.valid = isOwner;
      emitStore(store, pointers[store], one);
    }
  return sums;
}

void cleave::kernels::gpu::emitRowPhase(const RowProgram &program, const Plan &plan,
                                        const RowPhase &phase, ModuleOp module) {
  RowEmitter(program, plan, phase, module).run();
}
