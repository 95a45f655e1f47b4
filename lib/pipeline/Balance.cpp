//===- Balance.cpp - cuts a chain of costs into even parts --------------------===//

#include "lib/pipeline/Balance.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>

static std::vector<double> sumPrefixes(const std::vector<double> &costs) {
  std::vector<double> sums{0};
  for (double cost : costs)
    sums.push_back(sums.back() + cost);
  return sums;
}

/// Whether `parts` parts of at most `limit` hold everything: each takes as much as fits.
static bool fits(const std::vector<double> &sums, size_t parts, double limit) {
  auto begin = sums.begin();
  for (size_t part = 0; part < parts; ++part) {
    begin = std::upper_bound(begin, sums.end(), *begin + limit) - 1;
    if (begin + 1 == sums.end())
      return true;
  }
  return false;
}

double cleave::pipeline::findBottleneck(const std::vector<double> &costs, size_t parts) {
  std::vector<double> sums = sumPrefixes(costs);
  double largest = costs.empty() ? 0 : *std::max_element(costs.begin(), costs.end());
  double low = std::max(largest, sums.back() / static_cast<double>(parts)), high = sums.back();
  if (fits(sums, parts, low))
    return low;
  constexpr double kPrecision = 1e-9;
  while (high - low > kPrecision * high) {
    double middle = low + (high - low) / 2;
    (fits(sums, parts, middle) ? high : low) = middle;
  }
  return high;
}

std::vector<size_t> cleave::pipeline::balance(const std::vector<double> &costs,
                                              const std::vector<double> &boundary, size_t parts,
                                              double slack) {
  const double unreachable = std::numeric_limits<double>::infinity();
  size_t n = costs.size();
  std::vector<double> sums = sumPrefixes(costs);
  // Sums are rounded: a bottleneck that one way of adding reaches, another may just miss.
  double limit = findBottleneck(costs, parts) * (1 + slack) + 1e-9 * sums.back();

  // best[end]: smallest sum of boundaries over ways to cut [0, end) into the parts so far.
  std::vector<double> best(n + 1, unreachable);
  best[0] = 0;
  std::vector<std::vector<uint32_t>> from(parts, std::vector<uint32_t>(n + 1));
  for (size_t part = 0; part < parts; ++part) {
    std::vector<double> next(n + 1, unreachable);
    // Beginnings from which the part is not too dear, by ascending value.
    std::deque<std::pair<double, size_t>> window;
    for (size_t end = 1; end <= n; ++end) {
      size_t begin = end - 1;
      double value = best[begin] + (part == 0 ? 0 : boundary[begin]);
      if (value < unreachable) {
        while (!window.empty() && window.back().first >= value)
          window.pop_back();
        window.emplace_back(value, begin);
      }
      while (!window.empty() && sums[end] - sums[window.front().second] > limit)
        window.pop_front();
      if (window.empty())
        continue;
      next[end] = window.front().first;
      from[part][end] = static_cast<uint32_t>(window.front().second);
    }
    best = std::move(next);
  }
  std::vector<size_t> begins;
  size_t end = n;
  for (size_t part = parts; part-- > 1;)
    begins.push_back(end = from[part][end]);
  std::reverse(begins.begin(), begins.end());
  return begins;
}
