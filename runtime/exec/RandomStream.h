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

namespace cleave::runtime {

class RandomStream {
public:
  RandomStream();

  /// The generator, after `position` draws of 32 bits since `manual_seed(seed)`.
  at::Generator &seek(uint64_t seed, uint64_t position);

  /// Notes that the caller has drawn `count` numbers since `seek`. Throws if the generator does not
  /// stand there, which would give later ops other numbers than eager mode's.
  void advance(uint64_t count);

private:
  at::Generator generator;
  uint64_t seed = 0;
  uint64_t position = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANDOMSTREAM_H
