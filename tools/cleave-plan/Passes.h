//===- Passes.h - plans carried out in this process -----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H

#include "lib/plan/Search.h"
#include "tools/cleave-plan/LayerWork.h"
#include "tools/cleave-plan/Layers.h"

#include <deque>
#include <map>

namespace cleave::plan {

inline bool isFsdp(const Layout &layout) {
  return layout.sharding == Sharding::Fsdp || layout.sharding == Sharding::FsdpOnce;
}

/// The layout as far as the local program depends on it. Which ranks are neighbours changes only
/// how far those of a group are apart.
Layout getPlacedPart(Layout layout);

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
  LayerTimes::Recomputed recomputeUndivided(const Layout &layout, Recompute recompute) override;
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
  /// One layer of each kind by itself and, where they are asked for and there are, two neighbours
  /// of the kind.
  struct Samples {
    Kept kept;
    std::vector<int64_t> cuts;
    std::map<unsigned, unsigned> single, pair; ///< by kind: the stages of one layer and of two
    std::vector<int64_t> first;                ///< by stage
  };
  Samples chooseSamples(unsigned program, bool hasPairs) const;
  llvm::Expected<LayerWork> describeLayers(mlir::ModuleOp module, unsigned program,
                                           const Samples &samples, Division division) const;
  LayerTimes timeLayers(unsigned program, const LayerWork &work, const Layout &layout,
                        int64_t parts) const;
  /// By stage of samples: the kernels of its backward, and the bytes that it keeps.
  struct RecomputedWork {
    std::vector<std::vector<cost::OpWork>> backward;
    std::vector<double> saved;
  };
  std::optional<RecomputedWork> recompute(const Layout &layout, Recompute recompute,
                                          Division division);
  LayerTimes::Recomputed timeRecomputed(unsigned program, const RecomputedWork &work,
                                        int64_t parts) const;
  /// Of a layout whose batch is not divided, as far as it was looked at; none where a pass refused.
  struct Undivided {
    Layout layout;
    std::optional<std::optional<LayerWork>> work;
    std::array<std::optional<std::optional<RecomputedWork>>, 3> recomputed;
  };
  Undivided &findUndivided(const Layout &layout);

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
  std::vector<Undivided> undivided;
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
