//===- Reference.cpp - what a row program means ------------------------------------------===//

#include "test/unit/lib/kernels/gpu/Reference.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>

using namespace cleave::gputest;
using namespace cleave::kernels;

Tensor::Tensor(mlir::Type dtype, int64_t size) : dtype(dtype), size(size) {
  storage.assign(size * elementBytes() / 8 + 9, 0);
  data = reinterpret_cast<uint8_t *>(storage.data());
  data += -uint64_t(data) % 64;
}

unsigned Tensor::elementBytes() const {
  return std::max(1u, dtype.getIntOrFloatBitWidth() / 8);
}

double Tensor::get(int64_t index) const {
  uint64_t bits = 0;
  std::memcpy(&bits, data + index * elementBytes(), elementBytes());
  if (auto type = mlir::dyn_cast<mlir::FloatType>(dtype))
    return llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits))
        .convertToDouble();
  unsigned width = 8 * elementBytes();
  if (dtype.isUnsignedInteger() || dtype.isInteger(1))
    return double(bits);
  return double(int64_t(bits << (64 - width)) >> (64 - width));
}

void Tensor::set(int64_t index, double value) {
  uint64_t bits = uint64_t(int64_t(value));
  if (auto type = mlir::dyn_cast<mlir::FloatType>(dtype)) {
    llvm::APFloat number(value);
    bool inexact;
    number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    bits = number.bitcastToAPInt().getZExtValue();
  }
  std::memcpy(data + index * elementBytes(), &bits, elementBytes());
}

static int64_t sizeOf(const RowProgram &program, const Access &access, int64_t columns) {
  int64_t last = access.offset + access.columnStride * std::max<int64_t>(0, columns - 1);
  for (auto [size, stride] : llvm::zip(program.rowShape, access.rowStrides))
    last += (size - 1) * stride;
  return last + 1;
}

std::vector<Tensor> cleave::gputest::makeTensors(const RowProgram &program, std::mt19937 &random) {
  std::vector<int64_t> sizes(program.tensors.size(), 1);
  auto see = [&](const Access &access, int64_t columns) {
    sizes[access.tensor] = std::max(sizes[access.tensor], sizeOf(program, access, columns));
  };
  int64_t columns = 0;
  for (const Node &node : program.nodes) {
    columns = std::max(columns, node.columns);
    if (node.kind == Node::Kind::Load)
      see(node.access, node.columns);
  }
  for (const Store &store : program.stores)
    see(store.access, store.columns);
  std::vector<Tensor> tensors;
  for (auto [index, size] : llvm::enumerate(sizes)) {
    Tensor &tensor = tensors.emplace_back(program.tensors[index], size);
    if (index >= program.numArguments)
      continue;
    // Some are variances or probabilities: never negative.
    bool isPositive = random() % 2;
    for (int64_t i = 0; i < size; ++i) {
      double number = 0.05 + 1.5 * (random() % 100001) / 100000.0;
      if (!mlir::isa<mlir::FloatType>(tensor.dtype))
        number =
            random() %
            (tensor.dtype.isInteger(1) ? 2 : std::min<int64_t>(100, std::max<int64_t>(2, columns)));
      else if (!isPositive && random() % 2)
        number = -number;
      tensor.set(i, number);
    }
  }
  return tensors;
}

namespace {
using Values = std::vector<double>;

class Evaluator {
public:
  Evaluator(const RowProgram &program, const std::vector<Tensor> &tensors)
      : program(program), tensors(tensors) {}

  /// Of one row.
  const Values &valueOf(NodeId id);
  void enterRow(int64_t row);
  int64_t indexOf(const Access &access) const;

  const RowProgram &program;
  const std::vector<Tensor> &tensors;
  std::vector<int64_t> coordinates;

private:
  Values compute(const Node &node);
  Values sumRows(NodeId id);
  double map(const Node &node, llvm::ArrayRef<double> x) const;
  int64_t row = 0;
  std::map<NodeId, Values> ofRow, ofAll;
};
} // namespace

void Evaluator::enterRow(int64_t number) {
  row = number;
  ofRow.clear();
  coordinates.resize(program.rowShape.size());
  for (size_t dim = program.rowShape.size(); dim-- > 0; number /= program.rowShape[dim])
    coordinates[dim] = number % program.rowShape[dim];
}

int64_t Evaluator::indexOf(const Access &access) const {
  int64_t index = access.offset;
  for (auto [coordinate, stride] : llvm::zip(coordinates, access.rowStrides))
    index += coordinate * stride;
  return index;
}

const Values &Evaluator::valueOf(NodeId id) {
  const Node &node = program.nodes[id];
  if (node.kind == Node::Kind::ReduceRows) {
    if (!ofAll.contains(id))
      ofAll[id] = sumRows(id);
    return ofAll[id];
  }
  if (auto it = ofRow.find(id); it != ofRow.end())
    return it->second;
  Values values = compute(node);
  return ofRow[id] = std::move(values);
}

Values Evaluator::sumRows(NodeId id) {
  const Node &node = program.nodes[id];
  Evaluator inner(program, tensors);
  inner.ofAll = ofAll;
  Values sums;
  for (int64_t number = 0; number < program.rows(); ++number) {
    inner.enterRow(number);
    const Values &values = inner.valueOf(node.operands[0]);
    if (number == 0)
      sums = values;
    else
      for (auto [sum, value] : llvm::zip(sums, values))
        sum = node.reduction == RowReduction::Sum ? sum + value : std::max(sum, value);
  }
  return sums;
}

double Evaluator::map(const Node &node, llvm::ArrayRef<double> x) const {
  auto roundTo = [&](const llvm::fltSemantics &semantics) {
    llvm::APFloat number(static_cast<float>(x[0]));
    bool inexact;
    number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
    return number.convertToDouble();
  };
  bool ofFloats = isFloat(program.nodes[node.operands.back()].type);
  switch (node.function) {
  case Function::Add:
    return x[0] + x[1];
  case Function::Sub:
    return x[0] - x[1];
  case Function::Mul:
    return x[0] * x[1];
  case Function::Div:
    return x[0] / x[1];
  case Function::Neg:
    return -x[0];
  case Function::Abs:
    return std::fabs(x[0]);
  case Function::Sqrt:
    return std::sqrt(x[0]);
  case Function::Exp:
    return std::exp(x[0]);
  case Function::Log:
    return std::log(x[0]);
  case Function::Log1p:
    return std::log1p(x[0]);
  case Function::Sin:
    return std::sin(x[0]);
  case Function::Cos:
    return std::cos(x[0]);
  case Function::Tanh:
    return std::tanh(x[0]);
  case Function::Erf:
    return std::erf(x[0]);
  case Function::Pow:
    return std::pow(x[0], x[1]);
  case Function::Maximum:
    return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::max(x[0], x[1]);
  case Function::Minimum:
    return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::min(x[0], x[1]);
  case Function::Equal:
    return x[0] == x[1];
  case Function::NotEqual:
    return x[0] != x[1];
  case Function::Less:
    return x[0] < x[1];
  case Function::LessEqual:
    return x[0] <= x[1];
  case Function::Greater:
    return x[0] > x[1];
  case Function::GreaterEqual:
    return x[0] >= x[1];
  case Function::And:
    return double(int64_t(x[0]) & int64_t(x[1]));
  case Function::Or:
    return double(int64_t(x[0]) | int64_t(x[1]));
  case Function::Xor:
    return double(int64_t(x[0]) ^ int64_t(x[1]));
  case Function::Select:
    return x[0] != 0 ? x[1] : x[2];
  case Function::Convert:
    if (node.type == ComputeType::I1)
      return x[0] != 0;
    return ofFloats && !isFloat(node.type) ? std::trunc(x[0]) : x[0];
  case Function::RoundBF16:
    return roundTo(llvm::APFloat::BFloat());
  case Function::RoundF16:
    return roundTo(llvm::APFloat::IEEEhalf());
  }
  return NAN;
}

Values Evaluator::compute(const Node &node) {
  Values result(std::max<int64_t>(1, node.columns));
  switch (node.kind) {
  case Node::Kind::Load:
    for (size_t column = 0; column < result.size(); ++column)
      result[column] = tensors[node.access.tensor].get(indexOf(node.access) +
                                                       int64_t(column) * node.access.columnStride);
    break;
  case Node::Kind::Constant:
    result[0] = isFloat(node.type) ? node.number : double(node.integer);
    break;
  case Node::Kind::ColumnIndex:
    for (size_t column = 0; column < result.size(); ++column)
      result[column] = double(column);
    break;
  case Node::Kind::Map: {
    std::vector<const Values *> operands;
    for (NodeId operand : node.operands)
      operands.push_back(&valueOf(operand));
    for (size_t column = 0; column < result.size(); ++column) {
      llvm::SmallVector<double, 3> x;
      for (const Values *operand : operands)
        x.push_back((*operand)[operand->size() == 1 ? 0 : column]);
      result[column] = map(node, x);
    }
    break;
  }
  case Node::Kind::ReduceColumns: {
    const Values &values = valueOf(node.operands[0]);
    result[0] = node.reduction == RowReduction::Sum ? 0 : -INFINITY;
    for (double value : values)
      if (node.reduction == RowReduction::Sum)
        result[0] += value;
      else if (std::isnan(value) || std::isnan(result[0]))
        result[0] = node.reduction == RowReduction::Max ? NAN : std::fmax(result[0], value);
      else
        result[0] = std::max(result[0], value);
    break;
  }
  case Node::Kind::Slice: {
    const Values &values = valueOf(node.operands[0]);
    std::copy_n(values.begin() + node.start, node.columns, result.begin());
    break;
  }
  case Node::Kind::Concat: {
    size_t at = 0;
    for (auto [operand, width] : llvm::zip(node.operands, node.widths)) {
      const Values &values = valueOf(operand);
      for (int64_t i = 0; i < width; ++i)
        result[at++] = values[values.size() == 1 ? 0 : i];
    }
    break;
  }
  case Node::Kind::Gather: {
    const Values &values = valueOf(node.operands[0]);
    double index = valueOf(node.operands[1])[0];
    result[0] = values[std::clamp<int64_t>(int64_t(index), 0, int64_t(values.size()) - 1)];
    break;
  }
  case Node::Kind::ReduceRows:
    break;
  }
  return result;
}

std::vector<std::map<int64_t, double>>
cleave::gputest::evaluate(const RowProgram &program, const std::vector<Tensor> &tensors) {
  std::vector<std::map<int64_t, double>> results(program.stores.size());
  Evaluator evaluator(program, tensors);
  for (int64_t row = 0; row < program.rows(); ++row) {
    evaluator.enterRow(row);
    for (auto [result, store] : llvm::zip(results, program.stores)) {
      if (row > 0 && store.rowDims == 0)
        continue;
      const Values &values = evaluator.valueOf(store.value);
      int64_t start = evaluator.indexOf(store.access);
      for (int64_t column = 0; column < std::max<int64_t>(1, store.columns); ++column)
        result[start + column * store.access.columnStride] =
            values[values.size() == 1 ? 0 : column];
    }
  }
  return results;
}
