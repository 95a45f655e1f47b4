//===- PlannedStages.h - pipeline stages of a plan by op ------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_PLANNEDSTAGES_H
#define CLEAVE_LIB_PREDICT_PLANNEDSTAGES_H

#include "lib/predict/StepTime.h"

namespace cleave::predict {

struct PlannedStages {
  Layout layout; // with the plan's micro-batch and number of microbatches
  std::vector<StageTime> stages;
  double embeddingBytes = 0;
};

/// The stages of a plan in which each op of a GPT has its own degrees of tensor and data
/// parallelism and is recomputed or not (Aceso), or in which each stage has (Mist). Ops are listed
/// in the order of `Block`, after the embedding and before the last normalization and the loss.
llvm::Expected<PlannedStages> makePlannedStages(const Layout &layout, const cost::Cluster &cluster,
                                                const llvm::json::Object &plan, const Terms &terms);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_PLANNEDSTAGES_H
