//===- Passes.h - plans carried out in this process -----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H

#include "lib/plan/Search.h"
#include "tools/cleave-plan/Source.h"

#include <deque>
#include <map>

namespace cleave::plan {

/// Runs the passes of plans on the exports, and measures what comes out. A program is partitioned
/// once for all plans that place it alike.
class PassRunner : public Programs {
public:
  PassRunner(const Space &space, std::vector<Source> &sources, const cost::Cluster &cluster)
      : space(space), sources(sources), cluster(cluster) {}

  /// Prepares the exports; fails where a pass does.
  llvm::Error prepare();

  double getKernelSeconds(unsigned program, double parts) const override;
  double getStateBytes(unsigned program) const override { return sources[program].stateBytes; }
  llvm::Expected<double> partition(const Layout &layout) override;
  llvm::Expected<StagedProgram> stage(const Shape &shape) override;

  /// How many programs were partitioned.
  unsigned numPartitioned = 0;

private:
  struct Placed {
    Layout layout;
    std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  };

  llvm::Expected<mlir::ModuleOp> place(const Layout &layout);

  const Space &space;
  std::vector<Source> &sources;
  const cost::Cluster &cluster;
  /// Ops that do the same.
  struct CountedWork {
    cost::OpWork work;
    double count = 0;
  };
  /// By export: the work of ops that every plan runs.
  std::vector<std::vector<CountedWork>> works;
  mutable std::map<std::pair<unsigned, double>, double> kernelSeconds;
  std::deque<Placed> placed; // the last used first
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
