//===- RowSpace.cpp - the rows that ops have in common ----------------------===//

#include "lib/kernels/fusion/RowSpace.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave::kernels;

void RowSpace::resolve(llvm::ArrayRef<unsigned> rows,
                       llvm::SmallVectorImpl<unsigned> &leaves) const {
  for (unsigned factor : rows) {
    if (factors[factor].major == kNone) {
      leaves.push_back(factor);
      continue;
    }
    unsigned parts[] = {static_cast<unsigned>(factors[factor].major),
                        static_cast<unsigned>(factors[factor].minor)};
    resolve(parts, leaves);
  }
}

std::optional<Layout> RowSpace::find(Value value) const {
  auto it = layouts.find(value);
  if (it == layouts.end())
    return std::nullopt;
  Layout layout;
  resolve(it->second.rows, layout.rows);
  layout.columns = it->second.columns;
  layout.isTotal = it->second.isTotal;
  return layout;
}

int64_t RowSpace::countRows(const Layout &layout) const {
  int64_t count = 1;
  for (unsigned factor : layout.rows)
    count *= factors[factor].size;
  return count;
}

void RowSpace::split(unsigned factor, int64_t major) {
  int64_t minor = factors[factor].size / major;
  factors[factor].major = static_cast<int>(factors.size());
  factors[factor].minor = static_cast<int>(factors.size()) + 1;
  factors.push_back({major});
  factors.push_back({minor});
  splits.push_back(factor);
}

void RowSpace::rollback(const Mark &mark) {
  for (; splits.size() > mark.splits; splits.pop_back())
    factors[splits.back()].major = factors[splits.back()].minor = kNone;
  factors.resize(mark.factors);
  for (; values.size() > mark.values; values.pop_back())
    layouts.erase(values.back());
  numRows = mark.rows;
  hasTotals = mark.hasTotals;
}

/// Finds out which factors of the space the op's are, from a tensor of which both are known. Cuts
/// factors of the space where the op's are finer.
bool RowSpace::bind(const RowTensor &tensor, const Layout &layout, const RowOp &rowOp,
                    Binding &binding) {
  if (tensor.columns != layout.columns)
    return false;
  llvm::SmallVector<unsigned, 6> known;
  resolve(layout.rows, known);
  size_t at = 0;
  for (unsigned local : tensor.rows) {
    if (!binding[local].empty()) {
      llvm::SmallVector<unsigned, 6> leaves;
      resolve(binding[local], leaves);
      for (unsigned leaf : leaves)
        if (at == known.size() || known[at++] != leaf)
          return false;
      continue;
    }
    for (int64_t left = rowOp.factors[local]; left > 1; ++at) {
      if (at == known.size())
        return false;
      int64_t size = factors[known[at]].size;
      if (left % size != 0) {
        if (size % left != 0)
          return false;
        unsigned whole = known[at];
        split(whole, left);
        known[at] = factors[whole].major;
        known.insert(known.begin() + at + 1, factors[whole].minor);
        size = left;
      }
      binding[local].push_back(known[at]);
      left /= size;
    }
  }
  return at == known.size();
}

std::optional<RowOp> RowSpace::choose(Operation *op, const RowOp &rowOp) const {
  if (!rowOp.column)
    return rowOp;
  auto isRow = [&](ValueRange itsValues, llvm::ArrayRef<RowTensor> tensors) -> std::optional<bool> {
    for (auto [value, tensor] : llvm::zip(itsValues, tensors)) {
      if (!tensor.exists || !llvm::is_contained(tensor.rows, *rowOp.column))
        continue;
      if (auto known = layouts.find(value); known != layouts.end())
        return known->second.columns == 0;
    }
    return std::nullopt;
  };
  std::optional<bool> decided = isRow(op->getOperands(), rowOp.operands);
  if (!decided)
    decided = isRow(op->getResults(), rowOp.results);
  if (!decided.value_or(false))
    return rowOp.withColumns();
  RowOp chosen = rowOp;
  chosen.column.reset();
  return chosen;
}

bool RowSpace::decides(Operation *op, const RowOp &rowOp) const {
  if (!rowOp.column)
    return true;
  auto anyKnown = [&](ValueRange itsValues, llvm::ArrayRef<RowTensor> tensors) {
    return llvm::any_of(llvm::zip(itsValues, tensors), [&](auto pair) {
      auto [value, tensor] = pair;
      return tensor.exists && llvm::is_contained(tensor.rows, *rowOp.column) && knows(value);
    });
  };
  return anyKnown(op->getOperands(), rowOp.operands) || anyKnown(op->getResults(), rowOp.results);
}

bool RowSpace::lay(Operation *op, const RowOp &rowOp) {
  Binding binding(rowOp.factors.size());
  auto bindAll = [&](ValueRange itsValues, llvm::ArrayRef<RowTensor> tensors, bool areOperands) {
    for (auto [value, tensor] : llvm::zip(itsValues, tensors)) {
      auto known = tensor.exists ? layouts.find(value) : layouts.end();
      if (known == layouts.end())
        continue;
      // A sum over all rows has no users here: not before it, and not after it.
      if ((areOperands ? known->second.isTotal : tensor.isTotal) ||
          !bind(tensor, known->second, rowOp, binding))
        return false;
    }
    return true;
  };
  if (!bindAll(op->getOperands(), rowOp.operands, true) ||
      !bindAll(op->getResults(), rowOp.results, false))
    return false;

  int64_t opRows = 1;
  auto isUsed = [&](unsigned local) {
    auto has = [&](const RowTensor &tensor) { return llvm::is_contained(tensor.rows, local); };
    return llvm::any_of(rowOp.operands, has) || llvm::any_of(rowOp.results, has);
  };
  llvm::SmallVector<unsigned, 8> leaves;
  for (auto [local, size] : llvm::enumerate(rowOp.factors)) {
    if (!isUsed(local))
      continue;
    opRows *= size;
    if (binding[local].empty()) {
      if (hasTotals)
        return false;
      binding[local].push_back(factors.size());
      factors.push_back({size});
      numRows *= size;
    }
    resolve(binding[local], leaves);
  }
  // Rows with themselves: a product of two different tensors' rows.
  llvm::sort(leaves);
  if (std::adjacent_find(leaves.begin(), leaves.end()) != leaves.end())
    return false;

  auto record = [&](Value value, const RowTensor &tensor) {
    if (!tensor.exists || knows(value))
      return;
    Layout &layout = layouts[value];
    for (unsigned local : tensor.rows)
      layout.rows.append(binding[local]);
    layout.columns = tensor.columns;
    layout.isTotal = tensor.isTotal;
    hasTotals |= tensor.isTotal;
    values.push_back(value);
  };
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rowOp.operands))
    record(value, tensor);
  for (auto [value, tensor] : llvm::zip(op->getResults(), rowOp.results)) {
    // Each row counts once.
    if (tensor.isTotal && opRows != numRows)
      return false;
    record(value, tensor);
  }
  return true;
}

bool RowSpace::add(Operation *op, const RowOp &rowOp) {
  std::optional<RowOp> chosen = choose(op, rowOp);
  if (!chosen)
    return false;
  Mark before = mark();
  if (lay(op, *chosen))
    return true;
  rollback(before);
  return false;
}

bool RowSpace::touches(Operation *op) const {
  auto isKnown = [&](Value value) {
    auto known = layouts.find(value);
    return known != layouts.end() && (numRows == 1 || !known->second.rows.empty());
  };
  return llvm::any_of(op->getOperands(), isKnown) || llvm::any_of(op->getResults(), isKnown);
}

/// Of the ops of an empty space: the one with the most rows and columns, rather one whose columns
/// are not open.
static size_t chooseFirst(llvm::ArrayRef<RowSpace::Member> members) {
  size_t first = 0;
  int64_t maximum = -1;
  for (auto [i, member] : llvm::enumerate(members)) {
    int64_t rows = 1, columns = 1;
    for (int64_t size : member.rowOp->factors)
      rows *= size;
    for (const RowTensor &tensor : member.rowOp->operands)
      columns = std::max(columns, tensor.columns);
    int64_t its = 2 * rows * columns + !member.rowOp->column;
    if (its > maximum) {
      maximum = its;
      first = i;
    }
  }
  return first;
}

bool RowSpace::addAll(llvm::ArrayRef<Member> members) {
  Mark before = mark();
  std::vector<Member> waiting(members.begin(), members.end());
  auto take = [&](size_t i) {
    Member member = waiting[i];
    waiting.erase(waiting.begin() + i);
    return add(member.op, *member.rowOp);
  };
  if (values.empty() && !waiting.empty() && !take(chooseFirst(waiting))) {
    rollback(before);
    return false;
  }
  // Backwards and forwards in turn: most ops are known by their users, or then by their operands.
  for (bool backwards = true; !waiting.empty(); backwards = !backwards) {
    std::vector<Member> later;
    bool failed = false;
    auto visit = [&](const Member &member) {
      if (!touches(member.op) || !decides(member.op, *member.rowOp))
        later.push_back(member);
      else
        failed |= !add(member.op, *member.rowOp);
    };
    size_t count = waiting.size();
    if (backwards)
      for (const Member &member : llvm::reverse(waiting))
        visit(member);
    else
      for (const Member &member : waiting)
        visit(member);
    if (backwards)
      std::reverse(later.begin(), later.end());
    waiting = std::move(later);
    if (!failed && waiting.size() == count && !backwards) {
      // Nothing more is certain: an op whose columns are a guess, or that is about single numbers.
      auto next = llvm::find_if(waiting, [&](const Member &member) { return touches(member.op); });
      if (next == waiting.end())
        next = llvm::find_if(waiting, [&](const Member &member) {
          auto isKnown = [&](Value value) { return knows(value); };
          return member.rowOp->factors.empty() || llvm::any_of(member.op->getOperands(), isKnown) ||
                 llvm::any_of(member.op->getResults(), isKnown);
        });
      failed = next == waiting.end() || !take(next - waiting.begin());
    }
    if (failed) {
      rollback(before);
      return false;
    }
  }
  return true;
}
