//===- CheckArguments.h - passes and options that do not exist -----*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_CHECKARGUMENTS_H
#define CLEAVE_TOOLS_CLEAVE_OPT_CHECKARGUMENTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// Success where every option on the command line is one of cleave-opt's, and each pass takes the
/// options that it is given. To be called when all options and passes are registered. LLVM's own
/// messages would suggest options of its code generators, and not name the pass.
llvm::Error checkArguments(llvm::ArrayRef<char *> arguments);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_CHECKARGUMENTS_H
