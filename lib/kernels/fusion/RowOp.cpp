//===- RowOp.cpp - ops that work row by row ---------------------------------===//

#include "lib/kernels/fusion/RowOp.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;
using aten::RowKind;
using sharding::FactorId;
using sharding::ShardingRule;
using sharding::TensorFactors;

static std::optional<RowKind> getRowKind(Operation *op) {
  auto rows = dyn_cast<aten::RowOpInterface>(op);
  return rows ? std::optional(rows.getRowKind()) : std::nullopt;
}

unsigned kernels::getWeight(Operation *op) {
  return cast<aten::RowOpInterface>(op).getRowWeight();
}

bool kernels::isView(Operation *op) {
  auto rows = dyn_cast<aten::RowOpInterface>(op);
  return rows && rows.getRowWeight() == 0;
}

bool kernels::keepsOrder(Operation *op) {
  return getRowKind(op) == RowKind::Ordered;
}

bool kernels::isRepeatable(Operation *op) {
  if (isView(op))
    return true;
  if (!isa<aten::ToCopyOp>(op))
    return false;
  auto bits = [](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  };
  return bits(op->getOperand(0).getType()) < bits(op->getResult(0).getType());
}

static int64_t countElements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 0;
}

std::optional<RowOp> RowOp::withColumns() const {
  if (!column)
    return *this;
  RowOp op = *this;
  op.column.reset();
  for (auto *tensors : {static_cast<SmallVectorImpl<RowTensor> *>(&op.operands),
                        static_cast<SmallVectorImpl<RowTensor> *>(&op.results)})
    for (RowTensor &tensor : *tensors) {
      if (!llvm::is_contained(tensor.rows, *column))
        continue;
      if (tensor.rows.back() != *column)
        return std::nullopt;
      tensor.rows.pop_back();
      tensor.columns = factors[*column];
    }
  return op;
}

namespace {
/// Asks an op's sharding rule which of its tensors has what of a matrix.
class RuleAnalysis {
public:
  explicit RuleAnalysis(Operation *op) : op(op), rule(sharding::getShardingRule(op)) {}

  std::optional<RowOp> run() {
    // An opaque op, or one whose numbers depend on their place, has no rows.
    if (rule.isOpaque() || rule.kind == sharding::OpKind::Random)
      return std::nullopt;
    number.assign(rule.factors.size(), kAbsent);
    RowOp rowOp;
    for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
      add(operand, factors, rowOp.operands, rowOp);
    for (auto [result, factors] : llvm::zip(op->getResults(), rule.results))
      add(result, factors, rowOp.results, rowOp);
    if (!widest)
      return std::nullopt;
    if (!widestRows.empty())
      rowOp.column = widestRows.back();
    return rowOp;
  }

private:
  static constexpr unsigned kAbsent = ~0u;

  void add(Value value, const TensorFactors &dims, SmallVectorImpl<RowTensor> &tensors,
           RowOp &rowOp) {
    RowTensor &tensor = tensors.emplace_back();
    int64_t elements = countElements(value);
    tensor.exists = isa<RankedTensorType>(value.getType());
    for (const sharding::DimFactors &dim : dims)
      for (FactorId factor : dim) {
        if (rule.factors[factor].size < 2)
          continue;
        if (number[factor] == kAbsent) {
          number[factor] = rowOp.factors.size();
          rowOp.factors.push_back(rule.factors[factor].size);
        }
        tensor.rows.push_back(number[factor]);
      }
    if (elements > 0 && (!widest || elements > countElements(widest))) {
      widest = value;
      widestRows = tensor.rows;
    }
  }

  Operation *op;
  ShardingRule rule;
  /// Of the rule's factors in the row op.
  SmallVector<unsigned> number;
  Value widest;
  SmallVector<unsigned, 4> widestRows;
};

/// Builds a row op whose tensors are given by their shapes: the last dimension makes the columns.
class ShapeAnalysis {
public:
  /// The rows of `shape`, which all tensors that have rows have.
  explicit ShapeAnalysis(ArrayRef<int64_t> rows) {
    for (int64_t size : rows)
      if (size > 1) {
        all.push_back(rowOp.factors.size());
        rowOp.factors.push_back(size);
      }
  }

  void addOperand(Type type, bool hasRows, int64_t columns) {
    rowOp.operands.push_back(make(type, hasRows, columns));
  }
  RowTensor &addResult(Type type, bool hasRows, int64_t columns) {
    return rowOp.results.emplace_back(make(type, hasRows, columns));
  }
  bool hasRows() const { return !all.empty(); }
  RowOp take() { return std::move(rowOp); }

private:
  RowTensor make(Type type, bool hasRows, int64_t columns) const {
    RowTensor tensor;
    tensor.exists = isa<RankedTensorType>(type);
    if (hasRows)
      tensor.rows = all;
    tensor.columns = columns;
    return tensor;
  }

  RowOp rowOp;
  SmallVector<unsigned, 4> all;
};
} // namespace

static ArrayRef<int64_t> shapeOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getShape() : ArrayRef<int64_t>();
}

/// The results of a reduction lack the columns, or all the rows.
static std::optional<RowOp> analyzeReduction(Operation *op) {
  std::optional<RowOp> found = RuleAnalysis(op).run();
  std::optional<RowOp> rowOp = found ? found->withColumns() : std::nullopt;
  if (!rowOp)
    return std::nullopt;
  const RowTensor &from = rowOp->operands[0];
  RowTensor &result = rowOp->results[0];
  if (result.rows != from.rows) {
    // A maximum over all rows is none of their sums.
    if (!result.rows.empty() || isa<aten::AmaxOp>(op))
      return std::nullopt;
    result.isTotal = true;
  }
  for (const RowTensor &operand : rowOp->operands)
    if (operand.exists && (operand.rows != from.rows || operand.columns != from.columns))
      return std::nullopt;
  return rowOp;
}

/// An op on whole rows: of the first operand's last dimension, if it is the one that the op means.
static std::optional<RowOp> analyzeWholeRowOp(Operation *op) {
  auto matrix = cast<RankedTensorType>(op->getOperand(0).getType());
  int64_t last = matrix.getRank() - 1;
  if (last < 0)
    return std::nullopt;
  if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
    if (dim.getInt() != last && dim.getInt() != -1)
      return std::nullopt;
  if (auto shape = op->getAttrOfType<DenseI64ArrayAttr>("normalized_shape"))
    if (shape.size() != 1)
      return std::nullopt;
  int64_t columns = matrix.getDimSize(last);
  if (columns < 2)
    return std::nullopt;
  ShapeAnalysis analysis(matrix.getShape().drop_back());
  auto isMatrix = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getShape() == matrix.getShape();
  };
  auto isColumn = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !isMatrix(type) && tensor.getRank() == 1;
  };
  for (Type type : op->getOperandTypes())
    analysis.addOperand(type, !isColumn(type), isMatrix(type) || isColumn(type) ? columns : 0);
  for (Type type : op->getResultTypes()) {
    bool isSum = isColumn(type) && analysis.hasRows();
    analysis.addResult(type, !isColumn(type), isMatrix(type) || isColumn(type) ? columns : 0)
        .isTotal = isSum;
  }
  return analysis.take();
}

/// Parts of rows: all tensors have the same rows.
static std::optional<RowOp> analyzeWindowOp(Operation *op) {
  ArrayRef<int64_t> rows = shapeOf(op->getResult(0));
  if (rows.empty())
    return std::nullopt;
  rows = rows.drop_back();
  int64_t last = rows.size();
  auto dim = op->getAttrOfType<IntegerAttr>("dim");
  int64_t along = dim ? dim.getInt() : 0;
  auto step = op->getAttrOfType<IntegerAttr>("step");
  if ((along != last && along != -1) || (step && step.getInt() != 1))
    return std::nullopt;
  ShapeAnalysis analysis(rows);
  auto hasWindow = [&](Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return !shape.empty() && shape.drop_back() == rows && shape.back() > 1;
  };
  for (Value operand : op->getOperands()) {
    if (!hasWindow(operand))
      return std::nullopt;
    analysis.addOperand(operand.getType(), true, shapeOf(operand).back());
  }
  if (!hasWindow(op->getResult(0)))
    return std::nullopt;
  analysis.addResult(op->getResult(0).getType(), true, shapeOf(op->getResult(0)).back());
  return analysis.take();
}

/// Losses by class: an element of each row of the first tensor of two dimensions.
static std::optional<RowOp> analyzePickOp(Operation *op) {
  bool isForward = isa<aten::NllLossForwardOp>(op);
  Value scores = op->getOperand(isForward ? 0 : 1);
  ArrayRef<int64_t> shape = shapeOf(scores);
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 2)
    return std::nullopt;
  ShapeAnalysis analysis(shape[0]);
  // Weights of classes may be as many as rows: it is their place that tells them.
  unsigned all = isForward ? 3 : 5, weight = isForward ? 2 : 3;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    ArrayRef<int64_t> its = shapeOf(operand);
    bool isWeight = op->getNumOperands() == all && i == weight, hasScores = its.size() == 2;
    analysis.addOperand(operand.getType(), hasScores || (its.size() == 1 && !isWeight),
                        hasScores || isWeight ? shape[1] : 0);
  }
  for (Value result : op->getResults()) {
    ArrayRef<int64_t> its = shapeOf(result);
    analysis.addResult(result.getType(), !its.empty(), its.size() == 2 ? shape[1] : 0).isTotal =
        its.empty();
  }
  return analysis.take();
}

/// Elements in their place, and views.
static std::optional<RowOp> analyzeElements(Operation *op) {
  if (auto format = op->getAttrOfType<StringAttr>("memory_format"))
    if (format.getValue().starts_with("channels_last"))
      return std::nullopt;
  return RuleAnalysis(op).run();
}

std::optional<RowOp> kernels::analyzeRowOp(Operation *op) {
  std::optional<RowKind> kind = getRowKind(op);
  if (!kind)
    return std::nullopt;
  switch (*kind) {
  case RowKind::Pointwise:
  case RowKind::Ordered:
  case RowKind::Exchanged:
    return analyzeElements(op);
  case RowKind::Window:
    return analyzeWindowOp(op);
  case RowKind::Reduced:
    return analyzeReduction(op);
  case RowKind::Whole:
    return analyzeWholeRowOp(op);
  case RowKind::Picked:
    return analyzePickOp(op);
  }
  llvm_unreachable("all kinds of rows have an analysis");
}
