//===- MemoryProfile.cpp ---------------------------------------------------===//

#include "lib/solve/MemoryProfile.h"

#include <algorithm>

using namespace cleave::solve;

static double maximum(const double *begin, const double *end) {
  double result = *begin;
  for (; begin != end; ++begin)
    result = *begin > result ? *begin : result;
  return result;
}

void MemoryProfile::addWithin(unsigned block, unsigned first, unsigned last, double amount) {
  for (unsigned point = first; point < last; ++point)
    points[point] += amount;
  // Four at a time, which the compiler makes vectors of.
  const double *begin = &points[size_t(block) * blockSize];
  double lanes[4] = {begin[0], begin[1], begin[2], begin[3]};
  for (unsigned i = 4; i < blockSize; i += 4)
    for (unsigned lane = 0; lane < 4; ++lane)
      lanes[lane] = begin[i + lane] > lanes[lane] ? begin[i + lane] : lanes[lane];
  highest[block] = maximum(lanes, lanes + 4);
}

void MemoryProfile::add(PointRange range, double amount) {
  unsigned first = range.first / blockSize, last = range.last / blockSize;
  if (first == last) {
    addWithin(first, range.first, range.last, amount);
    return;
  }
  addWithin(first, range.first, (first + 1) * blockSize, amount);
  for (unsigned block = first + 1; block < last; ++block)
    shared[block] += amount;
  if (range.last > last * blockSize)
    addWithin(last, last * blockSize, range.last, amount);
}

double MemoryProfile::getHighest(PointRange range) const {
  unsigned first = range.first / blockSize, last = range.last / blockSize;
  if (first == last)
    return maximum(&points[range.first], &points[range.last]) + shared[first];
  double result = maximum(&points[range.first], &points[(first + 1) * blockSize]) + shared[first];
  for (unsigned block = first + 1; block < last; ++block)
    result = std::max(result, shared[block] + highest[block]);
  if (range.last > last * blockSize)
    result =
        std::max(result, maximum(&points[last * blockSize], &points[range.last]) + shared[last]);
  return result;
}
