//===- Step.h - a step of one layout ------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_STEP_H
#define CLEAVE_LIB_PREDICT_STEP_H

#include "lib/predict/StepTime.h"

#include <vector>

namespace cleave::predict {

/// One choice of what a layout leaves open.
class Step {
public:
  Step(const Layout &layout, const cost::Cluster &cluster, const Terms &terms)
      : layout(layout), cluster(cluster), terms(terms) {}

  llvm::Expected<Prediction> run();
  llvm::Expected<Prediction> runPlan(const llvm::json::Object &plan);

private:
  // StepStages.cpp
  void makeStages();
  StageTime makeStage(const LayerClass &layer, double count) const;
  void shardParameters(LayerClass &layer) const;

  // StepMemory.cpp
  double parameterBytes(const StageTime &stage) const;
  double activationBytes(size_t rank) const;
  double memoryOf(size_t rank) const;
  double memoryOf(const StageTime &stage, double activations) const;
  void reportMemory(Prediction &result, double measured) const;
  void fitRecomputation();

  // StepTime.cpp
  double gradientTime(const StageTime &stage, double &hidden) const;
  double updateTime(const StageTime &stage) const;
  llvm::Expected<Prediction> finish();

  Layout layout;
  cost::Cluster cluster;
  Terms terms;
  Groups groups;
  std::vector<StageTime> stages;
  double embeddingBytes = 0;
  bool hasEnds = true; // the embedding and the head
};

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_STEP_H
