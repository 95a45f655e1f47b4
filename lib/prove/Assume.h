//===- Assume.h - what a proof may take for granted on request ------*- C++ -*-===//

#ifndef CLEAVE_LIB_PROVE_ASSUME_H
#define CLEAVE_LIB_PROVE_ASSUME_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave::prove {

/// Makes all floating-point types of the programs, which are proved together, one: what is left of
/// a conversion between two of them is a copy, and sums in one type are sums in any other. The
/// programs are only good for a proof then. Fails where random numbers are drawn in several types:
/// these are other numbers.
llvm::Error assumeExactCasts(llvm::ArrayRef<mlir::ModuleOp> programs);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_ASSUME_H
