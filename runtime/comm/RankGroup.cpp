//===- RankGroup.cpp - The ranks of a collective, in its order ------------===//

#include "runtime/comm/RankGroup.h"

#include <algorithm>

using namespace cleave::runtime;

Part cleave::runtime::partOf(int64_t whole, int64_t count, int64_t index) {
  int64_t maximum = (whole + count - 1) / count;
  int64_t begin = std::min(whole, maximum * index);
  return {begin, std::min(maximum, whole - begin)};
}

Part RankGroup::partAt(int64_t whole, int place) const {
  Part part{0, whole};
  int64_t rest = place, below = size();
  for (int64_t count : sizes) {
    below /= count;
    Part inner = partOf(part.size, count, rest / below);
    part = {part.begin + inner.begin, inner.size};
    rest %= below;
  }
  return part;
}

RankGroup RankGroup::of(Communicator &communicator) {
  RankGroup group;
  group.communicator = &communicator;
  group.sizes = {communicator.size()};
  for (int rank = 0; rank < communicator.size(); ++rank)
    group.rankAt.push_back(rank);
  group.place = communicator.rank();
  return group;
}
