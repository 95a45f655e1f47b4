//===- Dist.cpp - registration, attributes and collectives of dist ----------===//

#include "dialects/dist/Dist.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::dist;

/// `sum`: a reduction's name stands before its operand.
static ParseResult parseReduction(OpAsmParser &parser, ReductionAttr &reduction) {
  StringRef name;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<Reduction> value = symbolizeReduction(name);
  if (!value)
    return parser.emitError(location) << "expected a reduction (sum), found '" << name << "'";
  reduction = ReductionAttr::get(parser.getContext(), *value);
  return success();
}

static void printReduction(OpAsmPrinter &printer, Operation *, ReductionAttr reduction) {
  printer << stringifyReduction(reduction.getValue());
}

// Defined in Mesh.cpp: they print `["dp" = 2]` without the attribute's full name.
namespace cleave::dist {
ParseResult parseAxes(OpAsmParser &parser, ArrayAttr &axes);
void printAxes(OpAsmPrinter &printer, Operation *op, ArrayAttr axes);
} // namespace cleave::dist

#include "dialects/dist/DistDialect.cpp.inc"
#include "dialects/dist/DistEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dist/Dist.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/Dist.cpp.inc"
      >();
}

LogicalResult AllReduceOp::verify() {
  // 1. (the mesh itself is checked in verifySymbolUses)
  if (getAxes().empty())
    return emitOpError("expects at least one mesh axis");
  llvm::StringSet<> seen;
  for (StringAttr axis : getAxes().getAsRange<StringAttr>())
    if (!seen.insert(axis.getValue()).second)
      return emitOpError("names mesh axis '") << axis.getValue() << "' twice";
  // 2.
  Type element = getInput().getType().getElementType();
  if (element.isInteger(1))
    return emitOpError("cannot sum values of type ") << getInput().getType();
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError("refers to mesh ") << getMeshAttr() << ", which the module does not define";
  for (StringAttr axis : getAxes().getAsRange<StringAttr>())
    if (!mesh.findAxis(axis.getValue())) {
      InFlightDiagnostic diagnostic = emitOpError("reduces over axis '")
                                      << axis.getValue() << "', which mesh " << getMeshAttr()
                                      << " does not have";
      diagnostic.attachNote(mesh.getLoc()) << "the mesh is defined here";
      return diagnostic;
    }
  return success();
}
