//===- Placement.cpp - `#dist.on<@mesh, dp = S(0), tp = R>` ------------------===//

#include "dialects/dist/Dist.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace cleave::dist;

//===----------------------------------------------------------------------===//
// One axis
//===----------------------------------------------------------------------===//

StringRef cleave::dist::stringifyPlacementKind(PlacementKind kind) {
  static constexpr StringRef names[] = {"R", "P", "I", "V", "S"};
  return names[static_cast<int>(kind)];
}

llvm::hash_code cleave::dist::hash_value(const AxisPlacement &placement) {
  return llvm::hash_combine(placement.kind, placement.reduction, placement.dim, placement.order);
}

llvm::hash_code cleave::dist::hash_value(const AxisEntry &entry) {
  return llvm::hash_combine(entry.axis, entry.placement);
}

std::string cleave::dist::toString(const AxisPlacement &placement, bool withOrder) {
  std::string text = stringifyPlacementKind(placement.kind).str();
  if (placement.isPartial() && placement.reduction != Reduction::Sum)
    text += "(" + stringifyReduction(placement.reduction).str() + ")";
  if (placement.isShard())
    text += "(" + std::to_string(placement.dim) +
            (withOrder ? ", " + std::to_string(placement.order) : "") + ")";
  return text;
}

raw_ostream &cleave::dist::operator<<(raw_ostream &os, const AxisPlacement &placement) {
  return os << toString(placement, placement.order != 0);
}

Diagnostic &cleave::dist::operator<<(Diagnostic &diagnostic, const AxisPlacement &placement) {
  return diagnostic << toString(placement, placement.order != 0);
}

FailureOr<AxisPlacement> cleave::dist::dual(const AxisPlacement &placement) {
  switch (placement.kind) {
  case PlacementKind::R:
    return AxisPlacement::partial();
  case PlacementKind::P:
    if (placement.reduction != Reduction::Sum)
      return failure();
    return AxisPlacement::replicate();
  case PlacementKind::I:
  case PlacementKind::V:
  case PlacementKind::S:
    return placement;
  }
  llvm_unreachable("all kinds are handled");
}

SmallVector<AxisEntry> cleave::dist::sortedByAxis(ArrayRef<AxisEntry> entries) {
  SmallVector<AxisEntry> sorted(entries);
  llvm::stable_sort(sorted, [](const AxisEntry &a, const AxisEntry &b) {
    return a.axis.getValue() < b.axis.getValue();
  });
  return sorted;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// `R`, `P`, `P(max)`, `I`, `V`, `S(0)`, `S(0, 1)`
static ParseResult parsePlacement(AsmParser &parser, AxisPlacement &placement) {
  SMLoc location = parser.getCurrentLocation();
  StringRef kind;
  if (failed(parser.parseOptionalKeyword(&kind)))
    return parser.emitError(location) << "expected a placement: R, P, I, V or S(dimension)";
  if (kind == "R") {
    placement = AxisPlacement::replicate();
  } else if (kind == "I") {
    placement = AxisPlacement::invariant();
  } else if (kind == "V") {
    placement = AxisPlacement::varying();
  } else if (kind == "P") {
    placement = AxisPlacement::partial();
    if (failed(parser.parseOptionalLParen()))
      return success();
    StringRef name;
    location = parser.getCurrentLocation();
    std::optional<Reduction> reduction;
    if (succeeded(parser.parseOptionalKeyword(&name)))
      reduction = symbolizeReduction(name);
    if (!reduction)
      return parser.emitError(location)
             << "expected a pending reduction (sum, avg, max, min, product), found '" << name
             << "'";
    placement.reduction = *reduction;
    return parser.parseRParen();
  } else if (kind == "S") {
    placement = AxisPlacement::shard(0);
    if (parser.parseLParen() || parser.parseInteger(placement.dim))
      return failure();
    if (succeeded(parser.parseOptionalComma()) && parser.parseInteger(placement.order))
      return failure();
    return parser.parseRParen();
  } else {
    return parser.emitError(location)
           << "expected a placement: R, P, I, V or S(dimension), found '" << kind << "'";
  }
  return success();
}

/// `<@mesh, dp = S(0), tp = R>`
Attribute PlacementAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  StringAttr mesh;
  SmallVector<AxisEntry> entries;
  if (parser.parseLess() || parser.parseSymbolName(mesh))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    std::string axis;
    AxisEntry entry;
    if (parser.parseKeywordOrString(&axis) || parser.parseEqual() ||
        parsePlacement(parser, entry.placement))
      return {};
    entry.axis = StringAttr::get(parser.getContext(), axis);
    entries.push_back(entry);
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(location); }, FlatSymbolRefAttr::get(mesh),
                    entries);
}

void PlacementAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh();
  for (const AxisEntry &entry : getEntries()) {
    printer << ", ";
    printer.printKeywordOrString(entry.axis.getValue());
    const AxisPlacement &placement = entry.placement;
    bool several = placement.isShard() && getShardingAxes(placement.dim).size() > 1;
    printer << " = " << toString(placement, several);
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

static bool isLinear(Reduction reduction) {
  return reduction == Reduction::Sum || reduction == Reduction::Avg;
}

LogicalResult PlacementAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                    FlatSymbolRefAttr mesh, ArrayRef<AxisEntry> entries) {
  // 1. (entries are sorted)
  for (auto [first, second] : llvm::zip(entries, entries.drop_front(!entries.empty())))
    if (first.axis == second.axis)
      return emitError() << "lists axis '" << first.axis.getValue() << "' twice";
  // 2.
  for (const AxisEntry &entry : entries) {
    if (!entry.placement.isShard())
      continue;
    int64_t dim = entry.placement.dim;
    if (dim < 0)
      return emitError() << "shards dimension " << dim << "; dimensions count from 0";
    SmallVector<StringAttr> axes;
    llvm::SmallBitVector orders(entries.size());
    for (const AxisEntry &other : entries)
      if (other.placement.isShard(dim)) {
        axes.push_back(other.axis);
        int64_t order = other.placement.order;
        if (order >= 0 && order < static_cast<int64_t>(entries.size()))
          orders.set(order);
      }
    if (orders.find_first_unset() != static_cast<int>(axes.size()) &&
        !(orders.all() && axes.size() == entries.size())) {
      InFlightDiagnostic diagnostic = emitError();
      if (axes.size() == 1)
        return diagnostic << "gives axis '" << axes[0].getValue() << "' order "
                          << entry.placement.order << " on dimension " << dim
                          << ", which no other axis shards: use S(" << dim << ")";
      diagnostic << "shards dimension " << dim << " over axes ";
      llvm::interleave(
          axes, [&](StringAttr axis) { diagnostic << "'" << axis.getValue() << "'"; },
          [&] { diagnostic << " and "; });
      return diagnostic << ": give them the orders S(" << dim << ", 0) to S(" << dim << ", "
                        << axes.size() - 1 << "), major first";
    }
  }
  // 3.
  const AxisEntry *pending = nullptr;
  for (const AxisEntry &entry : entries) {
    if (!entry.placement.isPartial())
      continue;
    Reduction reduction = entry.placement.reduction;
    // 4. (the element type: verifyEncoding)
    if (!isLinear(reduction) && reduction != Reduction::Max && reduction != Reduction::Min &&
        reduction != Reduction::Product)
      return emitError() << "expected a pending reduction (sum, avg, max, min, product), found '"
                         << stringifyReduction(reduction) << "'";
    if (pending && pending->placement.reduction != reduction &&
        !(isLinear(pending->placement.reduction) && isLinear(reduction)))
      return emitError() << "has a pending '" << stringifyReduction(pending->placement.reduction)
                         << "' over axis '" << pending->axis.getValue() << "' and a pending '"
                         << stringifyReduction(reduction) << "' over axis '"
                         << entry.axis.getValue()
                         << "', which do not commute: reduce over one axis first";
    pending = &entry;
  }
  return success();
}

LogicalResult PlacementAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                            function_ref<InFlightDiagnostic()> emitError) const {
  // The parser goes on to the encoding of a tensor whose element type it has refused.
  if (!elementType)
    return failure();
  for (const AxisEntry &entry : getEntries()) {
    const AxisPlacement &placement = entry.placement;
    // 2.
    if (placement.isShard() && placement.dim >= static_cast<int64_t>(shape.size()))
      return emitError() << "axis '" << entry.axis.getValue() << "' shards dimension "
                         << placement.dim << " of a tensor of " << shape.size() << " dimensions";
    // 4.
    if (placement.isPartial() && !isReducible(placement.reduction, elementType))
      return emitError() << "axis '" << entry.axis.getValue() << "' has a pending '"
                         << stringifyReduction(placement.reduction) << "', which values of type "
                         << elementType << " do not have";
  }
  return success();
}

std::optional<AxisPlacement> PlacementAttr::get(StringRef axis) const {
  for (const AxisEntry &entry : getEntries())
    if (entry.axis.getValue() == axis)
      return entry.placement;
  return std::nullopt;
}

PlacementAttr PlacementAttr::with(StringRef axis, AxisPlacement placement) const {
  SmallVector<AxisEntry> entries(getEntries());
  for (AxisEntry &entry : entries)
    if (entry.axis.getValue() == axis) {
      entry.placement = placement;
      return get(getMesh(), entries);
    }
  entries.push_back({StringAttr::get(getContext(), axis), placement});
  return get(getMesh(), entries);
}

FailureOr<PlacementAttr> PlacementAttr::dual() const {
  SmallVector<AxisEntry> entries(getEntries());
  for (AxisEntry &entry : entries) {
    FailureOr<AxisPlacement> placement = cleave::dist::dual(entry.placement);
    if (failed(placement))
      return failure();
    entry.placement = *placement;
  }
  return get(getMesh(), entries);
}

SmallVector<StringAttr> PlacementAttr::getShardingAxes(int64_t dim) const {
  SmallVector<AxisEntry> entries = llvm::filter_to_vector(
      getEntries(), [&](const AxisEntry &entry) { return entry.placement.isShard(dim); });
  llvm::stable_sort(entries, [](const AxisEntry &a, const AxisEntry &b) {
    return a.placement.order < b.placement.order;
  });
  return llvm::map_to_vector(entries, [](const AxisEntry &entry) { return entry.axis; });
}

SmallVector<StringAttr> PlacementAttr::getDifferingAxes(PlacementAttr other) const {
  SmallVector<StringAttr> axes;
  for (const AxisEntry &entry : getEntries())
    if (other.get(entry.axis.getValue()) != entry.placement)
      axes.push_back(entry.axis);
  return axes;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

bool cleave::dist::isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         (tensor.getElementType().isIntOrFloat() || isa<ComplexType>(tensor.getElementType()));
}

bool cleave::dist::isReducible(Reduction reduction, Type elementType) {
  bool isFloat = isa<FloatType>(elementType);
  // Added part by part; products are not, and there is no order.
  bool isComplex = isa<ComplexType>(elementType);
  bool isBool = elementType.isInteger(1);
  bool isNumber = isFloat || (isa<IntegerType>(elementType) && !isBool);
  switch (reduction) {
  case Reduction::Sum:
    return isNumber || isComplex;
  case Reduction::Product:
  case Reduction::Max:
  case Reduction::Min:
    return isNumber;
  case Reduction::Avg:
  case Reduction::PremulSum:
    return isFloat || isComplex;
  case Reduction::BitAnd:
  case Reduction::BitOr:
  case Reduction::BitXor:
    return isa<IntegerType>(elementType);
  }
  llvm_unreachable("all reductions are handled");
}

PlacementAttr cleave::dist::getPlacement(Type type) {
  auto tensor = dyn_cast_or_null<RankedTensorType>(valueTypeOf(type));
  return tensor ? dyn_cast_or_null<PlacementAttr>(tensor.getEncoding()) : PlacementAttr();
}

RankedTensorType cleave::dist::withPlacement(RankedTensorType type, PlacementAttr placement) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), placement);
}

Type cleave::dist::erasePlacement(Type type) {
  if (auto host = dyn_cast<HostType>(type))
    return HostType::get(cast<RankedTensorType>(erasePlacement(host.getValueType())));
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && getPlacement(tensor) ? withPlacement(tensor, {}) : type;
}

Type cleave::dist::valueTypeOf(Type type) {
  if (auto host = dyn_cast_or_null<HostType>(type))
    return host.getValueType();
  auto future = dyn_cast_or_null<FutureType>(type);
  return future ? future.getValueType() : type;
}

LogicalResult FutureType::verify(function_ref<InFlightDiagnostic()> emitError, Type valueType) {
  // 1.
  if (isTensor(valueType) || isa<NoneType>(valueType))
    return success();
  return emitError() << "expected a statically shaped tensor or none, found " << valueType;
}
