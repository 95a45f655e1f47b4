//===- EmitKernel.cpp - kernels as loops over vectors ------------------------===//
//
// A row is walked over in vectors, as often as its reductions need; what is between the walks are
// numbers. Each reduction has several accumulators, so that additions do not wait for each other.
//
//===----------------------------------------------------------------------===//

#include "lib/kernels/cpu/EmitKernel.h"
#include "dialects/exec/CpuLevels.h"
#include "lib/kernels/cpu/Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

llvm::ArrayRef<CpuTarget> cleave::kernels::getCpuTargets() {
  static constexpr CpuTarget targets[] = {{exec::kCpuLevels[0], 4, false, false, false},
                                          {exec::kCpuLevels[1], 8, true, true, false},
                                          {exec::kCpuLevels[2], 16, true, true, true}};
  static_assert(std::size(targets) == std::size(exec::kCpuLevels));
  return targets;
}

const CpuTarget *cleave::kernels::findCpuTarget(llvm::StringRef name) {
  for (const CpuTarget &target : getCpuTargets())
    if (target.name == name)
      return &target;
  return nullptr;
}

namespace {

class PhaseEmitter : public Evaluator {
public:
  PhaseEmitter(ImplicitLocOpBuilder &b, const RowProgram &program, const KernelPlan &plan,
               const Phase &phase, const CpuTarget &target)
      : Evaluator(b, program, plan), phase(phase), target(target) {}

  void emit(ModuleOp module, llvm::StringRef name);

private:
  /// What a walk computes of one node.
  struct Root {
    enum class Use : uint8_t { Reduce, AddToRows, Store, Keep } use;
    NodeId node;
    NodeId value;
    unsigned store = 0;
  };
  /// Where a walk goes; static ends are known but for chunks of columns.
  struct Range {
    Value begin, end;
    int64_t low, high;
    bool isStatic;
  };
  /// For each Reduce root, side by side.
  using Accumulators = SmallVector<Value>;

  Value getTensor(unsigned index) override { return tensors[index]; }
  Value getScratch(const Kept &kept) override {
    return getElement(scratch, b.getI8Type(), i64(*kept.scratch));
  }
  Value sumPartials(NodeId id, Value column) override;

  void clearPartials();
  Value getPartials(NodeId id, Value chunk);
  void emitRow(Value row, Value begin, Value end);
  void emitPass(const Pass &pass, Value begin, Value end);
  void findPrefetched();
  void prefetchNext(const ColumnBlock &columns, unsigned position);
  void emitRange(ArrayRef<Root> roots, const Range &range, unsigned unroll,
                 SmallVectorImpl<Accumulators> &accumulators);
  void emitLoop(Value begin, Value end, int64_t step, SmallVectorImpl<Accumulators> &accumulators,
                llvm::function_ref<void(Value, SmallVectorImpl<Accumulators> &)> body);
  void emitBlock(ArrayRef<Root> roots, const ColumnBlock &columns, unsigned position,
                 SmallVectorImpl<Accumulators> &accumulators);
  void finishReduction(const Root &root, ArrayRef<Value> accumulators);
  Value joinLanes(RowReduction reduction, Value vector);
  unsigned chooseUnroll(ArrayRef<Root> roots) const;
  Value getMask(Value left);

  const Phase &phase;
  const CpuTarget &target;
  SmallVector<Value> tensors;
  Value chunk, scratch, partials;
  int64_t lanes = 1;
  /// Loads of the first walk, of which the second one asks for the next row's, and how near
  /// (`prefetchNextRow`).
  SmallVector<NodeId> prefetched;
  unsigned locality = 0;
  bool isSecondWalk = false;
};

} // namespace

Value PhaseEmitter::getPartials(NodeId id, Value chunk) {
  const Node &node = program.nodes[id];
  int64_t bytes = std::max<int64_t>(1, node.columns) * sizeOf(node.type);
  Value offset = arith::MulIOp::create(b, chunk, i64(bytes));
  return getElement(partials, b.getI8Type(), addOffset(offset, plan.partials.lookup(id)));
}

/// Nothing is added up yet.
void PhaseEmitter::clearPartials() {
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.kind != Node::Kind::ReduceRows)
      continue;
    Value base = getPartials(id, chunk);
    Value identity = emitIdentity(b, node.reduction, node.type);
    int64_t columns = std::max<int64_t>(1, node.columns);
    scf::ForOp loop = scf::ForOp::create(b, i64(0), i64(columns), i64(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    storePlain(identity, base, loop.getInductionVar());
  }
}

Value PhaseEmitter::sumPartials(NodeId id, Value column) {
  const Node &node = program.nodes[id];
  Value identity = emitIdentity(b, node.reduction, node.type, block.lanes);
  scf::ForOp loop =
      scf::ForOp::create(b, i64(0), i64(plan.phases.front().chunks), i64(1), ValueRange(identity));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value part =
      loadPlain(getPartials(id, loop.getInductionVar()), node.type, column ? column : i64(0));
  Value joined = emitJoin(b, node.reduction, loop.getRegionIterArg(0), part);
  scf::YieldOp::create(b, joined);
  return loop.getResult(0);
}

/// Lanes below `left`, an i64.
Value PhaseEmitter::getMask(Value left) {
  SmallVector<int64_t> steps = llvm::to_vector(llvm::seq<int64_t>(lanes));
  auto type = VectorType::get({lanes}, b.getI64Type());
  Value indices = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(steps)));
  Value bound = vector::BroadcastOp::create(b, type, left);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, indices, bound);
}

void PhaseEmitter::emitBlock(ArrayRef<Root> roots, const ColumnBlock &columns, unsigned position,
                             SmallVectorImpl<Accumulators> &accumulators) {
  beginBlock(columns);
  if (isSecondWalk)
    prefetchNext(columns, position);
  SmallVector<Value> values;
  for (const Root &root : roots)
    values.push_back(get(root.value));
  unsigned reduction = 0;
  for (auto [root, value] : llvm::zip(roots, values)) {
    const Node &node = program.nodes[root.node];
    switch (root.use) {
    case Root::Use::Reduce: {
      if (columns.mask)
        value = arith::SelectOp::create(b, columns.mask, value,
                                        emitIdentity(b, node.reduction, node.type, lanes));
      Value &accumulator = accumulators[reduction++][position];
      accumulator = emitJoin(b, node.reduction, accumulator, value);
      break;
    }
    case Root::Use::AddToRows: {
      Value base = getPartials(root.node, chunk);
      Value old = loadPlain(base, node.type, columns.column);
      storePlain(emitJoin(b, node.reduction, old, value), base, columns.column);
      break;
    }
    case Root::Use::Store:
      store(program.stores[root.store], value);
      break;
    case Root::Use::Keep:
      keep(root.node, value);
      break;
    }
  }
}

/// The first walk over a row waits for memory, and later ones compute: so they had better overlap.
/// Not where sums down the columns are in the first cache and on the way to it, which measures
/// slower, and not for rows that fill a large part of the second cache and would push themselves
/// out.
void PhaseEmitter::findPrefetched() {
  constexpr int64_t kNear = 16 << 10, kFar = 256 << 10;
  bool sumsColumns =
      llvm::any_of(phase.passes, [](const Pass &pass) { return !pass.rowReductions.empty(); });
  if (!phase.isOverRows || phase.isFinish || phase.passes.size() < 2 || sumsColumns)
    return;
  const Pass &first = phase.passes.front();
  SmallVector<NodeId> waiting = llvm::to_vector_of<NodeId>(first.reductions);
  llvm::append_range(waiting, first.keeps);
  for (unsigned store : first.stores)
    waiting.push_back(program.stores[store].value);
  llvm::DenseSet<NodeId> seen;
  int64_t bytes = 0;
  while (!waiting.empty()) {
    NodeId id = waiting.pop_back_val();
    const Node &node = program.nodes[id];
    if (!seen.insert(id).second)
      continue;
    if (node.kind == Node::Kind::Load && node.columns && getRowStride(node.access).value_or(0)) {
      prefetched.push_back(id);
      bytes += node.columns * sizeOf(node.type);
    }
    llvm::append_range(waiting, node.operands);
  }
  locality = bytes <= kNear ? 3 : 2;
  if (bytes > kFar)
    prefetched.clear();
}

/// Once for each line of a cache, but for what is masked.
void PhaseEmitter::prefetchNext(const ColumnBlock &columns, unsigned position) {
  constexpr int64_t kLineBits = 512;
  for (NodeId id : prefetched) {
    const Node &node = program.nodes[id];
    int64_t bits = program.tensors[node.access.tensor].getIntOrFloatBitWidth();
    if (!columns.mask && node.columns == columns.high && position * lanes * bits % kLineBits == 0)
      prefetchNextRow(id, locality);
  }
}

void PhaseEmitter::emitLoop(Value begin, Value end, int64_t step,
                            SmallVectorImpl<Accumulators> &accumulators,
                            llvm::function_ref<void(Value, SmallVectorImpl<Accumulators> &)> body) {
  SmallVector<Value> initial;
  for (const Accumulators &its : accumulators)
    llvm::append_range(initial, its);
  scf::ForOp loop = scf::ForOp::create(b, begin, end, i64(step), initial);
  auto spreadOut = [&](ValueRange flat) {
    unsigned index = 0;
    for (Accumulators &its : accumulators)
      for (Value &accumulator : its)
        accumulator = flat[index++];
  };
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    spreadOut(loop.getRegionIterArgs());
    body(loop.getInductionVar(), accumulators);
    SmallVector<Value> results;
    for (const Accumulators &its : accumulators)
      llvm::append_range(results, its);
    if (!results.empty())
      scf::YieldOp::create(b, results);
  }
  spreadOut(loop.getResults());
}

void PhaseEmitter::emitRange(ArrayRef<Root> roots, const Range &range, unsigned unroll,
                             SmallVectorImpl<Accumulators> &accumulators) {
  auto blockAt = [&](Value column, Value mask = {}) {
    return ColumnBlock{column, lanes, mask, range.low, range.high};
  };
  auto body = [&](unsigned count) {
    return [this, &roots, &blockAt, count](Value column, SmallVectorImpl<Accumulators> &its) {
      for (unsigned i = 0; i < count; ++i)
        emitBlock(roots, blockAt(addOffset(column, i * lanes)), i, its);
    };
  };
  int64_t size = range.high - range.low;
  Value at = range.begin;
  // How far steps of `step` columns go from `at`.
  auto endOf = [&](int64_t step) -> Value {
    if (range.isStatic)
      return i64(range.low + size / step * step);
    Value length = arith::SubIOp::create(b, range.end, range.begin);
    Value whole =
        arith::SubIOp::create(b, length, arith::RemSIOp::create(b, length, i64(step)).getResult());
    return arith::AddIOp::create(b, range.begin, whole);
  };
  int64_t wide = lanes * unroll;
  if (unroll > 1 && size >= wide) {
    Value end = endOf(wide);
    emitLoop(at, end, wide, accumulators, body(unroll));
    at = end;
  }
  if (unroll == 1 || size % wide >= lanes || !range.isStatic) {
    Value end = endOf(lanes);
    emitLoop(at, end, lanes, accumulators, body(1));
    at = end;
  }
  if (size % lanes == 0)
    return;
  if (range.isStatic) {
    emitBlock(roots, blockAt(at, getMask(i64(size % lanes))), 0, accumulators);
    return;
  }
  emitLoop(at, range.end, lanes, accumulators,
           [&](Value column, SmallVectorImpl<Accumulators> &its) {
             Value left = arith::SubIOp::create(b, range.end, column);
             emitBlock(roots, blockAt(column, getMask(left)), 0, its);
           });
}

/// Long bodies keep the processor busy by themselves; short ones wait for each other's additions,
/// and for the loop.
unsigned PhaseEmitter::chooseUnroll(ArrayRef<Root> roots) const {
  constexpr unsigned kShort = 12, kMax = 4;
  llvm::DenseSet<NodeId> seen;
  SmallVector<NodeId> waiting;
  bool reduces = false;
  unsigned cost = 0;
  for (const Root &root : roots) {
    waiting.push_back(root.value);
    reduces |= root.use == Root::Use::Reduce;
  }
  while (!waiting.empty()) {
    NodeId id = waiting.pop_back_val();
    const Node &node = program.nodes[id];
    if (node.columns == 0 || !seen.insert(id).second)
      continue;
    bool isLong = node.kind == Node::Kind::Map &&
                  (node.function >= Function::Exp && node.function <= Function::Pow);
    cost += isLong ? kShort : 1;
    llvm::append_range(waiting, node.operands);
  }
  if (cost <= kShort)
    return kMax;
  return reduces ? 2 : 1;
}

/// In halves, and so in as few steps as there can be; `vector.reduction` joins largest elements
/// lane by lane.
Value PhaseEmitter::joinLanes(RowReduction reduction, Value vector) {
  for (int64_t count = lanes; count > 1; count /= 2) {
    auto half = [&](int64_t first) -> Value {
      SmallVector<int64_t> picks = llvm::to_vector(llvm::seq(first, first + count / 2));
      return vector::ShuffleOp::create(b, vector, vector, picks);
    };
    Value low = half(0), high = half(count / 2);
    vector = emitJoin(b, reduction, low, high);
  }
  return vector::ExtractOp::create(b, vector, int64_t(0));
}

void PhaseEmitter::finishReduction(const Root &root, ArrayRef<Value> accumulators) {
  const Node &node = program.nodes[root.node];
  SmallVector<Value> left(accumulators);
  for (; left.size() > 1; left.resize(left.size() / 2))
    for (size_t i = 0; i < left.size() / 2; ++i)
      left[i] = emitJoin(b, node.reduction, left[i], left[i + left.size() / 2]);
  setNumber(root.node, joinLanes(node.reduction, left.front()));
}

void PhaseEmitter::emitPass(const Pass &pass, Value begin, Value end) {
  // What has equally many columns is walked over together.
  llvm::MapVector<int64_t, SmallVector<Root>> groups;
  auto add = [&](Root::Use use, NodeId node, NodeId value, int64_t columns, unsigned store = 0) {
    groups[columns].push_back({use, node, value, store});
    prepare(value);
  };
  if (isSecondWalk)
    for (NodeId id : prefetched)
      prepare(id);
  for (NodeId id : pass.reductions) {
    NodeId value = program.nodes[id].operands[0];
    add(Root::Use::Reduce, id, value, program.nodes[value].columns);
  }
  for (NodeId id : pass.keeps)
    add(Root::Use::Keep, id, id, program.nodes[id].columns);
  for (NodeId id : pass.rowReductions)
    add(Root::Use::AddToRows, id, program.nodes[id].operands[0], program.nodes[id].columns);
  for (unsigned index : pass.stores) {
    const Store &store = program.stores[index];
    prepare(store);
    add(Root::Use::Store, store.value, store.value, store.columns, index);
  }
  for (auto &[columns, roots] : groups) {
    lanes = std::min<int64_t>(target.lanes, llvm::PowerOf2Ceil(columns));
    unsigned unroll = chooseUnroll(roots);
    SmallVector<Accumulators> accumulators;
    for (const Root &root : roots)
      if (root.use == Root::Use::Reduce) {
        const Node &node = program.nodes[root.node];
        accumulators.push_back(
            Accumulators(unroll, emitIdentity(b, node.reduction, node.type, lanes)));
      }
    if (!phase.isOverRows) {
      // A window has fewer columns than there are.
      Value bound = i64(columns);
      Range range{arith::MinSIOp::create(b, begin, bound), arith::MinSIOp::create(b, end, bound), 0,
                  columns, false};
      emitRange(roots, range, unroll, accumulators);
    } else {
      SmallVector<NodeId> values =
          llvm::map_to_vector(roots, [](const Root &root) { return root.value; });
      SmallVector<int64_t> seams = findSeams(values, columns);
      seams.push_back(columns);
      int64_t low = 0;
      for (int64_t seam : seams) {
        emitRange(roots, {i64(low), i64(seam), low, seam, true}, unroll, accumulators);
        low = seam;
      }
    }
    beginBlock({});
    unsigned index = 0;
    for (const Root &root : roots)
      if (root.use == Root::Use::Reduce)
        finishReduction(root, accumulators[index++]);
  }
}

void PhaseEmitter::emitRow(Value row, Value begin, Value end) {
  beginRow(row);
  for (auto [index, pass] : llvm::enumerate(phase.passes)) {
    beginPass(index);
    isSecondWalk = index == 1;
    emitPass(pass, begin, end);
  }
  beginPass(phase.passes.size());
  beginBlock({});
  for (NodeId id : phase.scalarReductions) {
    Value base = getPartials(id, chunk), zero = i64(0);
    const Node &node = program.nodes[id];
    Value old = loadPlain(base, node.type, zero);
    storePlain(emitJoin(b, node.reduction, old, getNumber(node.operands[0])), base, zero);
  }
  if (phase.rowStores.empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  if (!phase.isOverRows && phase.chunks > 1) {
    // One of the chunks.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, chunk, i64(0));
    auto once = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    b.setInsertionPointToStart(once.thenBlock());
  }
  for (unsigned index : phase.rowStores)
    store(program.stores[index], getNumber(program.stores[index].value));
}

void PhaseEmitter::emit(ModuleOp module, llvm::StringRef name) {
  MLIRContext *context = b.getContext();
  b.setInsertionPointToEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {pointer, b.getI64Type(), pointer, pointer});
  auto function = LLVM::LLVMFuncOp::create(b, name, type);
  // Registers as wide as the target has.
  std::string bits = std::to_string(target.lanes * 32);
  auto option = [&](StringRef key) { return b.getStrArrayAttr({key, bits}); };
  function.setPassthroughAttr(
      b.getArrayAttr({option("min-legal-vector-width"), option("prefer-vector-width"),
                      b.getStringAttr("nounwind")}));
  b.setInsertionPointToStart(function.addEntryBlock(b));
  chunk = function.getArgument(1);
  scratch = function.getArgument(2);
  partials = function.getArgument(3);
  for (unsigned i = 0; i < program.tensors.size(); ++i)
    tensors.push_back(
        LLVM::LoadOp::create(b, pointer, getElement(function.getArgument(0), pointer, i64(i)), 8));

  if (!phase.isFinish)
    clearPartials();
  beginPhase(phase);
  findPrefetched();
  int64_t size = !phase.isOverRows ? program.columns : phase.isFinish ? 1 : program.rows();
  Value begin = arith::MulIOp::create(b, chunk, i64(phase.step));
  Value end = arith::MinSIOp::create(b, addOffset(begin, phase.step), i64(size));
  if (phase.isOverRows) {
    auto rows = scf::ForOp::create(b, begin, end, i64(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rows.getBody());
    emitRow(rows.getInductionVar(), {}, {});
  } else {
    emitRow(i64(0), begin, end);
  }
  LLVM::ReturnOp::create(b, ValueRange());
}

void cleave::kernels::emitCpuKernel(ModuleOp module, const RowProgram &program,
                                    const KernelPlan &plan, ArrayRef<std::string> entries,
                                    const CpuTarget &target) {
  ImplicitLocOpBuilder b(module.getLoc(), module.getContext());
  for (auto [phase, entry] : llvm::zip(plan.phases, entries))
    PhaseEmitter(b, program, plan, phase, target).emit(module, entry);
}
