//===- Fixed.h - what a user fixes of a plan ------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_FIXED_H
#define CLEAVE_LIB_PLAN_FIXED_H

#include "lib/plan/Space.h"
#include "lib/support/Error.h"

namespace cleave::plan {

/// Reads "tp=2,schedule=1f1b". An unknown word or value is an error that lists the known ones.
llvm::Expected<Fixed> parseFixed(llvm::StringRef text);

/// Fails if the space has no plan, with the smallest set of what is fixed that leaves none: each of
/// it, taken away, leaves some.
llvm::Error checkFixed(const Space &space);

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_FIXED_H
