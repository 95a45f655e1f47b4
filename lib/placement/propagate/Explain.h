//===- Explain.h - why each tensor is placed as it is ---------------*- C++ -*-===//
//
// For each tensor and axis the reason, and for each redistribution what it costs; as remarks and as
// JSON (the schema is in docs/placements.md).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_EXPLAIN_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_EXPLAIN_H

#include "lib/placement/propagate/JointCosts.h"
#include "lib/placement/propagate/Propagate.h"

#include "llvm/Support/JSON.h"

namespace cleave::placement::propagate {

/// A value, taken otherwise than it is made; once for all uses that take it alike.
struct Redistributed {
  unsigned value;
  dist::PlacementAttr from, to;
  /// Uses, by number.
  llvm::SmallVector<unsigned, 2> uses;
  /// Null if nothing gets there.
  const Redistribution *plan;
  double seconds = 0;
};

class Explanation {
public:
  explicit Explanation(const Propagation &propagation);

  /// Emits a remark for each tensor and each redistribution.
  void emitRemarks() const;
  /// Emits a remark for each op that runs replicated because it has no sharding rule: which
  /// operator it is, and what is sent for it.
  void emitReplicatedRemarks() const;
  llvm::json::Value toJSON() const;

private:
  enum class Kind { Annotation, Tied, Follows, Cheapest, Only };
  struct Reason {
    Kind kind;
    std::string text;
    /// The value it follows, and the one whose annotation all of this originates from.
    unsigned from = kNone, root = kNone;
    /// The annotation's place, or the op's by which it follows.
    std::optional<mlir::Location> loc;
  };
  Reason reasonFor(unsigned value, unsigned axis) const;
  Reason reasonForPort(const Port &port, unsigned axis) const;
  std::optional<Reason> follows(unsigned value, unsigned axis) const;
  /// The value whose annotation has led to dimension `dim` of `value`, which something has.
  unsigned findRoot(unsigned value, unsigned dim, unsigned axis) const;
  llvm::json::Array costsOf(const ValueNode &value, unsigned axis) const;
  llvm::json::Object describeValue(unsigned value) const;
  std::string nameOf(unsigned value) const;
  void findRedistributions();

  const Propagation &p;
  const Graph &graph;
  mutable RedistributionPlanner planner;
  JointCosts costs;
  /// What `findRoot` has found so far, by axis: ways back are as long as the program.
  mutable std::vector<llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned>> roots;
  std::vector<Redistributed> redistributions;
};

/// Why the op can only run replicated; null if it has a rule or a form.
const char *reasonToReplicate(mlir::Operation *op);
/// "'aten::roll'", also where it is a call.
std::string operatorName(mlir::Operation *op);

/// Writes the JSON; emits an error at the module where the file cannot be written.
llvm::LogicalResult writeExplanation(const Explanation &explanation, llvm::StringRef path,
                                     mlir::ModuleOp module);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_EXPLAIN_H
