//===- PairCosts.cpp --------------------------------------------------------===//

#include "lib/solve/PairCosts.h"

#include <limits>

using namespace cleave::solve;

PairCosts::PairCosts(const Problem &problem) {
  for (const Matrix &matrix : problem.getMatrices()) {
    Transposed &entry = matrices.emplace_back();
    for (int64_t cost : matrix.costs)
      entry.rows.push_back(cost == forbidden ? std::numeric_limits<double>::infinity()
                                             : static_cast<double>(cost));
    for (size_t column = 0; column < matrix.columns; ++column)
      for (size_t row = 0; row < matrix.rows; ++row)
        entry.columns.push_back(entry.rows[row * matrix.columns + column]);
  }
  for (const Edge &edge : problem.getEdges()) {
    size_t second = messageCount + problem.getNodes()[edge.first].size;
    messageOffsets.push_back({messageCount, second});
    messageCount = second + problem.getNodes()[edge.second].size;
  }
}
