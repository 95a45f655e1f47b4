//===- KernelLayout.cpp - where a kernel's tensors lie ----------------------===//

#include "lib/kernels/fusion/KernelLayout.h"
#include "lib/kernels/fusion/RowSpace.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::kernels;

namespace {

/// The ops of a kernel, laid over one space.
class KernelAnalysis {
public:
  explicit KernelAnalysis(Block &body) : body(body) {}

  std::optional<KernelLayout> run();

private:
  bool layAll();
  void chooseOrder();
  void joinFactors();
  RowLayout access(const Layout &layout) const;

  Block &body;
  RowSpace space;
  std::vector<std::pair<Value, Layout>> tensors;
  llvm::DenseSet<Value> seen;
  /// The factors as the kernel walks over them.
  llvm::SmallVector<unsigned, 6> order;
  /// Some of them that are next to each other: the last one, and the size of all.
  struct Group {
    unsigned minor;
    int64_t size;
  };
  llvm::SmallVector<Group, 6> groups;
};

} // namespace

bool KernelAnalysis::layAll() {
  std::vector<std::pair<Operation *, RowOp>> ops;
  for (Operation &op : body.without_terminator()) {
    std::optional<RowOp> rowOp = analyzeRowOp(&op);
    if (!rowOp)
      return false;
    ops.emplace_back(&op, std::move(*rowOp));
  }
  std::vector<RowSpace::Member> members;
  for (auto &[op, rowOp] : ops)
    members.push_back({op, &rowOp});
  if (!space.addAll(members))
    return false;
  auto collect = [&](ValueRange values) {
    for (Value value : values)
      if (std::optional<Layout> layout = space.find(value); layout && seen.insert(value).second)
        tensors.emplace_back(value, std::move(*layout));
  };
  for (auto &[op, rowOp] : ops) {
    collect(op->getOperands());
    collect(op->getResults());
  }
  return true;
}

/// Rows are walked over as the widest result has them, so that it is written in order; where no
/// result has all, as the widest tensor does.
void KernelAnalysis::chooseOrder() {
  std::pair<bool, int64_t> best(false, -1);
  for (auto &[value, layout] : tensors) {
    if (space.countRows(layout) != space.countRows() || layout.isTotal)
      continue;
    bool isResult = llvm::is_contained(body.getTerminator()->getOperands(), value);
    std::pair<bool, int64_t> its(isResult, layout.columns);
    if (its > best) {
      best = its;
      order.assign(layout.rows.begin(), layout.rows.end());
    }
  }
}

/// Factors that are next to each other wherever they are become one.
void KernelAnalysis::joinFactors() {
  auto isJoined = [&](unsigned major, unsigned minor) {
    return llvm::all_of(tensors, [&](auto &pair) {
      const auto &rows = pair.second.rows;
      const unsigned *at = llvm::find(rows, major);
      return at == rows.end() ? !llvm::is_contained(rows, minor)
                              : at + 1 != rows.end() && at[1] == minor;
    });
  };
  for (auto [i, factor] : llvm::enumerate(order)) {
    if (i > 0 && isJoined(order[i - 1], factor)) {
      groups.back().minor = factor;
      groups.back().size *= space.sizeOf(factor);
    } else {
      groups.push_back({factor, space.sizeOf(factor)});
    }
  }
}

RowLayout KernelAnalysis::access(const Layout &layout) const {
  RowLayout access;
  access.columns = std::max<int64_t>(layout.columns, 1);
  access.isTotal = layout.isTotal;
  bool hasRows = !layout.rows.empty() || (order.empty() && !layout.isTotal);
  access.extent = layout.columns ? (hasRows ? Extent::Full : Extent::Column)
                                 : (hasRows && !order.empty() ? Extent::Row : Extent::Scalar);
  access.hasAllRows = space.countRows(layout) == space.countRows();
  llvm::SmallDenseMap<unsigned, int64_t> strides;
  int64_t stride = access.columns;
  for (unsigned factor : llvm::reverse(layout.rows)) {
    strides[factor] = stride;
    stride *= space.sizeOf(factor);
  }
  int64_t inOrder = access.columns;
  access.isInOrder = access.hasAllRows;
  for (const Group &group : llvm::reverse(groups)) {
    int64_t its = strides.lookup(group.minor);
    access.rowStrides.insert(access.rowStrides.begin(), its);
    access.isInOrder &= its == inOrder;
    inOrder *= group.size;
  }
  return access;
}

std::optional<KernelLayout> KernelAnalysis::run() {
  if (!layAll())
    return std::nullopt;
  chooseOrder();
  joinFactors();
  KernelLayout layout;
  for (const Group &group : groups) {
    layout.rowFactors.push_back(group.size);
    layout.rows *= group.size;
  }
  if (layout.rows != space.countRows())
    return std::nullopt;
  for (auto &[value, its] : tensors) {
    RowLayout access = this->access(its);
    layout.columns = std::max(layout.columns, access.columns);
    layout.values.try_emplace(value, std::move(access));
  }
  // What is not there for each row cannot be stored with the rows.
  for (Value result : body.getTerminator()->getOperands()) {
    auto it = layout.values.find(result);
    if (it == layout.values.end() || !(it->second.hasAllRows || it->second.isTotal))
      return std::nullopt;
  }
  return layout;
}

std::optional<KernelLayout> cleave::kernels::analyzeKernel(Block &body) {
  return KernelAnalysis(body).run();
}
