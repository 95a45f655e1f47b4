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
  static const char *reason = "a tensor without elements does not tell what it corresponds to";
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

void cleave::sharding::reshapeFactors(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                      ShardingRule &rule) {
  if (llvm::is_contained(from, 0))
    return reshapeEmpty(from, to, rule);
  Cursor a(from, rule.operands[0]), b(to, rule.results[0]);
  while (!a.done() && !b.done()) {
    // Only a dimension of size 1 has 1 left: used up ones are passed at once.
    bool oneA = a.left == 1, oneB = b.left == 1;
    if (oneA || oneB) {
      FactorId one = addFactor(rule, 1);
      a.take(one, 1);
      b.take(one, 1);
      if (oneA)
        a.next();
      if (oneB)
        b.next();
      continue;
    }
    int64_t common = std::gcd(a.left, b.left);
    if (common == 1) {
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
  // Ones at the end: minor factors of the other side's last dimension.
  for (; !a.done(); a.next())
    a.dims[a.at].push_back(b.dims.empty() ? addFactor(rule, 1, "a view of one element drops it")
                                          : b.dims.back().emplace_back(addFactor(rule, 1)));
  for (; !b.done(); b.next())
    b.dims[b.at].push_back(a.dims.empty() ? addFactor(rule, 1, "a view of one element makes it")
                                          : a.dims.back().emplace_back(addFactor(rule, 1)));
}
