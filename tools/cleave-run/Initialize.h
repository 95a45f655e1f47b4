//===- Initialize.h - weights by a module's own initialisation ------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_INITIALIZE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_INITIALIZE_H

#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// Writes `options.weights.path` by `python -m cleave.init` for the factory `options.init`, once
/// for all ranks. An error in one of a launcher's processes: each would write the file.
llvm::Error initializeWeights(const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_INITIALIZE_H
