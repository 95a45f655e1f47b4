//===- Apply.h - a plan as attributes of a program ------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PLAN_APPLY_H
#define CLEAVE_LIB_PLACEMENT_PLAN_APPLY_H

#include "lib/placement/plan/Annotations.h"

#include "dialects/train/Program.h"

namespace cleave::placement {

/// The module path of an op or argument: the outermost name in its location, "" where it has none.
llvm::StringRef getModulePath(mlir::Location location);

/// Whether a parameter of this name belongs to a module that the pattern matches, or to one inside
/// such; with `directly` only to the former.
bool isNameIn(llvm::StringRef name, llvm::StringRef pattern, bool directly = false);
/// The products by group that a weight is a matrix of, after what joins, casts and transposes it.
void findGroupedProducts(mlir::Value weight, llvm::SmallVectorImpl<mlir::OpOperand *> &products);
/// Whether the op belongs to a module that the pattern matches, or to one inside such.
bool isInModules(mlir::Operation *op, llvm::StringRef pattern);

/// For messages: "a, b, c, ... (9 in all)", "none".
std::string listSome(llvm::ArrayRef<llvm::StringRef> names);

/// Applies the rules of a plan to a program, those of the whole program last, since they give way.
/// Fails, with an error that names the rule, where one matches nothing, names an axis that the mesh
/// lacks, or disagrees with another.
class PlanApplier {
public:
  /// `uneven`: parameters may be sharded into parts of different sizes.
  PlanApplier(dist::MeshOp mesh, const train::ProgramFunctions &program, Annotations &annotations,
              bool uneven = false);

  llvm::LogicalResult apply(const Plan &plan);

private:
  /// An argument or result of a function, with its role.
  struct Named {
    mlir::func::FuncOp function;
    train::RoleAttr role;
    Site site;
    bool isArgument;
  };
  /// One parameter: its arguments and gradients in all functions.
  struct Parameter {
    std::string name;
    llvm::SmallVector<std::string, 1> aliases;
    mlir::RankedTensorType type;
    llvm::SmallVector<mlir::Value, 2> values;
    llvm::SmallVector<mlir::Value, 1> gradients;
    llvm::SmallVector<mlir::OpOperand *, 1> updated;

    /// Whether it belongs to a module that the pattern matches, or to one inside such.
    bool isIn(llvm::StringRef pattern, bool directly) const;
  };

  void collect(const train::ProgramFunctions &program);
  llvm::LogicalResult checkAxes(const PlanRule &rule) const;
  llvm::LogicalResult apply(const PlanRule &rule);
  llvm::LogicalResult applyArguments(const PlanRule &rule);
  llvm::LogicalResult applyOps(const PlanRule &rule);
  /// Places a value as a rule says, axis by axis in the order of the mesh.
  llvm::LogicalResult placeAll(Site site, const PlannedPlacement &placement, const PlanRule &rule);

  // Styles of modules (ModuleStyles.cpp).
  llvm::LogicalResult applyTensorParallel(const PlanRule &rule);
  llvm::LogicalResult applyExpert(const PlanRule &rule);
  llvm::LogicalResult applySequence(const PlanRule &rule);
  llvm::LogicalResult cutParameter(const Parameter &parameter, int64_t dim, const PlanRule &rule);
  llvm::LogicalResult keepCut(const Parameter &parameter, const PlanRule &rule);
  /// Experts that are modules of their own, whose weights the program stacks: a rank stores a part
  /// of each, and multiplies by its experts' whole ones. False where this is no such weight.
  llvm::FailureOr<bool> cutStacked(const Parameter &parameter, const PlanRule &rule);
  llvm::LogicalResult replicateParameter(const Parameter &parameter, const PlanRule &rule,
                                         Annotations::Strength strength);
  /// Whether one of the modules' ops uses a parameter of theirs. It is the modules' parent that
  /// does where it reads the weight, and does not call the module (a projection without a bias,
  /// say, whose parent makes the bias).
  bool isCalled(const Parameter &parameter, llvm::StringRef pattern) const;
  bool isCallerOf(const Parameter &parameter, mlir::Operation *op) const;
  bool isOwnUse(const Parameter &parameter, bool called, mlir::Operation *op,
                llvm::StringRef pattern) const;

  // Styles of the whole program (ProgramStyles.cpp).
  llvm::LogicalResult applyProgramStyle(const PlanRule &rule);
  llvm::LogicalResult divideInputs(llvm::StringRef axis, const PlanRule &rule);
  llvm::LogicalResult divideSequence(const PlanRule &rule);
  /// Ranks over which rules shard a parameter fully.
  int64_t countShardingRanks(const Parameter &parameter) const;
  /// How a parameter is sharded over an axis where no rule says along which dimension.
  dist::AxisPlacement chooseSharding(const Parameter &parameter, llvm::StringRef axis) const;
  llvm::LogicalResult shardParameters(const PlanRule &rule, std::optional<int64_t> dim);
  llvm::LogicalResult placeParameter(const Parameter &parameter, llvm::StringRef axis,
                                     dist::AxisPlacement placement, const PlanRule &rule);

  std::string listModules() const;
  mlir::InFlightDiagnostic fail(const PlanRule &rule) const;

  dist::MeshOp mesh;
  Annotations &annotations;
  bool uneven;
  std::vector<Named> named;
  std::vector<Parameter> parameters;
  /// The functions that run for each microbatch.
  llvm::SmallVector<mlir::func::FuncOp, 3> functions;
  /// The rules by which parameters are fully sharded.
  llvm::SmallVector<const PlanRule *, 2> sharding;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PLAN_APPLY_H
