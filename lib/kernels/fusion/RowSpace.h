//===- RowSpace.h - the rows that ops have in common ----------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_FUSION_ROWSPACE_H
#define CLEAVE_LIB_KERNELS_FUSION_ROWSPACE_H

#include "lib/kernels/fusion/RowOp.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace cleave::kernels {

/// How a tensor lies over a space's rows.
struct Layout {
  /// Factors of the space, major first, in the order of the tensor's elements. Those that it lacks
  /// it does not depend on.
  llvm::SmallVector<unsigned, 4> rows;
  /// Elements of each row; 0 where there is one number for each row.
  int64_t columns = 0;
  /// A sum over all rows.
  bool isTotal = false;
};

/// Rows over which ops are laid, one op after the other. An op's factors become those of tensors
/// that the space knows already: two factorizations of one dimension are cut until they agree.
/// Factors of which no tensor is known are new ones.
class RowSpace {
public:
  /// A point to return to.
  struct Mark {
    size_t values, splits, factors;
    int64_t rows;
    bool hasTotals;
  };

  /// Lays the op over the space; false, and nothing changed, where that is not possible: it means
  /// other rows, has columns where the space has rows, takes a sum over all rows that the space
  /// makes, or brings new rows where the space has such sums.
  bool add(mlir::Operation *op, const RowOp &rowOp);

  struct Member {
    mlir::Operation *op;
    const RowOp *rowOp;
  };
  /// Lays several ops over the space, those first that share tensors with what is there; in an
  /// empty one, the op that says most. False, and nothing changed, where one cannot be laid, or has
  /// rows and shares none.
  bool addAll(llvm::ArrayRef<Member> members);

  /// Whether the tensors that are known decide how `op` lies: what its columns are is not left to
  /// a guess.
  bool decides(mlir::Operation *op, const RowOp &rowOp) const;

  Mark mark() const { return {values.size(), splits.size(), factors.size(), numRows, hasTotals}; }
  void rollback(const Mark &mark);

  /// None for a value that no op of the space has.
  std::optional<Layout> find(mlir::Value value) const;
  bool knows(mlir::Value value) const { return layouts.contains(value); }
  /// Whether a tensor of the op that has rows is known.
  bool touches(mlir::Operation *op) const;

  int64_t sizeOf(unsigned factor) const { return factors[factor].size; }
  /// All rows, and those of a layout.
  int64_t countRows() const { return numRows; }
  int64_t countRows(const Layout &layout) const;

private:
  static constexpr int kNone = -1;
  /// One that was cut is the product of two others.
  struct Factor {
    int64_t size;
    int major = kNone, minor = kNone;
  };
  using Binding = llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 6>;

  bool bind(const RowTensor &tensor, const Layout &layout, const RowOp &rowOp, Binding &binding);
  void split(unsigned factor, int64_t major);
  void resolve(llvm::ArrayRef<unsigned> rows, llvm::SmallVectorImpl<unsigned> &leaves) const;
  std::optional<RowOp> choose(mlir::Operation *op, const RowOp &rowOp) const;
  bool lay(mlir::Operation *op, const RowOp &rowOp);

  std::vector<Factor> factors;
  llvm::DenseMap<mlir::Value, Layout> layouts;
  int64_t numRows = 1;
  bool hasTotals = false;
  /// In the order in which they came.
  std::vector<mlir::Value> values;
  std::vector<unsigned> splits;
};

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_FUSION_ROWSPACE_H
