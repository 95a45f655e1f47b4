//===- RandomStream.cpp - a generator that can be asked for a place ----------===//

#include "runtime/exec/RandomStream.h"

#include <ATen/CPUGeneratorImpl.h>

using namespace cleave::runtime;

RandomStream::RandomStream()
    : generator(at::make_generator<at::CPUGeneratorImpl>(seed)), first(seed) {}

void RandomStream::continueFrom(const at::mt19937 &engine, uint64_t newSeed, uint64_t newPosition) {
  auto *impl = generator.get<at::CPUGeneratorImpl>();
  impl->set_current_seed(newSeed);
  impl->set_engine(engine);
  seed = newSeed;
  position = beginning = newPosition;
  first = engine;
  places.clear();
}

void RandomStream::goTo(uint64_t wantedPosition) {
  auto *impl = generator.get<at::CPUGeneratorImpl>();
  if (wantedPosition == position)
    return;
  if (wantedPosition < position) {
    // Normals come in pairs; the second of one is not for another place.
    impl->set_next_float_normal_sample(std::nullopt);
    impl->set_next_double_normal_sample(std::nullopt);
  }
  at::mt19937 engine = impl->engine();
  auto known = places.upper_bound(wantedPosition);
  if (known == places.begin()) {
    if (wantedPosition < position) {
      TORCH_CHECK(wantedPosition >= beginning, "the random numbers at place ", wantedPosition,
                  " are those of an earlier step");
      engine = first;
      position = beginning;
    }
  } else if (--known; wantedPosition < position || known->first > position) {
    engine = known->second;
    position = known->first;
  }
  // On a copy, so that the loop is inlined.
  skipped += wantedPosition - position;
  for (; position < wantedPosition; ++position)
    engine();
  impl->set_engine(engine);
}

at::Generator &RandomStream::seek(uint64_t wantedSeed, uint64_t wantedPosition) {
  auto *impl = generator.get<at::CPUGeneratorImpl>();
  if (wantedSeed != seed) {
    impl->set_current_seed(wantedSeed);
    seed = wantedSeed;
    position = beginning = 0;
    first = at::mt19937(seed);
    places.clear();
  }
  goTo(wantedPosition);
  if (places.try_emplace(position, impl->engine()).second && places.size() > kMaxPlaces)
    places.erase(places.begin()->first == position ? std::prev(places.end()) : places.begin());
  return generator;
}

void RandomStream::advance(uint64_t count) {
  position += count;
  if (position == beginning)
    return;
  uint32_t next = generator.get<at::CPUGeneratorImpl>()->engine().data().next_;
  uint64_t drawn = first.data().next_ + (position - beginning);
  uint32_t expected = (drawn - 1) % at::MERSENNE_STATE_N + 1;
  TORCH_CHECK(next == expected,
              "this LibTorch draws a different number of random numbers than the ", count,
              " that the program expects");
}
