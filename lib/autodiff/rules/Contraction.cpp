//===- Contraction.cpp - derivatives of matrix products -----------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// `alpha * a @ b` with respect to `a`. PyTorch keeps a gradient in the layout of its matrix, and
/// so computes the transpose of the product where the matrix is stored by columns.
static Value leftGradient(Backward &b, Value a, Value other, Attribute alpha) {
  Value g = b.gradient();
  if (b.strides.isColumnMajor(a))
    return b.scale(b.t(b.mm(other, b.t(g))), alpha);
  return b.scale(b.mm(g, b.t(other)), alpha);
}

/// The same with respect to the right factor.
static Value rightGradient(Backward &b, Value a, Value other, Attribute alpha) {
  Value g = b.gradient();
  if (b.strides.isColumnMajor(other))
    return b.scale(b.t(b.mm(b.t(g), a)), alpha);
  return b.scale(b.mm(b.t(a), g), alpha);
}

void cleave::autodiff::attachContractionRules(MLIRContext &context) {
  attach<MmOp, [](MmOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return leftGradient(b, op.getSelf(), op.getMat2(), {}); });
    b.to(op.getMat2(), [&] { return rightGradient(b, op.getSelf(), op.getMat2(), {}); });
  }>(context);
  attach<AddmmOp, [](AddmmOp op, Backward &b) {
    Attribute alpha = op.getAlphaAttr();
    b.to(op.getSelf(), [&] { return b.scale(b.gradient(), op.getBetaAttr()); });
    b.to(op.getMat1(), [&] { return leftGradient(b, op.getMat1(), op.getMat2(), alpha); });
    b.to(op.getMat2(), [&] { return rightGradient(b, op.getMat1(), op.getMat2(), alpha); });
  }>(context);
  attach<BmmOp, [](BmmOp op, Backward &b) {
    Value g = b.gradient();
    b.to(op.getSelf(), [&] { return b.bmm(g, b.transpose(op.getMat2(), 1, 2)); });
    b.to(op.getMat2(), [&] { return b.bmm(b.transpose(op.getSelf(), 1, 2), g); });
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
