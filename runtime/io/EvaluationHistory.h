//===- EvaluationHistory.h - what a run's evaluations have come to -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_EVALUATIONHISTORY_H
#define CLEAVE_RUNTIME_IO_EVALUATIONHISTORY_H

#include "llvm/Support/JSON.h"

#include <cstdint>
#include <optional>

namespace cleave::runtime {

/// When a learning rate is reduced: `#train.plateau` has the same fields.
struct PlateauRule {
  bool isRelative = true;
  double threshold = 0;
  int64_t patience = 0;
  int64_t cooldown = 0;
  bool operator==(const PlateauRule &) const = default;
};

/// The losses of a run's evaluations, as far as what follows depends on them: part of its
/// checkpoints.
struct EvaluationHistory {
  /// The lowest loss, its step, and how many evaluations in a row were not lower since; without a
  /// loss before the first finite one.
  std::optional<double> best;
  int64_t bestStep = 0;
  int64_t withoutImprovement = 0;
  /// ReduceLROnPlateau's state: its best loss, how many evaluations in a row were not better by
  /// its threshold, those still to be ignored, and how often it has reduced the rate.
  std::optional<double> plateauBest;
  int64_t badEvaluations = 0;
  int64_t cooldown = 0;
  int64_t reductions = 0;

  /// Whether there was an evaluation.
  bool empty() const { return !best && withoutImprovement == 0; }
  /// Notes the loss after `step`; whether it is the lowest so far.
  bool add(int64_t step, double loss);
  /// ReduceLROnPlateau's step with the loss; whether it reduces the rate.
  bool reduceOnPlateau(double loss, const PlateauRule &rule);

  llvm::json::Object toJson() const;
  /// None where `value` is not what `toJson` gives.
  static std::optional<EvaluationHistory> fromJson(const llvm::json::Value &value);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_EVALUATIONHISTORY_H
