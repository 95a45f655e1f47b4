//===- ReduceProgram.h - makes a program smaller -------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H
#define CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H

namespace cleave {

/// Registers `--reduce-program="test=SCRIPT"`.
void registerReduceProgramPass();

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H
