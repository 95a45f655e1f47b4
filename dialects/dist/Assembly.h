//===- Assembly.h - the parts of ops' text that tablegen cannot say -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_DIST_ASSEMBLY_H
#define CLEAVE_DIALECTS_DIST_ASSEMBLY_H

#include "dialects/dist/Dist.h"

namespace cleave::dist {

/// `["dp" = 2, "tp" = ?]`, without the attributes' full names.
mlir::ParseResult parseAxes(mlir::OpAsmParser &parser, mlir::ArrayAttr &axes);
void printAxes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr axes);

/// `sum`: a reduction's name precedes its operand.
mlir::ParseResult parseReduction(mlir::OpAsmParser &parser, ReductionAttr &reduction);
void printReduction(mlir::OpAsmPrinter &printer, mlir::Operation *op, ReductionAttr reduction);

/// `T -> U`, or `T` where both are one; lists of types in the coalesced form.
mlir::ParseResult parseTransition(mlir::OpAsmParser &parser, mlir::Type &source,
                                  mlir::Type &destination);
mlir::ParseResult parseTransition(mlir::OpAsmParser &parser,
                                  llvm::SmallVectorImpl<mlir::Type> &sources,
                                  llvm::SmallVectorImpl<mlir::Type> &destinations);
void printTransition(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type source,
                     mlir::Type destination);
void printTransition(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::TypeRange sources,
                     mlir::TypeRange destinations);

/// `T`, the type of the value; the operand is its future.
mlir::ParseResult parseFutureOf(mlir::OpAsmParser &parser, mlir::Type &future, mlir::Type &value);
void printFutureOf(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type future,
                   mlir::Type value);

/// `T`, the type of the value that the other one is a host copy of.
mlir::ParseResult parseHostOf(mlir::OpAsmParser &parser, mlir::Type &host, mlir::Type &value);
void printHostOf(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type host,
                 mlir::Type value);

/// `[0 -> 1, 1 -> 0]`: who sends to whom.
mlir::ParseResult parsePairs(mlir::OpAsmParser &parser, mlir::DenseI64ArrayAttr &sources,
                             mlir::DenseI64ArrayAttr &destinations);
void printPairs(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::DenseI64ArrayAttr sources,
                mlir::DenseI64ArrayAttr destinations);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_ASSEMBLY_H
