//===- Copy.cpp - derivatives of copies and of what is made like a tensor -----===//

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "lib/autodiff/Rules.h"

#include <numeric>

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// Each tensor's slice of the gradient. An empty 1-d tensor takes no part.
static void differentiateCat(CatOp op, Backward &b) {
  int64_t dim = fromFront(op.getDim().value_or(0), rankOf(op.getResult()));
  int64_t start = 0;
  for (Value tensor : op.getTensors()) {
    if (shapeOf(tensor) == ArrayRef<int64_t>{0}) {
      b.to(tensor, [&] { return b.zeroGradient(tensor); });
      continue;
    }
    int64_t size = shapeOf(tensor)[dim];
    b.to(tensor, [&] { return b.slice(b.gradient(), dim, start, start + size); });
    start += size;
  }
}

static void differentiateStack(StackOp op, Backward &b) {
  int64_t rank = rankOf(op.getResult());
  int64_t dim = fromFront(op.getDim().value_or(0), rank);
  Operation *parts = nullptr;
  for (auto [i, tensor] : llvm::enumerate(op.getTensors()))
    b.to(tensor, [&, i = i, tensor = tensor] {
      if (!parts) {
        Shape shape(shapeOf(op.getResult()));
        shape.erase(shape.begin() + dim);
        SmallVector<Type> types(op.getTensors().size(),
                                RankedTensorType::get(shape, dtypeOf(b.gradient())));
        parts = b.create("aten.unbind", types, b.gradient(), b.integer("dim", dim));
      }
      return parts->getResult(i);
    });
}

/// Sums over the repetitions, as `repeat_backward`: each repeated dimension becomes two.
static void differentiateRepeat(RepeatOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Value g = b.gradient();
    ArrayRef<int64_t> repeats = op.getRepeats();
    int64_t extra = int64_t(repeats.size()) - rankOf(self);
    if (llvm::is_contained(repeats, 0))
      return b.zeroGradient(self);
    Shape leading(extra);
    std::iota(leading.begin(), leading.end(), 0);
    if (extra > 0)
      g = b.sum(g, leading, /*keepDim=*/false);
    Shape divided, summed;
    for (int64_t d = 0; d < rankOf(self); ++d) {
      int64_t times = repeats[extra + d];
      if (times != 1) {
        summed.push_back(divided.size());
        divided.push_back(times);
      }
      divided.push_back(shapeOf(self)[d]);
    }
    if (summed.empty())
      return g;
    return b.sum(b.reshape(g, divided), summed, /*keepDim=*/false);
  });
}

template <typename OpTy> static void differentiateTriangle(OpTy op, Backward &b) {
  b.to(op.getSelf(), [&] {
    SmallVector<NamedAttribute, 1> attributes;
    if (std::optional<int64_t> diagonal = op.getDiagonal())
      attributes.push_back(b.integer("diagonal", *diagonal));
    return b.makeLike<OpTy>(b.gradient(), b.gradient(), attributes);
  });
}

static void differentiateRoll(RollOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    Shape shifts(llvm::reverse(op.getShifts()));
    Shape dims(llvm::reverse(op.getDims().value_or(ArrayRef<int64_t>())));
    for (int64_t &shift : shifts)
      shift = -shift;
    return b.makeLike<RollOp>(b.gradient(), b.gradient(),
                              {b.integers("shifts", shifts), b.integers("dims", dims)});
  });
}

void cleave::autodiff::attachCopyRules(MLIRContext &context) {
  attach<CloneOp, [](CloneOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  attach<LiftFreshCopyOp,
         [](LiftFreshCopyOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  // Converted back to the operand's dtype, as every gradient is.
  attach<ToCopyOp, [](ToCopyOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  attach<UnsafeViewOp, [](UnsafeViewOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.reshape(b.gradient(), shapeOf(op.getSelf())); });
  }>(context);
  attach<CatOp, differentiateCat>(context);
  attach<StackOp, differentiateStack>(context);
  attach<RepeatOp, differentiateRepeat>(context);
  attach<FlipOp, [](FlipOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.makeLike<FlipOp>(b.gradient(), b.gradient(), b.integers("dims", op.getDims()));
    });
  }>(context);
  attach<RollOp, differentiateRoll>(context);
  attach<TrilOp, differentiateTriangle<TrilOp>>(context);
  attach<TriuOp, differentiateTriangle<TriuOp>>(context);
  // Only shape and dtype of their operand matter.
  attachCut<ZerosLikeOp, OnesLikeOp, FullLikeOp, NewZerosOp, NewOnesOp, NewFullOp>(context);
}
