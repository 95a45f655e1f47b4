//===- SameProgram.h - Ranks agree on what they run -------------*- C++ -*-===//
//
// Ranks that run different programs, or the same one with another number of microbatches, hang or
// compute something that nobody asked for. They compare at the start instead.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cleave::runtime {

struct ProgramIdentity {
  /// What the user calls the program: its file name.
  std::string name;
  /// A hash of the program, SHA-256 of its bytecode say.
  std::array<uint8_t, 32> fingerprint{};
  /// Options that must agree, as the user spells them, and their values: {"--microbatches", "4"}.
  std::vector<std::pair<std::string, std::string>> mustAgree;
};

/// Compares `mine` with every other rank's. A CollectiveRefusal, the same on all ranks, names what
/// differs and which ranks have what.
llvm::Error checkSameProgram(Communicator &world, const ProgramIdentity &mine);

/// The comparison alone: `identities` by rank.
llvm::Error compareIdentities(llvm::ArrayRef<ProgramIdentity> identities);

} // namespace cleave::runtime
