//===- ForwardOnly.h - a program without its backward ------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_FORWARDONLY_H
#define CLEAVE_LIB_PIPELINE_FORWARDONLY_H

#include "dialects/train/Program.h"

namespace cleave::pipeline {

/// Takes backwards, reductions and updates out of a program in stages, and out of its forwards what
/// they keep, compute and forward for those alone.
void keepForwards(llvm::ArrayRef<train::ProgramFunctions> stages);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_FORWARDONLY_H
