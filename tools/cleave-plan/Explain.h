//===- Explain.h - a plan by stage and by tensor --------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_EXPLAIN_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_EXPLAIN_H

#include "lib/plan/Space.h"
#include "lib/schedule/simulate/ProgramCosts.h"
#include "tools/cleave-plan/Source.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::plan {

/// What the functions of a stage take, keep and recompute.
struct StageDetail {
  int64_t firstLayer = 0, endLayer = 0;
  unsigned place = 0; ///< of its rank in the pipeline
  simulate::StageTime time;
  simulate::StateBytes state;
  double savedBytes = 0; ///< of a microbatch
  double hostBytes = 0;  ///< of these in the host's memory
  /// Ops of the backward that are recomputed, the most frequent first, and their kernels' seconds.
  std::vector<std::pair<std::string, unsigned>> recomputed;
  double recomputedSeconds = 0;
};

/// A tensor, and those of other layers that lie alike for the same reasons.
struct TensorDetail {
  std::string name; ///< "parameter h.*.mlp.c_fc.weight", "aten.mm"
  /// The module, and the line of the model.
  std::string location;
  std::string function;
  bool isArgument = false, isBackward = false;
  std::string shape, localShape;
  struct Axis {
    std::string name, placement, why;
    bool operator==(const Axis &) const = default;
  };
  std::vector<Axis> axes;
  std::vector<int64_t> layers;
  unsigned count = 1;
};

struct Explanation {
  std::vector<StageDetail> stages;
  /// None where no axis but the pipeline's has several ranks: each has its stages' tensors whole.
  std::vector<TensorDetail> tensors;
};

/// Carries a plan out once more, with all of its layers, to say what each stage takes and how each
/// tensor lies.
llvm::Expected<Explanation> explainPlan(const Plan &plan, const Space &space, const Source &source,
                                        const cost::Cluster &cluster);

/// Stages, and tensors but for those of the backward and the update.
void printText(const Explanation &explanation, llvm::raw_ostream &os);
llvm::json::Array makeStageList(const Explanation &explanation);
llvm::json::Array makeTensorList(const Explanation &explanation);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_EXPLAIN_H
