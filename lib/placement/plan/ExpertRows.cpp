//===- ExpertRows.cpp - finding rows sorted by expert ----------------------===//

#include "lib/placement/plan/ExpertRows.h"

#include "dialects/aten/Shapes.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/sharding/ShardingRule.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using aten::rankOf;
using aten::shapeOf;
using sharding::FactorId;
using sharding::ShardingRule;

//===----------------------------------------------------------------------===//
// Order and counts
//===----------------------------------------------------------------------===//

static bool isSort(Operation *op) {
  return isa_and_nonnull<aten::SortOp, aten::SortStableOp>(op);
}

/// The value that has the elements of `value`, in any order and type.
static Value getElements(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<aten::ViewOp, aten::UnsafeViewOp, aten::ToCopyOp, aten::CloneOp, aten::TOp,
             aten::TransposeOp, aten::AliasOp, aten::DetachOp>(op) &&
        !(isSort(op) && value == op->getResult(0)))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The elements that `ends` are running sums of the counts of; null where they are not.
static Value getCounted(Value ends) {
  auto sums = getElements(ends).getDefiningOp<aten::CumsumOp>();
  Operation *counts = sums ? getElements(sums.getSelf()).getDefiningOp() : nullptr;
  if (!isa_and_nonnull<aten::HistcOp, aten::BincountOp>(counts))
    return {};
  return getElements(counts->getOperand(0));
}

Value placement::getRowIndex(Operation *op) {
  OperandRange indices(nullptr, 0);
  std::optional<ArrayRef<bool>> present;
  if (auto read = dyn_cast<aten::IndexOp>(op)) {
    indices = read.getIndices();
    present = read.getIndicesPresent();
  } else if (auto put = dyn_cast<aten::IndexPutOp>(op)) {
    indices = put.getIndices();
    present = put.getIndicesPresent();
  }
  if (indices.size() != 1 || rankOf(indices.front()) != 1 ||
      (present && !present->empty() && !present->front()))
    return {};
  return indices.front();
}

RowIndex placement::classifyIndex(const ExpertRows &rows, Value index) {
  if (!index)
    return RowIndex::None;
  if (index == rows.order)
    return RowIndex::Rows;
  auto isNumber = [](Attribute attribute, int64_t number) {
    auto integer = dyn_cast_or_null<IntegerAttr>(attribute);
    return integer && integer.getInt() == number;
  };
  auto quotient = index.getDefiningOp<aten::FloorDivideScalarOp>();
  if (quotient && quotient.getSelf() == rows.order && rows.areTogether &&
      isNumber(quotient->getAttr("other"), rows.perToken))
    return RowIndex::Tokens;
  auto rest = index.getDefiningOp<aten::RemainderScalarOp>();
  if (rest && rest.getSelf() == rows.order && !rows.areTogether &&
      isNumber(rest->getAttr("other"), rows.tokens()))
    return RowIndex::Tokens;
  return RowIndex::None;
}

/// How the rows of tokens lie before sorting follows from how places become tokens.
static void findTokens(ExpertRows &rows) {
  for (Operation *user : rows.order.getUsers()) {
    auto number = dyn_cast_or_null<IntegerAttr>(user->getAttr("other"));
    if (!number || number.getInt() < 1 || rows.rows % number.getInt())
      continue;
    if (isa<aten::FloorDivideScalarOp>(user)) {
      rows.perToken = number.getInt();
      return;
    }
    if (isa<aten::RemainderScalarOp>(user)) {
      rows.perToken = rows.rows / number.getInt();
      rows.areTogether = false;
      return;
    }
  }
}

//===----------------------------------------------------------------------===//
// Ops on rows
//===----------------------------------------------------------------------===//

namespace {

/// Follows values that have rows to the ops that treat each row by itself.
class RowsFinder {
public:
  explicit RowsFinder(ExpertRows &rows) : rows(rows) {}

  /// False where a value would have rows along two dimensions.
  bool find(aten::GroupedMmOp product) {
    if (!take(product))
      return false;
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      // Numbers of rows and experts lead elsewhere.
      if (aten::dtypeOf(value).isInteger(64) || aten::dtypeOf(value).isInteger(32))
        continue;
      if (Operation *op = value.getDefiningOp(); op && !take(op, value))
        return false;
      for (Operation *user : value.getUsers())
        if (!take(user, value))
          return false;
    }
    return true;
  }

private:
  bool add(Value value, unsigned dim) {
    auto [at, isNew] = rows.values.insert({value, dim});
    if (isNew)
      pending.push_back(value);
    return at->second == dim;
  }

  bool take(aten::GroupedMmOp product) {
    if (product.getOffs() != rows.ends || rankOf(product.getSelf()) != 2)
      return true;
    rows.ops.insert(product);
    if (rankOf(product.getMat2()) == 2)
      return add(product.getSelf(), 1) && add(product.getMat2(), 0);
    return add(product.getSelf(), 0) && add(product.getResult(), 0);
  }

  bool take(Operation *op, Value value) {
    if (rows.ops.contains(op))
      return true;
    if (auto product = dyn_cast<aten::GroupedMmOp>(op))
      return take(product);
    if (isa<aten::IndexOp, aten::IndexPutOp>(op))
      return takeByExpert(op, value);
    return takeEach(op, value);
  }

  /// A table's rows read by expert, and added up by expert.
  bool takeByExpert(Operation *op, Value value) {
    Value index = getRowIndex(op);
    if (!index || index != rows.sortedKeys)
      return true;
    auto put = dyn_cast<aten::IndexPutOp>(op);
    if (put ? value != put.getValues() || !put.getAccumulate().value_or(false)
            : value != op->getResult(0))
      return true;
    rows.ops.insert(op);
    return add(index, 0);
  }

  /// An op that treats rows alike and by themselves: they have a factor of its rule to
  /// themselves.
  bool takeEach(Operation *op, Value value) {
    ShardingRule rule = sharding::getShardingRule(op);
    if (rule.isOpaque() ||
        (rule.kind != sharding::OpKind::Compute && rule.kind != sharding::OpKind::View) ||
        isa<aten::IndexSelectOp, aten::GatherOp, aten::ScatterSrcOp, aten::ScatterAddOp>(op))
      return true;
    std::optional<FactorId> factor;
    auto look = [&](Value each, const sharding::TensorFactors &tensor) {
      if (each == value && !factor && rows.values[value] < tensor.size() &&
          tensor[rows.values[value]].size() == 1)
        factor = tensor[rows.values[value]].front();
    };
    for (OpOperand &operand : op->getOpOperands())
      look(operand.get(), rule.operands[operand.getOperandNumber()]);
    for (OpResult result : op->getResults())
      look(result, rule.results[result.getResultNumber()]);
    if (!factor || rule.factors[*factor].isWhole() || !rule.factors[*factor].addends.empty())
      return true;

    SmallVector<std::pair<Value, unsigned>> found;
    auto collect = [&](Value each, const sharding::TensorFactors &tensor, bool isNeeded) {
      bool has = false;
      for (auto [dim, factors] : llvm::enumerate(tensor)) {
        if (!llvm::is_contained(factors, *factor))
          continue;
        if (has || factors.size() != 1)
          return false;
        has = true;
        found.push_back({each, dim});
      }
      return has || !isNeeded;
    };
    for (OpOperand &operand : op->getOpOperands())
      if (!collect(operand.get(), rule.operands[operand.getOperandNumber()], false))
        return true;
    for (OpResult result : op->getResults())
      if (!collect(result, rule.results[result.getResultNumber()],
                   isa<RankedTensorType>(result.getType())))
        return true;
    rows.ops.insert(op);
    return llvm::all_of(found, [&](auto &each) { return add(each.first, each.second); });
  }

  ExpertRows &rows;
  SmallVector<Value> pending;
};

} // namespace

/// The sort of the elements that are counted, whose order something uses.
static Operation *findSort(Value counted, int64_t rows) {
  // Views and copies lie between.
  SmallVector<Value> pending = {counted};
  llvm::SmallPtrSet<Operation *, 8> seen;
  while (!pending.empty()) {
    for (Operation *user : pending.pop_back_val().getUsers()) {
      if (!seen.insert(user).second || user->getNumResults() == 0 || user->getNumOperands() == 0)
        continue;
      if (isSort(user) && rankOf(user->getOperand(0)) == 1 &&
          shapeOf(user->getOperand(0))[0] == rows && !user->getResult(1).use_empty()) {
        auto descending = user->getAttrOfType<BoolAttr>("descending");
        if (!descending || !descending.getValue())
          return user;
      }
      if (getElements(user->getResult(0)) == counted && !isSort(user))
        pending.push_back(user->getResult(0));
    }
  }
  return nullptr;
}

std::optional<ExpertRows> placement::findExpertRows(aten::GroupedMmOp product) {
  Value counted = product.getOffs() ? getCounted(product.getOffs()) : Value();
  if (!counted || rankOf(product.getSelf()) != 2)
    return std::nullopt;
  ExpertRows rows;
  rows.ends = product.getOffs();
  rows.experts = shapeOf(rows.ends)[0];
  rows.rows = shapeOf(product.getSelf())[rankOf(product.getMat2()) == 2 ? 1 : 0];
  Operation *sort = findSort(counted, rows.rows);
  if (!sort)
    return std::nullopt;
  rows.keys = sort->getOperand(0);
  rows.sortedKeys = sort->getResult(0);
  rows.order = sort->getResult(1);
  findTokens(rows);
  if (!RowsFinder(rows).find(product))
    return std::nullopt;
  return rows;
}
