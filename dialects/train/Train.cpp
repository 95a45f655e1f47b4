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

/// The type of both, or `GRADIENT into ACCUMULATOR`.
static ParseResult parseAccumulatedTypes(OpAsmParser &parser, Type &gradient, Type &accumulator) {
  if (parser.parseType(gradient))
    return failure();
  accumulator = gradient;
  return succeeded(parser.parseOptionalKeyword("into")) ? parser.parseType(accumulator) : success();
}

static void printAccumulatedTypes(OpAsmPrinter &printer, Operation *, Type gradient,
                                  Type accumulator) {
  printer << gradient;
  if (accumulator != gradient)
    printer << " into " << accumulator;
}

#include "dialects/train/TrainInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/train/Train.cpp.inc"

LogicalResult AccumulateOp::verify() {
  auto gradient = cast<RankedTensorType>(getGradient().getType());
  auto accumulator = cast<RankedTensorType>(getAccumulator().getType());
  if (gradient == accumulator)
    return success();
  Type narrow = gradient.getElementType(), wide = accumulator.getElementType();
  if ((narrow.isF16() || narrow.isBF16()) && wide.isF32() && gradient.clone(wide) == accumulator)
    return success();
  return emitOpError("expects to add a gradient up in its own type, or one of f16 or bf16 in f32, "
                     "found ")
         << gradient << " into " << accumulator;
}

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
  if (schedule.getKind() == ScheduleKind::Step || schedule.getKind() == ScheduleKind::Geometric)
    isOne = schedule.getFactor().getValueAsDouble() == 1.0;
  else if (schedule.getKind() == ScheduleKind::WarmupCosine)
    isOne = schedule.getWarmup() == 0 && schedule.getFloor().getValueAsDouble() == 1.0;
  if (!isOne)
    return failure();
  auto constant = ScheduleAttr::get(op.getContext(), ScheduleKind::Constant, /*warmup=*/0,
                                    /*total=*/0, FloatAttr(), /*every=*/0, FloatAttr(),
                                    DenseI64ArrayAttr(), DenseFPElementsAttr(), /*end=*/0);
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

/// Whether there is a momentum in some step.
static bool hasMomentum(SGDOp op) {
  return op.getScheduledMomentum() || (op.getMomentum() && !op.getMomentum()->isZero());
}

/// Dampening weakens what enters the momentum buffer: without momentum it says nothing.
LogicalResult SGDOp::canonicalize(SGDOp op, PatternRewriter &rewriter) {
  if (succeeded(dropRateScale(op, rewriter)))
    return success();
  if (hasMomentum(op) || op.getDampening().isPosZero())
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
  if (failed(checkRange(*this, "base", getBase(), 0.0)))
    return failure();
  // 2.
  if (std::optional<int64_t> group = getGroup(); group && *group < 0)
    return emitOpError("expects a group of at least 0, found ") << *group;
  // 3.
  if (getPlateau() && getSchedule().getKind() != ScheduleKind::Constant)
    return emitOpError("expects the constant schedule with a plateau, found ") << getSchedule();
  return success();
}

LogicalResult HyperparameterOp::verify() {
  // 1.
  if (getSchedule().getKind() != ScheduleKind::Table)
    return emitOpError("expects a table as schedule, found ") << getSchedule();
  // 2.
  if (std::optional<int64_t> group = getGroup(); group && *group < 0)
    return emitOpError("expects a group of at least 0, found ") << *group;
  return success();
}

/// A number that is an attribute, or an operand if it changes from step to step.
static LogicalResult checkScheduled(OptimizerStepOpInterface op, StringRef name,
                                    const std::optional<APFloat> &attribute,
                                    std::optional<double> high) {
  Value operand = op.getScheduledNumber();
  if (bool(operand) == attribute.has_value())
    return op->emitOpError("expects ") << name << " as an attribute or an operand"
                                       << (operand ? ", found both" : ", found neither");
  if (attribute)
    return checkRange(op, name, *attribute, 0.0, high);
  if (operand.getType() != op.getLr().getType())
    return op->emitOpError("expects ") << name << " of the learning rate's type "
                                       << op.getLr().getType() << ", found " << operand.getType();
  return success();
}

LogicalResult AdamWOp::verify() {
  // 1., 2.
  return success(succeeded(checkScheduled(*this, "beta1", getBeta1(), 1.0)) &&
                 succeeded(checkRange(*this, "beta2", getBeta2(), 0.0, 1.0)) &&
                 succeeded(checkRange(*this, "eps", getEps(), 0.0)) &&
                 succeeded(checkRange(*this, "weight_decay", getWeightDecay(), 0.0)));
}

LogicalResult SGDOp::verify() {
  // 1., 4.
  if (failed(checkScheduled(*this, "momentum", getMomentum(), std::nullopt)) ||
      failed(checkRange(*this, "weight_decay", getWeightDecay(), 0.0)))
    return failure();
  bool hasBuffer = hasMomentum(*this);
  if (getNesterov() && (!hasBuffer || !getDampening().isZero()))
    return emitOpError("expects momentum and no dampening with nesterov");
  // 2.
  if (bool(getMomentumBuffer()) != hasBuffer || bool(getNewMomentumBuffer()) != hasBuffer)
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

//===----------------------------------------------------------------------===//
// Text of optimizer steps: `(%p, %g, ..., %step, %lr) [beta1 %number] {...} : type`. The types of
// step and learning rate are written only where they have a placement.
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

/// Parses the op with as many tensors as `sizes` allow, which `expected` describes. `scheduled`
/// names the number that may be an operand.
static ParseResult parseUpdate(OpAsmParser &parser, OperationState &state, ArrayRef<size_t> sizes,
                               StringRef expected, StringRef scheduled, size_t &numTensors,
                               bool &isScheduled) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren))
    return failure();
  numTensors = operands.size() - 2;
  if (operands.size() < 2 || !llvm::is_contained(sizes, numTensors))
    return parser.emitError(location) << "expected " << expected;
  isScheduled = succeeded(parser.parseOptionalKeyword(scheduled));
  if (isScheduled && parser.parseOperand(operands.emplace_back()))
    return failure();
  Type type, step, rate;
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColon() ||
      parseStepTypes(parser, type, step, rate))
    return failure();
  SmallVector<Type> types(numTensors, type);
  types.append({step, rate});
  if (isScheduled)
    types.push_back(rate);
  // All tensors but the gradient have a new value.
  state.addTypes(SmallVector<Type>(numTensors - 1, type));
  return parser.resolveOperands(operands, types, location, state.operands);
}

static void printUpdate(OpAsmPrinter &printer, OptimizerStepOpInterface op, StringRef scheduled,
                        ArrayRef<StringRef> elided = {}) {
  Value number = op.getScheduledNumber();
  printer << '(' << op->getOperands().drop_back(number ? 1 : 0) << ')';
  if (number)
    printer << ' ' << scheduled << ' ' << number;
  printer.printOptionalAttrDict(op->getAttrs(), elided);
  printer << " : " << op->getOperand(0).getType();
  Type step = op.getStep().getType(), rate = op.getLr().getType();
  if (cast<RankedTensorType>(step).getEncoding() || cast<RankedTensorType>(rate).getEncoding())
    printer << ", " << step << ", " << rate;
}

ParseResult AdamWOp::parse(OpAsmParser &parser, OperationState &state) {
  size_t numTensors;
  bool isScheduled;
  return parseUpdate(parser, state, {4},
                     "parameter, gradient, exp_avg, exp_avg_sq, step and learning rate", "beta1",
                     numTensors, isScheduled);
}

void AdamWOp::print(OpAsmPrinter &printer) {
  printUpdate(printer, *this, "beta1");
}

ParseResult SGDOp::parse(OpAsmParser &parser, OperationState &state) {
  size_t numTensors;
  bool isScheduled;
  if (parseUpdate(parser, state, {2, 3},
                  "parameter, gradient, momentum buffer (with momentum), step and learning rate",
                  "momentum", numTensors, isScheduled))
    return failure();
  auto segments = {1, 1, int32_t(numTensors - 2), 1, 1, int32_t(isScheduled)};
  llvm::copy(segments, state.getOrAddProperties<SGDOp::Properties>().operandSegmentSizes.begin());
  return success();
}

void SGDOp::print(OpAsmPrinter &printer) {
  printUpdate(printer, *this, "momentum", {getOperandSegmentSizeAttr()});
}
