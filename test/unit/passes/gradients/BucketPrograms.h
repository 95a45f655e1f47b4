//===- BucketPrograms.h - programs whose gradients go into buckets -*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_PASSES_GRADIENTS_BUCKETPROGRAMS_H
#define CLEAVE_TEST_UNIT_PASSES_GRADIENTS_BUCKETPROGRAMS_H

#include <string>
#include <vector>

namespace cleave::test {

struct Parameter {
  std::string name, type;
  bool isFrozen = false, isReduced = true;
  int uses = 1;
  bool isFast = false, isDecayed = false; ///< its optimizer group
  int readiness = 0;
};

struct Case {
  std::vector<Parameter> parameters;
  int ranks = 1, microbatches = 1;
  bool isSharded = false; ///< each rank has weights of its own
  std::string options;

  bool isBitwise() const { return ranks <= 2; }
};

/// The program of a case, with one reduction a gradient.
std::string writeProgram(const Case &test);

/// Fully sharded parameters on a mesh of `dp` x 2 ranks: gathered for use, gradients gathered whole
/// over the microbatches, then scattered along fsdp and summed over dp, each by itself.
std::string writeShardedProgram(int dp);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_PASSES_GRADIENTS_BUCKETPROGRAMS_H
