//===- Assembly.h - text form of argument values --------------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_ASSEMBLY_H
#define CLEAVE_DIALECTS_ATEN_ASSEMBLY_H

#include "mlir/IR/OpImplementation.h"

namespace cleave::aten {

/// Parses `1`, `0.5`, `true`, `"mean"`, `[1, 2]`, `f32`; lists become dense arrays.
mlir::ParseResult parseArgumentValue(mlir::OpAsmParser &parser, mlir::Attribute &value);
/// Prints what `parseArgumentValue` reads.
void printArgumentValue(mlir::OpAsmPrinter &printer, mlir::Attribute value);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_ASSEMBLY_H
