//===- Evaluator.cpp - emitting the values of a row program ------------------===//

#include "lib/kernels/cpu/Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace cleave::kernels;

Value Evaluator::i64(int64_t number) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(number));
}

Value Evaluator::addOffset(Value index, int64_t offset) {
  return offset == 0 ? index : arith::AddIOp::create(b, index, i64(offset));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value Evaluator::getElement(Value base, Type element, Value index) {
  return LLVM::GEPOp::create(b, base.getType(), element, base, LLVM::GEPArg(index));
}

static unsigned alignmentOf(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

Value Evaluator::loadMemory(Value base, Type element, Value index) {
  Value address = getElement(base, element, index);
  unsigned alignment = alignmentOf(element);
  if (!block.lanes)
    return LLVM::LoadOp::create(b, element, address, alignment);
  auto type = VectorType::get({block.lanes}, element);
  if (!block.mask)
    return LLVM::LoadOp::create(b, type, address, alignment);
  // Masked loads of halves are few machines' own.
  auto integers = VectorType::get({block.lanes}, b.getIntegerType(element.getIntOrFloatBitWidth()));
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(integers));
  Value loaded = LLVM::MaskedLoadOp::create(b, integers, address, block.mask, zeros, alignment);
  return element.isInteger() ? loaded : arith::BitcastOp::create(b, type, loaded).getResult();
}

void Evaluator::storeMemory(Value value, Value base, Value index) {
  Type element = getElementTypeOrSelf(value.getType());
  Value address = getElement(base, element, index);
  unsigned alignment = alignmentOf(element);
  if (!block.mask) {
    LLVM::StoreOp::create(b, value, address, alignment);
    return;
  }
  if (!element.isInteger()) {
    Type integer = b.getIntegerType(element.getIntOrFloatBitWidth());
    value = arith::BitcastOp::create(b, VectorType::get({block.lanes}, integer), value);
  }
  LLVM::MaskedStoreOp::create(b, value, address, block.mask, alignment);
}

static Type getPlainType(MLIRContext *context, ComputeType type) {
  return type == ComputeType::I1 ? IntegerType::get(context, 8) : getValueType(context, type);
}

Value Evaluator::loadPlain(Value base, ComputeType type, Value index) {
  Value loaded = loadMemory(base, getPlainType(b.getContext(), type), index);
  return type == ComputeType::I1 ? emitFromMemory(b, loaded, b.getI1Type()) : loaded;
}

void Evaluator::storePlain(Value value, Value base, Value index) {
  if (getElementTypeOrSelf(value.getType()).isInteger(1))
    value = emitToMemory(b, value, b.getI1Type());
  storeMemory(value, base, index);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void Evaluator::beginRow(Value row) {
  this->row = row;
  numbers.clear();
  coordinates.clear();
  offsets.clear();
  block = {};
  values.clear();
  spreads.clear();
  prepared.clear();
}

void Evaluator::beginBlock(const ColumnBlock &block) {
  this->block = block;
  values.clear();
  spreads.clear();
}

/// Coordinate `dim` of the row: what is left of it when those below are divided off, and those
/// above taken away.
Value Evaluator::getCoordinate(unsigned dim) {
  Value &coordinate = coordinates[dim];
  if (coordinate)
    return coordinate;
  int64_t below = 1;
  for (unsigned lower = dim + 1; lower < program.rowShape.size(); ++lower)
    below *= program.rowShape[lower];
  Value quotient = below == 1 ? row : arith::DivUIOp::create(b, row, i64(below)).getResult();
  if (dim != 0)
    quotient = arith::RemUIOp::create(b, quotient, i64(program.rowShape[dim]));
  return coordinate = quotient;
}

std::optional<int64_t> Evaluator::getRowStride(const Access &access) const {
  int64_t stride = 0, below = 1;
  for (size_t dim = program.rowShape.size(); dim-- > 0; below *= program.rowShape[dim]) {
    if (program.rowShape[dim] == 1)
      continue;
    if (stride == 0)
      stride = access.rowStrides[dim];
    if (stride == 0 || access.rowStrides[dim] != stride * below)
      return std::nullopt;
  }
  return stride;
}

void Evaluator::prefetchNextRow(NodeId id, unsigned locality) {
  const Access &access = program.nodes[id].access;
  Value index = addOffset(getIndex(access, 0), *getRowStride(access));
  Type element = getMemoryType(b.getContext(), program.tensors[access.tensor]);
  LLVM::Prefetch::create(b, getElement(getTensor(access.tensor), element, index), /*rw=*/0,
                         locality, /*cache=*/1);
}

Value Evaluator::getRowOffset(const Access &access) {
  for (const auto &[known, value] : offsets)
    if (known.rowStrides == access.rowStrides && known.offset == access.offset)
      return value;
  Value offset;
  bool isConstant = llvm::all_of(llvm::zip(program.rowShape, access.rowStrides), [](auto dim) {
    return std::get<0>(dim) == 1 || std::get<1>(dim) == 0;
  });
  std::optional<int64_t> stride = getRowStride(access);
  if (isConstant) {
    offset = i64(0);
  } else if (stride) {
    // One product where the tensor's rows follow each other as the program's do.
    offset = arith::MulIOp::create(b, row, i64(*stride));
  } else {
    for (unsigned dim = 0; dim < program.rowShape.size(); ++dim) {
      if (program.rowShape[dim] == 1 || access.rowStrides[dim] == 0)
        continue;
      Value term = arith::MulIOp::create(b, getCoordinate(dim), i64(access.rowStrides[dim]));
      offset = offset ? arith::AddIOp::create(b, offset, term).getResult() : term;
    }
  }
  offset = addOffset(offset, access.offset);
  offsets.push_back({access, offset});
  return offset;
}

Value Evaluator::getIndex(const Access &access, int64_t shift) {
  Value offset = getRowOffset(access);
  if (access.columnStride == 0)
    return offset;
  return arith::AddIOp::create(b, offset, addOffset(block.column, shift));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool Evaluator::isInvariant(NodeId id) const {
  const Node &node = program.nodes[id];
  if (node.columns || node.rowDims)
    return false;
  switch (node.kind) {
  case Node::Kind::Load:
  case Node::Kind::Constant:
    return true;
  case Node::Kind::Map:
    return llvm::all_of(node.operands, [&](NodeId operand) { return isInvariant(operand); });
  default:
    return false;
  }
}

void Evaluator::beginPhase(const Phase &phase) {
  isFinish = phase.isFinish;
  std::vector<bool> needed(program.nodes.size());
  for (const Pass &pass : phase.passes) {
    for (NodeId id : llvm::concat<const NodeId>(pass.reductions, pass.rowReductions))
      needed[id] = true;
    for (unsigned store : pass.stores)
      needed[program.stores[store].value] = true;
  }
  for (unsigned store : phase.rowStores)
    needed[program.stores[store].value] = true;
  for (NodeId id : phase.scalarReductions)
    needed[id] = true;
  for (NodeId id = program.nodes.size(); id-- > 0;)
    if (needed[id] && !(phase.isFinish && program.nodes[id].kind == Node::Kind::ReduceRows))
      for (NodeId operand : program.nodes[id].operands)
        needed[operand] = true;
  invariants.clear();
  numbers.clear();
  for (NodeId id = 0; id < program.nodes.size(); ++id)
    if (needed[id] && isInvariant(id)) {
      Value value = getNumber(id);
      invariants[id] = value;
    }
}

Value Evaluator::getNumber(NodeId id) {
  if (Value known = invariants.lookup(id))
    return known;
  if (Value known = numbers.lookup(id))
    return known;
  const Node &node = program.nodes[id];
  ColumnBlock outer = std::exchange(block, {});
  Value value;
  switch (node.kind) {
  case Node::Kind::Load: {
    Type dtype = program.tensors[node.access.tensor];
    Value loaded = loadMemory(getTensor(node.access.tensor), getMemoryType(b.getContext(), dtype),
                              getRowOffset(node.access));
    value = emitFromMemory(b, loaded, dtype);
    break;
  }
  case Node::Kind::Constant:
    value = emitConstant(b, node);
    break;
  case Node::Kind::Map: {
    SmallVector<Value, 3> operands;
    for (NodeId operand : node.operands)
      operands.push_back(getNumber(operand));
    value = emitFunction(b, node, operands);
    break;
  }
  case Node::Kind::ReduceRows:
    value = sumPartials(id, {});
    break;
  case Node::Kind::Gather: {
    prepare(node.operands[0]);
    Value column = getNumber(node.operands[1]);
    if (column.getType() != b.getI64Type())
      column = arith::ExtSIOp::create(b, b.getI64Type(), column);
    auto values = std::exchange(this->values, decltype(this->values)());
    auto spreads = std::exchange(this->spreads, decltype(this->spreads)());
    block.column = column;
    block.high = program.nodes[node.operands[0]].columns;
    value = get(node.operands[0]);
    this->values = std::move(values);
    this->spreads = std::move(spreads);
    break;
  }
  default:
    // Reductions along rows are set by who walks over them.
    llvm_unreachable("a reduction is not known yet");
  }
  block = outer;
  return numbers[id] = value;
}

const Kept *Evaluator::findKept(NodeId id) const {
  auto it = plan.kept.find(id);
  return it != plan.kept.end() && !isFinish && it->second.pass < currentPass ? &it->second
                                                                             : nullptr;
}

void Evaluator::prepare(NodeId id) {
  const Node &node = program.nodes[id];
  if (node.columns == 0) {
    getNumber(id);
    return;
  }
  if (node.kind == Node::Kind::ReduceRows || !prepared.insert(id).second)
    return;
  if (const Kept *kept = findKept(id)) {
    if (!kept->scratch)
      prepare(program.stores[kept->store]);
    return;
  }
  if (node.kind == Node::Kind::Load)
    getRowOffset(node.access);
  for (NodeId operand : node.operands)
    prepare(operand);
}

Value Evaluator::spread(Value number) {
  if (!block.lanes)
    return number;
  return vector::BroadcastOp::create(b, VectorType::get({block.lanes}, number.getType()), number);
}

Value Evaluator::getColumns(IntegerType type, int64_t shift) {
  Value column = addOffset(block.column, shift);
  if (type.getWidth() < 64)
    column = arith::TruncIOp::create(b, type, column);
  Value first = spread(column);
  if (!block.lanes)
    return first;
  auto vector = cast<VectorType>(first.getType());
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < block.lanes; ++lane)
    steps.push_back(b.getIntegerAttr(type, lane));
  Value lanes = arith::ConstantOp::create(b, DenseElementsAttr::get(vector, steps));
  return arith::AddIOp::create(b, first, lanes);
}

/// The column beside a number of the row, as losses compare it with the row's class: in 32 bits,
/// which are half as many vectors. The number is brought into the range of columns first, or just
/// beyond it.
Value Evaluator::compareColumns(const Node &node, int64_t shift) {
  if (!block.lanes || node.function < Function::Equal || node.function > Function::GreaterEqual)
    return {};
  const Node &left = program.nodes[node.operands[0]], &right = program.nodes[node.operands[1]];
  if (left.kind != Node::Kind::ColumnIndex || right.columns != 0 ||
      left.columns >= std::numeric_limits<int32_t>::max() - block.lanes)
    return {};
  Value number = getNumber(node.operands[1]);
  number = arith::MaxSIOp::create(b, number, i64(-1));
  number = arith::MinSIOp::create(b, number, i64(left.columns));
  Value bound = arith::TruncIOp::create(b, b.getI32Type(), number);
  return emitFunction(b, node, {getColumns(b.getI32Type(), shift), spread(bound)});
}

Value Evaluator::get(NodeId id, int64_t shift) {
  const Node &node = program.nodes[id];
  if (node.columns == 0) {
    if (node.kind == Node::Kind::Constant)
      return emitConstant(b, node, block.lanes);
    Value number = getNumber(id);
    Value &known = spreads[id];
    return known ? known : known = spread(number);
  }
  auto key = std::pair(id, shift);
  if (Value known = values.lookup(key))
    return known;
  Value value = emit(id, shift);
  values[key] = value;
  return value;
}

Value Evaluator::emit(NodeId id, int64_t shift) {
  const Node &node = program.nodes[id];
  if (const Kept *kept = findKept(id)) {
    if (kept->scratch)
      return loadPlain(getScratch(*kept), node.type, addOffset(block.column, shift));
    const Access &access = program.stores[kept->store].access;
    return loadPlain(getTensor(access.tensor), node.type, getIndex(access, shift));
  }
  switch (node.kind) {
  case Node::Kind::Load: {
    Type dtype = program.tensors[node.access.tensor];
    Value loaded = loadMemory(getTensor(node.access.tensor), getMemoryType(b.getContext(), dtype),
                              getIndex(node.access, shift));
    return emitFromMemory(b, loaded, dtype);
  }
  case Node::Kind::ColumnIndex:
    return getColumns(b.getI64Type(), shift);
  case Node::Kind::Map: {
    if (Value compared = compareColumns(node, shift))
      return compared;
    SmallVector<Value, 3> operands;
    for (NodeId operand : node.operands)
      operands.push_back(get(operand, shift));
    return emitFunction(b, node, operands);
  }
  case Node::Kind::ReduceRows:
    return sumPartials(id, addOffset(block.column, shift));
  case Node::Kind::Slice:
    return get(node.operands[0], shift + node.start);
  case Node::Kind::Concat: {
    int64_t first = 0;
    for (auto [operand, width] : llvm::zip(node.operands, node.widths)) {
      if (block.low + shift < first + width)
        return get(operand, shift - first);
      first += width;
    }
    break;
  }
  default:
    break;
  }
  llvm_unreachable("a number where columns are");
}

SmallVector<int64_t> Evaluator::findSeams(ArrayRef<NodeId> nodes, int64_t columns) const {
  SmallVector<int64_t> seams;
  llvm::DenseSet<std::pair<NodeId, int64_t>> seen;
  SmallVector<std::pair<NodeId, int64_t>> waiting;
  for (NodeId node : nodes)
    waiting.push_back({node, 0});
  while (!waiting.empty()) {
    auto [id, shift] = waiting.pop_back_val();
    const Node &node = program.nodes[id];
    if (node.columns == 0 || node.kind == Node::Kind::ReduceRows ||
        !seen.insert({id, shift}).second)
      continue;
    int64_t first = node.kind == Node::Kind::Slice ? -node.start : 0;
    for (auto [index, operand] : llvm::enumerate(node.operands)) {
      waiting.push_back({operand, shift - first});
      if (node.kind != Node::Kind::Concat)
        continue;
      first += node.widths[index];
      if (int64_t seam = first - shift; seam > 0 && seam < columns)
        seams.push_back(seam);
    }
  }
  llvm::sort(seams);
  seams.erase(llvm::unique(seams), seams.end());
  return seams;
}

void Evaluator::store(const Store &store, Value value) {
  Value memory = emitToMemory(b, value, program.tensors[store.access.tensor]);
  Value index = store.columns ? getIndex(store.access, 0) : getRowOffset(store.access);
  storeMemory(memory, getTensor(store.access.tensor), index);
}

void Evaluator::keep(NodeId id, Value value) {
  storePlain(value, getScratch(plan.kept.find(id)->second), block.column);
}
