//===- LayerWork.h - what the layers of a microbatch compute and send -*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_LAYERWORK_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_LAYERWORK_H

#include "lib/plan/LayerTimes.h"

#include "lib/backward/JointGraph.h"
#include "tools/cleave-plan/RecomputeGraphs.h"

namespace cleave::plan {

/// The arguments of a function that are parameters.
llvm::DenseSet<mlir::Value> listParameters(mlir::func::FuncOp function);

/// Ops that no pass after placement leaves out or moves out of the microbatch, and their work: all
/// but copies, casts, and what depends on parameters alone. `isGlobal`: none that --partition may
/// build otherwise either. `isCut`: what is recomputed is decided. `hasCopies`: with copies and
/// casts of what does not depend on parameters alone.
std::vector<std::pair<mlir::Operation *, cost::OpWork>>
listWork(mlir::func::FuncOp microbatch, bool isGlobal, bool isCut = false, bool hasCopies = false);

/// Kernels of ops at the least, where so many ranks divide each: those of equal ops are known.
class KernelTimer {
public:
  KernelTimer(const cost::Cluster &cluster, int64_t parts) : cluster(cluster), parts(parts) {}

  KernelTime time(const cost::OpWork &work);

private:
  const cost::Cluster &cluster;
  int64_t parts;
  std::vector<std::pair<cost::OpWork, KernelTime>> known;
};

/// Makes of a communication along `tp` or `cp`, or of rows, the least that it is where `parts` more
/// ranks divide what is sent. What is exchanged and then summed up may be summed up and scattered,
/// too: which of the two is chosen depends on the bytes.
void divideCommunication(cost::OpWork &work, const cost::Cluster &cluster, const cost::Group &group,
                         int64_t parts);

/// How far a microbatch is divided among ranks.
enum class Division {
  None,        ///< a program for one device
  ExceptBatch, ///< by all axes but the batch's
  All
};

/// The layers of a microbatch, with their data flow.
class LayerWork {
public:
  /// Of some layers, those whose numbers `chosen` has. `modules` are the layers but the first; if
  /// the program cannot be cut at each of them, all that it does is shared.
  static llvm::FailureOr<LayerWork> create(mlir::func::FuncOp microbatch, Division division,
                                           llvm::ArrayRef<std::string> modules,
                                           llvm::ArrayRef<unsigned> chosen);

  struct Times {
    /// By layer, in the order in which they were chosen; empty of a program that cannot be cut.
    std::vector<PassTime> forward, backward;
    std::vector<KernelTime> either;
    KernelTime shared;
  };
  /// At the least, where `parts` more ranks divide each op. `layout` says which ranks communicate.
  Times time(const cost::Cluster &cluster, const Layout &layout, int64_t parts) const;

  /// What each may recompute or save, at the least, likewise, as LayerCurves has it: of kernels, or
  /// of a stream of communications. Empty of a program that cannot be cut, and of a stream where
  /// nothing is sent.
  std::vector<RecomputeCurve> drawCurves(const cost::Cluster &cluster, const Layout &layout,
                                         int64_t parts, bool isStream) const;
  /// As LayerCurves has it, of all that `parts` ranks divide.
  double getPassedBytes() const { return double(passedBytes); }
  /// Whether the layer that runs an op, or keeps a value, is the same whatever has more bytes: each
  /// takes one value from others in the forward, and weights are used in one. Of a program that is
  /// not wholly divided.
  bool areLayersSettled() const { return isSettled; }

private:
  struct Op {
    std::optional<cost::OpWork> work;
    Axis axis = Axis::None;
    /// Of the same pass.
    llvm::SmallVector<unsigned, 4> operands;
    /// Stays one op however it is divided: no form makes several of it that run side by side.
    bool isWhole = true;
    /// A forward's, or depends on the gradient of the loss: no other pass may have it.
    bool isBound = true;
    /// Takes what the layer takes.
    bool isFirst = false;
    /// What the layer passes on needs it.
    bool isNeeded = false;
  };
  /// A communication that what the layer passes on needs, or the op that makes that.
  struct Stop {
    unsigned op;
    /// By what comes before it: what the layer takes, then each earlier stop. The kernels that
    /// follow that and that this stop needs; none where this stop does not follow.
    std::vector<std::optional<std::vector<unsigned>>> kernels;
  };
  struct Pass {
    std::vector<Op> ops;
    /// In order; the op that makes what the layer passes on is the last.
    std::vector<Stop> stops;
    /// The one that makes what the layer passes on; none where it passes on nothing.
    std::optional<unsigned> last;
    /// Begins with nothing but inputs, or with the loss: the first forward, and the last layer's
    /// backward.
    bool isStart = false;
    /// Layers take and pass on one value.
    bool hasChain = false;
  };
  class Builder;
  static void findStops(Pass &pass, Division division);
  static double timeStops(const Pass &pass, llvm::ArrayRef<double> taken);
  PassTime time(const cost::Cluster &cluster, const Layout &layout, int64_t parts, const Pass &pass,
                KernelTimer &timer, KernelTime &either) const;

  std::vector<Pass> forward, backward;
  std::vector<cost::OpWork> shared;
  std::vector<LayerRecomputation> recomputation;
  int64_t passedBytes = 0;
  bool isSettled = false;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_LAYERWORK_H
