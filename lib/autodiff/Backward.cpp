//===- Backward.cpp - what a derivative rule sees -----------------------------===//

#include "lib/autodiff/Backward.h"
#include "dialects/aten/DTypes.h"
#include "dialects/train/Program.h"
#include "lib/autodiff/DistBuilder.h"

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
  // The gradient of what is I has to be I, whatever R masks and indices it is made with: also what
  // a rule makes for several operands at once prefers to be what some operand's gradient is.
  preferred = {};
  for (Value operand : op->getOperands())
    if (!preferred && needs(operand))
      preferred = gradientTypeOf(operand.getType());
}

/// What PyTorch's engine does with a gradient before it adds it (`validate_outputs`), and the
/// addition
/// (`InputBuffer::add`), in this order.
void Backward::accumulate(Value value, Value gradient) {
  RankedTensorType type = gradientType(value);
  if (!type || failed)
    return;
  // Of real numbers that became complex, only the real direction counts (`handle_r_to_c`).
  if (aten::isComplex(dtypeOf(gradient)) && !aten::isComplex(type.getElementType()))
    gradient = part(gradient, 0);
  gradient = toType(sumTo(gradient, type.getShape()), type.getElementType());
  if (dist::PlacementAttr placement = dist::getPlacement(type))
    gradient = conform(gradient, placement);
  Value before = gradients.lookup(value);
  gradients[value] = before ? add(before, gradient) : gradient;
}

RankedTensorType Backward::gradientType(Value operand) {
  RankedTensorType type = gradientTypeOf(operand.getType());
  if (!type && !failed)
    refuse("with respect to an operand of type ")
        << operand.getType()
        << ": no gradient flows through a pending reduction other than a sum; reduce V values "
           "instead";
  failed |= !type;
  return type;
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
