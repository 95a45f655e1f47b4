//===- Contraction.cpp - derivatives of matrix products -----------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Grouping.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// `alpha * a @ b` with respect to `a`. PyTorch keeps a gradient in the layout of its matrix, and
/// so computes the transpose of the product where the matrix is stored by columns.
static Value leftGradient(Backward &b, Value a, Value other, Attribute alpha) {
  Value g = b.gradient();
  if (b.strides.isColumnMajor(a))
    return b.scale(b.t(b.mm(b.conj(other), b.t(g))), b.conj(alpha));
  return b.scale(b.mm(g, b.conj(b.t(other))), b.conj(alpha));
}

/// The same with respect to the right factor.
static Value rightGradient(Backward &b, Value a, Value other, Attribute alpha) {
  Value g = b.gradient();
  if (b.strides.isColumnMajor(other))
    return b.scale(b.t(b.mm(b.t(g), b.conj(a))), b.conj(alpha));
  return b.scale(b.mm(b.conj(b.t(a)), g), b.conj(alpha));
}

/// A product by the same groups; which dimension they divide follows from the ranks.
static Value groupedMm(Backward &b, Value left, Value right, Value ends) {
  int64_t rank = rankOf(left);
  Shape shape = {shapeOf(left)[rank - 2], shapeOf(right).back()};
  if (rank == rankOf(right))
    shape.insert(shape.begin(), rank == 3 ? shapeOf(left)[0] : shapeOf(ends)[0]);
  SmallVector<Value> operands = {left, right};
  if (ends)
    operands.push_back(ends);
  return b.make<GroupedMmOp>(shape, dtypeOf(left), operands, b.segments({1, 1, ends ? 1 : 0, 0}));
}

/// As of a product of matrices, the gradient of one stored by columns is computed transposed.
static void differentiateGroupedMm(GroupedMmOp op, Backward &b) {
  Value self = op.getSelf(), mat2 = op.getMat2(), ends = op.getOffs();
  Value g = b.toType(b.gradient(), dtypeOf(self));
  auto transposed = [&](Value value) { return b.transpose(value, -2, -1); };
  b.to(self, [&] {
    if (b.strides.isColumnMajor(self))
      return transposed(groupedMm(b, mat2, transposed(g), ends));
    return groupedMm(b, g, transposed(mat2), ends);
  });
  b.to(mat2, [&] {
    if (b.strides.isColumnMajor(mat2))
      return transposed(groupedMm(b, transposed(g), self, ends));
    return groupedMm(b, transposed(self), g, ends);
  });
}

void cleave::autodiff::attachContractionRules(MLIRContext &context) {
  attachForComplex<MmOp, [](MmOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return leftGradient(b, op.getSelf(), op.getMat2(), {}); });
    b.to(op.getMat2(), [&] { return rightGradient(b, op.getSelf(), op.getMat2(), {}); });
  }>(context);
  attachForComplex<AddmmOp, [](AddmmOp op, Backward &b) {
    Attribute alpha = op.getAlphaAttr();
    b.to(op.getSelf(), [&] { return b.scale(b.gradient(), b.conj(op.getBetaAttr())); });
    b.to(op.getMat1(), [&] { return leftGradient(b, op.getMat1(), op.getMat2(), alpha); });
    b.to(op.getMat2(), [&] { return rightGradient(b, op.getMat1(), op.getMat2(), alpha); });
  }>(context);
  attachForComplex<BmmOp, [](BmmOp op, Backward &b) {
    Value g = b.gradient();
    b.to(op.getSelf(), [&] { return b.bmm(g, b.conj(b.transpose(op.getMat2(), 1, 2))); });
    b.to(op.getMat2(), [&] { return b.bmm(b.conj(b.transpose(op.getSelf(), 1, 2)), g); });
  }>(context);
  attach<BaddbmmOp, [](BaddbmmOp op, Backward &b) {
    Value g = b.gradient();
    Attribute alpha = op.getAlphaAttr();
    b.to(op.getSelf(), [&] { return b.scale(g, op.getBetaAttr()); });
    b.to(op.getBatch1(),
         [&] { return b.scale(b.bmm(g, b.transpose(op.getBatch2(), 1, 2)), alpha); });
    b.to(op.getBatch2(),
         [&] { return b.scale(b.bmm(b.transpose(op.getBatch1(), 1, 2), g), alpha); });
  }>(context);
  attach<GroupedMmOp, differentiateGroupedMm>(context);
  attach<MvOp, [](MvOp op, Backward &b) {
    Value g = b.gradient();
    // The outer product of `grad.ger(vec)`: one product for each element, in any kernel.
    b.to(op.getSelf(), [&] { return b.mul(b.unsqueeze(g, 1), b.unsqueeze(op.getVec(), 0)); });
    b.to(op.getVec(), [&] { return b.mv(b.t(op.getSelf()), g); });
  }>(context);
  attach<DotOp, [](DotOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), op.getTensor()); });
    b.to(op.getTensor(), [&] { return b.mul(b.gradient(), op.getSelf()); });
  }>(context);
}
