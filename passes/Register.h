//===- Register.h - makes all passes known by name ----------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_REGISTER_H
#define CLEAVE_PASSES_REGISTER_H

namespace cleave {

/// Registers Cleave's passes, and the upstream ones that are of use on programs (canonicalize,
/// cse, symbol-dce, ...). Call once per process.
void registerAllPasses();

} // namespace cleave

#endif // CLEAVE_PASSES_REGISTER_H
