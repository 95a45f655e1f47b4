//===- Passes.h - plans carried out in this process -----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H

#include "lib/plan/Search.h"
#include "tools/cleave-plan/Commands.h"
#include "tools/cleave-plan/LayerWork.h"
#include "tools/cleave-plan/Layers.h"

#include <deque>
#include <map>
#include <set>
#include <tuple>

namespace cleave::plan {

/// The layout as far as the local program depends on it. Which ranks are neighbours changes only
/// how far those of a group are apart.
Layout getPlacedPart(Layout layout);

/// The stages of a microbatch, once they are cut; one of a program that is not.
llvm::Expected<std::vector<train::ProgramFunctions>> listStages(mlir::ModuleOp module, bool isCut);

/// Ops of a microbatch that depend on parameters alone: casts of them, say. FSDP may run them once
/// per step, or again in the backward.
llvm::DenseSet<mlir::Operation *> findConstant(llvm::ArrayRef<train::ProgramFunctions> stages);

/// Recomputed ops that follow from a parameter which the backward does not need otherwise, such as
/// a table that inputs are looked up in. Where FSDP shards it, it would be gathered for them once
/// more: their results may be kept instead.
llvm::DenseSet<mlir::Operation *> findRegathered(llvm::ArrayRef<train::ProgramFunctions> stages);

/// Ops of backwards that take nothing but the gradients which a stage gets, and make none of its
/// weights, such as that of a slice: stages run them where fewer bytes cross.
llvm::DenseSet<mlir::Operation *> findEarly(llvm::ArrayRef<train::ProgramFunctions> stages);

/// Sets the distances of groups for a mesh on which ranks of the batch are neighbours.
void reorderGroups(const Layout &layout, simulate::ProgramWork &work);

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
  ShardedBytes getShardedBytes(unsigned program, int64_t parts) const override;
  std::optional<LayerTimes> timeUndivided(const Layout &layout) override;
  std::optional<LayerTimes> timeUnshared(const Layout &layout) override;
  LayerTimes::Recomputed recomputeUndivided(const Layout &layout, Recompute recompute) override;
  LayerCurves drawCurves(const Layout &layout) override;
  llvm::Expected<LayerTimes> partition(const Layout &layout) override;
  llvm::Expected<StagedProgram> stage(const Shape &shape) override;
  llvm::Expected<StagedProgram> stageWhole(const Plan &plan) override;
  double estimateWhole(unsigned program) const override;
  const StageSamples *sampleStages(const Shape &shape) override;
  const StageSamples *sampleGathering(const Shape &shape) override;
  const StageSamples *sampleUndivided(const Shape &shape) override;
  const StageSamples *sampleAny(const Shape &shape) override;
  const StageSamples *sampleAnyUndivided(const Shape &shape) override;

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
  int64_t countLayers(unsigned program, const Kept &kept) const;
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> keep(unsigned program, const Kept &kept) const;
  std::vector<int64_t> listKept(unsigned program, const Kept &kept) const;
  Kept chooseKept(const Layout &layout, Kept kept,
                  llvm::ArrayRef<std::vector<unsigned>> stages) const;
  Stages chooseStages(const Shape &shape, bool isWhole) const;
  llvm::Expected<StagedProgram> stage(const Plan &plan, const Stages &stages);
  /// A program of few layers, cut at these.
  struct SampledWork {
    std::vector<int64_t> cuts;
    simulate::ProgramWork work;
    /// Of a program that recomputes nothing: without what either pass may run. What it holds
    /// between the halves of a backward are gradients.
    std::optional<simulate::ProgramWork> any;
  };
  bool hasStageSamples(unsigned program) const;
  const StageSamples *sample(const Shape &shape, const Layout &from, bool isLeast, int64_t parts,
                             bool isAny = false);
  const StageSamples *sampleUndivided(const Shape &shape, bool isAny);
  llvm::Expected<std::vector<SampledWork>>
  measureSamples(const Shape &shape, bool isLeast, bool isForAny,
                 const std::set<std::vector<unsigned>> &missing);
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  outline(const Layout &layout, mlir::ModuleOp global, const PassCall &pass);
  void divideWork(simulate::ProgramWork &work, int64_t parts) const;
  StageSamples describeSamples(const Layout &layout, std::vector<SampledWork> works,
                               std::optional<int64_t> parts, bool isAny) const;
  /// One layer of each kind by itself and, where they are asked for and there are, two neighbours
  /// of the kind; of a run of only two, the other one by itself.
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
  LayerTimes::Recomputed timeRecomputed(unsigned program, const RecomputedWork &work, int64_t parts,
                                        bool isOwn) const;
  /// What curves of a program depend on: how many ranks divide it, how far those of a group are
  /// apart, and how many gather parameters in each microbatch.
  using CurveKey = std::tuple<int64_t, int64_t, int64_t>;
  /// Of a layout whose batch is not divided, or of one with an example on each rank, as far as it
  /// was looked at; none where a pass refused.
  struct Undivided {
    Layout layout;
    std::optional<std::optional<LayerWork>> work;
    std::array<std::optional<std::optional<RecomputedWork>>, 3> recomputed;
    std::map<CurveKey, LayerCurves> curves;
  };
  /// The layout whose batch is not divided, of the export with the largest batch, and among how
  /// many ranks its work is divided to be that of `layout`: a smaller batch is a part of it. With
  /// one example on each rank it is the layout itself, with replicated parameters.
  std::pair<Layout, int64_t> getUndivided(const Layout &layout) const;
  /// Of a layout whose batch is not divided.
  Undivided &findUndivided(const Layout &key);
  std::optional<LayerTimes> timeDivided(const Layout &layout, const Layout &from, int64_t parts);
  /// Whether kernels of the layout's ranks do parts of what those of the layout whose batch is not
  /// divided do.
  bool isLikeUndivided(const Layout &layout) const;
  /// Whether experts work alike, however many ranks have the same ones.
  bool exchangesAlike(const Layout &layout) const;

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
    std::map<CurveKey, LayerCurves> curves;
  };
  std::vector<Partitioned> partitioned;
  std::vector<Partitioned>::iterator findPartitioned(const Layout &layout);
  LayerCurves drawCurves(const Layout &layout, const LayerWork &work, int64_t parts) const;
  const LayerCurves &drawCurves(const Layout &layout, const LayerWork &work, int64_t parts,
                                std::map<CurveKey, LayerCurves> &known) const;
  std::vector<Undivided> undivided;
  std::deque<Placed> placed; // the last used first
  int64_t numPlacedLayers = 0;
  /// The last that stage() carried out.
  std::optional<std::pair<Shape, StagedProgram>> staged;
  /// Samples that are cut, the last first.
  struct Outlined {
    Layout layout;
    std::string pass;
    mlir::OwningOpRef<mlir::ModuleOp> module;
  };
  std::deque<Outlined> outlined;
  /// Why a pass refused.
  struct Refused {
    Layout layout;
    Kept kept;
    std::string reason;
  };
  std::vector<Refused> refused;
  /// What placing took, and staging, and of how many layers.
  double placeSeconds = 0, stageSeconds = 0;
  int64_t numStagedLayers = 0;
  /// Exports with some of their layers, by program and by layers.
  mutable std::map<std::pair<unsigned, Kept>, mlir::OwningOpRef<mlir::ModuleOp>> shortened;
  /// By shape what was carried out of it; nothing where a pass refused. By layout what follows.
  struct Sampled {
    Shape shape;
    bool isLeast;
    bool isForAny; ///< FSDP once per step is as for a budget
    std::vector<SampledWork> works;
    struct Described {
      Layout layout;
      bool isAny;
      StageSamples samples;
    };
    std::deque<Described> samples;
    /// Stages that are among these, by the kinds of their layers.
    std::set<std::vector<unsigned>> stages;
    bool isRefused = false;
  };
  std::deque<Sampled> sampled;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_PASSES_H
