//===- Annotations.h - placements said so far, and by which rule ----*- C++ -*-===//
//
// Collects what rules say of values and uses, one mesh axis at a time, refuses what disagrees, and
// writes the attributes of Placed.h.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PLAN_ANNOTATIONS_H
#define CLEAVE_LIB_PLACEMENT_PLAN_ANNOTATIONS_H

#include "dialects/dist/Placed.h"
#include "lib/placement/plan/Plan.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PointerUnion.h"

namespace cleave::placement {

/// A value as it is made, or as one op takes it. What a return takes are the function's results.
using Site = llvm::PointerUnion<mlir::Value, mlir::OpOperand *>;

class Annotations {
public:
  enum class Strength {
    Explicit, ///< may not contradict another explicit one
    Default,  ///< gives way to explicit ones
  };

  explicit Annotations(dist::MeshOp mesh) : mesh(mesh) {}

  /// Takes what attributes say already, as explicit.
  void addExisting(mlir::func::FuncOp function);
  /// Says how the value lies along an axis of the mesh. Negative dimensions count from the end.
  /// Fails, with an error at the value, where the tensor has no such dimension or another rule
  /// disagrees. True if the placement now stands, false if an explicit one has gone before.
  llvm::FailureOr<bool> place(Site site, llvm::StringRef axis, dist::AxisPlacement placement,
                              const PlanRule &rule, Strength strength = Strength::Explicit);
  /// What is said of a value along an axis.
  std::optional<dist::AxisPlacement> get(Site site, llvm::StringRef axis) const;
  /// Whether an explicit rule places a value on an axis.
  bool isExplicit(Site site, llvm::StringRef axis) const;
  /// Ranks that divide dimension `dim` by what explicit rules have said.
  int64_t countExplicitShards(Site site, int64_t dim) const;
  /// Ranks along axes other than `axis` that divide it, by what any rule has said.
  int64_t countOtherShards(Site site, int64_t dim, llvm::StringRef axis) const;

  /// Writes the attributes. Fails, with an error, where placements that are right by themselves
  /// cannot stand together (pending reductions that do not commute).
  llvm::LogicalResult write();
  /// Values and uses that have a placement on some axis.
  size_t size() const { return sites.size(); }

private:
  struct Entry {
    std::string axis;
    dist::AxisPlacement placement;
    Strength strength;
    /// Null if an attribute of the program said it.
    const PlanRule *rule;
  };
  /// Major shards first: explicit ones in the order of the rules, then defaults.
  using Entries = llvm::SmallVector<Entry, 2>;

  int64_t countShards(Site site, int64_t dim, llvm::function_ref<bool(const Entry &)> counts) const;
  llvm::LogicalResult disagree(Site site, const Entry &old, const Entry &found) const;

  dist::MeshOp mesh;
  llvm::MapVector<Site, Entries> sites;
};

/// "parameter \"h.0.weight\"", "result 0 of 'aten.mm'", "operand 1 of 'aten.addmm'".
std::string describe(Site site);
mlir::Location getLoc(Site site);
mlir::Type getType(Site site);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PLAN_ANNOTATIONS_H
