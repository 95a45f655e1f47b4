//===- SmoothDual.cpp -------------------------------------------------------===//

#include "lib/solve/SmoothDual.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace cleave::solve;

/// What the first temperature gives up, as a part of the gap; the last one's part of the first.
static constexpr double firstPart = 0.12, lastPart = 1e-3;
/// Of the choices' largest entropy, what is there where few of a node's choices are near the best.
static constexpr double likelyEntropy = 0.25;
/// The temperature falls where an iteration raises the bound by less than this part of what the
/// temperature gives up.
static constexpr double leastRaise = 1e-3, cooling = 0.95;
/// What is too little to note: a part of a unit of cost.
static constexpr double noted = 0.05;
static constexpr double mostMomentum = 0.98;
/// Conjugate gradients end here; of the system's diagonal, what is added to it.
static constexpr unsigned mostSteps = 20;
static constexpr double enough = 1e-4, damping = 0.01;
/// Of the limit's square: the least variance that a point counts with.
static constexpr double leastVariance = 1e-9;
static constexpr unsigned mostHalvings = 30;

SmoothDual::SmoothDual(const Problem &problem, const MemoryUse &memory, const PairCosts &pairs,
                       Point start, double gap)
    : problem(problem), memory(memory), potentials(problem.getCosts().size()),
      probabilities(potentials.size()), excess(memory.getPointCount()), scales(excess.size()) {
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  std::vector<std::vector<Link>> byNode(nodes.size());
  double choices = 0;
  for (const Node &node : nodes)
    choices += std::log(node.size);
  for (auto [edge, offsets] : llvm::zip_equal(problem.getEdges(), pairs.messageOffsets)) {
    const PairCosts::Transposed &matrix = pairs.matrices[edge.matrix];
    byNode[edge.first].push_back(
        {edge.second, matrix.columns.data(), offsets.first, offsets.second});
    byNode[edge.second].push_back({edge.first, matrix.rows.data(), offsets.second, offsets.first});
    choices += std::log(nodes[edge.first].size) + std::log(nodes[edge.second].size);
  }
  for (llvm::ArrayRef<Link> own : byNode) {
    links.insert(links.end(), own.begin(), own.end());
    firstLink.push_back(links.size());
  }
  entropy = std::max(likelyEntropy * choices, 1.0);
  temperature = std::max(firstPart * gap / entropy, 1e-6);
  hottest = temperature;
  coldest = std::max(temperature * lastPart, noted / entropy);
  last = start;
  setPoint(std::move(start));
}

void SmoothDual::setPoint(Point point) {
  present = std::move(point);
  std::vector<double> sums{0};
  for (double price : present.prices)
    sums.push_back(sums.back() + price);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    double *own = &potentials[node.offset];
    for (unsigned choice = 0; choice < node.size; ++choice)
      own[choice] = static_cast<double>(problem.getCosts(number)[choice]);
    memory.addPriced(memory.getSegments(number), sums, {own, node.size});
    for (const Link &link : getLinks(number))
      for (unsigned choice = 0; choice < node.size; ++choice)
        own[choice] += present.messages[link.own + choice];
  }
}

/// e to the power of what is at most 0, to 1e-7 of itself: a polynomial between powers of two,
/// which compilers turn into vectors, as they do not std::exp.
static inline double exponential(double power) {
  power = std::max(power, -700.0);
  double twos = __builtin_nearbyint(power * 1.4426950408889634);
  double x = power - twos * 0.6931471805599453;
  double value =
      1 +
      x * (1 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720))))));
  int64_t bits = (static_cast<int64_t>(twos) + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return value * scale;
}

/// By column, the soft least of the rows, each less its offset. Nearly all time goes here.
#if defined(__x86_64__) && defined(__linux__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void findSoftLeast(const double *matrix, const double *offsets, unsigned rows,
                          unsigned columns, double temperature, double *__restrict least,
                          double *__restrict sum) {
  std::fill_n(least, columns, std::numeric_limits<double>::infinity());
  std::fill_n(sum, columns, 0.0);
  const double *entry = matrix;
  size_t stride = padded(columns);
  for (unsigned row = 0; row < rows; ++row, entry += stride)
    for (unsigned column = 0; column < columns; ++column)
      least[column] = std::min(least[column], entry[column] - offsets[row]);
  double inverse = 1 / temperature;
  entry = matrix;
  for (unsigned row = 0; row < rows; ++row, entry += stride)
    for (unsigned column = 0; column < columns; ++column)
      sum[column] += exponential((least[column] - (entry[column] - offsets[row])) * inverse);
  for (unsigned column = 0; column < columns; ++column)
    least[column] -= temperature * std::log(sum[column]);
}

double SmoothDual::softLeast(const double *values, unsigned count) const {
  double least = *std::min_element(values, values + count), sum = 0;
  for (unsigned i = 0; i < count; ++i)
    sum += exponential((least - values[i]) / temperature);
  return least - temperature * std::log(sum);
}

/// Evenly among the node and its edges, whose soft least is then the node's.
void SmoothDual::share(unsigned node) {
  llvm::ArrayRef<Link> own = getLinks(node);
  if (own.empty())
    return;
  unsigned size = problem.getNodes()[node].size;
  double *potential = &potentials[problem.getNodes()[node].offset];
  scratch.resize(size * (own.size() + 1));
  double *least = scratch.data(), *sum = least + size * own.size();
  for (const Link &link : own) {
    findSoftLeast(link.rows, &present.messages[link.toOther], problem.getNodes()[link.other].size,
                  size, temperature, least, sum);
    for (unsigned choice = 0; choice < size; ++choice)
      potential[choice] += least[choice] - present.messages[link.own + choice];
    least += size;
  }
  for (unsigned choice = 0; choice < size; ++choice)
    potential[choice] /= static_cast<double>(own.size() + 1);
  least = scratch.data();
  for (const Link &link : own) {
    for (unsigned choice = 0; choice < size; ++choice)
      present.messages[link.own + choice] = least[choice] - potential[choice];
    least += size;
  }
}

void SmoothDual::sweep() {
  for (unsigned node = 0; node < problem.getNodes().size(); ++node)
    share(node);
  for (unsigned node = problem.getNodes().size(); node-- > 0;)
    share(node);
}

/// After a sweep: an edge's soft least is that of the end that came last, the smaller one.
double SmoothDual::computeBound() const {
  double sum = 0;
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    size_t edges = llvm::count_if(getLinks(number),
                                  [&, own = number](const Link &link) { return link.other > own; });
    sum += softLeast(&potentials[node.offset], node.size) * static_cast<double>(edges + 1);
  }
  for (double price : present.prices)
    sum -= price * static_cast<double>(problem.limit);
  return sum;
}

/// Also, by point, the sum of the matrix of second derivatives' row over the points whose price may
/// change: what a step of all of them cannot exceed.
void SmoothDual::findExcess() {
  size_t points = excess.size();
  std::vector<double> differences(points + 1), deviations, changes(points + 1);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    llvm::ArrayRef<MemoryUse::Segment> segments = memory.getSegments(number);
    if (segments.empty())
      continue;
    const double *own = &potentials[node.offset];
    double *probability = &probabilities[node.offset];
    double least = *std::min_element(own, own + node.size), sum = 0;
    for (unsigned choice = 0; choice < node.size; ++choice)
      sum += probability[choice] = exponential((least - own[choice]) / temperature);
    for (unsigned choice = 0; choice < node.size; ++choice)
      probability[choice] /= sum;
    for (const MemoryUse::Segment &segment : segments) {
      const int64_t *usages = memory.getUsages(segment);
      double mean = 0, variance = 0;
      for (unsigned choice = 0; choice < node.size; ++choice)
        mean += probability[choice] * static_cast<double>(usages[choice]);
      for (unsigned choice = 0; choice < node.size; ++choice)
        variance += probability[choice] * std::pow(static_cast<double>(usages[choice]) - mean, 2);
      deviations.push_back(std::sqrt(variance));
      differences[segment.range.first] += mean;
      differences[segment.range.last] -= mean;
    }
  }
  double used = 0;
  std::vector<double> changeable{0}; // how many points before each one
  for (size_t point = 0; point < points; ++point) {
    used += differences[point];
    excess[point] = used - static_cast<double>(problem.limit);
    changeable.push_back(changeable.back() +
                         (present.prices[point] > 0 || excess[point] > 0 ? 1 : 0));
  }
  const double *deviation = deviations.data();
  for (unsigned node = 0; node < problem.getNodes().size(); ++node) {
    llvm::ArrayRef<MemoryUse::Segment> segments = memory.getSegments(node);
    double all = 0;
    for (auto [number, segment] : llvm::enumerate(segments))
      all += deviation[number] * (changeable[segment.range.last] - changeable[segment.range.first]);
    for (const MemoryUse::Segment &segment : segments) {
      double row = *deviation++ * all;
      changes[segment.range.first] += row;
      changes[segment.range.last] -= row;
    }
  }
  double limit = std::max(static_cast<double>(problem.limit), 1.0), row = 0;
  for (size_t point = 0; point < points; ++point) {
    row += changes[point];
    scales[point] = (std::max(row, 0.0) + leastVariance * limit * limit) / temperature;
  }
}

/// The second derivatives, without their sign, times a direction: covariances of usages.
void SmoothDual::multiply(llvm::ArrayRef<double> direction, std::vector<double> &product) const {
  std::vector<double> along{0}, changes(direction.size() + 1), usage;
  for (double entry : direction)
    along.push_back(along.back() + entry);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    const double *probability = &probabilities[node.offset];
    usage.assign(node.size, 0);
    double mean = 0;
    memory.addPriced(memory.getVarying(number), along, usage);
    for (unsigned choice = 0; choice < node.size; ++choice)
      mean += probability[choice] * usage[choice];
    for (unsigned choice = 0; choice < node.size; ++choice)
      usage[choice] = probability[choice] * (usage[choice] - mean);
    for (const MemoryUse::Segment &segment : memory.getVarying(number)) {
      const int64_t *usages = memory.getUsages(segment);
      double sum = 0;
      for (unsigned choice = 0; choice < node.size; ++choice)
        sum += usage[choice] * static_cast<double>(usages[choice]);
      changes[segment.range.first] += sum;
      changes[segment.range.last] -= sum;
    }
  }
  double sum = 0;
  product.clear();
  for (size_t point = 0; point < direction.size(); ++point) {
    sum += changes[point];
    product.push_back(sum / temperature);
  }
}

/// Newton's, of the prices that may change: conjugate gradients, scaled by the sums of rows.
std::vector<double> SmoothDual::findStep() const {
  size_t points = excess.size();
  std::vector<double> step(points), left(points), direction(points), product;
  double norm = 0;
  for (size_t point = 0; point < points; ++point) {
    if (present.prices[point] == 0 && excess[point] <= 0)
      continue;
    left[point] = excess[point];
    direction[point] = left[point] / scales[point];
    norm += left[point] * direction[point];
  }
  double first = norm;
  for (unsigned i = 0; i < mostSteps && norm > enough * first; ++i) {
    multiply(direction, product);
    double curvature = 0;
    for (size_t point = 0; point < points; ++point) {
      product[point] += damping * scales[point] * direction[point];
      curvature += product[point] * direction[point];
    }
    if (curvature <= 0)
      break;
    double length = norm / curvature, before = norm;
    norm = 0;
    for (size_t point = 0; point < points; ++point) {
      if (direction[point] == 0)
        continue;
      step[point] += length * direction[point];
      left[point] -= length * product[point];
      norm += left[point] * left[point] / scales[point];
    }
    for (size_t point = 0; point < points; ++point)
      if (direction[point] != 0)
        direction[point] = left[point] / scales[point] + norm / before * direction[point];
  }
  return step;
}

/// While messages stay, the bound depends on nodes with usages alone. It is concave: of the step,
/// within prices that are not negative, as much is taken as raises it.
void SmoothDual::stepPrices() {
  findExcess();
  std::vector<double> step = findStep();
  double slope = 0, limit = static_cast<double>(problem.limit);
  std::vector<double> sums;
  auto cut = [&] {
    slope = 0;
    sums.assign(1, 0);
    for (auto [change, price, own] : llvm::zip_equal(step, present.prices, excess)) {
      change = std::max(change, -price);
      slope += change * own;
      sums.push_back(sums.back() + change);
    }
  };
  cut();
  if (slope <= 0) {
    // Cut off at 0, Newton's step may lead downwards; that by the sums of rows never does.
    for (auto [change, price, own, scale] : llvm::zip_equal(step, present.prices, excess, scales))
      change = price == 0 && own <= 0 ? 0 : own / scale;
    cut();
  }
  if (slope <= 0)
    return;
  std::vector<double> changes(potentials.size());
  for (auto [number, node] : llvm::enumerate(problem.getNodes()))
    memory.addPriced(memory.getSegments(number), sums, {&changes[node.offset], node.size});
  std::vector<double> moved;
  auto getRaise = [&](double part) {
    double raise = -part * sums.back() * limit;
    for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
      if (memory.getSegments(number).empty())
        continue;
      moved.clear();
      for (size_t choice = node.offset; choice < node.offset + node.size; ++choice)
        moved.push_back(potentials[choice] + part * changes[choice]);
      raise += softLeast(moved.data(), node.size) - softLeast(&potentials[node.offset], node.size);
    }
    return raise;
  };
  double part = 1, raise = getRaise(part);
  for (unsigned i = 0; i < mostHalvings && raise < 0.1 * part * slope; ++i) {
    part /= 2;
    raise = getRaise(part);
  }
  if (raise <= 0)
    return;
  bound += raise;
  for (auto [price, change] : llvm::zip_equal(present.prices, step))
    price = std::max(price + part * change, 0.0);
}

void SmoothDual::iterate() {
  sweep();
  bound = computeBound();
  if (!excess.empty())
    stepPrices();
  if (bound < lastBound && momentum > 1) {
    momentum = 1;
    setPoint(last);
    return;
  }
  if (bound - lastBound < leastRaise * temperature * entropy)
    temperature *= cooling;
  lastBound = bound;
  double next = (1 + std::sqrt(1 + 4 * momentum * momentum)) / 2;
  double beyond = std::min((momentum - 1) / next, mostMomentum);
  momentum = next;
  Point ahead = present;
  for (auto [entry, before] : llvm::zip_equal(ahead.messages, last.messages))
    entry += beyond * (entry - before);
  for (auto [entry, before] : llvm::zip_equal(ahead.prices, last.prices))
    entry = std::max(entry + beyond * (entry - before), 0.0);
  last = std::move(present);
  setPoint(std::move(ahead));
}
