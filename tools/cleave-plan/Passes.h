//===- Passes.h - plans carried out in this process -----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H

#include "lib/plan/Search.h"
#include "tools/cleave-plan/LayerWork.h"
#include "tools/cleave-plan/Layers.h"

#include <deque>
#include <map>

namespace cleave::plan {

/// Runs the passes of plans on the exports, and measures what comes out. Of stages with equal
/// layers only one is carried out: it tells all. A program is partitioned once for all plans that
/// place it alike.
class PassRunner : public Programs {
public:
  PassRunner(const Space &space, std::vector<Source> &sources, const cost::Cluster &cluster)
      : space(space), sources(sources), cluster(cluster) {}

  /// Prepares the exports; fails where a pass does.
  llvm::Error prepare();

  const LayerTimes &timeGlobal(unsigned program, int64_t parts) const override;
  ProgramBytes getBytes(unsigned program) const override { return sources[program].bytes; }
  double getShardedBytes(unsigned program, int64_t parts) const override;
  std::optional<LayerTimes> timeUndivided(const Layout &layout) override;
  llvm::Expected<LayerTimes> partition(const Layout &layout) override;
  llvm::Expected<StagedProgram> stage(const Shape &shape) override;
  llvm::Expected<StagedProgram> stageWhole(const Shape &shape) override;
  const StageSamples *sampleStages(const Shape &shape) override;

  /// How many programs were partitioned, and how many layers they had.
  unsigned numPartitioned = 0;
  int64_t numLayers = 0;

private:
  /// Layers of a program that are there; empty: all.
  using Kept = std::vector<bool>;
  struct Placed {
    Layout layout;
    Kept kept;
    std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> module;
  };
  /// The stages of a plan, and those that are carried out.
  struct Stages {
    Kept kept;
    std::vector<int64_t> cuts;    ///< of those carried out
    std::vector<unsigned> sameAs; ///< by stage: the one carried out, by number
  };

  llvm::Expected<mlir::ModuleOp> place(const Layout &layout, const Kept &kept);
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> keep(unsigned program, const Kept &kept) const;
  Stages chooseStages(const Shape &shape, bool isWhole) const;
  llvm::Expected<StagedProgram> stage(const Shape &shape, const Stages &stages);
  llvm::Error sampleStages(const Shape &shape, const Kept &kept, llvm::ArrayRef<int64_t> cuts,
                           StageSamples &samples);
  llvm::Expected<LayerWork> describeLayers(mlir::ModuleOp module, unsigned program,
                                           Division division) const;
  LayerTimes timeLayers(unsigned program, const LayerWork &work, const Layout &layout,
                        int64_t parts) const;
  /// One layer of each kind by itself and, where there are, two neighbours of the kind.
  struct Samples;
  Samples chooseSamples(unsigned program) const;
  void timeRecomputed(const Layout &layout, const Samples &samples, Recompute recompute,
                      LayerTimes::Recomputed &times);

  const Space &space;
  std::vector<Source> &sources;
  const cost::Cluster &cluster;
  /// By export: what its layers do; those layers, if some may be left out.
  std::vector<LayerWork> globals;
  std::vector<std::optional<Layers>> layers;
  mutable std::map<std::pair<unsigned, int64_t>, LayerTimes> globalTimes;
  struct Partitioned {
    Layout layout;
    LayerWork work;
    std::array<LayerTimes::Recomputed, 3> recomputed;
  };
  std::vector<Partitioned> partitioned;
  /// Of layouts whose batch is not divided; none where a pass refused.
  std::vector<std::pair<Layout, std::optional<LayerWork>>> undivided;
  std::deque<Placed> placed; // the last used first
  /// Exports with some of their layers, by program and by layers.
  mutable std::map<std::pair<unsigned, Kept>, mlir::OwningOpRef<mlir::ModuleOp>> shortened;
  /// Null where there are none.
  struct Sampled {
    Shape shape;
    std::unique_ptr<StageSamples> samples;
  };
  std::vector<Sampled> sampled;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
