//===- Mesh.cpp - meshes and their axes --------------------------------------===//

#include "dialects/dist/Assembly.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave::dist;

/// `"dp" = 2` or `"dp" = ?`
static ParseResult parseAxis(AsmParser &parser, AxisAttr &axis) {
  std::string name;
  int64_t size = 0;
  if (parser.parseString(&name) || parser.parseEqual())
    return failure();
  if (failed(parser.parseOptionalQuestion())) {
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseInteger(size))
      return failure();
    if (size <= 0)
      return parser.emitError(location) << "expected a positive axis size or '?', found " << size;
  }
  axis = AxisAttr::get(parser.getContext(), name, size);
  return success();
}

static void printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer.printString(axis.getName());
  printer << " = ";
  if (axis.getSize() == 0)
    printer << '?';
  else
    printer << axis.getSize();
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  AxisAttr axis;
  if (parser.parseLess() || parseAxis(parser, axis) || parser.parseGreater())
    return {};
  return axis;
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printAxis(printer, *this);
  printer << '>';
}

ParseResult cleave::dist::parseAxes(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
        AxisAttr axis;
        if (parseAxis(parser, axis))
          return failure();
        list.push_back(axis);
        return success();
      }))
    return failure();
  axes = parser.getBuilder().getArrayAttr(list);
  return success();
}

void cleave::dist::printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printer << '[';
  llvm::interleaveComma(axes, printer.getStream(),
                        [&](Attribute axis) { printAxis(printer, cast<AxisAttr>(axis)); });
  printer << ']';
}

AxisAttr MeshOp::findAxis(StringRef name) {
  for (AxisAttr axis : getAxes().getAsRange<AxisAttr>())
    if (axis.getName() == name)
      return axis;
  return {};
}

std::optional<int64_t> MeshOp::countRanks(ArrayAttr axes) {
  int64_t ranks = 1;
  for (StringAttr name : axes.getAsRange<StringAttr>()) {
    AxisAttr axis = findAxis(name.getValue());
    if (!axis || axis.getSize() == 0)
      return std::nullopt;
    ranks *= axis.getSize();
  }
  return ranks;
}

LogicalResult MeshOp::verify() {
  // 1.
  if (getAxes().empty())
    return emitOpError("expects at least one axis");
  llvm::StringSet<> names;
  unsigned open = 0;
  int64_t ranks = 1;
  for (Attribute attribute : getAxes()) {
    auto axis = dyn_cast<AxisAttr>(attribute);
    if (!axis)
      return emitOpError("expects axes, found ") << attribute;
    if (axis.getName().empty())
      return emitOpError("has an axis without a name");
    if (!names.insert(axis.getName()).second)
      return emitOpError("has two axes named '") << axis.getName() << "'";
    // 2.
    open += axis.getSize() == 0;
    // A launcher's ranks are 32-bit integers.
    constexpr int64_t limit = std::numeric_limits<int32_t>::max();
    if (axis.getSize() > limit / ranks)
      return emitOpError("has more ranks than ") << limit;
    ranks *= std::max<int64_t>(axis.getSize(), 1);
  }
  if (open > 1)
    return emitOpError("has ") << open << " axes of size '?'; at most one can be left open";
  return success();
}
