//===- PairCosts.cpp --------------------------------------------------------===//

#include "lib/solve/PairCosts.h"

#include <limits>

using namespace cleave::solve;

static constexpr double infinity = std::numeric_limits<double>::infinity();

PairCosts::PairCosts(const Problem &problem) {
  for (const Matrix &matrix : problem.getMatrices()) {
    Transposed &entry =
        matrices.emplace_back(Transposed{PaddedMatrix(matrix.rows, matrix.columns, infinity),
                                         PaddedMatrix(matrix.columns, matrix.rows, infinity)});
    const int64_t *costs = matrix.costs.data();
    for (size_t row = 0; row < matrix.rows; ++row)
      for (size_t column = 0; column < matrix.columns; ++column, ++costs) {
        double cost = *costs == forbidden ? infinity : static_cast<double>(*costs);
        entry.rows[row][column] = entry.columns[column][row] = cost;
      }
  }
  for (const Edge &edge : problem.getEdges()) {
    size_t second = messageCount + problem.getNodes()[edge.first].size;
    messageOffsets.push_back({messageCount, second});
    messageCount = second + problem.getNodes()[edge.second].size;
  }
}
