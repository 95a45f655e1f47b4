//===- ProveEach.h - that each pass preserved the step -------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_PROVEEACH_H
#define CLEAVE_TOOLS_CLEAVE_OPT_PROVEEACH_H

#include "tools/cleave-opt/Failures.h"

namespace cleave {

/// Where the user says `--prove-each`, proves after each pass of `manager` that the program is
/// still the step that it was before. A remark says for each pass what was proved, in which time,
/// or why it is unknown; a result that is another value, such as one that is summed once too often,
/// is an error.
void addProofs(mlir::PassManager &manager, Failures &failures);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_PROVEEACH_H
