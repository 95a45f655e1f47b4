//===- SameProgram.h - Ranks agree on what they run -------------*- C++ -*-===//
//
// Ranks that run different programs, or the same one with another number of microbatches, hang or
// compute something unintended. They compare at the start instead.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_SAMEPROGRAM_H
#define CLEAVE_RUNTIME_COMM_SAMEPROGRAM_H

#include "runtime/comm/Communicator.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// Something that a rank runs on or with: the version of a library, say.
struct EnvironmentFact {
  enum class Weight : uint8_t {
    Required,    ///< ranks must agree: else they may not understand each other
    DecidesBits, ///< where ranks differ, equal inputs may give results that differ in their last
                 ///< bits
    Informs      ///< of interest when something else is wrong
  };
  std::string name, value;
  Weight weight = Weight::Required;
};

struct ProgramIdentity {
  /// What the user calls the program: its file name.
  std::string name;
  /// A hash of the program, SHA-256 of its bytecode say.
  std::array<uint8_t, 32> fingerprint{};
  /// Options that must agree, as the user spells them, and their values: {"--microbatches", "4"}.
  std::vector<std::pair<std::string, std::string>> mustAgree;
  std::string host;
  std::vector<EnvironmentFact> environment;
  /// What decides bits must agree too: the run compares bits of ranks.
  bool needsEqualBits = false;
};

/// Compares `mine` with every other rank's. A CollectiveRefusal, the same on all ranks, names what
/// differs and which ranks have what. Differences that are allowed are appended to `notes`, a line
/// each, the same on all ranks.
llvm::Error checkSameProgram(Communicator &world, const ProgramIdentity &mine,
                             std::vector<std::string> *notes = nullptr);

/// The comparison alone: `identities` by rank.
llvm::Error compareIdentities(llvm::ArrayRef<ProgramIdentity> identities,
                              std::vector<std::string> *notes = nullptr);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_SAMEPROGRAM_H
