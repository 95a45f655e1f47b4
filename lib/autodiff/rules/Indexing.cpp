//===- Indexing.cpp - derivatives of look-ups, gathers and scatters -----------===//

#include "dialects/aten/ops/Indexing.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

static LogicalResult differentiateEmbedding(EmbeddingOp op, Backward &b) {
  if (op.getSparse().value_or(false))
    return b.refuse("with `sparse = true`: programs have no sparse gradients");
  Value weight = op.getWeight();
  b.to(weight, [&] {
    return b.make<EmbeddingDenseBackwardOp>(
        shapeOf(weight), dtypeOf(b.gradient()), {b.gradient(), op.getIndices()},
        {b.integer("num_weights", shapeOf(weight)[0]),
         b.integer("padding_idx", op.getPaddingIdx().value_or(-1)),
         b.boolean("scale_grad_by_freq", op.getScaleGradByFreq().value_or(false))});
  });
  return success();
}

/// Operands and attributes of an op that takes `tensor`, the indices of `op`, and `more`.
template <typename OpTy, typename Result>
static Value indexLike(OpTy op, Backward &b, Value tensor, ArrayRef<int64_t> shape,
                       ValueRange more = {}, ArrayRef<NamedAttribute> extra = {}) {
  SmallVector<Value> operands = {tensor};
  llvm::append_range(operands, op.getIndices());
  llvm::append_range(operands, more);
  SmallVector<NamedAttribute> attributes(extra);
  if (DenseBoolArrayAttr present = op.getIndicesPresentAttr())
    attributes.push_back(b.named("indices_present", present));
  return b.make<Result>(shape, dtypeOf(tensor), operands, attributes);
}

/// The shape of `self[indices]` for indices that are not masks.
static Shape indexedShape(IndexPutOp op) {
  Shape together, result;
  for (Value index : op.getIndices())
    together = *broadcastShapes(together, shapeOf(index));
  std::optional<ArrayRef<bool>> present = op.getIndicesPresent();
  size_t places = present ? present->size() : op.getIndices().size();
  std::optional<size_t> first, last;
  size_t front = 0;
  for (auto [i, size] : llvm::enumerate(shapeOf(op.getSelf()))) {
    if (i < places && (!present || (*present)[i])) {
      first = first.value_or(i);
      last = i;
      continue;
    }
    result.push_back(size);
    front += !first;
  }
  bool sideBySide = *last - *first + 1 == op.getIndices().size();
  result.insert(result.begin() + (sideBySide ? front : 0), together.begin(), together.end());
  return result;
}

static LogicalResult differentiateIndexPut(IndexPutOp op, Backward &b) {
  Value g = b.gradient(), values = op.getValues();
  bool accumulates = op.getAccumulate().value_or(false);
  auto isMask = [](Value index) {
    return dtypeOf(index).isInteger(1) || dtypeOf(index).isUnsignedInteger(8);
  };
  b.to(op.getSelf(), [&] {
    if (accumulates)
      return g;
    return indexLike<IndexPutOp, IndexPutOp>(op, b, g, shapeOf(g), b.zeroBeside(g));
  });
  if (!b.needs(values))
    return success();
  if (llvm::any_of(op.getIndices(), isMask)) {
    // How many elements a mask takes is not known; of a single number the gradient is a sum.
    bool only = op.getIndices().size() == 1 && tensorType(values).getNumElements() == 1 &&
                shapeOf(op.getIndices().front()) == shapeOf(g);
    if (!only)
      return b.refuse("with respect to `values` where an index is a mask");
    b.to(values, [&] {
      return b.reshape(b.sum(b.keepWhere(op.getIndices().front(), g)), shapeOf(values));
    });
    return success();
  }
  b.to(values, [&] { return indexLike<IndexPutOp, IndexOp>(op, b, g, indexedShape(op)); });
  return success();
}

/// Zeros to which the gradients of what was taken from `self` are added. Terms of its gradient, but
/// where places or gradients vary: there the sum does, as a constant joins anything that varies.
static Value zerosToAddTo(Backward &b, Value self, ValueRange beside) {
  Value zero = b.zeros(shapeOf(self), dtypeOf(self));
  RankedTensorType type = b.gradientType(self);
  cleave::dist::PlacementAttr placement =
      type ? cleave::dist::getPlacement(type) : cleave::dist::PlacementAttr();
  if (!placement)
    return zero;
  cleave::dist::PlacementAttr constant = cleave::dist::getPlacement(zero.getType());
  for (const cleave::dist::AxisEntry &entry : constant.getEntries())
    if (llvm::any_of(beside, [&](Value value) {
          return cleave::dist::getPlacement(value.getType()).get(entry.axis)->isVarying();
        }))
      placement = placement.with(entry.axis, entry.placement);
  return b.conform(zero, placement);
}

/// Each element that was read gets the sum of the gradients of where it went.
template <typename Write, typename OpTy> static void differentiateIndex(OpTy op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<Value> beside(op.getIndices());
    beside.push_back(b.gradient());
    return indexLike<OpTy, Write>(op, b, zerosToAddTo(b, self, beside), shapeOf(self), b.gradient(),
                                  b.boolean("accumulate", true));
  });
}

/// The gradient with zeros where the op wrote.
template <typename OpTy> static Value zeroScattered(OpTy op, Backward &b) {
  return b.makeLike<ScatterValueOp>(
      b.gradient(), {b.gradient(), op.getIndex()},
      {b.integer("dim", op.getDim()), b.named("value", b.scalar(int64_t(0)))});
}

/// What was scattered gets the gradient of where it went.
template <typename OpTy> static LogicalResult gatherBack(OpTy op, Backward &b) {
  Value source = op.getSrc(), index = op.getIndex();
  if (b.needs(source) && shapeOf(source) != shapeOf(index))
    return b.refuse("with respect to `src` where its shape is not that of `index`");
  b.to(source, [&] {
    return b.make<GatherOp>(shapeOf(index), dtypeOf(b.gradient()), {b.gradient(), index},
                            b.integer("dim", op.getDim()));
  });
  return success();
}

void cleave::autodiff::attachIndexingRules(MLIRContext &context) {
  attachForComplex<EmbeddingOp, differentiateEmbedding>(context);
  attachForComplex<IndexOp, differentiateIndex<IndexPutOp, IndexOp>>(context);
  attachForComplex<UnsafeIndexOp, differentiateIndex<UnsafeIndexPutOp, UnsafeIndexOp>>(context);
  attachForComplex<IndexPutOp, differentiateIndexPut>(context);
  attachForComplex<IndexSelectOp, [](IndexSelectOp op, Backward &b) {
    Value self = op.getSelf();
    b.to(self, [&] {
      Value zeros = zerosToAddTo(b, self, {op.getIndex(), b.gradient()});
      return b.makeLike<IndexAddOp>(self, {zeros, op.getIndex(), b.gradient()},
                                    b.integer("dim", op.getDim()));
    });
  }>(context);
  attachForComplex<IndexAddOp, [](IndexAddOp op, Backward &b) {
    Value source = op.getSource();
    b.to(op.getSelf(), b.gradient());
    b.to(source, [&] {
      Value taken =
          b.make<IndexSelectOp>(shapeOf(source), dtypeOf(source), {b.gradient(), op.getIndex()},
                                b.integer("dim", op.getDim()));
      return b.scale(taken, op.getAlphaAttr());
    });
  }>(context);
  attachForComplex<GatherOp, [](GatherOp op, Backward &b) {
    Value self = op.getSelf();
    b.to(self, [&] {
      Value zeros = zerosToAddTo(b, self, {op.getIndex(), b.gradient()});
      return b.makeLike<ScatterAddOp>(self, {zeros, op.getIndex(), b.gradient()},
                                      b.integer("dim", op.getDim()));
    });
  }>(context);
  attachForComplex<ScatterAddOp, [](ScatterAddOp op, Backward &b) {
    b.to(op.getSelf(), b.gradient());
    return gatherBack(op, b);
  }>(context);
  attachForComplex<ScatterSrcOp, [](ScatterSrcOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return zeroScattered(op, b); });
    return gatherBack(op, b);
  }>(context);
  attachForComplex<ScatterValueOp, [](ScatterValueOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return zeroScattered(op, b); });
  }>(context);
}
