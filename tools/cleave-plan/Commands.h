//===- Commands.h - the passes that carry a plan out ----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_COMMANDS_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_COMMANDS_H

#include "tools/cleave-plan/Source.h"

#include "llvm/Support/JSON.h"

namespace cleave::plan {

/// A pass and its options, as cleave-opt and pipelines in text take them.
struct PassCall {
  std::string name, options;
};

/// The file of placements, for `--annotate-placements=plan=FILE`.
llvm::json::Object makePlacements(const Layout &layout, const Source &source);
/// Whether a layout has placements: it divides something besides the pipeline.
bool hasPlacements(const Layout &layout);

/// From the export to what one rank runs, without stages.
std::vector<PassCall> listPlacing(const Layout &layout, llvm::StringRef placements);
/// Mebibytes that communications may have brought at a time before they are used. Where parameters
/// are gathered in each microbatch, the largest of a layer is among them, beside what is small, and
/// no more than two layers' if there are layers that take less.
double getMaxInFlight(const Layout &layout, const Source &source);
/// From there to stages, buckets and overlapped communication. Only a budget depends on the
/// schedule and the cluster. `isForAny`: FSDP once per step is as for a budget.
std::vector<PassCall> listStaging(const Plan &plan, const Source &source,
                                  const cost::Cluster &cluster, llvm::ArrayRef<int64_t> cuts,
                                  bool isForAny = false);
/// The schedule; none for one rank of the pipeline.
std::vector<PassCall> listScheduling(const Plan &plan, int64_t microbatches);

/// "a,b{c=d}".
std::string makePipeline(llvm::ArrayRef<PassCall> passes);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_COMMANDS_H
