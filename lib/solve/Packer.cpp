//===- Packer.cpp - bottom-up search for the offsets of buffers ------------===//

#include "lib/solve/Packer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace cleave::solve;

/// More are asked in vain more often than they save a whole check.
static constexpr size_t kWitnesses = 8;

Packer::Packer(llvm::ArrayRef<Buffer> buffers, int64_t capacity,
               llvm::function_ref<bool()> isStopped)
    : buffers(buffers), capacity(capacity), isStopped(isStopped) {
  struct Event {
    int64_t time;
    bool isStart;
    unsigned item;
    auto operator<=>(const Event &) const = default;
  };
  std::vector<Event> events;
  for (auto [number, buffer] : llvm::enumerate(buffers))
    if (buffer.start < buffer.end && buffer.size > 0) {
      unsigned item = items.size();
      events.push_back({buffer.start, true, item});
      events.push_back({buffer.end, false, item});
      items.push_back({static_cast<unsigned>(number), buffer.size, 0, 0,
                       static_cast<double>(buffer.end) - static_cast<double>(buffer.start)});
    }
  llvm::sort(events);
  bool hasStarted = false;
  for (const Event &event : events) {
    if (event.isStart) {
      items[event.item].first = points;
      hasStarted = true;
      continue;
    }
    points += hasStarted;
    hasStarted = false;
    items[event.item].last = points;
  }
  sums.resize(points + 1);
  floors.resize(points);
  lowest.resize(items.size());
  offsets.resize(items.size());
  rank.resize(items.size());
  failures.assign(points, 1);
  itemsAt.resize(points);
  for (auto [item, its] : llvm::enumerate(items))
    for (unsigned point = its.first; point < its.last; ++point)
      itemsAt[point].push_back(item);
  neighbours.resize(items.size());
  for (unsigned a = 0; a < items.size(); ++a)
    for (unsigned b = 0; b < items.size(); ++b)
      if (a != b && overlap(a, b))
        neighbours[a].push_back(b);
}

std::vector<int64_t> Packer::getOffsets() const {
  std::vector<int64_t> result(buffers.size(), 0);
  for (auto [item, offset] : llvm::zip_equal(items, offsets))
    result[item.buffer] = offset;
  return result;
}

std::vector<unsigned> Packer::getOrder(const Weights &weights) const {
  std::vector<double> total(points);
  for (const Item &item : items)
    for (unsigned point = item.first; point < item.last; ++point)
      total[point] += static_cast<double>(item.size);
  std::vector<double> score;
  for (const Item &item : items) {
    auto most = [&](const std::vector<double> &at) {
      return *std::max_element(at.begin() + item.first, at.begin() + item.last);
    };
    score.push_back(weights.total * std::log(most(total)) +
                    weights.failures * std::log(most(failures)) +
                    weights.area * std::log(static_cast<double>(item.size) * item.length) +
                    weights.length * std::log(item.length));
  }
  std::vector<unsigned> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::tuple(-score[a], a) < std::tuple(-score[b], b);
  });
  return order;
}

void Packer::fadeFailures() {
  for (double &count : failures)
    count = std::sqrt(count);
}

int64_t Packer::firstFit(llvm::ArrayRef<unsigned> order) {
  int64_t height = 0;
  isPlaced.assign(items.size(), 0);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (unsigned item : order) {
    taken.clear();
    for (unsigned other : neighbours[item])
      if (isPlaced[other])
        taken.push_back({offsets[other], offsets[other] + items[other].size});
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + items[item].size <= begin)
        break;
      offset = std::max(offset, end);
    }
    offsets[item] = offset;
    isPlaced[item] = 1;
    height = std::max(height, offset + items[item].size);
  }
  return height;
}

/// Sums the sizes of what is open by point; returns the largest sum.
double Packer::sumUp(llvm::ArrayRef<unsigned> open, unsigned first, unsigned last) {
  std::fill(sums.begin() + first, sums.begin() + last + 1, 0);
  for (unsigned item : open) {
    sums[items[item].first] += static_cast<double>(items[item].size);
    sums[items[item].last] -= static_cast<double>(items[item].size);
  }
  double present = 0, most = 0;
  for (unsigned point = first; point < last; ++point) {
    present += sums[point];
    sums[point] = present;
    most = std::max(most, present);
  }
  return most;
}

std::pair<unsigned, unsigned> Packer::getRange(llvm::ArrayRef<unsigned> open) const {
  unsigned first = points, last = 0;
  for (unsigned item : open) {
    first = std::min(first, items[item].first);
    last = std::max(last, items[item].last);
  }
  return {first, last};
}

/// Whether at each point all that is open fits above the lowest place for any of it.
bool Packer::fits(llvm::ArrayRef<unsigned> open) {
  for (unsigned item : open)
    if (lowest[item] + items[item].size > capacity) {
      failedAt = items[item].first;
      return false;
    }
  auto [first, last] = getRange(open);
  sumUp(open, first, last);
  double space = static_cast<double>(capacity);
  std::fill(floors.begin() + first, floors.begin() + last, space);
  for (unsigned item : open) {
    double low = static_cast<double>(lowest[item]);
    for (unsigned point = items[item].first; point < items[item].last; ++point)
      floors[point] = low < floors[point] ? low : floors[point];
  }
  for (unsigned point = first; point < last; ++point)
    if (sums[point] > space - floors[point]) {
      failedAt = point;
      return false;
    }
  return true;
}

bool Packer::placeParts(std::vector<unsigned> open, int64_t bottom, unsigned lastRank) {
  if (open.empty())
    return true;
  llvm::sort(open, [&](unsigned a, unsigned b) {
    return std::tuple(items[a].first, a) < std::tuple(items[b].first, b);
  });
  std::vector<std::vector<unsigned>> parts;
  unsigned end = 0;
  for (unsigned item : open) {
    if (parts.empty() || items[item].first >= end)
      parts.emplace_back();
    parts.back().push_back(item);
    end = std::max(end, items[item].last);
  }
  // Small parts show soonest that they do not fit.
  llvm::sort(parts, [](const auto &a, const auto &b) {
    return std::tuple(a.size(), a.front()) < std::tuple(b.size(), b.front());
  });
  for (std::vector<unsigned> &part : parts)
    if (!place(std::move(part), bottom, lastRank))
      return false;
  return true;
}

/// Offsets never fall from one placed item to the next, and ranks rise among equal offsets: each
/// packing is met in one order only.
bool Packer::place(std::vector<unsigned> open, int64_t bottom, unsigned lastRank) {
  if (isCut || stepsLeft == 0 || (stepsLeft % 256 == 0 && isStopped())) {
    isCut = true;
    return false;
  }
  --stepsLeft;
  int64_t leastTop = INT64_MAX;
  for (unsigned item : open)
    leastTop = std::min(leastTop, lowest[item] + items[item].size);
  // All that comes later lies at least as high as what comes now.
  auto [first, last] = getRange(open);
  int64_t highest = capacity - static_cast<int64_t>(sumUp(open, first, last));
  Step step{first, last, {sums.begin() + first, sums.begin() + last}, {}};
  step.lowestTops.assign(items.size(), -1);
  std::vector<unsigned> candidates;
  for (unsigned item : open)
    // Where another fits wholly beneath it, that one comes first.
    if (lowest[item] < leastTop && lowest[item] <= highest &&
        (lowest[item] > bottom || rank[item] > lastRank))
      candidates.push_back(item);
  llvm::sort(candidates, [&](unsigned a, unsigned b) {
    return std::tuple(lowest[a], rank[a]) < std::tuple(lowest[b], rank[b]);
  });
  std::vector<int64_t> before;
  for (unsigned item : open)
    before.push_back(lowest[item]);
  for (unsigned item : candidates) {
    if (isKnownToFail(item, step))
      continue;
    int64_t offset = lowest[item];
    isPlaced[item] = 1;
    std::vector<unsigned> rest;
    rest.reserve(open.size() - 1);
    for (unsigned other : open)
      if (other != item) {
        rest.push_back(other);
        raised[other] = getRaised(other, item, step);
      }
    for (unsigned other : rest)
      lowest[other] = raised[other];
    offsets[item] = offset;
    if (!rest.empty() && !fits(rest))
      recordFailure(failedAt);
    else if (placeParts(std::move(rest), offset, rank[item]))
      return true;
    // Parts that were placed before another part failed, too.
    for (auto [other, low] : llvm::zip_equal(open, before)) {
      lowest[other] = low;
      isPlaced[other] = 0;
    }
    if (isCut)
      return false;
  }
  return false;
}

/// Whether placing the item now would leave too little space at a point where other choices failed.
bool Packer::isKnownToFail(unsigned item, Step &step) {
  for (auto [position, point] : llvm::enumerate(witnesses))
    if (point >= step.first && point < step.last && isFullAt(point, item, step)) {
      ++failures[point];
      std::rotate(witnesses.begin(), witnesses.begin() + position,
                  witnesses.begin() + position + 1);
      return true;
    }
  return false;
}

void Packer::recordFailure(unsigned point) {
  ++failures[point];
  if (llvm::is_contained(witnesses, point))
    return;
  if (witnesses.size() == kWitnesses)
    witnesses.pop_back();
  witnesses.insert(witnesses.begin(), point);
}

/// Whether what is open at a point does not fit there once `item` is placed.
bool Packer::isFullAt(unsigned point, unsigned item, Step &step) const {
  bool isThere = items[item].first <= point && point < items[item].last;
  double sum = step.sums[point - step.first];
  sum -= isThere ? static_cast<double>(items[item].size) : 0;
  double highest = static_cast<double>(capacity) - sum;
  bool hasOthers = false;
  for (unsigned other : itemsAt[point]) {
    if (other == item || isPlaced[other])
      continue;
    int64_t low = getRaised(other, item, step);
    if (low + items[other].size > capacity)
      return true;
    if (static_cast<double>(low) <= highest)
      return false;
    hasOthers = true;
  }
  return hasOthers;
}

/// The lowest place of another item once `item` is placed.
int64_t Packer::getRaised(unsigned other, unsigned item, Step &step) const {
  int64_t offset = lowest[item];
  if (overlap(other, item))
    return std::max(lowest[other], offset + items[item].size);
  if (std::tuple(lowest[other], rank[other]) >= std::tuple(offset, rank[item]))
    return lowest[other];
  // Its turn is over: it will stand on something that is still to come.
  int64_t &top = step.lowestTops[other];
  if (top < 0)
    top = getLowestTop(other);
  return std::max(offset, top);
}

bool Packer::overlap(unsigned a, unsigned b) const {
  return items[a].first < items[b].last && items[b].first < items[a].last;
}

/// Where the lowest of its neighbours that are still to be placed could end.
int64_t Packer::getLowestTop(unsigned item) const {
  int64_t top = capacity;
  for (unsigned other : neighbours[item])
    if (!isPlaced[other])
      top = std::min(top, lowest[other] + items[other].size);
  return top;
}

Packer::Outcome Packer::search(llvm::ArrayRef<unsigned> order, uint64_t steps) {
  for (auto [position, item] : llvm::enumerate(order))
    rank[item] = position + 1;
  std::fill(lowest.begin(), lowest.end(), 0);
  isPlaced.assign(items.size(), 0);
  raised.resize(items.size());
  witnesses.clear();
  std::vector<unsigned> open(order.begin(), order.end());
  stepsLeft = steps;
  isCut = false;
  if (!open.empty() && !fits(open))
    return None;
  bool isFound = placeParts(std::move(open), 0, 0);
  return isFound ? Found : isCut ? GaveUp : None;
}
