//===- Packing.cpp - bottom-up search for offsets --------------------------===//

#include "lib/solve/Packing.h"

#include "lib/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace cleave;
using namespace cleave::solve;

llvm::Expected<std::vector<Buffer>>
cleave::solve::parseBuffers(llvm::StringRef text, llvm::StringRef name, int64_t capacity) {
  std::vector<Buffer> buffers;
  bool isFirst = true;
  int64_t sum = 0;
  for (size_t number = 1; !text.empty(); ++number) {
    llvm::StringRef line;
    std::tie(line, text) = text.split('\n');
    line = line.trim();
    if (line.empty() || line.front() == '#')
      continue;
    llvm::SmallVector<llvm::StringRef, 4> words;
    line.split(words, ',');
    bool isHeader = isFirst && words.front().trim() == "id";
    isFirst = false;
    if (isHeader) {
      if (line != "id,lower,upper,size")
        return makeError("{0}:{1}: expected the columns id,lower,upper,size, found '{2}'", name,
                         number, line);
      continue;
    }
    if (words.size() != 4)
      return makeError("{0}:{1}: expected id,lower,upper,size, found '{2}'", name, number, line);
    int64_t values[4];
    for (auto [word, value] : llvm::zip_equal(words, values))
      if (word.trim().getAsInteger(10, value))
        return makeError("{0}:{1}: expected a whole number, found '{2}'", name, number, word);
    auto [id, start, end, size] = values;
    if (id != static_cast<int64_t>(buffers.size()))
      return makeError("{0}:{1}: expected buffer {2}, found {3}", name, number, buffers.size(), id);
    if (end < start)
      return makeError("{0}:{1}: expected an end from {2}, found {3}", name, number, start, end);
    if (size < 0)
      return makeError("{0}:{1}: expected a size of at least 0, found {2}", name, number, size);
    if (size > capacity)
      return makeError("{0}:{1}: expected a size within the capacity of {2}, found {3}", name,
                       number, capacity, size);
    if (__builtin_add_overflow(sum, size, &sum))
      return makeError("{0}:{1}: expected sizes whose sum is below 2^63, found more", name, number);
    buffers.push_back({start, end, size});
  }
  return buffers;
}

int64_t cleave::solve::getPeak(llvm::ArrayRef<Buffer> buffers) {
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const Buffer &buffer : buffers)
    if (buffer.start < buffer.end) {
      events.push_back({buffer.start, buffer.size});
      events.push_back({buffer.end, -buffer.size});
    }
  llvm::sort(events);
  int64_t present = 0, peak = 0;
  for (auto [time, change] : events)
    peak = std::max(peak, present += change);
  return peak;
}

static bool meet(const Buffer &a, const Buffer &b) {
  return a.start < b.end && b.start < a.end;
}

bool cleave::solve::isPacking(llvm::ArrayRef<Buffer> buffers, llvm::ArrayRef<int64_t> offsets) {
  if (buffers.size() != offsets.size())
    return false;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0)
      return false;
    for (size_t j = 0; j < i; ++j)
      if (meet(buffers[i], buffers[j]) && buffers[i].start < buffers[i].end &&
          buffers[j].start < buffers[j].end && offsets[i] < offsets[j] + buffers[j].size &&
          offsets[j] < offsets[i] + buffers[i].size)
        return false;
  }
  return true;
}

namespace {

/// Buffers that take up space, with the points in time (as in LiveRanges.h) at which they are live.
class Packer {
public:
  Packer(llvm::ArrayRef<Buffer> buffers, int64_t capacity, llvm::function_ref<bool()> isStopped);

  /// In this order where several could be placed; gives up after so many steps.
  enum Outcome { Found, None, GaveUp };
  Outcome search(llvm::ArrayRef<unsigned> order, uint64_t steps);
  /// Each in turn as low as it fits among those before it, whatever the capacity.
  int64_t firstFit(llvm::ArrayRef<unsigned> order);

  unsigned size() const { return items.size(); }
  std::vector<int64_t> getOffsets() const;
  struct Weights {
    double total, area, length;
  };
  /// By falling weight of the largest sum of sizes that it is live beside, its area, and its
  /// length.
  std::vector<unsigned> getOrder(const Weights &weights) const;

private:
  struct Item {
    unsigned buffer;
    int64_t size;
    unsigned first, last;
    double length;
  };
  bool place(std::vector<unsigned> open, int64_t bottom, unsigned lastRank);
  bool placeParts(std::vector<unsigned> open, int64_t bottom, unsigned lastRank);
  bool fits(llvm::ArrayRef<unsigned> open);
  int64_t getLowestTop(unsigned item) const;
  double sumUp(llvm::ArrayRef<unsigned> open, unsigned first, unsigned last);
  std::pair<unsigned, unsigned> getRange(llvm::ArrayRef<unsigned> open) const;

  llvm::ArrayRef<Buffer> buffers;
  int64_t capacity;
  llvm::function_ref<bool()> isStopped;
  std::vector<Item> items;
  std::vector<std::vector<unsigned>> neighbours;
  unsigned points = 0;
  /// In doubles, which hold sums below 2^53 exactly, because the compiler makes vectors of them.
  std::vector<double> sums, floors;
  std::vector<int64_t> lowest, raised, offsets;
  std::vector<char> isPlaced;
  std::vector<unsigned> rank;
  uint64_t stepsLeft = 0;
  bool isCut = false;
};

} // namespace

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
  neighbours.resize(items.size());
  for (unsigned a = 0; a < items.size(); ++a)
    for (unsigned b = 0; b < items.size(); ++b)
      if (a != b && items[a].first < items[b].last && items[b].first < items[a].last)
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
    double most = *std::max_element(total.begin() + item.first, total.begin() + item.last);
    score.push_back(weights.total * std::log(most) +
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
    if (lowest[item] + items[item].size > capacity)
      return false;
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
    if (sums[point] > space - floors[point])
      return false;
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
    int64_t offset = lowest[item], top = offset + items[item].size;
    isPlaced[item] = 1;
    std::vector<unsigned> rest;
    rest.reserve(open.size() - 1);
    for (unsigned other : open) {
      if (other == item)
        continue;
      rest.push_back(other);
      if (items[other].first < items[item].last && items[item].first < items[other].last)
        raised[other] = std::max(lowest[other], top);
      else if (std::tuple(lowest[other], rank[other]) < std::tuple(offset, rank[item]))
        // Its turn is over: it will stand on something that is still to come.
        raised[other] = std::max(offset, getLowestTop(other));
      else
        raised[other] = lowest[other];
    }
    for (unsigned other : rest)
      lowest[other] = raised[other];
    offsets[item] = offset;
    if ((rest.empty() || fits(rest)) && placeParts(std::move(rest), offset, rank[item]))
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
  std::vector<unsigned> open(order.begin(), order.end());
  stepsLeft = steps;
  isCut = false;
  if (!open.empty() && !fits(open))
    return None;
  bool isFound = placeParts(std::move(open), 0, 0);
  return isFound ? Found : isCut ? GaveUp : None;
}

Packing cleave::solve::pack(llvm::ArrayRef<Buffer> buffers, int64_t capacity, uint64_t seed,
                            llvm::function_ref<bool()> isStopped) {
  Packing packing;
  packing.lowerBound = getPeak(buffers);
  Packer packer(buffers, capacity, isStopped);
  using Weights = Packer::Weights;
  std::vector<Weights> weights = {{1000, 1, 0}, {1000, 0, 1}, {0, 1, 0}, {0, 0, 1},
                                  {1, 1, 0},    {1, 0, 1},    {0, 1, 1}, {0, 1, -1}};
  for (const Weights &entry : weights) {
    int64_t height = packer.firstFit(packer.getOrder(entry));
    if (packing.offsets.empty() || height < packing.height) {
      packing.offsets = packer.getOffsets();
      packing.height = height;
    }
  }
  if (packing.height <= capacity)
    return packing;
  if (packing.lowerBound > capacity) {
    packing.isImpossible = true;
    return packing;
  }
  std::mt19937_64 random(seed);
  uint64_t steps = 2000;
  for (size_t round = 0; !isStopped(); ++round) {
    std::vector<unsigned> order = packer.getOrder(weights[round % weights.size()]);
    // Later rounds shuffle neighbours in the order.
    if (round >= weights.size())
      for (size_t i = 0; i + 1 < order.size(); ++i) {
        size_t reach = std::min<size_t>(order.size() - i, 1 + order.size() / 16);
        std::swap(order[i], order[i + random() % reach]);
      }
    Packer::Outcome outcome = packer.search(order, steps);
    if (outcome == Packer::Found) {
      packing.offsets = packer.getOffsets();
      packing.height = 0;
      for (auto [buffer, offset] : llvm::zip_equal(buffers, packing.offsets))
        if (buffer.start < buffer.end)
          packing.height = std::max(packing.height, offset + buffer.size);
      return packing;
    }
    if (outcome == Packer::None) {
      packing.isImpossible = true;
      packing.lowerBound = std::max(packing.lowerBound, capacity + 1);
      return packing;
    }
    steps += steps / 8;
  }
  return packing;
}
