// The rows of the Zero Bubble paper's tables, for the tests of the simulator and of the search.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_SIMULATE_PUBLISHED_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_SIMULATE_PUBLISHED_H

#include <string>
#include <vector>

namespace cleave::test {

struct PublishedRow {
  std::string model;
  unsigned ranks, microbatches;
  double forward, input, weight, comm;
  /// Columns by header name and value.
  std::vector<std::pair<std::string, double>> rates;
  /// 1 (tables 5 and 9) or 2 (table 8, costs of one of two chunks).
  unsigned chunks;

  double rate(const std::string &column) const;
  /// What a forward adds, an input and a weight gradient release: arXiv 2401.10241, per layer.
  double forwardMemory() const { return inputMemory() + weightMemory(); }
  double inputMemory() const;
  double weightMemory() const;
};

/// All rows of both tables; throws std::runtime_error if a file is missing or malformed.
std::vector<PublishedRow> readPublished();

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_SIMULATE_PUBLISHED_H
