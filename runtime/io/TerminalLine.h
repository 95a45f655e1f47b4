//===- TerminalLine.h - who may print next to the progress -------*- C++ -*-===//
//
// Progress is a line of the terminal that is written again and again and has no end. Code that
// prints something else ends it first: this process, a rank forked from it, or their supervisor.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_TERMINALLINE_H
#define CLEAVE_RUNTIME_IO_TERMINALLINE_H

namespace cleave::runtime {

/// From here on this process and the processes that it forks have one state.
void shareTerminalLine();
/// There is a line without an end on the terminal that is standard output.
void beginTerminalLine();
/// Ends the line, if there is one. Call it before printing anything else.
void endTerminalLine();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TERMINALLINE_H
