//===- Copy.cpp - derivatives of copies and of what is made like a tensor -----===//

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Part.h"
#include "lib/autodiff/Rules.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
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
    b.to(tensor, [&, i = i] {
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

/// `self` with all elements overwritten by `src`.
static void differentiateCopy(CopyOp op, Backward &b) {
  b.to(op.getSelf(), [&] { return b.zeroGradient(op.getSelf()); });
  b.to(op.getSrc(), b.gradient());
}

/// Zeros in the place of `src`, to be combined with a gradient that may be a pending sum.
static Value zerosBeside(Backward &b, Value src, Value gradient) {
  Value zeros = b.zeroGradient(src);
  dist::PlacementAttr placement = dist::getPlacement(gradient.getType());
  if (!placement)
    return zeros;
  dist::PlacementAttr wanted = dist::getPlacement(zeros.getType());
  for (const dist::AxisEntry &entry : placement.getEntries())
    if (entry.placement.isPartialSum())
      wanted = wanted.with(entry.axis, entry.placement);
  return b.conform(zeros, wanted);
}

/// `self` with a part overwritten by `src`, which `Part` reads back; `names` say which.
template <typename Part, typename OpTy>
static void differentiateScatter(OpTy op, Backward &b, ArrayRef<StringRef> names) {
  Value g = b.gradient(), src = op.getSrc();
  SmallVector<NamedAttribute> place;
  for (StringRef name : names)
    if (std::optional<Attribute> value = op->getInherentAttr(name); value && *value)
      place.push_back(b.named(name, *value));
  b.to(op.getSelf(), [&] { return b.makeLike<OpTy>(g, {g, zerosBeside(b, src, g)}, place); });
  b.to(src, [&] { return b.make<Part>(shapeOf(src), dtypeOf(g), g, place); });
}

/// What was added is left out, and what was left out is added: zeros.
static void differentiatePad(ConstantPadNdOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    Shape pad(op.getPad());
    for (int64_t &count : pad)
      count = -count;
    return b.make<ConstantPadNdOp>(shapeOf(op.getSelf()), dtypeOf(b.gradient()), b.gradient(),
                                   b.integers("pad", pad));
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
  attachForComplex<CloneOp, [](CloneOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(
      context);
  attachForComplex<LiftFreshCopyOp, [](LiftFreshCopyOp op, Backward &b) {
    b.to(op.getSelf(), b.gradient());
  }>(context);
  // Converted back to the operand's dtype, as every gradient is.
  attachForComplex<ToCopyOp, [](ToCopyOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(
      context);
  attachForComplex<UnsafeViewOp, [](UnsafeViewOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.reshape(b.gradient(), shapeOf(op.getSelf())); });
  }>(context);
  attachForComplex<CatOp, differentiateCat>(context);
  attachForComplex<StackOp, differentiateStack>(context);
  attachForComplex<RepeatOp, differentiateRepeat>(context);
  attachForComplex<FlipOp, [](FlipOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.makeLike<FlipOp>(b.gradient(), b.gradient(), b.integers("dims", op.getDims()));
    });
  }>(context);
  attachForComplex<RollOp, differentiateRoll>(context);
  attachForComplex<TrilOp, differentiateTriangle<TrilOp>>(context);
  attachForComplex<TriuOp, differentiateTriangle<TriuOp>>(context);
  attachForComplex<CopyOp, differentiateCopy>(context);
  attachForComplex<FillTensorOp, [](FillTensorOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.zeroGradient(op.getSelf()); });
    b.to(op.getValue(), [&] { return b.sum(b.gradient()); });
  }>(context);
  attachForComplex<SliceScatterOp, [](SliceScatterOp op, Backward &b) {
    differentiateScatter<SliceOp>(op, b, {"dim", "start", "end", "step"});
  }>(context);
  attachForComplex<SelectScatterOp, [](SelectScatterOp op, Backward &b) {
    differentiateScatter<SelectOp>(op, b, {"dim", "index"});
  }>(context);
  attachForComplex<ConstantPadNdOp, differentiatePad>(context);
  // Only shape and dtype of their operand matter.
  attachCut<ZerosLikeOp, OnesLikeOp, EmptyLikeOp, FullLikeOp, ZeroOp, FillScalarOp,
            NewEmptyStridedOp, NewZerosOp, NewOnesOp, NewFullOp>(context);
}
