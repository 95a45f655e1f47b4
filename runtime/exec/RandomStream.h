//===- RandomStream.h - a generator that can be asked for a place --*- C++ -*-===//
//
// Programs name the place of their random numbers in PyTorch's CPU stream (`docs/random.md`).
// MT19937 cannot jump, so the stream remembers where it stands: ops that follow each other continue
// without seeding again.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_RANDOMSTREAM_H
#define CLEAVE_RUNTIME_EXEC_RANDOMSTREAM_H

#include "runtime/aten/Facade.h"

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <map>

namespace cleave::runtime {

class RandomStream {
public:
  RandomStream();

  /// The generator, after `position` draws of 32 bits since `manual_seed(seed)`. Going back to one
  /// of the last kMaxPlaces places, as a backward does that computes a random op again, costs
  /// nothing; other ways are drawn through.
  at::Generator &seek(uint64_t seed, uint64_t position);

  /// Notes that the caller has drawn `count` numbers since `seek`. Throws if the generator does not
  /// stand there, which would give later ops other numbers than eager mode's.
  void advance(uint64_t count);

  /// From now on `engine`, which stands at `position`, begins the stream of `seed`: earlier places
  /// are none of it.
  void continueFrom(const at::mt19937 &engine, uint64_t seed, uint64_t position);

  /// Numbers drawn so far only to get to a place.
  uint64_t skippedDraws() const { return skipped; }
  static constexpr size_t kMaxPlaces = 4096;

private:
  void goTo(uint64_t wantedPosition);

  /// What the generator is made with, so before it.
  uint64_t seed = 0;
  at::Generator generator;
  /// The engine's state at places that were sought, with this seed; training leaves the lowest
  /// behind.
  std::map<uint64_t, at::mt19937> places;
  uint64_t skipped = 0;
  uint64_t position = 0;
  /// Where the stream begins, and its engine there.
  uint64_t beginning = 0;
  at::mt19937 first;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANDOMSTREAM_H
