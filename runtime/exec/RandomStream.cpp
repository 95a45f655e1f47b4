//===- RandomStream.cpp - a generator that can be asked for a place ----------===//

#include "runtime/exec/RandomStream.h"

#include <ATen/CPUGeneratorImpl.h>

using namespace cleave::runtime;

RandomStream::RandomStream() : generator(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

at::Generator &RandomStream::seek(uint64_t wantedSeed, uint64_t wantedPosition) {
  auto *impl = generator.get<at::CPUGeneratorImpl>();
  if (wantedSeed != seed || wantedPosition < position) {
    // Also empties the cache of normals.
    impl->set_current_seed(wantedSeed);
    seed = wantedSeed;
    position = 0;
  }
  if (position < wantedPosition) {
    // On a copy, so that the loop is inlined.
    at::mt19937 engine = impl->engine();
    for (uint64_t i = position; i < wantedPosition; ++i)
      engine();
    impl->set_engine(engine);
    position = wantedPosition;
  }
  return generator;
}

void RandomStream::advance(uint64_t count) {
  position += count;
  if (position == 0)
    return;
  uint32_t next = generator.get<at::CPUGeneratorImpl>()->engine().data().next_;
  uint32_t expected = (position - 1) % at::MERSENNE_STATE_N + 1;
  TORCH_CHECK(next == expected, "this LibTorch draws another number of random numbers than the ",
              count, " that the program counts on");
}
