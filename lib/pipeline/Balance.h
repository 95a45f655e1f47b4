//===- Balance.h - cuts a chain of costs into even parts ------------*- C++ -*-===//
//
// Plain C++: the optimal contiguous partition.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_BALANCE_H
#define CLEAVE_LIB_PIPELINE_BALANCE_H

#include <cstddef>
#include <vector>

namespace cleave::pipeline {

/// The smallest cost that the most expensive of `parts` contiguous parts of `costs` can have, up to
/// rounding. Costs are not negative; n log n.
double findBottleneck(const std::vector<double> &costs, size_t parts);

/// Where the parts after the first begin, ascending: `parts` contiguous parts, none empty, none
/// more expensive than (1 + slack) times the bottleneck, with the smallest sum of `boundary[i]`
/// over their beginnings i (what a cut before element i costs, such as bytes that cross). In time n
/// x parts. `parts` is from 1 to the number of costs; `boundary` is as long as `costs`.
std::vector<size_t> balance(const std::vector<double> &costs, const std::vector<double> &boundary,
                            size_t parts, double slack);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_BALANCE_H
