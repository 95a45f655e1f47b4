//===- RandomStreamTest.cpp - places in PyTorch's CPU stream ------------------===//

#include "runtime/exec/RandomStream.h"

#include <ATen/CPUGeneratorImpl.h>

#include "gtest/gtest.h"

#include <cstddef>
#include <cstring>

using namespace cleave::runtime;

namespace {
/// Draws `count` numbers at a place.
std::vector<uint32_t> draw(RandomStream &stream, uint64_t seed, uint64_t position, int count) {
  auto *generator = stream.seek(seed, position).get<at::CPUGeneratorImpl>();
  std::vector<uint32_t> numbers;
  for (int i = 0; i < count; ++i)
    numbers.push_back(generator->random());
  stream.advance(count);
  return numbers;
}

TEST(RandomStreamTest, AnyPlaceGivesWhatTheSequenceHasThere) {
  at::CPUGeneratorImpl reference(42);
  std::vector<uint32_t> sequence;
  for (int i = 0; i < 3000; ++i)
    sequence.push_back(reference.random());
  RandomStream stream;
  // On, far on, back, across the generator's blocks of 624.
  for (uint64_t position : {0, 5, 10, 623, 624, 1240, 1248, 3, 2990, 0})
    EXPECT_EQ(draw(stream, 42, position, 5),
              std::vector<uint32_t>(sequence.begin() + position, sequence.begin() + position + 5))
        << position;
}

// Seed 0 is the one that a stream begins with, whatever was in its memory before.
TEST(RandomStreamTest, BeginsWithSeedZero) {
  at::CPUGeneratorImpl reference(0);
  uint32_t first = reference.random();
  alignas(RandomStream) std::byte memory[sizeof(RandomStream)];
  std::memset(memory, 0xff, sizeof(memory));
  auto *stream = new (memory) RandomStream;
  EXPECT_EQ(draw(*stream, 0, 0, 1).front(), first);
  stream->~RandomStream();
}

TEST(RandomStreamTest, AnotherSeedStartsOver) {
  RandomStream stream;
  std::vector<uint32_t> first = draw(stream, 1, 0, 4);
  EXPECT_NE(draw(stream, 2, 0, 4), first);
  EXPECT_EQ(draw(stream, 1, 0, 4), first);
}

TEST(RandomStreamTest, WrongCountsAreFound) {
  RandomStream stream;
  stream.seek(7, 0).get<at::CPUGeneratorImpl>()->random();
  EXPECT_THROW(stream.advance(2), c10::Error);
}

TEST(RandomStreamTest, GoingBackForgetsNormals) {
  RandomStream stream;
  auto *generator = stream.seek(3, 0).get<at::CPUGeneratorImpl>();
  generator->set_next_float_normal_sample(1.5f);
  generator->random();
  stream.advance(1);
  generator = stream.seek(3, 0).get<at::CPUGeneratorImpl>();
  EXPECT_FALSE(generator->next_float_normal_sample().has_value());
}

TEST(RandomStreamTest, GoingBackToAKnownPlaceDrawsNothing) {
  // As a step does whose backward computes its random ops again, in another order.
  RandomStream stream;
  std::vector<std::vector<uint32_t>> forward;
  for (uint64_t op = 0; op < 20; ++op)
    forward.push_back(draw(stream, 5, 100000 + op * 1000, 1000));
  EXPECT_EQ(stream.skippedDraws(), 100000u);
  for (uint64_t op = 20; op-- > 0;)
    EXPECT_EQ(draw(stream, 5, 100000 + op * 1000, 1000), forward[op]) << op;
  EXPECT_EQ(stream.skippedDraws(), 100000u);
}

TEST(RandomStreamTest, ForgetsTheLowestPlaces) {
  RandomStream stream;
  std::vector<uint32_t> first = draw(stream, 5, 10, 3);
  for (uint64_t i = 0; i < RandomStream::kMaxPlaces; ++i)
    stream.seek(5, 100 + i);
  uint64_t before = stream.skippedDraws();
  EXPECT_EQ(draw(stream, 5, 10, 3), first);
  EXPECT_EQ(stream.skippedDraws(), before + 10);
}
} // namespace
