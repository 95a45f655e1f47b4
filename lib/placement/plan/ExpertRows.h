//===- ExpertRows.h - rows sorted by expert ------------------------*- C++ -*-===//
//
// Mixtures of experts sort a row for each token and chosen expert by expert, and multiply them by
// group (`aten._grouped_mm`). Here are the ops that work on such rows, from where rows of tokens
// are read in this order to where they are put back, in the forward and in the backward. For expert
// parallelism they are rewritten to rows in parts (`dist.parts`), between which ranks exchange
// rows.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PLAN_EXPERTROWS_H
#define CLEAVE_LIB_PLACEMENT_PLAN_EXPERTROWS_H

#include "dialects/aten/ops/Grouping.h"
#include "dialects/dist/Dist.h"
#include "lib/placement/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace cleave::placement {

/// The rows of one sort by expert, and the ops on them.
struct ExpertRows {
  /// Ends of the experts' rows: how products' groups are divided.
  mlir::Value ends;
  /// The experts' number by row before sorting, the sorted ones, and the rows' places then.
  mlir::Value keys, sortedKeys, order;
  int64_t rows = 0, experts = 0;
  /// How many rows a token has, and whether a token's rows lie together before sorting (else all
  /// tokens' first rows come first).
  int64_t perToken = 1;
  bool areTogether = true;
  /// What has a row in this order for each index of the dimension.
  llvm::MapVector<mlir::Value, unsigned> values;
  /// The ops that make such values of such values, or sum up their rows by expert.
  llvm::SetVector<mlir::Operation *> ops;

  bool hasRows(mlir::Value value) const { return values.contains(value); }
  int64_t tokens() const { return rows / perToken; }
};

/// What an index into rows or tokens, made of the order of rows, selects.
enum class RowIndex {
  Rows,   ///< rows as they were before sorting
  Tokens, ///< the rows' tokens
  None,   ///< anything else
};
RowIndex classifyIndex(const ExpertRows &rows, mlir::Value index);
/// The one index of an `aten.index` or `aten.index_put` of dimension 0; null for others.
mlir::Value getRowIndex(mlir::Operation *op);

/// The rows that the product's groups divide; nothing where they are not sorted by what counts
/// them.
std::optional<ExpertRows> findExpertRows(aten::GroupedMmOp product);

/// Rewrites, for `expert` rules of the plan, rows of their modules to rows in parts where ranks are
/// to exchange them. Adds the number of sorts to `count`. Fails, with an error, where a rule asks
/// for a capacity and its modules' rows cannot be exchanged.
llvm::LogicalResult exchangeExpertRows(dist::MeshOp mesh, mlir::func::FuncOp function,
                                       const Plan &plan, unsigned &count);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PLAN_EXPERTROWS_H
