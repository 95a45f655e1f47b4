//===- RowSums.cpp - sums over rows: what a block adds up, and leaves in partials ------------===//

#include "lib/kernels/gpu/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;

/// Rows too long for registers: the thread adds to what it has written for the row before.
void RowEmitter::addToPartials(NodeId sum, const Column &column, ValueRange values, Value step) {
  Type type = values.front().getType();
  forThen(column.valid, [&] {
    Value pointer = offsetPointer(partialPointer(sum, part), type, column.index);
    auto branch = scf::IfOp::create(b, SmallVector<Type>(values.size(), type),
                                    compareIndex(false, step, 0), /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, values);
      b.setInsertionPointToStart(branch.elseBlock());
      Lanes before = loadLanes(pointer, type, values.size(), values.size());
      for (auto [value, old] : llvm::zip(values, before))
        old = scalars.combine(node(sum).reduction, node(sum).type, old, value);
      scf::YieldOp::create(b, before);
    }
    storeLanes(pointer, branch.getResults(), values.size());
  });
}

void RowEmitter::writeSums(ArrayRef<Value> sums) {
  for (NodeId sum : phase.sums) {
    if (!sumsInRegisters(sum))
      continue;
    if (node(sum).columns == 0)
      writeNumber(sum, sums.front());
    else
      writeColumnSums(sum, sums.take_front(numRegisters(sum)));
    sums = sums.drop_front(numRegisters(sum));
  }
}

/// The block's number, by one thread.
void RowEmitter::writeNumber(NodeId sum, Value value) {
  RowReduction reduction = node(sum).reduction;
  ComputeType type = node(sum).type;
  Value neutral = scalars.neutral(reduction, type);
  if (!phase.totals.contains(sum)) {
    // All threads of a group have the row's number, and all tiles.
    Value counts = compareIndex(false, lane, 0);
    if (mapping.tiles > 1)
      counts = conjunction(counts, compareIndex(false, tile, 0));
    value = arith::SelectOp::create(b, counts, value, neutral);
  }
  Term term{value, reduction, type};
  reduceGroups(term, threads, Value());
  forThen(compareIndex(false, thread, 0),
          [&] { LLVM::StoreOp::create(b, term.value, partialPointer(sum, block)); });
}

/// The block's sum of each column: its groups' sums added up.
void RowEmitter::writeColumnSums(NodeId sum, ArrayRef<Value> values) {
  Type type = scalars.getType(node(sum).type);
  unsigned groups = mapping.groups();
  Value to = partialPointer(sum, part);
  Value buffer;
  if (groups > 1)
    buffer = allocateShared(mapping.threads * mapping.vector * sizeOfPartial(node(sum).type));
  for (unsigned slot = 0; slot < mapping.slots; ++slot) {
    if (!tileBase && slot * mapping.slotColumns() >= node(sum).columns)
      break;
    Column column = makeColumn(slot, node(sum).columns, tileBase);
    Lanes own(values.slice(slot * mapping.vector, mapping.vector));
    auto write = [&](ValueRange written) {
      forThen(column.valid,
              [&] { storeLanes(offsetPointer(to, type, column.index), written, mapping.vector); });
    };
    if (groups == 1) {
      write(own);
      continue;
    }
    if (slot > 0)
      barrier();
    Value place = arith::MulIOp::create(b, thread, scalars.i32(mapping.vector));
    storeLanes(offsetPointer(buffer, type, place), own, mapping.vector);
    barrier();
    forThen(compareIndex(false, group, 0), [&] {
      auto loop = scf::ForOp::create(b, scalars.i32(1), scalars.i32(groups), scalars.i32(1), own);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        Value first = arith::MulIOp::create(b, loop.getInductionVar(),
                                            scalars.i32(mapping.lanes * mapping.vector));
        Value from = arith::AddIOp::create(b, first, place);
        Lanes other =
            loadLanes(offsetPointer(buffer, type, from), type, mapping.vector, mapping.vector);
        for (auto [value, sofar] : llvm::zip(other, loop.getRegionIterArgs()))
          value = scalars.combine(node(sum).reduction, node(sum).type, sofar, value);
        scf::YieldOp::create(b, other);
      }
      write(loop.getResults());
    });
  }
}
