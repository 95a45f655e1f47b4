//===- VerifySplit.h - holds a split backward to its definition ----*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_VERIFYSPLIT_H
#define CLEAVE_LIB_BACKWARD_VERIFYSPLIT_H

#include "dialects/train/Program.h"

namespace cleave::backward {

/// Checks the functions of phases backward_input (dI) and backward_weight (dW) of `program`,
/// looking at nothing but them:
/// 1. dI gives no gradient of a parameter, and dW none of an input.
/// 2. Each op of dI is needed for a gradient of an input, an updated buffer, or an op that is
/// marked
///    `train.activation_gradient`; nothing in it is for gradients of parameters alone.
/// 3. Each op of dW is needed for one of its results.
/// 4. dW computes nothing that dI computes, from the same values by the same op, except ops marked
///    `train.recomputed`; and what is so marked is in dI or, where the backward computes it again,
///    in the forward.
/// Emits an error for each violation.
llvm::LogicalResult verifySplit(const train::ProgramFunctions &program);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_VERIFYSPLIT_H
