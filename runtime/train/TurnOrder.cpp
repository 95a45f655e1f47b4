//===- TurnOrder.cpp - which of a run's programs a step is of -------------===//

#include "runtime/train/TurnOrder.h"
#include "runtime/io/Data.h"
#include "runtime/io/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <numeric>

using namespace cleave::runtime;

/// Shares are of so many steps.
static constexpr uint64_t kBlock = 1000;

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kKeys[] = {"from", "share", "data", "microbatches", "batch"};

/// Where the next ` KEY=` begins; npos if there is none. Paths and sources may have spaces in them.
static size_t findKey(llvm::StringRef text) {
  size_t first = llvm::StringRef::npos;
  for (llvm::StringRef key : kKeys)
    first = std::min(first, text.find((" " + key + "=").str()));
  return first;
}

static llvm::Error setKey(OtherProgram &program, llvm::StringRef key, llvm::StringRef value) {
  auto expected = [&](const char *what) {
    return makeError("--also: expected {0}={1}, found \"{2}\"", key, what, value);
  };
  if (key == "data") {
    program.data = value.str();
    return value.empty() ? expected("SOURCE") : llvm::Error::success();
  }
  if (key == "share") {
    double share = 0;
    if (value.getAsDouble(share) || !(share * kBlock >= 1) || !(share < 1))
      return expected("X, a part of the steps from 0.001 to 0.999");
    program.share = share;
    return llvm::Error::success();
  }
  int64_t number = 0;
  if (value.getAsInteger(10, number) || number < (key == "from" ? 2 : 1))
    return expected(key == "from" ? "STEP, a step after the first" : "N, at least 1");
  (key == "from"           ? program.from
   : key == "microbatches" ? program.microbatches
                           : program.batch) = number;
  return llvm::Error::success();
}

llvm::Expected<OtherProgram> cleave::runtime::parseOtherProgram(llvm::StringRef text) {
  OtherProgram program;
  size_t end = findKey(text);
  program.path = text.take_front(end).trim().str();
  std::vector<llvm::StringRef> seen;
  for (llvm::StringRef rest = text.drop_front(std::min(end, text.size())); !rest.empty();) {
    auto [key, tail] = rest.drop_front().split('=');
    size_t next = findKey(tail);
    if (llvm::is_contained(seen, key))
      return makeError("--also: found {0}= twice in \"{1}\"", key, text);
    seen.push_back(key);
    if (llvm::Error error = setKey(program, key, tail.take_front(next).trim()))
      return error;
    rest = tail.drop_front(std::min(next, tail.size()));
  }
  if (program.path.empty())
    return makeError("--also: expected a program and what it takes, as in \"FILE from=STEP\" (or "
                     "share=X, data=SOURCE, microbatches=M, batch=B), found \"{0}\"",
                     text);
  if (program.from && program.share)
    return makeError("--also: {0}: expected from= or share=, found both", program.path);
  return program;
}

//===----------------------------------------------------------------------===//
// The order
//===----------------------------------------------------------------------===//

llvm::Expected<TurnOrder> TurnOrder::create(llvm::ArrayRef<OtherProgram> others,
                                            llvm::ArrayRef<uint64_t> dataSteps, bool shuffle,
                                            uint64_t seed) {
  TurnOrder order;
  order.shuffle = shuffle;
  order.seed = seed;
  if (others.empty())
    return order;
  const OtherProgram &first = others.front();
  for (const OtherProgram &other : others)
    if (other.from.has_value() != first.from.has_value() ||
        other.share.has_value() != first.share.has_value())
      return makeError("--also: expected from= for all programs, or share= for all, or neither; "
                       "found {0} and {1} to differ",
                       first.path, other.path);
  if (first.from) {
    for (const OtherProgram &other : others) {
      if (*other.from <= order.begins.back())
        return makeError("--also: {0}: expected a step after {1}, with which the program before "
                         "it begins, found from={2}",
                         other.path, order.begins.back(), *other.from);
      order.begins.push_back(*other.from);
    }
    return order;
  }
  if (first.share) {
    order.block = kBlock;
    order.counts = {kBlock};
    for (const OtherProgram &other : others) {
      auto count = uint64_t(std::llround(*other.share * kBlock));
      if (count >= order.counts.front())
        return makeError(
            "--also: expected shares that leave steps for the first program, found "
            "{0} in sum",
            llvm::join(llvm::map_range(others,
                                       [](const OtherProgram &each) {
                                         return llvm::formatv("{0}", *each.share).str();
                                       }),
                       " + "));
      order.counts.front() -= count;
      order.counts.push_back(count);
    }
    return order;
  }
  order.counts = dataSteps.vec();
  order.block = std::accumulate(dataSteps.begin(), dataSteps.end(), uint64_t(0));
  for (auto [index, steps] : llvm::enumerate(dataSteps))
    if (steps == 0)
      return makeError("--also: expected data for at least one step of each program, found less "
                       "for {0}",
                       index == 0 ? "the first" : others[index - 1].path);
  return order;
}

static size_t findRange(llvm::ArrayRef<uint64_t> counts, uint64_t place) {
  size_t program = 0;
  while (place >= counts[program])
    place -= counts[program++];
  return program;
}

size_t TurnOrder::programOf(int64_t step) const {
  if (counts.empty())
    return llvm::upper_bound(begins, step) - begins.begin() - 1;
  uint64_t number = step - 1, place = number % block;
  return findRange(counts, shuffle ? permute(place, block, seed, number / block) : place);
}

std::vector<int64_t> TurnOrder::turnsBefore(int64_t step) const {
  std::vector<int64_t> turns;
  if (counts.empty()) {
    for (auto [index, begin] : llvm::enumerate(begins)) {
      int64_t end = index + 1 < begins.size() ? std::min(begins[index + 1], step) : step;
      turns.push_back(std::max<int64_t>(end - begin, 0));
    }
    return turns;
  }
  uint64_t blocks = uint64_t(step - 1) / block;
  for (uint64_t count : counts)
    turns.push_back(int64_t(blocks * count));
  for (int64_t before = int64_t(blocks * block) + 1; before < step; ++before)
    ++turns[programOf(before)];
  return turns;
}

std::string TurnOrder::describe() const {
  auto list = [](const auto &numbers) {
    return llvm::join(llvm::map_range(numbers, [](auto n) { return std::to_string(n); }), ", ");
  };
  return counts.empty() ? "steps from " + list(begins)
                        : list(counts) + " of " + std::to_string(block) + " steps";
}
