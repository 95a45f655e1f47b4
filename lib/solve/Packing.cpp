//===- Packing.cpp - offsets of buffers within a capacity ------------------===//

#include "lib/solve/Packer.h"

#include "lib/support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
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

Packing cleave::solve::pack(llvm::ArrayRef<Buffer> buffers, int64_t capacity, uint64_t seed,
                            llvm::function_ref<bool()> isStopped) {
  Packing packing;
  packing.lowerBound = getPeak(buffers);
  Packer packer(buffers, capacity, isStopped);
  using Weights = Packer::Weights;
  std::vector<Weights> weights = {{1000, 0, 1, 0}, {1000, 0, 0, 1}, {0, 0, 1, 0}, {0, 0, 0, 1},
                                  {1, 0, 1, 0},    {1, 0, 0, 1},    {0, 0, 1, 1}, {0, 0, 1, -1}};
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
  auto draw = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  // How long a search takes has a heavy tail: many short ones find a packing sooner than a long
  // one. Each learns from those before it which points fail, and begins with what is live there. An
  // eighth of the steps goes to longer ones, which can show that there is no packing.
  uint64_t longSteps = 4 * packer.size() + 200, spent = 0;
  for (size_t round = 0; !isStopped(); ++round) {
    Weights chosen = weights[round % weights.size()];
    if (round >= weights.size() && round % 4 != 0)
      chosen = {0, draw(1, 3), draw(0, 1), draw(-0.5, 1)};
    bool isLong = longSteps <= spent / 8;
    uint64_t steps = isLong ? longSteps : (1 + round % 2) * packer.size() + 100;
    spent += steps;
    if (isLong)
      longSteps *= 2;
    Packer::Outcome outcome = packer.search(packer.getOrder(chosen), steps);
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
    // What is learned can mislead, too.
    if (round % 1024 == 1023)
      packer.forgetFailures();
    else if (round % 64 == 63)
      packer.fadeFailures();
  }
  return packing;
}
