//===- Attributes.cpp - roles and other attributes of the train dialect -----===//

#include "dialects/train/Train.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace cleave::train;

//===----------------------------------------------------------------------===//
// RoleAttr
//===----------------------------------------------------------------------===//

RoleAttr RoleAttr::get(MLIRContext *context, RoleKind kind, StringRef name) {
  return get(context, kind, name.empty() ? StringAttr() : StringAttr::get(context, name), {}, {},
             {}, {}, {});
}

bool RoleAttr::isTiedTo(RoleAttr result) const {
  if (getName() != result.getName() || getSlot() != result.getSlot())
    return false;
  switch (getKind()) {
  case RoleKind::Accumulator:
    return result.getKind() == RoleKind::Gradient;
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::OptimizerState:
    return result.getKind() == getKind();
  default:
    return false;
  }
}

std::string RoleAttr::getFileName() const {
  std::string name = getNameOrEmpty().str();
  switch (getKind()) {
  case RoleKind::Parameter:
    return "param." + name;
  case RoleKind::Buffer:
    return "buffer." + name;
  case RoleKind::Output:
    return "output." + name;
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
    return "grad." + name;
  case RoleKind::OptimizerState:
    return "optim." + name + "." + getSlotOrEmpty().str();
  case RoleKind::Constant:
  case RoleKind::Input:
  case RoleKind::Target:
    return name;
  default:
    return stringifyRoleKind(getKind()).str();
  }
}

/// `<parameter "w" slot "s" batch 0 over ["dp"] aliases ["v"] frozen>`
Attribute RoleAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<RoleKind> kind = symbolizeRoleKind(keyword);
  if (!kind) {
    parser.emitError(location) << "unknown role '" << keyword << "'";
    return {};
  }
  StringAttr name, slot;
  std::optional<int64_t> batch;
  ArrayAttr over, aliases;
  UnitAttr frozen;
  std::string text;
  if (succeeded(parser.parseOptionalString(&text)))
    name = parser.getBuilder().getStringAttr(text);
  while (failed(parser.parseOptionalGreater())) {
    SMLoc field = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    ParseResult result = failure();
    if (keyword == "slot")
      result = parser.parseAttribute(slot);
    else if (keyword == "batch")
      result = parser.parseInteger(batch.emplace());
    else if (keyword == "over")
      result = parser.parseAttribute(over);
    else if (keyword == "aliases")
      result = parser.parseAttribute(aliases);
    else if (keyword == "frozen")
      frozen = parser.getBuilder().getUnitAttr(), result = success();
    else
      parser.emitError(field) << "a role has no field '" << keyword << "'";
    if (failed(result))
      return {};
  }
  for (ArrayAttr list : {over, aliases})
    if (list && !llvm::all_of(list, [](Attribute a) { return isa<StringAttr>(a); })) {
      parser.emitError(location) << "expected a list of strings, found " << list;
      return {};
    }
  return get(parser.getContext(), *kind, name, slot, batch, over, aliases, frozen);
}

void RoleAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyRoleKind(getKind());
  if (getName())
    printer << ' ' << getName();
  if (getSlot())
    printer << " slot " << getSlot();
  if (getBatch())
    printer << " batch " << *getBatch();
  if (getOver())
    printer << " over " << getOver();
  if (getAliases())
    printer << " aliases " << getAliases();
  if (getFrozen())
    printer << " frozen";
  printer << '>';
}

//===----------------------------------------------------------------------===//
// LossScalingAttr
//===----------------------------------------------------------------------===//

LogicalResult LossScalingAttr::verify(function_ref<InFlightDiagnostic()> emitError, FloatAttr init,
                                      FloatAttr growth, FloatAttr backoff, int64_t interval) {
  // The scale is an f32.
  double first = init.getValueAsDouble(), up = growth.getValueAsDouble(),
         down = backoff.getValueAsDouble();
  if (!(first > 0) || !std::isfinite(float(first)) || float(first) == 0)
    return emitError() << "expects a positive initial scale, a number of f32, found " << first;
  if (!(up > 1) || !std::isfinite(up))
    return emitError() << "expects a growth above 1, found " << up;
  if (!(down > 0) || !(down < 1))
    return emitError() << "expects a backoff between 0 and 1, found " << down;
  if (interval < 1)
    return emitError() << "expects an interval of at least 1 step, found " << interval;
  return success();
}

//===----------------------------------------------------------------------===//
// TargetsAttr
//===----------------------------------------------------------------------===//

LogicalResult TargetsAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr input,
                                  int64_t ignored, ArrayRef<int64_t> begin, ArrayRef<int64_t> end) {
  if (begin.size() != end.size())
    return emitError() << "expects a range of each dimension of " << input << ", found "
                       << begin.size() << " beginnings and " << end.size() << " ends";
  for (auto [from, to] : llvm::zip_equal(begin, end))
    if (from < 0 || to <= from)
      return emitError() << "expects ranges of " << input << " with at least one index, found "
                         << from << " to " << to;
  return success();
}

//===----------------------------------------------------------------------===//
// ScheduleAttr
//===----------------------------------------------------------------------===//

/// What only a table has.
static LogicalResult verifyTable(function_ref<InFlightDiagnostic()> emitError,
                                 DenseI64ArrayAttr starts, DenseFPElementsAttr values,
                                 int64_t end) {
  if (!values || values.getType().getRank() != 1 || !values.getElementType().isF64() ||
      values.empty())
    return emitError() << "expects values of type f64, at least one, in a table schedule";
  for (auto [index, value] : llvm::enumerate(values.getValues<APFloat>()))
    if (!value.isFinite())
      return emitError() << "expects finite values in a table schedule, found value " << index
                         << ": " << FloatAttr::get(values.getElementType(), value);
  int64_t last = values.size() - 1;
  if (starts) {
    ArrayRef<int64_t> steps = starts;
    if (int64_t(steps.size()) != values.size() || steps.front() != 0 ||
        std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end())
      return emitError() << "expects a start for each of " << values.size()
                         << " values in a table schedule, from 0 and ascending";
    last = steps.back();
  }
  if (end != 0 && end <= last)
    return emitError() << "expects the end of a table schedule after its last start " << last
                       << ", found " << end;
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, ScheduleKind kind,
                                   int64_t warmup, int64_t total, FloatAttr floor, int64_t every,
                                   FloatAttr factor, DenseI64ArrayAttr starts,
                                   DenseFPElementsAttr values, int64_t end) {
  for (FloatAttr number : {floor, factor})
    if (number && !number.getType().isF64())
      return emitError() << "expects numbers of type f64 in a schedule, found " << number;
  if (floor && !(floor.getValueAsDouble() >= 0.0 && floor.getValueAsDouble() <= 1.0))
    return emitError() << "expects a floor from 0 to 1 in a schedule, found " << floor;
  if (factor && !(factor.getValueAsDouble() >= 0.0 && factor.getValue().isFinite()))
    return emitError() << "expects a finite factor of at least 0 in a schedule, found " << factor;
  bool isCosine = kind == ScheduleKind::WarmupCosine, isTable = kind == ScheduleKind::Table;
  bool isPower = kind == ScheduleKind::Step || kind == ScheduleKind::Geometric;
  if (isCosine && (warmup < 0 || total <= warmup || !floor))
    return emitError() << "expects warmup, total and floor, with 0 <= warmup < total, in a "
                          "warmup_cosine schedule";
  if (isPower && (every <= 0 || !factor))
    return emitError() << "expects a positive 'every' and a factor in a "
                       << stringifyScheduleKind(kind) << " schedule";
  if ((!isCosine && (warmup || total || floor)) || (!isPower && (every || factor)) ||
      (!isTable && (starts || values || end)))
    return emitError() << "found a field that a " << stringifyScheduleKind(kind)
                       << " schedule does not have";
  return isTable ? verifyTable(emitError, starts, values, end) : success();
}

//===----------------------------------------------------------------------===//
// PlateauAttr
//===----------------------------------------------------------------------===//

LogicalResult PlateauAttr::verify(function_ref<InFlightDiagnostic()> emitError, ThresholdMode,
                                  FloatAttr factor, int64_t patience, FloatAttr threshold,
                                  int64_t cooldown, FloatAttr min, FloatAttr eps) {
  for (FloatAttr number : {factor, threshold, min, eps})
    if (!number.getType().isF64() || !number.getValue().isFinite())
      return emitError() << "expects finite numbers of type f64 in a plateau, found " << number;
  if (!(factor.getValueAsDouble() >= 0.0 && factor.getValueAsDouble() < 1.0))
    return emitError() << "expects a factor of at least 0 and less than 1 in a plateau, found "
                       << factor;
  if (min.getValueAsDouble() < 0.0)
    return emitError() << "expects a min of at least 0 in a plateau, found " << min;
  if (patience < 0 || cooldown < 0)
    return emitError() << "expects patience and cooldown of at least 0 in a plateau, found "
                       << patience << " and " << cooldown;
  return success();
}
