//===- Finish.cpp - the phase of a kernel that joins sums over rows ------------------------===//

#include "lib/kernels/gpu/Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;

namespace {
class FinishEmitter : public PhaseEmitter {
public:
  FinishEmitter(const RowProgram &program, const Plan &plan, const FinishPhase &phase,
                ModuleOp module)
      : PhaseEmitter(program, plan, module, phase.entry, phase.threads, 1024 / phase.threads),
        phase(phase) {}

  void run() {
    phase.columns == 0 ? joinNumbers() : joinColumns();
    finishFunction();
  }

private:
  void joinNumbers();
  void joinColumns();
  Value addParts(NodeId sum, Value first, unsigned stride, Value column);
  void write(const Column &column);

  const FinishPhase &phase;
};
} // namespace

/// Parts `first`, `first + stride`, ..., in this order.
Value FinishEmitter::addParts(NodeId sum, Value first, unsigned stride, Value column) {
  const SumPlace &place = plan.places.at(sum);
  Type type = scalars.getType(node(sum).type);
  Value zero = scalars.neutral(node(sum).reduction, node(sum).type);
  auto loop = scf::ForOp::create(b, first, scalars.i32(place.parts), scalars.i32(stride), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value pointer = partialPointer(sum, loop.getInductionVar());
  if (column)
    pointer = offsetPointer(pointer, type, column);
  Value part = LLVM::LoadOp::create(b, type, pointer);
  scf::YieldOp::create(
      b, scalars.combine(node(sum).reduction, node(sum).type, loop.getRegionIterArg(0), part));
  return loop.getResult(0);
}

/// The sums, if they are needed later, and what follows from them.
void FinishEmitter::write(const Column &column) {
  if (phase.keepsSums)
    for (NodeId sum : phase.sums) {
      Value pointer = finalPointer(sum);
      Value value = emit(sum, column).front();
      if (phase.columns)
        pointer = offsetPointer(pointer, value.getType(), column.index);
      LLVM::StoreOp::create(b, value, pointer);
    }
  for (unsigned store : phase.stores)
    emitStore(store, rowPointer(program.stores[store].access), column);
}

void FinishEmitter::joinNumbers() {
  SmallVector<Term> terms;
  for (NodeId sum : phase.sums)
    terms.push_back({addParts(sum, thread, threads, Value()), node(sum).reduction, node(sum).type});
  reduceGroups(terms, threads, Value());
  for (auto [sum, term] : llvm::zip(phase.sums, terms))
    knownScalars[sum] = term.value;
  forThen(compareIndex(false, thread, 0), [&] {
    Column column;
    column.index = indexConstant(0);
    column.upper = 1;
    write(column);
  });
}

/// Neighbouring threads have neighbouring columns; those that are `kFinishColumns` apart share a
/// column's parts.
void FinishEmitter::joinColumns() {
  unsigned deep = threads / kFinishColumns;
  Value x = arith::RemUIOp::create(b, thread, scalars.i32(kFinishColumns));
  Value y = arith::DivUIOp::create(b, thread, scalars.i32(kFinishColumns));
  Value wide = x, first = block;
  if (indexType.isInteger(64)) {
    wide = arith::ExtUIOp::create(b, indexType, x);
    first = arith::ExtUIOp::create(b, indexType, block);
  }
  Column column;
  column.index = arith::AddIOp::create(
      b, arith::MulIOp::create(b, first, indexConstant(kFinishColumns)), wide);
  column.upper = phase.columns;
  column.id = nextColumn++;
  Value exists;
  if (phase.columns % kFinishColumns != 0) {
    exists = compareIndex(true, column.index, phase.columns);
    column.index = arith::SelectOp::create(b, exists, column.index, indexConstant(0));
  }
  SmallVector<Value> sums, buffers;
  for (NodeId sum : phase.sums)
    sums.push_back(addParts(sum, y, deep, column.index));
  for (auto [sum, value] : llvm::zip(phase.sums, sums)) {
    buffers.push_back(allocateShared(threads * sizeOfPartial(node(sum).type)));
    LLVM::StoreOp::create(b, value, offsetPointer(buffers.back(), value.getType(), thread));
  }
  barrier();
  forThen(conjunction(compareIndex(false, y, 0), exists), [&] {
    for (auto [sum, value, buffer] : llvm::zip(phase.sums, sums, buffers)) {
      for (unsigned other = 1; other < deep; ++other) {
        Type type = value.getType();
        Value place = arith::AddIOp::create(b, x, scalars.i32(other * kFinishColumns));
        Value part = LLVM::LoadOp::create(b, type, offsetPointer(buffer, type, place));
        value = scalars.combine(node(sum).reduction, node(sum).type, value, part);
      }
      known[Key(sum, column.id, 0)] = {value};
    }
    write(column);
  });
}

void cleave::kernels::gpu::emitFinishPhase(const RowProgram &program, const Plan &plan,
                                           const FinishPhase &phase, ModuleOp module) {
  FinishEmitter(program, plan, phase, module).run();
}
