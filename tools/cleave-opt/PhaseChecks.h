//===- PhaseChecks.h - type checks between passes ------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H
#define CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace cleave {

/// Makes `--check-spmd-types` run after each of Cleave's passes in the pipeline of `config`, and
/// `--verify-exec` after each pass, unless the user says `--verify-types=false`. Upstream's passes
/// and plugins' leave types as they are, or are checked with the next of Cleave's passes and by the
/// runtime.
void addPhaseChecks(mlir::MlirOptMainConfig &config);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H
