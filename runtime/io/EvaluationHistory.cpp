//===- EvaluationHistory.cpp - what a run's evaluations have come to ------===//

#include "runtime/io/EvaluationHistory.h"

#include <cmath>
#include <limits>

using namespace cleave::runtime;
namespace json = llvm::json;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool EvaluationHistory::add(int64_t step, double loss) {
  if (!std::isfinite(loss) || !(loss < best.value_or(kInfinity))) {
    ++withoutImprovement;
    return false;
  }
  best = loss;
  bestStep = step;
  withoutImprovement = 0;
  return true;
}

bool EvaluationHistory::reduceOnPlateau(double loss, const PlateauRule &rule) {
  double known = plateauBest.value_or(kInfinity);
  double bound = rule.isRelative ? known * (1.0 - rule.threshold) : known - rule.threshold;
  if (std::isfinite(loss) && loss < bound) {
    plateauBest = loss;
    badEvaluations = 0;
  } else {
    ++badEvaluations;
  }
  if (cooldown > 0) {
    --cooldown;
    badEvaluations = 0;
  }
  if (badEvaluations <= rule.patience)
    return false;
  ++reductions;
  cooldown = rule.cooldown;
  badEvaluations = 0;
  return true;
}

json::Object EvaluationHistory::toJson() const {
  json::Object object{{"without_improvement", withoutImprovement}};
  if (best) {
    object["best_loss"] = *best;
    object["best_step"] = bestStep;
  }
  json::Object plateau{
      {"bad_evaluations", badEvaluations}, {"cooldown", cooldown}, {"reductions", reductions}};
  if (plateauBest)
    plateau["best_loss"] = *plateauBest;
  object["plateau"] = std::move(plateau);
  return object;
}

std::optional<EvaluationHistory> EvaluationHistory::fromJson(const json::Value &value) {
  const json::Object *object = value.getAsObject();
  const json::Object *plateau = object ? object->getObject("plateau") : nullptr;
  if (!plateau)
    return std::nullopt;
  EvaluationHistory history;
  bool isValid = true;
  auto count = [&](const json::Object &from, llvm::StringRef name, int64_t &into) {
    std::optional<int64_t> found = from.getInteger(name);
    isValid &= found && *found >= 0;
    into = found.value_or(0);
  };
  auto loss = [&](const json::Object &from, std::optional<double> &into) {
    const json::Value *found = from.get("best_loss");
    into = found ? found->getAsNumber() : std::nullopt;
    isValid &= !found || into;
  };
  count(*object, "without_improvement", history.withoutImprovement);
  loss(*object, history.best);
  if (history.best)
    count(*object, "best_step", history.bestStep);
  count(*plateau, "bad_evaluations", history.badEvaluations);
  count(*plateau, "cooldown", history.cooldown);
  count(*plateau, "reductions", history.reductions);
  loss(*plateau, history.plateauBest);
  return isValid ? std::optional(history) : std::nullopt;
}
