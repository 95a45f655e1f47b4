//===- RandomGraph.h - random programs for one device ---------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMGRAPH_H
#define CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMGRAPH_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace cleave::test {

/// A number of 0 to count - 1: the same from the same seed everywhere.
inline unsigned pick(std::mt19937 &random, size_t count) {
  return unsigned(random() % count);
}

/// The text of a module with a mesh of these axes ("a", "b", ...) and one microbatch function of
/// some ten random ops on f64 tensors, whose sizes these axes divide. It has inputs,
/// outputs, and no gradients.
std::string makeGraph(std::mt19937 &random, const std::vector<int64_t> &mesh);

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_LIB_PLACEMENT_PARTITION_RANDOMGRAPH_H
