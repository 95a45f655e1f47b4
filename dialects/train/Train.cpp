//===- Train.cpp - registration and ops of the train dialect ----------------===//

#include "dialects/train/Train.h"
#include "dialects/sharding/RuleBuilder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::train;

bool cleave::train::isScalarTensor(Type type, Type element) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType() == element;
}

bool cleave::train::affectsOnlyBuckets(Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return false;
  SmallVector<MemoryEffects::EffectInstance> all;
  effects.getEffects(all);
  return !all.empty() && llvm::all_of(all, [](const MemoryEffects::EffectInstance &effect) {
    return isa<BucketResource>(effect.getResource());
  });
}

//===----------------------------------------------------------------------===//
// Types of step and learning rate: written only where they have a placement
//===----------------------------------------------------------------------===//

static ParseResult parseStepTypes(OpAsmParser &parser, Type &parameter, Type &step, Type &rate) {
  if (parser.parseType(parameter))
    return failure();
  if (succeeded(parser.parseOptionalComma()))
    return failure(parser.parseType(step) || parser.parseComma() || parser.parseType(rate));
  step = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  rate = RankedTensorType::get({}, parser.getBuilder().getF64Type());
  return success();
}

static void printStepTypes(OpAsmPrinter &printer, Operation *, Type parameter, Type step,
                           Type rate) {
  printer << parameter;
  if (cast<RankedTensorType>(step).getEncoding() || cast<RankedTensorType>(rate).getEncoding())
    printer << ", " << step << ", " << rate;
}

#include "dialects/train/TrainDialect.cpp.inc"
#include "dialects/train/TrainEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/train/TrainAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/train/TrainTypes.cpp.inc"

// Defined in Buckets.cpp.
namespace cleave::train {
ParseResult parseMembers(OpAsmParser &parser, ArrayAttr &names, ArrayAttr &types);
void printMembers(OpAsmPrinter &printer, Operation *op, ArrayAttr names, ArrayAttr types);
} // namespace cleave::train

#include "dialects/train/TrainInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/train/Train.cpp.inc"

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/train/TrainAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/train/TrainTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/train/Train.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Canonical forms
//===----------------------------------------------------------------------===//

/// A schedule whose factor is 1 in each step is the constant one.
LogicalResult LearningRateOp::canonicalize(LearningRateOp op, PatternRewriter &rewriter) {
  ScheduleAttr schedule = op.getSchedule();
  bool isOne = false;
  if (schedule.getKind() == ScheduleKind::Step)
    isOne = schedule.getFactor().getValueAsDouble() == 1.0;
  else if (schedule.getKind() == ScheduleKind::WarmupCosine)
    isOne = schedule.getWarmup() == 0 && schedule.getFloor().getValueAsDouble() == 1.0;
  if (!isOne)
    return failure();
  auto constant = ScheduleAttr::get(op.getContext(), ScheduleKind::Constant, /*warmup=*/0,
                                    /*total=*/0, FloatAttr(), /*every=*/0, FloatAttr());
  rewriter.modifyOpInPlace(op, [&] { op.setScheduleAttr(constant); });
  return success();
}

/// A scale of 1 is not a scale; the runtime joins steps of equal attributes to one kernel.
template <typename StepOp>
static LogicalResult dropRateScale(StepOp op, PatternRewriter &rewriter) {
  if (!op.getLrScale() || op.getLrScale()->convertToDouble() != 1.0)
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.removeLrScaleAttr(); });
  return success();
}

LogicalResult AdamWOp::canonicalize(AdamWOp op, PatternRewriter &rewriter) {
  return dropRateScale(op, rewriter);
}

/// Dampening weakens what enters the momentum buffer: without momentum it says nothing.
LogicalResult SGDOp::canonicalize(SGDOp op, PatternRewriter &rewriter) {
  if (succeeded(dropRateScale(op, rewriter)))
    return success();
  if (!op.getMomentum().isZero() || op.getDampening().isPosZero())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.setDampening(APFloat(0.0)); });
  return success();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// An attribute that must lie in [low, high), or in [low, infinity) without `high`.
static LogicalResult checkRange(Operation *op, StringRef name, const APFloat &value, double low,
                                std::optional<double> high = std::nullopt) {
  double number = value.convertToDouble();
  if (number >= low && (high ? number < *high : value.isFinite()))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("expects ") << name << " of at least " << low;
  if (high)
    diagnostic << " and less than " << *high;
  return diagnostic << ", found " << FloatAttr::get(Float64Type::get(op->getContext()), value);
}

LogicalResult LearningRateOp::verify() {
  // 1.
  return checkRange(*this, "base", getBase(), 0.0);
}

LogicalResult AdamWOp::verify() {
  // 1.
  return success(succeeded(checkRange(*this, "beta1", getBeta1(), 0.0, 1.0)) &&
                 succeeded(checkRange(*this, "beta2", getBeta2(), 0.0, 1.0)) &&
                 succeeded(checkRange(*this, "eps", getEps(), 0.0)) &&
                 succeeded(checkRange(*this, "weight_decay", getWeightDecay(), 0.0)));
}

LogicalResult SGDOp::verify() {
  // 1.
  if (failed(checkRange(*this, "momentum", getMomentum(), 0.0)) ||
      failed(checkRange(*this, "weight_decay", getWeightDecay(), 0.0)))
    return failure();
  if (getNesterov() && (getMomentum().isZero() || !getDampening().isZero()))
    return emitOpError("expects momentum and no dampening with nesterov");
  // 2.
  bool hasMomentum = !getMomentum().isZero();
  if (bool(getMomentumBuffer()) != hasMomentum || bool(getNewMomentumBuffer()) != hasMomentum)
    return emitOpError("expects a momentum buffer as operand and result if and only if momentum is "
                       "not 0");
  // 3.
  Type type = getParameter().getType();
  for (Value value :
       {getGradient(), getMomentumBuffer(), getNewParameter(), getNewMomentumBuffer()})
    if (value && value.getType() != type)
      return emitOpError("expects the parameter's type ") << type << ", found " << value.getType();
  return success();
}

/// `(%p, %g[, %b], %step, %lr) {...} : type`: the buffer is there if there are five operands.
ParseResult SGDOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  Type type, step, rate;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(state.attributes) || parser.parseColon() ||
      parseStepTypes(parser, type, step, rate))
    return failure();
  if (operands.size() != 4 && operands.size() != 5)
    return parser.emitError(location) << "expected parameter, gradient, momentum buffer (with "
                                         "momentum), step and learning rate";
  bool hasMomentum = operands.size() == 5;
  SmallVector<Type> types(operands.size(), type);
  types[operands.size() - 2] = step;
  types[operands.size() - 1] = rate;
  state.addTypes(SmallVector<Type>(hasMomentum ? 2 : 1, type));
  return parser.resolveOperands(operands, types, location, state.operands);
}

void SGDOp::print(OpAsmPrinter &printer) {
  printer << '(' << getOperands() << ')';
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : ";
  printStepTypes(printer, *this, getParameter().getType(), getStep().getType(), getLr().getType());
}
