//===- DenotationTest.cpp - inferred types against what they mean -----------===//
//
// A type says what the ranks' values mean together: R and I one tensor, P the reduction of all, S
// their concatenation. For each op and each combination of operand types, on two ranks and random
// numbers: run the op rank by rank, and once on what the operands mean.
//   - Where a type is inferred, the ranks' results must mean the op's result.
//   - Where operands are refused, no type whatever may give the ranks' results that meaning.
//
//===----------------------------------------------------------------------===//

#include "test/unit/lib/typing/Rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::test;
using dist::AxisPlacement;

namespace {

constexpr int kRanks = 2;

/// A matrix; a vector has one row.
struct Matrix {
  int64_t rows, cols;
  bool isVector = false;
  std::vector<double> data = std::vector<double>(rows * cols);

  double &at(int64_t i, int64_t j) { return data[i * cols + j]; }
  double at(int64_t i, int64_t j) const { return data[i * cols + j]; }
  int rank() const { return isVector ? 1 : 2; }
};
using Ranks = std::vector<Matrix>;
/// Nothing if the shapes do not fit.
using Op = std::function<std::optional<Matrix>(const std::vector<Matrix> &)>;

Matrix fill(int64_t rows, int64_t cols, const std::function<double(int64_t, int64_t)> &value,
            bool isVector = false) {
  Matrix result{rows, cols, isVector};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      result.at(i, j) = value(i, j);
  return result;
}

/// Pointwise, where a vector is broadcast to all rows.
Op pointwise(double (*f)(double, double)) {
  return [f](const std::vector<Matrix> &x) -> std::optional<Matrix> {
    bool fits = x[0].cols == x[1].cols && (x[1].isVector || x[0].rows == x[1].rows);
    if (!fits)
      return std::nullopt;
    return fill(x[0].rows, x[0].cols, [&](int64_t i, int64_t j) {
      return f(x[0].at(i, j), x[1].at(x[1].isVector ? 0 : i, j));
    });
  };
}
Op unary(double (*f)(double)) {
  return [f](const std::vector<Matrix> &x) -> std::optional<Matrix> {
    return fill(x[0].rows, x[0].cols, [&](int64_t i, int64_t j) { return f(x[0].at(i, j)); });
  };
}
std::optional<Matrix> mm(const Matrix &a, const Matrix &b) {
  if (a.cols != b.rows)
    return std::nullopt;
  return fill(a.rows, b.cols, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < a.cols; ++k)
      sum += a.at(i, k) * b.at(k, j);
    return sum;
  });
}
/// A reduction of the rows, divided by their number for a mean.
Op reduce(double (*f)(double, double), bool isMean = false) {
  return [=](const std::vector<Matrix> &x) -> std::optional<Matrix> {
    return fill(
        1, x[0].cols,
        [&](int64_t, int64_t j) {
          double value = x[0].at(0, j);
          for (int64_t i = 1; i < x[0].rows; ++i)
            value = f(value, x[0].at(i, j));
          return isMean ? value / x[0].rows : value;
        },
        /*isVector=*/true);
  };
}
double plus(double a, double b) {
  return a + b;
}
double times(double a, double b) {
  return a * b;
}
double larger(double a, double b) {
  return std::max(a, b);
}

//===----------------------------------------------------------------------===//
// What the ranks' values mean
//===----------------------------------------------------------------------===//

/// Nothing if they do not mean anything: different data as R.
std::optional<Matrix> denote(const Ranks &ranks, AxisPlacement placement) {
  const Matrix &a = ranks[0], &b = ranks[1];
  if (placement.isSameOnAllRanks())
    return a.data == b.data ? std::optional(a) : std::nullopt;
  if (placement.isPartial())
    return fill(
        a.rows, a.cols,
        [&](int64_t i, int64_t j) {
          switch (placement.reduction) {
          case dist::Reduction::Avg:
            return (a.at(i, j) + b.at(i, j)) / kRanks;
          case dist::Reduction::Max:
            return std::max(a.at(i, j), b.at(i, j));
          default:
            return a.at(i, j) + b.at(i, j);
          }
        },
        a.isVector);
  bool byRows = placement.dim == 0 && !a.isVector;
  return fill(
      byRows ? a.rows + b.rows : a.rows, byRows ? a.cols : a.cols + b.cols,
      [&](int64_t i, int64_t j) {
        if (byRows)
          return i < a.rows ? a.at(i, j) : b.at(i - a.rows, j);
        return j < a.cols ? a.at(i, j) : b.at(i, j - a.cols);
      },
      a.isVector);
}

bool isClose(const Matrix &a, const Matrix &b) {
  if (a.rows != b.rows || a.cols != b.cols)
    return false;
  for (size_t i = 0; i < a.data.size(); ++i)
    if (std::abs(a.data[i] - b.data[i]) > 1e-12)
      return false;
  return true;
}

struct Case {
  const char *name;
  ShardingRule rule;
  std::vector<bool> isVector;
  Op op;
};

std::vector<AxisPlacement> placementsOf(int rank) {
  std::vector<AxisPlacement> all = {
      AxisPlacement::replicate(), AxisPlacement::invariant(), AxisPlacement::partial(),
      AxisPlacement::partial(dist::Reduction::Avg), AxisPlacement::partial(dist::Reduction::Max)};
  for (int dim = 0; dim < rank; ++dim)
    all.push_back(AxisPlacement::shard(dim));
  return all;
}

class Denotation : public ::testing::Test {
protected:
  std::mt19937 random{20261121};
  int accepted = 0, refused = 0;

  Ranks draw(bool isVector, AxisPlacement placement) {
    std::uniform_real_distribution<double> number(0.5, 2.0);
    auto value = [&](int64_t, int64_t) { return number(random); };
    Ranks ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.push_back(fill(isVector ? 1 : kSize, kSize, value, isVector));
    if (placement.isSameOnAllRanks())
      ranks[1] = ranks[0];
    return ranks;
  }

  /// What the op's operands mean together, and each rank's result, for random operands.
  struct Run {
    std::optional<Matrix> global;
    Ranks results;
  };
  Run run(const Case &c, const std::vector<AxisPlacement> &placements) {
    std::vector<Matrix> meant;
    std::vector<std::vector<Matrix>> inputs(kRanks);
    for (auto [i, placement] : llvm::enumerate(placements)) {
      Ranks ranks = draw(c.isVector[i], placement);
      meant.push_back(*denote(ranks, placement));
      for (int rank = 0; rank < kRanks; ++rank)
        inputs[rank].push_back(ranks[rank]);
    }
    Ranks results;
    for (const std::vector<Matrix> &input : inputs)
      results.push_back(*c.op(input));
    return {c.op(meant), results};
  }

  static bool isRight(const Run &run, AxisPlacement placement) {
    std::optional<Matrix> together = denote(run.results, placement);
    return run.global && together && isClose(*together, *run.global);
  }

  void check(const Case &c, const std::vector<AxisPlacement> &placements) {
    std::string text = c.name;
    std::vector<AxisOperand> operands;
    bool isSum = true;
    for (AxisPlacement placement : placements) {
      text.append(" ").append(toString(placement));
      operands.push_back({placement});
      isSum &= !placement.isPartial() || placement.isPartialSum();
    }
    // Several, as the largest of sums may be the sum of the largest by chance.
    std::vector<Run> runs;
    for (int i = 0; i < 8; ++i)
      runs.push_back(run(c, placements));

    AxisResult inferred = inferAxis(c.rule, operands);
    if (auto *choices = std::get_if<0>(&inferred)) {
      ++accepted;
      for (const AxisChoice &choice : *choices)
        for (const Run &run : runs)
          ASSERT_TRUE(isRight(run, choice.results.front()))
              << text << " gives " << toString(choice.results.front());
      return;
    }
    ++refused;
    // P(avg) and its like pass fewer ops than they could (rule 4).
    if (!isSum)
      return;
    for (AxisPlacement placement : placementsOf(runs.front().results.front().rank()))
      EXPECT_FALSE(llvm::all_of(runs, [&](const Run &run) { return isRight(run, placement); }))
          << text << " is refused, but is " << toString(placement);
  }

  void checkAll(const Case &c, std::vector<AxisPlacement> placements = {}) {
    if (placements.size() == c.isVector.size())
      return check(c, placements);
    for (AxisPlacement placement : placementsOf(c.isVector[placements.size()] ? 1 : 2)) {
      placements.push_back(placement);
      checkAll(c, placements);
      placements.pop_back();
    }
  }
};

} // namespace

TEST_F(Denotation, AllCombinations) {
  auto divide = [](double a, double b) { return a / b; };
  auto square = [](double a) { return a * a; };
  auto twice = [](double a) { return 2 * a; };
  const std::vector<Case> cases = {
      {"add", addRule(), {false, false}, pointwise(plus)},
      {"mul", mulRule(), {false, false}, pointwise(times)},
      {"div", divRule(), {false, false}, pointwise(divide)},
      {"add_row", addRowRule(), {false, true}, pointwise(plus)},
      {"mul_row", mulRowRule(), {false, true}, pointwise(times)},
      {"square", unaryRule(false), {false}, unary(square)},
      {"twice", unaryRule(true), {false}, unary(twice)},
      {"sum", reduceRule(sharding::FactorReduction::Sum), {false}, reduce(plus)},
      {"mean", reduceRule(sharding::FactorReduction::Avg), {false}, reduce(plus, /*isMean=*/true)},
      {"amax", reduceRule(sharding::FactorReduction::Max), {false}, reduce(larger)},
      {"transpose",
       transposeRule(),
       {false},
       [](const std::vector<Matrix> &x) -> std::optional<Matrix> {
         return fill(x[0].cols, x[0].rows, [&](int64_t i, int64_t j) { return x[0].at(j, i); });
       }},
      {"flatten",
       flattenRule(),
       {false},
       [](const std::vector<Matrix> &x) -> std::optional<Matrix> {
         Matrix result = x[0];
         result.cols = x[0].rows * x[0].cols;
         result.rows = 1;
         result.isVector = true;
         return result;
       }},
      {"mm", mmRule(), {false, false}, [](const std::vector<Matrix> &x) { return mm(x[0], x[1]); }},
      {"addmm",
       addmmRule(),
       {true, false, false},
       [](const std::vector<Matrix> &x) -> std::optional<Matrix> {
         std::optional<Matrix> product = mm(x[1], x[2]);
         return product ? pointwise(plus)({*product, x[0]}) : std::nullopt;
       }},
  };
  for (const Case &c : cases)
    checkAll(c);
  // Both sides have been seen.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 300);
}
