//===- Concatenation.cpp - what is put together of parts --------------------===//
//
// A concatenation is at each place the part that lies there: a sum of parts, each where a condition
// on the place holds. Most programs have the same concatenations as one device, of parts of the
// same sizes: then an op that reads along the dimension says as much, and is cheaper. Where only
// some are the same, these may stay ops: what is made of one has no conditions, so that a rank's
// part of it is known by its place.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Indexing.h"
#include "lib/prove/Prover.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

static int64_t dimOf(aten::CatOp op) {
  auto attribute = op->getAttrOfType<IntegerAttr>("dim");
  int64_t dim = attribute ? attribute.getInt() : 0;
  return dim + (dim < 0 ? tensorOf(op->getResult(0).getType()).getRank() : 0);
}

/// Integers count, or are places: their parts are put together as such (CountMeaning.cpp).
static bool isOfNumbers(aten::CatOp op) {
  return isa<FloatType>(tensorOf(op->getResult(0).getType()).getElementType());
}

static PartSizes sizesOf(aten::CatOp op) {
  PartSizes sizes;
  for (Type type : op->getOperandTypes())
    if (RankedTensorType part = tensorOf(type); part && dimOf(op) < part.getRank())
      sizes.push_back(part.getDimSize(dimOf(op)));
  return sizes;
}

static std::set<PartSizes> allSizesOf(ModuleOp module) {
  std::set<PartSizes> sizes;
  module.walk([&](aten::CatOp op) {
    if (isOfNumbers(op))
      sizes.insert(sizesOf(op));
  });
  return sizes;
}

std::set<PartSizes> cleave::prove::sizesOfBoth(ModuleOp global, ModuleOp local) {
  std::set<PartSizes> both, here = allSizesOf(local);
  for (const PartSizes &sizes : allSizesOf(global))
    if (here.count(sizes))
      both.insert(sizes);
  return both;
}

static bool has(ModuleOp module, llvm::function_ref<bool(Operation *)> isWanted) {
  return module
      .walk([&](Operation *op) {
        return isWanted(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Rows in an order that data decide are put together of counts and places, which are read as such.
static bool hasRowsInOrder(ModuleOp module) {
  return has(module, [](Operation *op) {
    StringRef name = op->getName().getStringRef();
    return name.contains("sort") || name.contains("exchange");
  });
}

bool cleave::prove::mayJoinParts(ModuleOp global, ModuleOp local) {
  return !allSizesOf(global).empty() && !hasRowsInOrder(global) && !hasRowsInOrder(local);
}

bool cleave::prove::joinsParts(ModuleOp global, ModuleOp local) {
  if (hasRowsInOrder(global) || hasRowsInOrder(local))
    return false;
  // Blocks that go round a ring and are taken at a rank's place are parts, too, unless they are
  // merged by shares of sums.
  auto sends = [](Operation *op) { return isa<dist::ShiftOp>(op); };
  auto takes = [](Operation *op) { return isa<aten::IndexSelectOp>(op); };
  auto merges = [](Operation *op) { return isa<aten::MaximumOp>(op); };
  if (has(local, sends) && !has(global, sends) && has(local, takes) && !has(local, merges))
    return true;
  std::set<PartSizes> known = allSizesOf(global);
  return llvm::any_of(allSizesOf(local),
                      [&](const PartSizes &sizes) { return !known.count(sizes); });
}

//===----------------------------------------------------------------------===//
// Concatenations
//===----------------------------------------------------------------------===//

/// More parts say less than they cost.
constexpr unsigned kMostParts = 128;

/// Whether it is made of values of the first program, or, a term on each rank, sums up to such.
bool Evaluator::mayBeOfFirst(const Meaning &meaning) {
  auto isOfFirst = [&](const Meaning &meaning) {
    return llvm::all_of(
        meaning, [&](const Summand &summand) { return summand.reference.term < numFirstTerms; });
  };
  return isOfFirst(meaning) || llvm::any_of(axes, [&](const Axis &axis) {
           return isOfFirst(terms.sum(meaning, axis.digits));
         });
}

std::optional<Tensor> Evaluator::concatenate(Operation *op, ArrayRef<const Tensor *> operands) {
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  if (!isOfNumbers(cast<aten::CatOp>(op)))
    return std::nullopt;
  if (keptJoins.count(sizesOf(cast<aten::CatOp>(op)))) {
    if (isFirst)
      return std::nullopt;
    std::vector<Tensor> same;
    step = "rule";
    if (evaluateByRule(op, operands, same) && mayBeOfFirst(same.front().meaning))
      return same.front();
  }
  step = "concatenation";
  int64_t dim = dimOf(cast<aten::CatOp>(op));
  std::vector<Tensor> parts;
  SmallVector<int64_t> sizes;
  for (auto [operand, given] : llvm::zip(operands, op->getOperandTypes())) {
    RankedTensorType own = tensorOf(given);
    if (own.getElementType() != type.getElementType() || own.getRank() != type.getRank())
      return std::nullopt;
    if (own.getDimSize(dim) == 0)
      continue;
    parts.push_back(*operand);
    sizes.push_back(own.getDimSize(dim));
  }
  return putTogether(std::move(parts), sizes, dim);
}

std::optional<Tensor> Evaluator::putTogether(std::vector<Tensor> parts, ArrayRef<int64_t> sizes,
                                             unsigned dim, bool inOneDigit) {
  int64_t unit = 0, whole = 0;
  std::set<int64_t> strides{1};
  for (auto [part, size] : llvm::zip(parts, sizes)) {
    unit = std::gcd(unit, size);
    whole += size;
    for (const Digit &digit : digitsOf(part.dims[dim], terms.variables))
      strides.insert(digit.stride);
  }
  if (parts.empty() || parts.size() > kMostParts)
    return std::nullopt;
  if (parts.size() == 1 && !inOneDigit)
    return parts.front();

  // Below `stride` all parts have the same digits, and each begins and ends at a multiple of it.
  int64_t stride = 1;
  for (int64_t other : strides)
    if (unit % other == 0 && !inOneDigit)
      stride = other;
  SmallVector<int64_t> cuts;
  for (int64_t other : strides)
    if (other <= stride)
      cuts.push_back(other);
  auto chain = chainOf(cuts, whole);
  if (!chain)
    return std::nullopt;
  SmallVector<Digit> minor;
  for (auto [low, high] : llvm::zip(ArrayRef(*chain), ArrayRef(*chain).drop_front()))
    minor.push_back({terms.variables.make(high / low), high / low, low});
  Digit major{terms.variables.make(whole / stride), whole / stride, stride};

  // Other dimensions are cut alike: twice, since a later part may cut what earlier ones were given.
  Tensor result{parts.front().dims, {}};
  Meaning pieces;
  for (bool isLast : {false, true}) {
    int64_t start = 0;
    for (auto [part, size] : llvm::zip(parts, sizes)) {
      Substitution digits;
      for (auto [i, vars] : llvm::enumerate(part.dims))
        if (i != dim && !cutAlike(terms, parts.front(), i, part, i, digits))
          return std::nullopt;
      if (!cut(terms, part, dim, *chain))
        return std::nullopt;
      int64_t begin = start / stride;
      start += size;
      if (!isLast)
        continue;
      SmallVector<Digit> upper;
      for (const Digit &digit : digitsOf(part.dims[dim], terms.variables)) {
        auto *same =
            llvm::find_if(minor, [&](const Digit &other) { return other.stride == digit.stride; });
        if (digit.stride >= stride)
          upper.push_back(digit);
        else if (same != minor.end() && same->size == digit.size)
          digits[digit.var] = Index::of(same->var);
        else
          return std::nullopt;
      }
      // A run of places for each value of the digits above the last one.
      int64_t length = upper.empty() ? 1 : upper.back().size, runs = size / stride / length;
      if (pieces.size() + runs * part.meaning.size() > 2 * kMostParts)
        return std::nullopt;
      for (int64_t run = 0; run < runs; ++run) {
        Substitution own = digits;
        int64_t low = begin + run * length;
        for (const Digit &digit : ArrayRef(upper).drop_back(upper.empty() ? 0 : 1))
          own[digit.var] = Index(run * length / (digit.stride / stride) % digit.size);
        if (!upper.empty())
          own[upper.back().var] =
              Index::of(major.var) - Index(terms.breaks(Lemma::Concatenation) ? 0 : low);
        Meaning piece = part.meaning;
        substitute(piece, own);
        for (Summand &summand : piece) {
          summand.guards.push_back({Index::of(major.var), low, low + length});
          pieces.push_back(std::move(summand));
        }
      }
    }
  }
  result.dims = parts.front().dims;
  result.dims[dim].clear();
  if (major.size > 1)
    result.dims[dim].push_back(major.var);
  for (const Digit &digit : llvm::reverse(minor))
    result.dims[dim].push_back(digit.var);
  result.meaning = terms.normalize(std::move(pieces));
  coarsen(terms, result);
  return result;
}

//===----------------------------------------------------------------------===//
// What is one value on some ranks and another one on others
//===----------------------------------------------------------------------===//

/// Whether some condition on the place holds wherever it is: one of several values is chosen there.
/// What only some ranks add, as terms of a sum, is no choice.
bool Evaluator::isChosen(ArrayRef<const Meaning *> meanings, Var place) {
  Index index = Index::of(place);
  std::set<std::pair<int64_t, int64_t>> intervals;
  for (const Meaning *meaning : meanings)
    for (const Summand &summand : *meaning)
      for (const Guard &guard : summand.guards)
        if (guard.index == index)
          intervals.insert({guard.low, guard.high});
  int64_t end = 0;
  for (auto [low, high] : intervals)
    if (low <= end)
      end = std::max(end, high);
  return end >= terms.variables.getSize(place);
}

Meaning Evaluator::byCase(ArrayRef<Meaning> operands,
                          llvm::function_ref<Meaning(ArrayRef<Meaning>)> make) {
  SmallVector<const Meaning *> given;
  for (const Meaning &operand : operands)
    given.push_back(&operand);
  SmallVector<Var> chosen;
  for (Var place : places)
    if (isChosen(given, place))
      chosen.push_back(place);
  std::optional<std::vector<Case>> regions = listCases(terms, given, chosen);
  if (!regions || regions->size() == 1)
    return make(operands);
  Meaning result;
  for (const Case &region : *regions) {
    std::vector<Meaning> there;
    for (const Meaning &operand : operands)
      there.push_back(within(terms, operand, region));
    Meaning made = make(there);
    limitTo(made, region);
    llvm::append_range(result, made);
  }
  return terms.normalize(std::move(result));
}

/// Slices of `value`, whose dimension is one digit, at an index that is one place where some
/// conditions hold and another one where others do. Nothing if they do not add up.
std::optional<Meaning> Evaluator::selectByCondition(const Tensor &value, unsigned dim,
                                                    const Meaning &index, int64_t rows) {
  struct Choice {
    SmallVector<Guard, 1> guards;
    Meaning place;
  };
  std::vector<Choice> choices;
  for (Summand summand : index) {
    auto guards = std::move(summand.guards);
    summand.guards.clear();
    auto found = llvm::find_if(choices, [&](const Choice &choice) {
      return llvm::equal(choice.guards, guards, [](const Guard &a, const Guard &b) {
        return a.index == b.index && a.low == b.low && a.high == b.high;
      });
    });
    if (found == choices.end()) {
      choices.push_back({guards, {}});
      found = std::prev(choices.end());
    }
    found->place.push_back(std::move(summand));
  }
  // At each place one of them holds: they are 0 or 1, and 1 together.
  Meaning holds, result;
  for (Choice &choice : choices) {
    for (Summand &one : terms.number(Rational(1))) {
      one.guards = choice.guards;
      holds.push_back(std::move(one));
    }
    std::optional<Index> place = terms.asPosition(terms.normalize(std::move(choice.place)));
    if (!place)
      return std::nullopt;
    auto [least, greatest] = terms.variables.getRange(*place);
    for (const Guard &guard : choice.guards)
      for (int64_t sign : {1, -1})
        if (Index rest = *place - guard.index * sign; rest.isConstant()) {
          int64_t low = sign * (sign > 0 ? guard.low : guard.high - 1) + rest.getConstant();
          int64_t high = sign * (sign > 0 ? guard.high - 1 : guard.low) + rest.getConstant();
          least = std::max(least, low);
          greatest = std::min(greatest, high);
        }
    if (least < 0 || greatest >= rows)
      return std::nullopt;
    Substitution there;
    if (!value.dims[dim].empty())
      there[value.dims[dim].front()] = terms.breaks(Lemma::SelectedByPlace) ? Index() : *place;
    Meaning chosen = value.meaning;
    substitute(chosen, there);
    for (Summand &summand : chosen) {
      llvm::append_range(summand.guards, choice.guards);
      result.push_back(std::move(summand));
    }
  }
  if (!terms.areEqual(holds, terms.number(Rational(1))))
    return std::nullopt;
  return terms.normalize(std::move(result));
}
