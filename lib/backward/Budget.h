//===- Budget.h - the fastest backward within a budget of memory ----*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_BUDGET_H
#define CLEAVE_LIB_BACKWARD_BUDGET_H

#include "lib/aten/CommunicationWork.h"
#include "lib/backward/Frontier.h"
#include "lib/cost/Cluster.h"

namespace cleave::backward {

struct BudgetRequest {
  /// Of the whole step on a rank: see memory::StepMemory.
  int64_t bytes = 0;
  int64_t microbatches = 1;
  /// Whether the program is to be lowered by --lower-to-exec.
  bool isLowered = false;
  /// What may be recomputed.
  RecomputeLevel level = RecomputeLevel::All;
  /// Whether saved values may wait in host memory.
  bool mayOffload = false;
  /// Whose times count; those of a nominal device without one.
  std::optional<cost::Cluster> cluster;
  /// The file that the graph in numbers is written to; none if it is empty.
  std::string graphFile;
};

/// What a budget came to. Times are those of RecomputeTimes.
struct BudgetReport {
  struct Point {
    int64_t peakBytes = 0, time = 0;
    /// What each microbatch offloads.
    int64_t hostBytes = 0;
  };
  int64_t budgetBytes = 0;
  /// Of the partition that was chosen.
  Point chosen;
  /// All that could have been chosen, from the least memory to the least time.
  std::vector<Point> frontier;
};

struct BudgetedPartition {
  Partition partition;
  BudgetReport report;
};

/// The cluster that `file` describes, whose times count for the functions in `module`; none if it
/// is empty. Fails, with an error, if the file lacks what the program needs.
llvm::FailureOr<std::optional<cost::Cluster>>
readBudgetCluster(mlir::Operation *module, llvm::StringRef file, bool mayOffload);

/// How long ops of a module take.
class RecomputeTimes {
public:
  explicit RecomputeTimes(mlir::ModuleOp module, bool mayOffload = false,
                          std::optional<cost::Cluster> cluster = std::nullopt);

  /// In bytes of memory traffic: as many as the cluster's device moves in that time, or a nominal
  /// device. What ranks send each other counts several times its bytes; where values may be
  /// offloaded, and it is known how many ranks there are, what it takes on the cluster. Copies run
  /// beside products and communication; other kernels are fused later, and take less time than
  /// their ops.
  OpTimes get(mlir::Operation *op) const;

private:
  double getOfCommunication(dist::CommunicationOpInterface op) const;

  bool mayOffload;
  std::optional<cost::Cluster> cluster;
  aten::MeshRanks ranks;
};

/// How many times that of the same bytes of the device's memory a copy to the host takes.
double getHostLinkFactor(const std::optional<cost::Cluster> &cluster);

/// The partitions of `graph` that trade what `costs` measures for the time of recomputing; those
/// that other policies choose are among those tried. `parts`: of how many graphs that are searched
/// together this is one; each takes its part of the work.
llvm::FailureOr<Frontier> searchPartitions(const JointGraph &graph, const RecomputeModel &model,
                                           RecomputeLevel level, PartitionCosts &costs,
                                           unsigned parts = 1);

/// Chooses what the microbatch of `program`, whose graph is `graph`, saves: of the partitions on
/// the frontier the fastest whose step stays within the budget. Fails if there is none, with an
/// error that says what is needed at least, and for what.
llvm::FailureOr<BudgetedPartition> choosePartition(const train::ProgramFunctions &program,
                                                   const JointGraph &graph,
                                                   const BudgetRequest &request);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_BUDGET_H
