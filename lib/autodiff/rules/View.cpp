//===- View.cpp - derivatives of views ----------------------------------------===//

#include "dialects/aten/ops/View.h"
#include "dialects/aten/ops/Part.h"
#include "lib/autodiff/Rules.h"

#include <limits>

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// The elements stay in row-major order: so do the gradients.
template <typename OpTy> static void reshapeBack(OpTy op, Backward &b) {
  b.to(op.getSelf(), [&] { return b.reshape(b.gradient(), shapeOf(op.getSelf())); });
}

/// Dropped dimensions of size 1, put back one by one.
static void unsqueezeBack(Backward &b, Value self, ArrayRef<int64_t> dims) {
  b.to(self, [&] {
    Shape dropped;
    for (int64_t dim : dims)
      if (rankOf(self) > 0 && shapeOf(self)[dim] == 1)
        dropped.push_back(dim);
    return b.unsqueeze(b.gradient(), dropped);
  });
}

/// The gradients of the parts, side by side; zeros for a part that has none.
template <typename OpTy> static void joinParts(OpTy op, Backward &b) {
  b.to(op.getSelf(), [&] {
    SmallVector<Value> parts;
    for (auto [i, part] : llvm::enumerate(op.getParts())) {
      Value g = b.gradient(i);
      parts.push_back(g ? g : b.zeroGradient(part));
    }
    return b.cat(parts, fromFront(op.getDim().value_or(0), rankOf(op.getSelf())));
  });
}

static void differentiateSlice(SliceOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    return b.makeLike<SliceBackwardOp>(
        self, b.gradient(),
        {b.integers("input_sizes", shapeOf(self)), b.integer("dim", op.getDim().value_or(0)),
         b.integer("start", op.getStart().value_or(0)),
         b.integer("end", op.getEnd().value_or(std::numeric_limits<int64_t>::max())),
         b.integer("step", op.getStep().value_or(1))});
  });
}

static void differentiateSelect(SelectOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    return b.makeLike<SelectBackwardOp>(self, b.gradient(),
                                        {b.integers("input_sizes", shapeOf(self)),
                                         b.integer("dim", op.getDim()),
                                         b.integer("index", op.getIndex())});
  });
}

static void differentiateUnbind(UnbindOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    SmallVector<Value> parts;
    for (auto [i, part] : llvm::enumerate(op.getParts())) {
      Value g = b.gradient(i);
      parts.push_back(g ? g : b.zeroGradient(part));
    }
    return b.stack(parts, fromFront(op.getDim().value_or(0), rankOf(op.getSelf())));
  });
}

static void differentiatePermute(PermuteOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    Shape inverse(op.getDims().size());
    for (auto [to, from] : llvm::enumerate(op.getDims()))
      inverse[fromFront(from, inverse.size())] = to;
    return b.permute(b.gradient(), inverse);
  });
}

void cleave::autodiff::attachViewRules(MLIRContext &context) {
  attachCut<DetachOp>(context);
  attachForComplex<AliasOp, [](AliasOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(
      context);
  attachForComplex<ViewOp, reshapeBack<ViewOp>>(context);
  // The sum over what was repeated is that of any broadcast operand.
  attachForComplex<ExpandOp, [](ExpandOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(
      context);
  attachForComplex<TOp, [](TOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.t(b.gradient()); });
  }>(context);
  attachForComplex<TransposeOp, [](TransposeOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.transpose(b.gradient(), op.getDim0(), op.getDim1()); });
  }>(context);
  attachForComplex<PermuteOp, differentiatePermute>(context);
  attachForComplex<UnsqueezeOp, [](UnsqueezeOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.squeeze(b.gradient(), op.getDim()); });
  }>(context);
  attachForComplex<SqueezeOp, [](SqueezeOp op, Backward &b) {
    unsqueezeBack(b, op.getSelf(), dimsOrAll(std::nullopt, rankOf(op.getSelf())));
  }>(context);
  attachForComplex<SqueezeDimOp, [](SqueezeDimOp op, Backward &b) {
    unsqueezeBack(b, op.getSelf(), fromFront(op.getDim(), rankOf(op.getSelf())));
  }>(context);
  attachForComplex<SqueezeDimsOp, [](SqueezeDimsOp op, Backward &b) {
    Shape dims;
    for (int64_t dim : op.getDim())
      dims.push_back(fromFront(dim, rankOf(op.getSelf())));
    unsqueezeBack(b, op.getSelf(), dims);
  }>(context);
  attachForComplex<SliceOp, differentiateSlice>(context);
  attachForComplex<SelectOp, differentiateSelect>(context);
  attachForComplex<SplitOp, joinParts<SplitOp>>(context);
  attachForComplex<SplitWithSizesOp, joinParts<SplitWithSizesOp>>(context);
  attachForComplex<UnbindOp, differentiateUnbind>(context);
}
