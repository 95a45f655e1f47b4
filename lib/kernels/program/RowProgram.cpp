//===- RowProgram.cpp - the row program of a kernel --------------------------===//

#include "lib/kernels/program/RowProgram.h"
#include "lib/kernels/program/ProgramBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

std::optional<ComputeType> kernels::getComputeType(Type dtype) {
  if (dtype.isF32() || dtype.isF16() || dtype.isBF16())
    return ComputeType::F32;
  if (dtype.isF64())
    return ComputeType::F64;
  if (dtype.isInteger(1))
    return ComputeType::I1;
  if (dtype.isInteger(64))
    return ComputeType::I64;
  if (dtype.isInteger(32) || dtype.isInteger(16) || dtype.isInteger(8))
    return ComputeType::I32;
  return std::nullopt;
}

int64_t RowProgram::rows() const {
  return llvm::product_of(rowShape);
}

namespace {
class Translation {
public:
  Translation(exec::KernelOp kernel, RowProgram &program, Unsupported &why)
      : kernel(kernel), program(program), builder(program), why(why) {}

  LogicalResult run();

private:
  LogicalResult findLayout();
  LogicalResult translate(Operation *op);
  LogicalResult store(Value value, unsigned result);
  NodeId use(Value value);
  Access accessOf(unsigned tensor, const RowLayout &tensorAccess) const;
  LogicalResult refuse(Operation *op, const Twine &reason) {
    why = {op, reason.str()};
    return failure();
  }
  /// Which coordinates of the row the tensor has.
  static uint32_t rowDimsOf(const RowLayout &access) {
    uint32_t dims = 0;
    for (auto [dim, stride] : llvm::enumerate(access.rowStrides))
      dims |= uint32_t(stride != 0) << dim;
    return dims;
  }

  exec::KernelOp kernel;
  RowProgram &program;
  ProgramBuilder builder;
  Unsupported &why;
  KernelLayout layout;
  llvm::DenseMap<Value, NodeId> made;
};
} // namespace

LogicalResult Translation::findLayout() {
  Block &body = kernel.getBody().front();
  std::optional<KernelLayout> found = analyzeKernel(body);
  if (!found)
    return refuse(&body.front(), "and the kernel's other ops have no rows in common");
  // A mask has a bit for each.
  if (found->rowFactors.size() > 32)
    return refuse(&body.front(), "has rows of too many dimensions");
  layout = std::move(*found);
  program.rowShape.assign(layout.rowFactors.begin(), layout.rowFactors.end());
  if (program.rowShape.empty())
    program.rowShape = {1};
  program.columns = layout.columns;
  return success();
}

Access Translation::accessOf(unsigned tensor, const RowLayout &tensorAccess) const {
  Access access;
  access.tensor = tensor;
  access.columnStride = tensorAccess.hasColumns();
  access.rowStrides.assign(tensorAccess.rowStrides.begin(), tensorAccess.rowStrides.end());
  access.rowStrides.resize(program.rowShape.size());
  return access;
}

NodeId Translation::use(Value value) {
  if (auto it = made.find(value); it != made.end())
    return it->second;
  auto argument = cast<BlockArgument>(value);
  Type dtype = cast<RankedTensorType>(value.getType()).getElementType();
  const RowLayout &access = layout.values.at(value);
  return builder.load(accessOf(argument.getArgNumber(), access), *getComputeType(dtype),
                      rowDimsOf(access), access.hasColumns() ? access.columns : 0);
}

LogicalResult Translation::translate(Operation *op) {
  OpDecomposer decomposer(builder, op, layout);
  for (Value operand : op->getOperands()) {
    if (operand.getDefiningOp() && !made.contains(operand))
      return refuse(op, "takes a result that the code generator does not compute");
    decomposer.operands.push_back(use(operand));
  }
  decomposer.results.resize(op->getNumResults());
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type dtype = tensor ? tensor.getElementType() : Type();
    // They would have to wrap around in each step.
    if (dtype && (dtype.isInteger(8) || dtype.isInteger(16)))
      return refuse(op, "computes 8- or 16-bit integers");
    decomposer.resultTypes.push_back(dtype ? *getComputeType(dtype) : ComputeType::F32);
  }
  Decomposition decompose = getDecompositions().find(op);
  if (!decompose)
    return refuse(op, "is not known to the code generator");
  if (failed(decompose(decomposer)))
    return refuse(op, decomposer.reason);
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (decomposer.results[i])
      made[result] = *decomposer.results[i];
  return success();
}

LogicalResult Translation::store(Value value, unsigned result) {
  auto it = made.find(value);
  Operation *op = kernel.getBody().front().getTerminator();
  if (it == made.end())
    return refuse(op, "returns a value that none of its ops computes");
  NodeId node = it->second;
  const RowLayout &access = layout.values.at(value);
  Store store;
  store.value = node;
  store.access = accessOf(program.numArguments + result, access);
  store.columns = access.hasColumns() ? access.columns : 0;
  store.rowDims = rowDimsOf(access);
  if (store.rowDims != 0 && builder[node].stage > 0)
    return refuse(op, "needs a sum over all rows for each row");
  program.stores.push_back(std::move(store));
  return success();
}

LogicalResult Translation::run() {
  program.name = kernel.getSymName().str();
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(), kernel.getResultTypes())) {
    Type dtype = cast<RankedTensorType>(type).getElementType();
    if (!getComputeType(dtype)) {
      why.reason = "tensors of an unsupported element type";
      return failure();
    }
    program.tensors.push_back(dtype);
  }
  program.numArguments = kernel.getArgumentTypes().size();
  if (failed(findLayout()))
    return failure();
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (failed(translate(&op)))
      return failure();
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (failed(store(value, i)))
      return failure();
  // A value of each row that needs a sum over all of them would need a second walk.
  for (const Node &node : program.nodes)
    if (node.stage > 1 || (node.stage > 0 && node.rowDims != 0))
      return refuse(terminator, "needs a sum over all rows for each row");
  return success();
}

std::optional<RowProgram> kernels::buildRowProgram(exec::KernelOp kernel, Unsupported &why) {
  RowProgram program;
  if (failed(Translation(kernel, program, why).run()))
    return std::nullopt;
  return program;
}

bool kernels::hasFormula(Operation *op) {
  return getDecompositions().find(op) != nullptr;
}

//===----------------------------------------------------------------------===//
// Flat programs
//===----------------------------------------------------------------------===//

/// Whether the tensor's elements follow each other as the matrix' do, or it has one only.
static bool isDense(const RowProgram &program, const Access &access, int64_t columns) {
  if (columns == 0)
    return llvm::all_of(access.rowStrides, [](int64_t stride) { return stride == 0; });
  if (columns != program.columns || access.columnStride != 1)
    return false;
  int64_t expected = program.columns;
  for (size_t dim = program.rowShape.size(); dim-- > 0; expected *= program.rowShape[dim])
    if (program.rowShape[dim] != 1 && access.rowStrides[dim] != expected)
      return false;
  return true;
}

bool RowProgram::isFlat() const {
  for (const Node &node : nodes)
    switch (node.kind) {
    case Node::Kind::Load:
      if (!isDense(*this, node.access, node.columns))
        return false;
      break;
    case Node::Kind::Constant:
    case Node::Kind::Map:
      break;
    default:
      return false;
    }
  return llvm::all_of(stores, [&](const Store &store) {
    return store.columns != 0 && isDense(*this, store.access, store.columns);
  });
}

RowProgram kernels::flatten(RowProgram program) {
  if (!program.isFlat())
    return program;
  int64_t all = program.rows() * program.columns;
  auto flattenAccess = [&](Access &access) { access.rowStrides = {0}; };
  for (Node &node : program.nodes) {
    flattenAccess(node.access);
    node.rowDims = 0;
    if (node.columns)
      node.columns = all;
  }
  for (Store &store : program.stores) {
    flattenAccess(store.access);
    store.rowDims = 0;
    store.columns = all;
  }
  program.rowShape = {1};
  program.columns = all;
  return program;
}
