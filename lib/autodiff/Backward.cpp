//===- Backward.cpp - what a derivative rule sees -----------------------------===//

#include "lib/autodiff/Backward.h"
#include "dialects/train/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;

void Backward::enter(Operation *newOp) {
  op = newOp;
  SmallVector<NamedAttribute, 2> attributes = {
      builder.getNamedAttr(train::kBackwardAttrName, builder.getUnitAttr())};
  if (Attribute stage = op->getDiscardableAttr(train::kStageAttrName))
    attributes.push_back(builder.getNamedAttr(train::kStageAttrName, stage));
  setContext(op->getLoc(), attributes);
}

/// What PyTorch's engine does with a gradient before it adds it (`validate_outputs`), and the
/// addition
/// (`InputBuffer::add`), in this order.
void Backward::accumulate(Value value, Value gradient) {
  gradient = toType(sumTo(gradient, shapeOf(value)), dtypeOf(value));
  Value before = gradients.lookup(value);
  gradients[value] = before ? add(before, gradient) : gradient;
}

LogicalResult Backward::expectOnlyFirst() {
  for (OpResult result : op->getResults().drop_front())
    if (gradientOf(result))
      return refuse("of result #" + Twine(result.getResultNumber()) +
                    ", through which a gradient must flow");
  return success();
}

InFlightDiagnostic Backward::refuse(const Twine &why) {
  return op->emitOpError("has no derivative ") << why;
}
