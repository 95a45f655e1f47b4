//===- PhaseChecks.h - type checks between passes ------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H
#define CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H

#include "tools/cleave-opt/Failures.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace cleave {

/// Makes `failures` watch the pipeline of `config`, and, unless the user says
/// `--verify-types=false`, checks what `--check-spmd-types` does after each of Cleave's passes, and
/// what `--verify-exec` does after every pass. Upstream's passes and plugins' leave types as they
/// are, or are checked with the next of Cleave's passes and by the runtime.
void addPhaseChecks(mlir::MlirOptMainConfig &config, Failures &failures);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_PHASECHECKS_H
