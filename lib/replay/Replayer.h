//===- Replayer.h - a log against both programs -----------------*- C++ -*-===//

#ifndef CLEAVE_LIB_REPLAY_REPLAYER_H
#define CLEAVE_LIB_REPLAY_REPLAYER_H

#include "dialects/train/Train.h"
#include "lib/replay/Batches.h"
#include "lib/replay/Replay.h"
#include "lib/replay/Tensor.h"

#include <set>

namespace cleave::replay {

/// A function of a program: "microbatch", "reduce", "update", or of no phase.
struct Part {
  std::string phase;
  mlir::func::FuncOp function;
};

/// What an argument or a result holds: itself, or each member of a bucket.
struct Held {
  train::RoleAttr role;
  mlir::Type type;
  mlir::StringAttr bucket; ///< that of a member
};
train::BucketOp bucketOf(mlir::func::FuncOp function, mlir::Type type);
SmallVector<Held> heldBy(mlir::func::FuncOp function, mlir::Type type, train::RoleAttr role);

/// A bucket of gradients in a function.
struct Bucket {
  std::map<std::string, Tensor> members;
  std::set<std::string> contributed;
  bool isReduced = false;
};

/// One of the two programs.
struct Program {
  mlir::ModuleOp module;
  bool isLocal = false;
  SmallVector<Part> parts;
  bool communicates = false;
  /// The names of its arguments.
  llvm::StringSet<> takes;
  llvm::DenseMap<mlir::Value, Tensor> values;
  llvm::DenseMap<mlir::Value, Bucket> buckets;
  struct Result {
    Part part;
    unsigned number;
    Tensor value;
    dist::PlacementAttr placement;
  };
  std::multimap<std::string, Result> results;
};

class Replay {
public:
  Replay(const Log &log, Forms &forms, bool hasOwnBuffers)
      : log(log), forms(forms), ops(forms, axes, lookUps), hasOwnBuffers(hasOwnBuffers) {}
  Outcome outcome;
  void run(mlir::ModuleOp globalModule, mlir::ModuleOp localModule);

private:
  const Log &log;
  Forms &forms;
  SmallVector<Axis> axes;
  llvm::StringSet<> lookUps;
  Ops ops;
  bool hasOwnBuffers, hasOrders = false;
  Program global, local;
  Batches batches;
  /// The digits of the places that a value of either program may depend on.
  llvm::DenseSet<Var> globalDigits, localDigits;
  /// By name: how LOCAL's argument lies, and both programs' values.
  struct Argument {
    dist::PlacementAttr placement;
    Tensor global, local;
    mlir::StringAttr bucket;
  };
  std::map<std::string, Argument> arguments;
  llvm::DenseSet<TermId> unknowns;
  /// Sums over stages, as far as they are made, and those that have been taken.
  std::map<std::string, Tensor> stageSums;
  std::set<std::string> takenSums;
  unsigned numRankDigits = 0;

  bool fail(const llvm::Twine &problem, unsigned line = 0) {
    if (outcome.problem.empty()) {
      outcome.problem = problem.str();
      outcome.line = line;
    }
    return false;
  }
  std::string nameOf(train::RoleAttr role) {
    return (train::stringifyRoleKind(role.getKind()) + " " + role.getNameOrEmpty() + " " +
            role.getSlotOrEmpty())
        .str();
  }
  std::string nameOf(Part part, train::RoleAttr role, unsigned number, bool isResult) {
    if (!role)
      return (part.function.getName() + " argument " + llvm::Twine(number)).str();
    bool isOfPart = isResult || role.getKind() == train::RoleKind::Gradient ||
                    role.getKind() == train::RoleKind::Accumulator;
    return (isOfPart ? part.phase + " " : "") + nameOf(role);
  }
  bool readParts(Program &program);
  bool readMesh();
  dist::PlacementAttr placementOf(Program &program, mlir::func::FuncOp function, unsigned number,
                                  bool isResult);
  bool readArguments();
  bool readArgument(Part part, const Held &of, const std::string &name,
                    dist::PlacementAttr placement,
                    const std::map<std::string, mlir::RankedTensorType> &wholes);
  bool checkTies();
  bool checkStep();
  bool readBatches();
  bool checkBatches();
  SmallVector<Var> scatteredPlaces(dist::PlacementAttr placement);
  /// The places of which the value is a sum of terms, and the share of each.
  struct Terms {
    SmallVector<Var> places;
    Rational share = Rational(1);
  };
  std::optional<Terms> termsOf(dist::PlacementAttr placement);
  dist::PlacementAttr placementOf(Program &program, const Held &held, mlir::func::FuncOp function,
                                  unsigned number, bool isResult) {
    return held.bucket ? dist::getPlacement(held.type)
                       : placementOf(program, function, number, isResult);
  }
  std::optional<Tensor> toLocal(Tensor value, dist::PlacementAttr placement);
  bool walk(Program &program);
  bool walkBucket(Program &program, mlir::Operation *op);
  bool returnBucket(Program &program, Part part, mlir::OpOperand &operand);
  bool addResult(Program &program, train::RoleAttr role, Program::Result result);
  bool addStageTerm(train::RoleAttr role, const Tensor &term);
  bool checkSchedule();
  /// The first result of a microbatch that others make, too; of gradients what is added to a sum.
  const std::string *findDependent(bool ofGradients);
  bool isTrusted(mlir::Operation *op, llvm::StringRef step) const;
  Tensor valueOf(const Claim &claim);
  bool takeClaim(Program &program, mlir::Operation *op, const Claim &claim, const Tensor *made,
                 mlir::RankedTensorType type, Tensor &value);
  bool compareResults();
  std::optional<Tensor> sumOfCaller(llvm::StringRef result, const Tensor &value);
};

/// Whether the value goes from one function of a microbatch to another.
bool passesOn(train::RoleAttr role);
/// Whether it is a sum over stages.
bool isStageSum(train::RoleAttr role);
/// What a placement says of each axis; without it, and invariant, all ranks have the same.
dist::AxisPlacement on(dist::PlacementAttr placement, llvm::StringRef axis);

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_REPLAYER_H
