//===- Scalars.h - LLVM's arithmetic on bits ------------------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_SCALARS_H
#define CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_SCALARS_H

#include "llvm/IR/Instructions.h"

namespace cleave::gputest {

/// A number of any scalar type, as its bits; those above the type's width are 0.
using Bits = uint64_t;

double toDouble(Bits bits, const llvm::Type *type);
/// Rounded to the nearest number of `type`.
Bits fromDouble(double value, const llvm::Type *type);
int64_t toSigned(Bits bits, unsigned width);
Bits truncateTo(Bits bits, unsigned width);

Bits binary(unsigned opcode, Bits x, Bits y, const llvm::Type *type);
bool compare(llvm::CmpInst::Predicate predicate, Bits x, Bits y, const llvm::Type *type);
Bits convert(unsigned opcode, Bits x, const llvm::Type *from, const llvm::Type *to);
/// The intrinsic with that name on scalars. Throws Fault for one that is not known.
Bits intrinsic(llvm::StringRef name, llvm::ArrayRef<Bits> x, const llvm::Type *type,
               const llvm::Type *operandType);

} // namespace cleave::gputest

#endif // CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_SCALARS_H
