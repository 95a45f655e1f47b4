//===- Interrupts.h - signals that end a run in good order ---------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_INTERRUPTS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_INTERRUPTS_H

namespace cleave::run {

/// From here on the first SIGTERM or SIGINT is only noted; one that comes two seconds later does
/// what it did before.
void noteSignals();

/// The one that was noted, or 0.
int getNotedSignal();

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_INTERRUPTS_H
