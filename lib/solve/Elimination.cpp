//===- Elimination.cpp - tables over the neighbours of what goes ------------===//

#include "lib/solve/Elimination.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::solve;

EliminationOrder::EliminationOrder(llvm::ArrayRef<unsigned> sizes,
                                   llvm::ArrayRef<std::pair<unsigned, unsigned>> pairs)
    : entries(sizes.size()), words((sizes.size() + 63) / 64), bits(sizes.size() * words) {
  for (unsigned size : sizes)
    logSizes.push_back(std::log(size));
  for (auto [first, second] : pairs) {
    bits[first * words + second / 64] |= uint64_t(1) << (second % 64);
    bits[second * words + first / 64] |= uint64_t(1) << (first % 64);
  }
  for (unsigned variable = 0; variable < sizes.size(); ++variable)
    weigh(variable);
}

void EliminationOrder::weigh(unsigned variable) {
  double sum = logSizes[variable];
  for (size_t word = 0; word < words; ++word)
    for (uint64_t rest = bits[variable * words + word]; rest != 0; rest &= rest - 1)
      sum += logSizes[word * 64 + llvm::countr_zero(rest)];
  entries[variable] = sum;
}

void EliminationOrder::remove(unsigned variable, bool joinsNeighbours) {
  llvm::SmallVector<unsigned> neighbours;
  for (size_t word = 0; word < words; ++word)
    for (uint64_t rest = bits[variable * words + word]; rest != 0; rest &= rest - 1)
      neighbours.push_back(word * 64 + llvm::countr_zero(rest));
  for (unsigned neighbour : neighbours) {
    uint64_t *row = &bits[neighbour * words];
    if (joinsNeighbours)
      for (size_t word = 0; word < words; ++word)
        row[word] |= bits[variable * words + word];
    row[variable / 64] &= ~(uint64_t(1) << (variable % 64));
    row[neighbour / 64] &= ~(uint64_t(1) << (neighbour % 64));
  }
  for (unsigned neighbour : neighbours)
    weigh(neighbour);
}

std::vector<unsigned> EliminationOrder::find(
    double mostEntries,
    llvm::function_ref<size_t(llvm::ArrayRef<unsigned> left, llvm::ArrayRef<double> entries)>
        chooseHeld) {
  std::vector<unsigned> left(entries.size()), order;
  for (auto [number, variable] : llvm::enumerate(left))
    variable = number;
  double most = std::log(mostEntries);
  while (!left.empty()) {
    size_t next = 0;
    for (size_t i = 1; i < left.size(); ++i)
      if (entries[left[i]] < entries[left[next]])
        next = i;
    bool isHeld = entries[left[next]] > most;
    if (isHeld)
      next = chooseHeld(left, entries);
    unsigned variable = left[next];
    left[next] = left.back();
    left.pop_back();
    remove(variable, !isHeld);
    if (!isHeld)
      order.push_back(variable);
  }
  return order;
}

void Elimination::clear() {
  variables.clear();
  factors.clear();
  own.clear();
  computed.clear();
}

void Elimination::addVariable(llvm::ArrayRef<double> costs) {
  variables.push_back({own.size(), static_cast<unsigned>(costs.size()), {}});
  own.insert(own.end(), costs.begin(), costs.end());
}

void Elimination::addPair(unsigned first, unsigned second, const double *table) {
  variables[first].factors.push_back(factors.size());
  factors.push_back({{second, first}, table, 0});
}

/// In lanes, as doubles have no order in which compilers may compare them.
static double getLeast(const double *values, unsigned count) {
  constexpr unsigned lanes = 8;
  double least[lanes];
  std::fill_n(least, lanes, std::numeric_limits<double>::infinity());
  unsigned i = 0;
  for (; i + lanes <= count; i += lanes)
    for (unsigned lane = 0; lane < lanes; ++lane)
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
  for (; i < count; ++i)
    least[0] = std::min(least[0], values[i]);
  return *std::min_element(least, least + lanes);
}

uint64_t Elimination::eliminate(unsigned number) {
  Variable &variable = variables[number];
  llvm::SmallVector<unsigned, 6> scope;
  for (unsigned factor : variable.factors)
    for (unsigned other : factors[factor].scope)
      if (other != number && !llvm::is_contained(scope, other))
        scope.push_back(other);
  if (scope.empty())
    return 0;
  llvm::sort(scope, std::greater<>());
  size_t count = 1;
  for (unsigned other : scope)
    count *= variables[other].size;
  size_t offset = computed.size();
  computed.resize(offset + count);
  // How far each factor goes on with each of the scope.
  size_t depth = scope.size(), width = variable.factors.size();
  llvm::SmallVector<const double *, 8> position;
  llvm::SmallVector<size_t, 32> strides(depth * width, 0);
  for (auto [index, factor] : llvm::enumerate(variable.factors)) {
    const Factor &entry = factors[factor];
    position.push_back(getTable(entry));
    size_t stride = variable.size;
    for (size_t i = entry.scope.size() - 1; i-- > 0;) {
      size_t level = llvm::find(scope, entry.scope[i]) - scope.begin();
      strides[level * width + index] = stride;
      stride *= variables[entry.scope[i]].size;
    }
  }
  llvm::SmallVector<unsigned, 8> counter(depth, 0);
  sums.resize(std::max<size_t>(sums.size(), variable.size));
  const double *costs = &own[variable.offset];
  for (size_t result = 0; result < count; ++result) {
    const double *first = position[0];
    for (unsigned choice = 0; choice < variable.size; ++choice)
      sums[choice] = costs[choice] + first[choice];
    for (size_t index = 1; index < width; ++index) {
      const double *row = position[index];
      for (unsigned choice = 0; choice < variable.size; ++choice)
        sums[choice] += row[choice];
    }
    computed[offset + result] = getLeast(sums.data(), variable.size);
    for (size_t level = depth; level-- > 0;) {
      unsigned size = variables[scope[level]].size;
      bool wraps = ++counter[level] == size;
      for (size_t index = 0; index < width; ++index) {
        size_t stride = strides[level * width + index];
        position[index] = wraps ? position[index] - stride * (size - 1) : position[index] + stride;
      }
      if (!wraps)
        break;
      counter[level] = 0;
    }
  }
  variables[scope.back()].factors.push_back(factors.size());
  factors.push_back({std::move(scope), nullptr, offset});
  return count * variable.size;
}

uint64_t Elimination::run() {
  uint64_t entries = 0;
  for (unsigned number = 0; number < variables.size(); ++number)
    entries += eliminate(number);
  return entries;
}

void Elimination::getCosts(unsigned number, llvm::ArrayRef<unsigned> choices,
                           llvm::SmallVectorImpl<double> &costs) const {
  const Variable &variable = variables[number];
  costs.assign(&own[variable.offset], &own[variable.offset] + variable.size);
  for (unsigned factor : variable.factors) {
    const Factor &entry = factors[factor];
    size_t place = 0;
    for (unsigned other : llvm::ArrayRef(entry.scope).drop_back())
      place = place * variables[other].size + choices[other];
    const double *row = getTable(entry) + place * variable.size;
    for (unsigned choice = 0; choice < variable.size; ++choice)
      costs[choice] += row[choice];
  }
}
