//===- Folding.cpp - ops whose result is a value that is there already -------===//
//
// Only what is an identity forward and backward, to the bit, wherever it stands: canonicalization
// also runs before gradients exist. What changes the order of sums, or what is sent when, is the
// business of --simplify-communication.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave::dist;

/// What `op` was made of by another op of its kind, where `op` leads back to the type it had.
template <typename Op> static Value undoes(Op op) {
  auto inner = op.getInput().template getDefiningOp<Op>();
  if (inner && inner.getInput().getType() == op.getResult().getType())
    return inner.getInput();
  return {};
}

/// There and back: `I` to `R` to `I`, or the other way round. Other conversions have no way back.
OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return undoes(*this);
}

/// There and back: `V` to `S(d)` to `V`, or the other way round.
OpFoldResult ReinterpretOp::fold(FoldAdaptor) {
  return undoes(*this);
}

/// fake_gather(fake_scatter(x)) is x; its derivative scatters what was gathered, so that is x, too.
OpFoldResult FakeGatherOp::fold(FoldAdaptor) {
  auto scatter = getInput().getDefiningOp<FakeScatterOp>();
  if (scatter && scatter.getDim() == getDim() && scatter.getMeshAttr() == getMeshAttr() &&
      scatter.getAxes() == getAxes() && scatter.getInput().getType() == getResult().getType())
    return scatter.getInput();
  return {};
}

/// No value moves. A shift that is only started stays: its result is a future.
OpFoldResult ShiftOp::fold(FoldAdaptor) {
  if (getBy() == 0 && getInput().getType() == getResult().getType())
    return getInput();
  return {};
}
