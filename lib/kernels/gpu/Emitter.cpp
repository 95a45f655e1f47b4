//===- Emitter.cpp - memory and control of a GPU function -------------------------------===//

#include "lib/kernels/gpu/Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;

// Address spaces of NVPTX.
static constexpr unsigned kGlobal = 1, kShared = 3;

PhaseEmitter::PhaseEmitter(const RowProgram &program, const Plan &plan, ModuleOp module,
                           llvm::StringRef entry, unsigned threads, unsigned minBlocks)
    : program(program), plan(plan), module(module),
      b(UnknownLoc::get(module.getContext()), module.getBodyRegion()), scalars(b, module),
      threads(threads) {
  b.setInsertionPointToEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobal);
  SmallVector<Type> arguments(program.tensors.size() + 1, pointer);
  Type none = LLVM::LLVMVoidType::get(b.getContext());
  shared = LLVM::GlobalOp::create(
      b, LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false, LLVM::Linkage::Internal,
      ("shared$" + entry).str(), Attribute(), /*alignment=*/16, kShared);
  function = LLVM::LLVMFuncOp::create(b, entry, LLVM::LLVMFunctionType::get(none, arguments));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    b.getDenseI32ArrayAttr({int32_t(threads)}));
  // How many blocks a multiprocessor has at least, from which follows how many registers a thread
  // may have. Left alone, ptxas would rather spill a few than have fewer threads at a time.
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(minBlocks));
  b.setInsertionPointToStart(function.addEntryBlock(b));
  thread = NVVM::ThreadIdXOp::create(b, b.getI32Type());
  block = NVVM::BlockIdXOp::create(b, b.getI32Type());
  sharedBase = LLVM::AddressOfOp::create(b, shared);
  int64_t maximum = program.columns;
  for (const Node &node : program.nodes)
    maximum = std::max(maximum, node.columns);
  indexType = maximum < (int64_t(1) << 30) ? b.getI32Type() : b.getI64Type();
}

void PhaseEmitter::finishFunction() {
  LLVM::ReturnOp::create(b, ValueRange());
  if (sharedBytes == 0) {
    sharedBase.getDefiningOp()->erase();
    shared.erase();
    return;
  }
  shared.setGlobalType(LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes));
}

Value PhaseEmitter::indexConstant(int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(indexType, value));
}

Value PhaseEmitter::allocateShared(unsigned bytes) {
  sharedBytes = llvm::alignTo(sharedBytes, 16);
  Value pointer = offsetPointer(sharedBase, b.getI8Type(), sharedBytes);
  sharedBytes += bytes;
  return pointer;
}

Value PhaseEmitter::offsetPointer(Value pointer, Type element, Value index) {
  return LLVM::GEPOp::create(b, pointer.getType(), element, pointer, ArrayRef<LLVM::GEPArg>{index});
}

Value PhaseEmitter::offsetPointer(Value pointer, Type element, int64_t index) {
  return index == 0 ? pointer : offsetPointer(pointer, element, scalars.i64(index));
}

static unsigned bytesOf(Type type) {
  return type.getIntOrFloatBitWidth() / 8;
}

/// How many elements one instruction moves: 16 bytes at most, and as the address allows.
static unsigned widthOf(Type element, unsigned lanes, unsigned aligned) {
  return std::min({lanes, aligned, 16 / bytesOf(element)});
}

Lanes PhaseEmitter::loadLanes(Value pointer, Type element, unsigned lanes, unsigned aligned) {
  Lanes values;
  unsigned width = widthOf(element, lanes, aligned);
  for (unsigned lane = 0; lane < lanes; lane += width) {
    Value from = offsetPointer(pointer, element, lane);
    Type type = width == 1 ? element : Type(VectorType::get({width}, element));
    Value loaded = LLVM::LoadOp::create(b, type, from, width * bytesOf(element));
    for (unsigned i = 0; i < width; ++i)
      values.push_back(width == 1 ? loaded
                                  : LLVM::ExtractElementOp::create(b, loaded, scalars.i32(i)));
  }
  return values;
}

void PhaseEmitter::storeLanes(Value pointer, ValueRange values, unsigned aligned) {
  Type element = values.front().getType();
  unsigned width = widthOf(element, values.size(), aligned);
  for (unsigned lane = 0; lane < values.size(); lane += width) {
    Value stored = values[lane];
    if (width > 1) {
      stored = LLVM::PoisonOp::create(b, VectorType::get({width}, element));
      for (unsigned i = 0; i < width; ++i)
        stored = LLVM::InsertElementOp::create(b, stored, values[lane + i], scalars.i32(i));
    }
    LLVM::StoreOp::create(b, stored, offsetPointer(pointer, element, lane),
                          width * bytesOf(element));
  }
}

void PhaseEmitter::barrier() {
  NVVM::Barrier0Op::create(b);
}

Value PhaseEmitter::partialPointer(NodeId sum, Value part) {
  const SumPlace &place = plan.places.at(sum);
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), part);
  Value offset = arith::MulIOp::create(b, wide, scalars.i64(place.stride));
  return offsetPointer(offsetPointer(partials(), b.getI8Type(), place.partial), b.getI8Type(),
                       offset);
}

Value PhaseEmitter::finalPointer(NodeId sum) {
  return offsetPointer(partials(), b.getI8Type(), plan.places.at(sum).final);
}

/// Where the tensor's part of the current row begins.
Value PhaseEmitter::rowPointer(const Access &access) {
  Type element = scalars.getStorageType(program.tensors[access.tensor]);
  Value pointer = offsetPointer(tensor(access.tensor), element, access.offset);
  for (auto [coordinate, stride] : llvm::zip(coordinates, access.rowStrides)) {
    if (!coordinate || stride == 0)
      continue;
    Value wide = coordinate;
    if (!wide.getType().isInteger(64))
      wide = arith::ExtUIOp::create(b, b.getI64Type(), wide);
    pointer = offsetPointer(pointer, element, arith::MulIOp::create(b, wide, scalars.i64(stride)));
  }
  return pointer;
}

unsigned PhaseEmitter::alignmentOf(const Access &access, const Column &column) const {
  int64_t aligned = column.lanes;
  aligned = std::gcd(aligned, column.shift);
  aligned = std::gcd(aligned, access.offset);
  for (auto [size, stride] : llvm::zip(program.rowShape, access.rowStrides))
    if (size > 1)
      aligned = std::gcd(aligned, stride);
  return aligned;
}

void PhaseEmitter::emitStore(unsigned index, Value pointer, const Column &column) {
  const Store &store = program.stores[index];
  Type dtype = program.tensors[store.access.tensor];
  Lanes values = emit(store.value, column);
  for (Value &value : values)
    value = scalars.toStorage(value, node(store.value).type, dtype);
  auto write = [&] {
    Type element = scalars.getStorageType(dtype);
    Value to = offsetPointer(pointer, element, column.index);
    storeLanes(to, values, alignmentOf(store.access, column));
  };
  forThen(column.valid, write);
}

//===----------------------------------------------------------------------===//
// Reductions over threads
//===----------------------------------------------------------------------===//

Value PhaseEmitter::shuffle(Value value, unsigned distance) {
  Type type = value.getType();
  auto exchange = [&](Value word) {
    return Value(NVVM::ShflOp::create(b, word.getType(), scalars.i32(-1), word,
                                      scalars.i32(distance), scalars.i32(31), NVVM::ShflKind::bfly,
                                      UnitAttr()));
  };
  if (type.isF32() || type.isInteger(32))
    return exchange(value);
  // Two words.
  Type words = VectorType::get({2}, b.getI32Type());
  Value both = LLVM::BitcastOp::create(b, words, value);
  for (unsigned i : {0, 1}) {
    Value word = LLVM::ExtractElementOp::create(b, both, scalars.i32(i));
    both = LLVM::InsertElementOp::create(b, both, exchange(word), scalars.i32(i));
  }
  return LLVM::BitcastOp::create(b, type, both);
}

Value PhaseEmitter::reduceLanes(Value value, RowReduction reduction, ComputeType type,
                                unsigned lanes) {
  for (unsigned distance = lanes / 2; distance >= 1; distance /= 2)
    value = scalars.combine(reduction, type, value, shuffle(value, distance));
  return value;
}

void PhaseEmitter::reduceGroups(MutableArrayRef<Term> terms, unsigned lanes, Value second) {
  for (Term &term : terms)
    term.value = reduceLanes(term.value, term.reduction, term.type, std::min(lanes, 32u));
  if (lanes <= 32)
    return;
  unsigned warps = threads / 32;
  Value lane = arith::AndIOp::create(b, thread, scalars.i32(31));
  Value warp = arith::ShRUIOp::create(b, thread, scalars.i32(5));
  SmallVector<Value> buffers;
  for (Term &term : terms) {
    unsigned bytes = warps * sizeOfPartial(term.type);
    Value buffer = allocateShared(second ? 2 * llvm::alignTo(bytes, 16) : bytes);
    if (second) {
      Value other = offsetPointer(buffer, b.getI8Type(), llvm::alignTo(bytes, 16));
      buffer = arith::SelectOp::create(b, second, other, buffer);
    }
    buffers.push_back(buffer);
  }
  Value isFirst = compareIndex(false, lane, 0);
  forThen(isFirst, [&] {
    for (auto [term, buffer] : llvm::zip(terms, buffers))
      LLVM::StoreOp::create(b, term.value, offsetPointer(buffer, term.value.getType(), warp));
  });
  barrier();
  // Each warp adds up what all of them have left.
  unsigned lanesOfWarps = llvm::PowerOf2Ceil(warps);
  Value from = arith::AndIOp::create(b, lane, scalars.i32(lanesOfWarps - 1));
  Value exists;
  if (warps != lanesOfWarps) {
    exists = compareIndex(true, from, warps);
    from = arith::SelectOp::create(b, exists, from, scalars.i32(0));
  }
  for (auto [term, buffer] : llvm::zip(terms, buffers)) {
    Type type = term.value.getType();
    Value value = LLVM::LoadOp::create(b, type, offsetPointer(buffer, type, from));
    if (exists)
      value = arith::SelectOp::create(b, exists, value, scalars.neutral(term.reduction, term.type));
    term.value = reduceLanes(value, term.reduction, term.type, lanesOfWarps);
  }
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void PhaseEmitter::forThen(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

Value PhaseEmitter::conjunction(Value x, Value y) {
  return !x ? y : !y ? x : Value(arith::AndIOp::create(b, x, y));
}

/// value < bound, or value == bound.
Value PhaseEmitter::compareIndex(bool below, Value value, int64_t bound) {
  auto predicate = below ? arith::CmpIPredicate::slt : arith::CmpIPredicate::eq;
  Value limit = arith::ConstantOp::create(b, b.getIntegerAttr(value.getType(), bound));
  return arith::CmpIOp::create(b, predicate, value, limit);
}

void cleave::kernels::gpu::emitKernel(const RowProgram &program, const Plan &plan,
                                      ModuleOp module) {
  for (const Plan::Phase &phase : plan.phases)
    if (phase.rows)
      emitRowPhase(program, plan, *phase.rows, module);
    else
      emitFinishPhase(program, plan, *phase.finish, module);
}
