//===- BudgetBound.h - bounds of plans that recompute what serves them -*- C++ -*-===//
//
// A budget makes each rank of a pipeline recompute as it likes. Whatever it chooses, what a rank
// saves has to fit, and what it does not save it has to recompute. docs/planner.md has the
// proofs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLAN_BUDGETBOUND_H
#define CLEAVE_LIB_PLAN_BUDGETBOUND_H

#include "lib/plan/LayerTimes.h"
#include "lib/plan/RecomputeCurve.h"

namespace cleave::plan {

/// What recomputation and saved bytes of one microbatch cost together, by layer.
struct LayerCurves {
  using List = std::vector<std::shared_ptr<const RecomputeCurve>>;
  /// Each counts what its own ops make. Equal layers share one. `layers` is of kernels, and of
  /// communications as far as kernels take longer beside them; `streams` of communications, and of
  /// as much of the kernels: empty where nothing is sent.
  List layers, streams;
  /// Bytes that each layer but the last passes on, and that the next one's backward needs, whatever
  /// it recomputes. A stage that begins with a layer saves them, one that ends with it need not.
  double passedBytes = 0;
};

/// Bounds of one cut, whatever its backwards recompute.
class BudgetBound {
public:
  /// `times`: what the layers take that recompute nothing. `offloads`: whether saved values may
  /// wait in the host's memory.
  BudgetBound(const Space &space, const cost::Cluster &cluster, const Shape &shape,
              const LayerTimes &times, LayerCurves curves, bool offloads = false);

  /// The shortest step of any schedule, in seconds. `room`: bytes that all ranks of the pipeline
  /// together have for what microbatches keep.
  double boundAll(double room) const;
  /// The same of one schedule, within `memory` bytes of a rank. `table` is of stages that recompute
  /// nothing.
  double boundSchedule(const std::string &schedule, const StageTable &table, double memory) const;

private:
  /// Those of some layers, and how many have it.
  using Curves = std::vector<std::pair<const RecomputeCurve *, double>>;
  struct Stage {
    StageTimes times;
    double layers = 0;
    /// Of LayerCurves::layers and LayerCurves::streams.
    Curves kernels, streams;
    /// Beyond what its layers count: saved bytes of its first one, but not of the next stage's.
    double passedBytes = 0;

    /// What it recomputes and saves costs at least, in seconds.
    double at(Curves Stage::*curves, double price) const;
  };
  /// A stage, and how often what it saves of a microbatch counts.
  using Weight = std::pair<unsigned, double>;
  KernelTime leastAt(llvm::ArrayRef<Weight> weights, double room, double highestPrice) const;
  double leastAt(llvm::ArrayRef<Weight> weights, double room, double highestPrice,
                 Curves Stage::*curves) const;
  /// Seconds that are recomputed of a microbatch at the least.
  struct Recomputation {
    /// By the highest price of a byte; what is offloaded at that counts.
    std::vector<KernelTime> atPrice;
    /// However much is offloaded, since the host's memory has an end.
    KernelTime always;

    void raise(const Recomputation &other);
    bool isTooLarge() const;
  };
  Recomputation leastRecomputed(llvm::ArrayRef<Weight> weights, double room, double hostRoom) const;
  double leastOffloading(const Recomputation &recomputed,
                         llvm::function_ref<double(KernelTime, double)> timeOf) const;
  double findStep(double low, llvm::function_ref<double(double)> timeIn) const;
  double timeKernels(llvm::ArrayRef<unsigned> list, KernelTime recomputed,
                     const StageTable *table = nullptr) const;
  simulate::CostTable mergeCosts(const simulate::CostTable &samples) const;
  /// What microbatches of a rank keep at a point of its list.
  struct Resident {
    std::vector<Weight> saved;
    double heldBytes = 0; ///< between the halves of a backward
  };
  std::vector<Resident> listResident(const schedule::Schedule &order, unsigned rank,
                                     const StageTable &table) const;
  double finish(double seconds) const;

  const Space &space;
  const cost::Cluster &cluster;
  Shape shape;
  LayerCurves curves;
  double microbatches;
  /// A saved byte costs no more than one of these, for which it may as well be offloaded: of all of
  /// them the bound holds. No end where nothing is offloaded.
  std::vector<double> prices;
  double copySeconds = 0; ///< of a byte that is offloaded, out or back
  double hostRoom = 0;    ///< bytes of a rank in the host's memory
  std::vector<Stage> stages;
  simulate::CostTable costs; ///< seconds
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_BUDGETBOUND_H
