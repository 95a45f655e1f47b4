//===- StepTimes.h - statistics over the steps of a profile --------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROFILE_STEPTIMES_H
#define CLEAVE_RUNTIME_PROFILE_STEPTIMES_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// The middle one of an odd number of values, the mean of the two in the middle otherwise; nothing
/// of none.
std::optional<double> median(std::vector<double> values);

/// Times of one kind of action: the mean within a step, of which the median over steps.
class StepTimes {
public:
  void add(int64_t step, double milliseconds) {
    Sum &sum = steps[step];
    sum.total += milliseconds;
    ++sum.count;
  }
  int64_t count() const {
    int64_t result = 0;
    for (const auto &[step, sum] : steps)
      result += sum.count;
    return result;
  }
  /// Nothing if nothing was added.
  std::optional<double> typical() const {
    std::vector<double> means;
    for (const auto &[step, sum] : steps)
      means.push_back(sum.total / double(sum.count));
    return median(std::move(means));
  }

private:
  struct Sum {
    double total = 0;
    int64_t count = 0;
  };
  std::map<int64_t, Sum> steps;
};

/// Times of transfers. Of one that had arrived when its receiver came only an upper bound is known;
/// leaving these out would leave the quick ones out.
class TransferTimes {
public:
  void add(double milliseconds, bool isBound) { values.push_back({milliseconds, isBound}); }
  /// How many have a known time.
  int64_t count() const;
  /// The median by the product-limit estimator (Kaplan and Meier 1958, here for times bounded from
  /// above): the smallest known time v with P(time <= v) >= 1/2, or the smallest of all. Nothing
  /// where no time is known.
  std::optional<double> typical() const;

private:
  struct Observed {
    double milliseconds;
    bool isBound;
  };
  std::vector<Observed> values;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_STEPTIMES_H
