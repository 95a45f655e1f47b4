//===- Reshape.cpp - factors of a tensor seen in another shape ---------------===//

#include "dialects/sharding/Reshape.h"

#include <numeric>

using namespace mlir;
using namespace cleave::sharding;

namespace {

/// One side of a reshape: where it is, and what is left of the dimension there.
struct Cursor {
  ArrayRef<int64_t> shape;
  TensorFactors &dims;
  size_t at = 0;
  int64_t left = 1;

  Cursor(ArrayRef<int64_t> shape, TensorFactors &dims) : shape(shape), dims(dims) {
    for (DimFactors &dim : dims)
      dim.clear();
    left = shape.empty() ? 1 : shape[0];
  }
  bool done() const { return at == shape.size(); }
  /// Nothing has been taken of the dimension.
  bool isBetween() const { return done() || left == shape[at]; }
  void take(FactorId factor, int64_t size) {
    dims[at].push_back(factor);
    left = left / size;
  }
  void next() {
    if (++at < shape.size())
      left = shape[at];
  }
};

} // namespace

static FactorId addFactor(ShardingRule &rule, int64_t size, const char *wholeReason = nullptr) {
  Factor &factor = rule.factors.emplace_back();
  factor.size = size;
  factor.wholeReason = wholeReason;
  return rule.factors.size() - 1;
}

/// Without elements no products tell what corresponds: equal dimensions at the front do.
static void reshapeEmpty(ArrayRef<int64_t> from, ArrayRef<int64_t> to, ShardingRule &rule) {
  static const char *reason = "an empty tensor does not determine which dimensions correspond";
  bool same = true;
  for (size_t i = 0; i < std::max(from.size(), to.size()); ++i) {
    same = same && i < from.size() && i < to.size() && from[i] == to[i];
    if (same) {
      FactorId factor = addFactor(rule, from[i]);
      rule.operands[0][i] = {factor};
      rule.results[0][i] = {factor};
      continue;
    }
    if (i < from.size())
      rule.operands[0][i] = {addFactor(rule, from[i], reason)};
    if (i < to.size())
      rule.results[0][i] = {addFactor(rule, to[i], reason)};
  }
}

/// Takes all that is left of both sides, dimension by dimension, up to where they have had as many
/// elements.
static void takeWhole(Cursor &a, Cursor &b, ShardingRule &rule) {
  static const char *reason = "the view mixes its elements with those of other dimensions";
  int64_t countA = a.left, countB = b.left;
  auto takeRest = [&](Cursor &side) {
    side.take(addFactor(rule, side.left, reason), side.left);
    side.next();
  };
  takeRest(a);
  takeRest(b);
  while (countA != countB) {
    Cursor &behind = countA < countB ? a : b;
    (countA < countB ? countA : countB) *= behind.left;
    takeRest(behind);
  }
}

/// Dimensions of size 1 where `side` stands, and the larger one after them, if any.
static SmallVector<size_t> slotsAt(const Cursor &side) {
  SmallVector<size_t> slots;
  for (size_t at = side.at; at < side.shape.size(); ++at) {
    slots.push_back(at);
    if (side.shape[at] != 1)
      break;
  }
  return slots;
}

/// Both sides are between dimensions. A dimension of size 1 may be what is left of a larger one,
/// which would be any dimension that begins here on the other side, or a major part of it.
static void takeOnes(Cursor &a, Cursor &b, ShardingRule &rule) {
  SmallVector<size_t> slotsA = slotsAt(a), slotsB = slotsAt(b);
  for (size_t i : slotsA)
    for (size_t j : slotsB) {
      if (a.shape[i] != 1 && b.shape[j] != 1)
        continue;
      FactorId one = addFactor(rule, 1);
      a.dims[i].push_back(one);
      b.dims[j].push_back(one);
    }
  // At the end the other side has none: they are minor there.
  auto takeLast = [&](Cursor &side, ArrayRef<size_t> slots, Cursor &other, bool isLast) {
    for (size_t at : slots) {
      if (side.shape[at] != 1)
        continue;
      if (isLast) {
        FactorId one =
            addFactor(rule, 1, other.dims.empty() ? "the other shape has no dimensions" : nullptr);
        side.dims[at].push_back(one);
        if (!other.dims.empty())
          other.dims.back().push_back(one);
      }
      side.next();
    }
  };
  takeLast(a, slotsA, b, slotsB.empty());
  takeLast(b, slotsB, a, slotsA.empty());
}

void cleave::sharding::reshapeFactors(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                      ShardingRule &rule) {
  if (llvm::is_contained(from, 0))
    return reshapeEmpty(from, to, rule);
  Cursor a(from, rule.operands[0]), b(to, rule.results[0]);
  while (!a.done() || !b.done()) {
    if (a.isBetween() && b.isBetween()) {
      takeOnes(a, b, rule);
      if (a.done() && b.done())
        break;
    } else if (a.left == 1 || b.left == 1) {
      // Within a dimension of the other side.
      FactorId one = addFactor(rule, 1);
      Cursor &side = a.left == 1 ? a : b;
      a.dims[a.at].push_back(one);
      b.dims[b.at].push_back(one);
      side.next();
      continue;
    }
    int64_t common = std::gcd(a.left, b.left);
    if (common == 1) {
      // All that they have in common may be cut away: 6x4 to 4x6 has 3x4 to 2x6 as parts.
      if (a.isBetween() && b.isBetween()) {
        FactorId one = addFactor(rule, 1);
        a.take(one, 1);
        b.take(one, 1);
      }
      takeWhole(a, b, rule);
      continue;
    }
    FactorId factor = addFactor(rule, common);
    a.take(factor, common);
    b.take(factor, common);
    if (a.left == 1)
      a.next();
    if (b.left == 1)
      b.next();
  }
}
