//===- RandomOps.cpp - a rank's part of what is drawn ------------------------===//
//
// PyTorch's generator is a stream: which numbers an element gets depends on where it is in the
// whole. So every rank draws the whole tensor, and its part is a slice, at no cost. ("philox" has
// a number for each element of the whole; there each rank draws its part alone.)
//
//===----------------------------------------------------------------------===//

#include "lib/placement/partition/RandomOps.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

class PartDrawer {
public:
  PartDrawer(OpBuilder &builder, Operation *op, PartitionContext &context)
      : builder(builder), op(op), context(context),
        whole(context.axes.size(), AxisPlacement::replicate()) {}

  /// The op on a whole `like` (its first operand), with whole results.
  Operation *draw(Value like, ValueRange operands);
  /// The type of a whole value.
  RankedTensorType wholeType(Type global) const {
    return dist::withPlacement(cast<RankedTensorType>(global), context.attributeOf(whole));
  }
  /// Ones in the shape and dtype of the op's first operand, lying in memory as the global one.
  Value makeOnes();
  /// A whole value, lying in memory so.
  Value arrange(Value whole);
  FailureOr<Value> redistribute(Value value, Type global, ArrayRef<AxisPlacement> to);

private:
  /// An op with one whole result.
  template <typename OpTy>
  Value create(Type type, ValueRange operands, ArrayRef<NamedAttribute> attributes) {
    OperationState state(op->getLoc(), OpTy::getOperationName());
    state.addOperands(operands);
    state.addTypes(wholeType(dist::erasePlacement(type)));
    state.addAttributes(attributes);
    return builder.create(state)->getResult(0);
  }
  Value permute(Value value, ArrayRef<int64_t> dims);
  Value inMemoryOrder(llvm::function_ref<Value(ArrayRef<int64_t> order)> make);

  OpBuilder &builder;
  Operation *op;
  PartitionContext &context;
  AxisPlacements whole;
};

} // namespace

/// The dimensions of a value from the one with the largest stride on, where its elements fill their
/// memory; else, as where the strides are not known, those of a row-major tensor.
static SmallVector<int64_t> memoryOrder(ArrayRef<int64_t> shape,
                                        const std::optional<aten::Strides> &strides) {
  auto rowMajor = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  SmallVector<int64_t> order(rowMajor);
  if (!strides)
    return SmallVector<int64_t>(rowMajor);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return (*strides)[a] > (*strides)[b]; });
  int64_t expected = 1;
  for (int64_t dim : llvm::reverse(order)) {
    if (shape[dim] != 1 && (*strides)[dim] != expected)
      return SmallVector<int64_t>(rowMajor);
    expected *= shape[dim];
  }
  return order;
}

Value PartDrawer::permute(Value value, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t dim : dims)
    shape.push_back(cast<RankedTensorType>(value.getType()).getDimSize(dim));
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return create<aten::PermuteOp>(
      RankedTensorType::get(shape, element), value,
      {builder.getNamedAttr("dims", builder.getDenseI64ArrayAttr(dims))});
}

/// Numbers are dealt out in memory order: `make` makes a contiguous tensor of the dimensions in the
/// order in which those of the whole first operand lie in memory.
Value PartDrawer::inMemoryOrder(llvm::function_ref<Value(ArrayRef<int64_t> order)> make) {
  auto global = cast<RankedTensorType>(op->getOperand(0).getType());
  std::optional<aten::Strides> strides = context.strides.get(op->getOperand(0));
  if (!strides)
    op->emitRemark("draws in row-major order: the memory layout of its operand on one device, "
                   "which determines the order, is unknown");
  SmallVector<int64_t> order = memoryOrder(global.getShape(), strides);
  SmallVector<int64_t> inverse(order.size());
  for (auto [i, dim] : llvm::enumerate(order))
    inverse[dim] = i;
  Value value = make(order);
  return llvm::is_sorted(order) ? value : permute(value, inverse);
}

Value PartDrawer::makeOnes() {
  auto global = cast<RankedTensorType>(op->getOperand(0).getType());
  return inMemoryOrder([&](ArrayRef<int64_t> order) {
    SmallVector<int64_t> shape;
    for (int64_t dim : order)
      shape.push_back(global.getDimSize(dim));
    Type element = global.getElementType();
    return create<aten::FullOp>(RankedTensorType::get(shape, element), {},
                                {builder.getNamedAttr("size", builder.getDenseI64ArrayAttr(shape)),
                                 builder.getNamedAttr("fill_value", builder.getF64FloatAttr(1)),
                                 builder.getNamedAttr("dtype", TypeAttr::get(element))});
  });
}

Value PartDrawer::arrange(Value whole) {
  return inMemoryOrder([&](ArrayRef<int64_t> order) {
    Value permuted = llvm::is_sorted(order) ? whole : permute(whole, order);
    return create<aten::CloneOp>(
        permuted.getType(), permuted,
        {builder.getNamedAttr("memory_format", builder.getStringAttr("contiguous_format"))});
  });
}

Operation *PartDrawer::draw(Value like, ValueRange operands) {
  Operation *drawn = builder.clone(*op);
  drawn->removeAttr(dist::kOperandsAttr);
  drawn->removeAttr(dist::kResultsAttr);
  drawn->setOperands(operands);
  drawn->setOperand(0, like);
  for (OpResult result : drawn->getResults())
    result.setType(wholeType(op->getResult(result.getResultNumber()).getType()));
  return drawn;
}

FailureOr<Value> PartDrawer::redistribute(Value value, Type global, ArrayRef<AxisPlacement> to) {
  const Redistribution *plan =
      context.planner.plan(cast<RankedTensorType>(global), context.entriesOf(value), to);
  if (!plan)
    return op->emitOpError("draws numbers that cannot be placed as ") << describe(to);
  return buildRedistribution(builder, op->getLoc(), value,
                             cast<RankedTensorType>(global).getShape(), *plan, context.axes);
}

FailureOr<SmallVector<Value>> placement::drawParts(OpBuilder &builder, Operation *op,
                                                   ValueRange operands,
                                                   ArrayRef<AxisPlacements> results,
                                                   PartitionContext &context) {
  PartDrawer drawer(builder, op, context);
  if (auto dropout = dyn_cast<aten::RngNativeDropoutOp>(op)) {
    // Dropout of ones gives the factor for each element of the input.
    Operation *drawn = drawer.draw(drawer.makeOnes(), operands);
    FailureOr<Value> scale =
        drawer.redistribute(drawn->getResult(0), op->getResult(0).getType(), results[1]);
    FailureOr<Value> mask =
        drawer.redistribute(drawn->getResult(1), op->getResult(1).getType(), results[1]);
    if (failed(scale) || failed(mask))
      return failure();
    OperationState state(op->getLoc(), aten::MulOp::getOperationName());
    state.addOperands({operands[0], *scale});
    state.addTypes(operands[0].getType());
    return SmallVector<Value>{builder.create(state)->getResult(0), *mask};
  }
  // Where the elements of the first operand are probabilities, they are needed.
  auto bernoulli = dyn_cast<aten::RngBernoulliOp>(op);
  bool ofProbabilities = (bernoulli && !bernoulli.getP()) || isa<aten::RngMultinomialOp>(op);
  FailureOr<Value> like;
  if (ofProbabilities)
    like = drawer.redistribute(operands[0], op->getOperand(0).getType(),
                               AxisPlacements(context.axes.size(), AxisPlacement::replicate()));
  else
    like = drawer.makeOnes();
  if (failed(like))
    return failure();
  if (ofProbabilities)
    like = drawer.arrange(*like);
  Operation *drawn = drawer.draw(*like, operands);
  FailureOr<Value> part =
      drawer.redistribute(drawn->getResult(0), op->getResult(0).getType(), results[0]);
  if (failed(part))
    return failure();
  return SmallVector<Value>{*part};
}
