//===- RowOp.cpp - ops that work row by row ---------------------------------===//

#include "lib/kernels/RowOp.h"
#include "dialects/aten/Aten.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;
using sharding::FactorId;
using sharding::ShardingRule;
using sharding::TensorFactors;

/// What each element of a result needs is in the elements that the sharding rule assigns to it.
static const llvm::StringSet<> &pointwiseOps() {
  static const llvm::StringSet<> names = {"aten.add",
                                          "aten.add_scalar",
                                          "aten.sub",
                                          "aten.sub_scalar",
                                          "aten.rsub_scalar",
                                          "aten.mul",
                                          "aten.mul_scalar",
                                          "aten.div",
                                          "aten.div_scalar",
                                          "aten.addcmul",
                                          "aten.pow_tensor_scalar",
                                          "aten.sqrt",
                                          "aten.rsqrt",
                                          "aten.reciprocal",
                                          "aten.neg",
                                          "aten.abs",
                                          "aten.exp",
                                          "aten.log",
                                          "aten.log1p",
                                          "aten.sin",
                                          "aten.cos",
                                          "aten.erf",
                                          "aten.relu",
                                          "aten.silu",
                                          "aten.sigmoid",
                                          "aten.tanh",
                                          "aten.gelu",
                                          "aten.gelu_backward",
                                          "aten.silu_backward",
                                          "aten.sigmoid_backward",
                                          "aten.tanh_backward",
                                          "aten.threshold_backward",
                                          "aten.eq",
                                          "aten.eq_scalar",
                                          "aten.ne",
                                          "aten.ne_scalar",
                                          "aten.lt",
                                          "aten.lt_scalar",
                                          "aten.le",
                                          "aten.le_scalar",
                                          "aten.gt",
                                          "aten.gt_scalar",
                                          "aten.ge",
                                          "aten.ge_scalar",
                                          "aten.logical_and",
                                          "aten.logical_or",
                                          "aten.logical_not",
                                          "aten.bitwise_and",
                                          "aten.bitwise_or",
                                          "aten.bitwise_not",
                                          "aten.maximum",
                                          "aten.minimum",
                                          "aten.clamp",
                                          "aten.clamp_min",
                                          "aten.clamp_max",
                                          "aten.where",
                                          "aten.masked_fill_scalar",
                                          "aten.masked_fill",
                                          "aten._to_copy"};
  return names;
}

/// Along rows, or down the columns.
static const llvm::StringSet<> &reductionOps() {
  static const llvm::StringSet<> names = {"aten.sum_dim_int_list", "aten.mean_dim", "aten.amax"};
  return names;
}

/// Ops that compute on each row as a whole. Their sharding rules say no more than that.
static const llvm::StringSet<> &wholeRowOps() {
  static const llvm::StringSet<> names = {"aten._softmax",
                                          "aten._log_softmax",
                                          "aten._softmax_backward_data",
                                          "aten._log_softmax_backward_data",
                                          "aten.native_layer_norm",
                                          "aten.native_layer_norm_backward"};
  return names;
}

/// The elements stay in their order.
static const llvm::StringSet<> &viewOps() {
  static const llvm::StringSet<> names = {"aten.alias",       "aten.detach",       "aten.view",
                                          "aten.unsqueeze",   "aten._unsafe_view", "aten.squeeze",
                                          "aten.squeeze_dim", "aten.squeeze_dims", "aten.expand"};
  return names;
}

bool kernels::isFusible(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return pointwiseOps().contains(name) || reductionOps().contains(name) ||
         wholeRowOps().contains(name) || viewOps().contains(name);
}

static int64_t countElements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 0;
}

namespace {
/// Asks an op's rule which of its tensors has what of a matrix.
class Analysis {
public:
  explicit Analysis(Operation *op) : op(op), rule(sharding::getShardingRule(op)) {}

  std::optional<RowOp> run() {
    // An opaque op, or one whose numbers depend on their place, has no rows.
    if (rule.isOpaque() || rule.kind == sharding::OpKind::Random || !findWidest())
      return std::nullopt;
    RowOp rowOp;
    rowOp.isView = viewOps().contains(op->getName().getStringRef());
    rowOp.domain = {countElements(widest) / columns, columns};
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (!add(operand, rule.operands[i], rowOp.operands))
        return std::nullopt;
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (!add(result, rule.results[i], rowOp.results))
        return std::nullopt;
    return rowOp;
  }

private:
  /// The tensor with the most elements gives the matrix; its last dimension must be one factor,
  /// and the last one of whatever tensor has it.
  bool findWidest() {
    const TensorFactors *factors = nullptr;
    auto consider = [&](Value value, const TensorFactors &its) {
      if (countElements(value) > countElements(widest ? widest : value) || !widest) {
        if (countElements(value) == 0)
          return;
        widest = value;
        factors = &its;
      }
    };
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      consider(operand, rule.operands[i]);
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      consider(result, rule.results[i]);
    if (!widest)
      return false;
    for (const sharding::DimFactors &dim : *factors)
      llvm::append_range(
          all, llvm::make_filter_range(dim, [&](FactorId f) { return rule.factors[f].size > 1; }));
    if (all.empty())
      return false;
    column = all.back();
    columns = rule.factors[column].size;
    all.pop_back();
    return true;
  }

  /// Adds the extent of a tensor; false where it has only some of the rows' factors, or any in
  /// another order.
  bool add(Value value, const TensorFactors &factors, SmallVectorImpl<Extent> &extents) const {
    if (!isa<RankedTensorType>(value.getType())) {
      extents.push_back(Extent::None);
      return true;
    }
    SmallVector<FactorId> its;
    for (const sharding::DimFactors &dim : factors)
      llvm::append_range(
          its, llvm::make_filter_range(dim, [&](FactorId f) { return rule.factors[f].size > 1; }));
    bool hasColumns = !its.empty() && its.back() == column;
    if (hasColumns)
      its.pop_back();
    bool hasRows = its == all;
    if (!hasRows && !its.empty())
      return false;
    hasRows &= !all.empty();
    extents.push_back(hasColumns ? (hasRows || all.empty() ? Extent::Full : Extent::Column)
                                 : (hasRows ? Extent::Row : Extent::Scalar));
    return true;
  }

  Operation *op;
  ShardingRule rule;
  Value widest;
  /// Of the rows, major first; factors of size 1 count for nothing.
  SmallVector<FactorId> all;
  FactorId column = 0;
  int64_t columns = 1;
};
} // namespace

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
  RowOp rowOp;
  rowOp.domain = {matrix.getNumElements() / columns, columns};
  auto extentOf = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return Extent::None;
    if (tensor.getShape() == matrix.getShape())
      return Extent::Full;
    return tensor.getRank() == 1 ? Extent::Column : Extent::Row;
  };
  for (Type type : op->getOperandTypes())
    rowOp.operands.push_back(extentOf(type));
  for (Type type : op->getResultTypes())
    rowOp.results.push_back(extentOf(type));
  return rowOp;
}

std::optional<RowOp> kernels::analyzeRowOp(Operation *op) {
  if (!isFusible(op))
    return std::nullopt;
  if (wholeRowOps().contains(op->getName().getStringRef()))
    return analyzeWholeRowOp(op);
  return Analysis(op).run();
}

std::optional<RowOp> kernels::analyzeRowOp(Operation *op, Domain domain) {
  std::optional<RowOp> own = analyzeRowOp(op);
  if (own && own->domain == domain)
    return own;
  StringRef name = op->getName().getStringRef();
  if (!pointwiseOps().contains(name) && !viewOps().contains(name))
    return std::nullopt;
  // Every tensor a number for each row, or one in all.
  RowOp rowOp;
  rowOp.domain = domain;
  rowOp.isView = viewOps().contains(name);
  auto add = [&](Value value, SmallVectorImpl<Extent> &extents) {
    int64_t elements = countElements(value);
    if (elements != domain.rows && elements != 1)
      return false;
    extents.push_back(elements == domain.rows && domain.rows > 1 ? Extent::Row : Extent::Scalar);
    return true;
  };
  for (Value operand : op->getOperands())
    if (!add(operand, rowOp.operands))
      return std::nullopt;
  for (Value result : op->getResults())
    if (!add(result, rowOp.results))
      return std::nullopt;
  // Broadcasting within the rows is none of theirs.
  for (auto [operand, extent] : llvm::zip(op->getOperands(), rowOp.operands))
    if (extent == Extent::Row && countElements(operand) != countElements(op->getResult(0)))
      return std::nullopt;
  return rowOp;
}
