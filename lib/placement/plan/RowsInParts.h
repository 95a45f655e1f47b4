//===- RowsInParts.h - rows sorted by expert become rows in parts ----*- C++ -*-===//
//
// Sorted rows of all ranks become a part for each rank along the axis, with the rows of its experts
// in the same order, then room. A row's number, part * room + place, follows from numbers of rows
// by source rank and expert: each rank sorts its own rows, and only counts are shared. An
// `index_put` writes rows by number, an `index` reads them again, as rows of tokens in the tokens'
// order; partitioned, both are an exchange of as many rows as there are (forms/ExchangedRows.cpp).
// Where other axes divide the batch too, each of their ranks' tokens are a group of rows with parts
// of its own, and rows stay in their group: the groups' ranks have the same experts. On one device
// the rewritten program computes what it did.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PLAN_ROWSINPARTS_H
#define CLEAVE_LIB_PLACEMENT_PLAN_ROWSINPARTS_H

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/aten/AtenBuilder.h"
#include "lib/placement/plan/ExpertRows.h"

namespace cleave::placement {

/// Between whom rows go.
struct Parts {
  /// The axis that divides experts, and its ranks: each has a part of every group.
  llvm::StringRef axis;
  int64_t inGroup;
  /// Axes that divide the batch before it does, major first, and how many groups that makes.
  llvm::SmallVector<llvm::StringRef, 2> groupAxes;
  int64_t groups = 1;
  /// For how many rows each part has room.
  int64_t room = 0;

  int64_t all() const { return groups * inGroup; }
};

/// Rewrites the rows of one sort.
class RowsRewriter {
public:
  RowsRewriter(const ExpertRows &rows, dist::MeshOp mesh, const Parts &parts)
      : rows(rows), mesh(mesh), parts(parts), room(parts.room), builder(mesh.getContext()),
        b(builder, {}) {
    llvm::append_range(ops, rows.ops);
    llvm::sort(ops, [](mlir::Operation *x, mlir::Operation *y) { return x->isBeforeInBlock(y); });
  }

  /// Whether all values from outside have rows along dimension 0.
  bool canRewrite() const {
    return llvm::all_of(rows.values, [&](auto &each) {
      return each.second == 0 || rows.ops.contains(each.first.getDefiningOp());
    });
  }
  void rewrite();

private:
  void startAt(mlir::Operation *op) {
    builder.setInsertionPoint(op);
    llvm::SmallVector<mlir::NamedAttribute> kept;
    for (mlir::NamedAttribute attribute : op->getDiscardableAttrs())
      if (attribute.getName().getValue().starts_with("train."))
        kept.push_back(attribute);
    b.setContext(op->getLoc(), kept);
  }

  // Numbers of rows in the parts.
  void makeNumbers();
  mlir::Value byToken(mlir::Value value);
  mlir::Value getSortedNumbers();

  // Rows of tokens in the tokens' order, and rows in parts.
  mlir::Value write(mlir::Value tokenRows);
  mlir::Value read(mlir::Value partRows);
  mlir::Value put(mlir::Value values, mlir::Value places);
  mlir::Value take(mlir::Value partRows, mlir::Value places);
  mlir::Value writeSorted(mlir::Value sorted);
  mlir::Value readSorted(mlir::Value partRows);
  mlir::Value expandTokens(mlir::Value tokens);
  mlir::Value enter(mlir::Value sorted);
  mlir::Value get(mlir::Value sorted);
  void clone(mlir::Operation *op);
  mlir::Value forGroups(mlir::Value matrices);
  mlir::Value overGroups(mlir::Value matrices);
  void leave(mlir::OpOperand &use);
  void replaceWithRows(mlir::Operation *op, mlir::Value tokenRows);

  mlir::Value mark(mlir::Value value, llvm::ArrayRef<int64_t> operandDims);
  void erase(mlir::Operation *op);

  mlir::Value cumsum(mlir::Value value, int64_t dim) {
    return b.makeLike<aten::CumsumOp>(value, value, b.integer("dim", dim));
  }
  mlir::Value floorDivide(mlir::Value value, int64_t by) {
    return b.makeLike<aten::FloorDivideScalarOp>(value, value, b.named("other", b.scalar(by)));
  }
  mlir::Value arange(int64_t size) {
    mlir::Type i64 = builder.getI64Type();
    return b.make<aten::ArangeOp>({size}, i64, {},
                                  {b.named("end", b.scalar(size)), b.dtype("dtype", i64)});
  }

  const ExpertRows &rows;
  dist::MeshOp mesh;
  Parts parts;
  int64_t room;
  mlir::OpBuilder builder;
  aten::AtenBuilder b;

  llvm::SmallVector<mlir::Operation *> ops;
  /// By row of a token.
  mlir::Value numbers;
  /// The same in the order of the sort; made where it is needed.
  mlir::Value sortedNumbers;
  /// In the parts, as running sums over all of them.
  mlir::Value ends;
  llvm::DenseMap<mlir::Value, mlir::Value> inParts;
  llvm::DenseSet<mlir::Operation *> erased;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PLAN_ROWSINPARTS_H
