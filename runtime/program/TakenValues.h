//===- TakenValues.h - what a stage takes from its neighbours ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_TAKENVALUES_H
#define CLEAVE_RUNTIME_PROGRAM_TAKENVALUES_H

#include "runtime/program/ProgramImpl.h"

namespace cleave::runtime {

/// Bytes that functions take from another stage.
struct TakenBytes {
  int64_t all = 0;
  /// Bytes that the function that takes them also saves for a later one of the microbatch.
  int64_t saved = 0;

  TakenBytes &operator+=(const TakenBytes &other) {
    all += other.all;
    saved += other.saved;
    return *this;
  }
};

/// The arguments of a function that have this role: Crossing or CrossingGradient.
TakenBytes countTaken(const PhaseFunction &part, RoleKind role);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_TAKENVALUES_H
