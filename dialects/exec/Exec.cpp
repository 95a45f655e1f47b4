//===- Exec.cpp - the exec dialect ----------------------------------------===//

#include "dialects/exec/Exec.h"
#include "dialects/dist/Dist.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#include "dialects/exec/ExecEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"

/// A stream by its name alone.
static ParseResult parseStreamName(OpAsmParser &parser, StreamAttr &stream) {
  FailureOr<Stream> name = FieldParser<Stream>::parse(parser);
  if (failed(name))
    return failure();
  stream = StreamAttr::get(parser.getContext(), *name);
  return success();
}

static void printStreamName(OpAsmPrinter &printer, Operation *, StreamAttr stream) {
  printer << stringifyStream(stream.getValue());
}

#define GET_OP_CLASSES
#include "dialects/exec/Exec.cpp.inc"

void ExecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/Exec.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/exec/ExecAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// kernel
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                     StringAttr visibility, ArrayAttr argAttrs, ArrayAttr resAttrs) {
  build(builder, state, name, type, visibility, argAttrs, resAttrs, /*code=*/ArrayAttr());
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto makeType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                     function_interface_impl::VariadicFlag,
                     std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), makeType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult KernelOp::verifyType() {
  auto check = [&](StringRef what, unsigned number, Type type) -> LogicalResult {
    if (dist::isTensor(type) && !dist::getPlacement(type))
      return success();
    return emitOpError() << "expects " << what << " " << number
                         << " to be a statically shaped tensor without placement, found " << type;
  };
  for (auto [i, type] : llvm::enumerate(getArgumentTypes()))
    if (failed(check("argument", i, type)))
      return failure();
  for (auto [i, type] : llvm::enumerate(getResultTypes()))
    if (failed(check("result", i, type)))
      return failure();
  if (getResultTypes().empty())
    return emitOpError() << "expects a result";
  return success();
}

LogicalResult KernelOp::verifyBody() {
  // FunctionOpInterface allows for declarations.
  if (getBody().empty())
    return emitOpError() << "expects a body";
  if (!llvm::hasSingleElement(getBody()))
    return emitOpError() << "expects a body of one block";
  if (!isa<ReturnOp>(getBody().front().getTerminator()))
    return emitOpError() << "expects its body to end with exec.return";
  return success();
}

LogicalResult KernelOp::verify() {
  for (Operation &op : getBody().front().without_terminator()) {
    bool computes = op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
                    !isa<dist::CommunicationOpInterface, LaunchOp>(op);
    if (computes)
      continue;
    InFlightDiagnostic diagnostic = emitOpError() << "expects ops that only compute";
    diagnostic.attachNote(op.getLoc()) << "'" << op.getName() << "' has other effects";
    return diagnostic;
  }
  return success();
}

LogicalResult ReturnOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (TypeRange(getOperands()) == TypeRange(kernel.getResultTypes()))
    return success();
  return emitOpError() << "expects operands of types (" << kernel.getResultTypes() << "), found ("
                       << getOperandTypes() << ")";
}

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "expects the name of an exec.kernel, found " << getKernelAttr();
  auto check = [&](StringRef what, TypeRange found, ArrayRef<Type> expected) -> LogicalResult {
    auto fits = [](auto pair) {
      return dist::erasePlacement(std::get<0>(pair)) == std::get<1>(pair);
    };
    if (found.size() == expected.size() && llvm::all_of(llvm::zip(found, expected), fits))
      return success();
    InFlightDiagnostic diagnostic = emitOpError() << "expects " << what << " of types (" << expected
                                                  << "), found (" << found << ")";
    diagnostic.attachNote(kernel.getLoc()) << "the kernel is here";
    return diagnostic;
  };
  return success(succeeded(check("operands", getOperandTypes(), kernel.getArgumentTypes())) &&
                 succeeded(check("results", getResultTypes(), kernel.getResultTypes())));
}
