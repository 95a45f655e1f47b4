//===- Widen.h - programs and tensors in float64 -------------------*- C++ -*-===//
//
// In float64 rounding is so small that what differs by more is an error, however small weights make
// it. A program in narrower types is run so, with the same weights and inputs: what its casts round
// is not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_WIDEN_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_WIDEN_H

#include "runtime/io/Safetensors.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave::prove {

/// Bits of the narrowest floating-point type in which a program computes; 64 if in none.
unsigned narrowestFloat(mlir::ModuleOp module);

/// A copy of a program that computes in float64, but for the number of the step and the loss scale;
/// null if it has none, as where an op is for one type or a constant lies outside the program.
mlir::OwningOpRef<mlir::ModuleOp> widen(mlir::ModuleOp module);

/// Values of a tensor in float64, if it has a narrower floating-point type; nothing otherwise.
std::optional<std::vector<uint8_t>> widen(const runtime::TensorView &tensor);

/// Writes the tensors of one safetensors file, in float64, to another.
llvm::Error widenFile(llvm::StringRef from, llvm::StringRef to);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_WIDEN_H
