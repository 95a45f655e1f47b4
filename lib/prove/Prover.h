//===- Prover.h - the two programs, and what is known of them -------*- C++ -*-===//

#ifndef CLEAVE_LIB_PROVE_PROVER_H
#define CLEAVE_LIB_PROVE_PROVER_H

#include "dialects/train/Program.h"
#include "lib/prove/Evaluator.h"
#include "lib/prove/Prove.h"

namespace cleave::prove {

/// A function of a program, and the part of a step to which it belongs.
struct Part {
  enum Kind : uint8_t { Microbatch, Reduce, Update, Plain } kind;
  mlir::func::FuncOp function;
};

/// A result of a program: what it is called, and its tensor type.
struct Result {
  Part part;
  unsigned number;
  mlir::Value returned;
};

class Prover {
public:
  Prover(mlir::ModuleOp global, mlir::ModuleOp local) : global(global), local(local) {}
  mlir::FailureOr<Proof> run(std::chrono::steady_clock::time_point deadline);

private:
  mlir::ModuleOp global, local;
  Terms terms;
  llvm::StringSet<> lookUps;
  llvm::SmallVector<Axis> axes;
  Proof proof;
  std::optional<Evaluator> globalEvaluator, localEvaluator;

  /// By name: the argument as both programs see it.
  struct Argument {
    Tensor global, local;
    dist::PlacementAttr placement;
  };
  llvm::StringMap<Argument> arguments;
  llvm::StringMap<mlir::RankedTensorType> globalTypes;
  llvm::StringMap<Tensor> globalResults;
  llvm::DenseMap<mlir::Value, Tensor> localValues;
  llvm::DenseMap<mlir::Operation *, std::string> unknowns;
  /// Values that pass from one function to another, of LOCAL: the argument, and what was returned.
  llvm::DenseMap<mlir::Value, mlir::Value> passed;

  void outOfScope(const llvm::Twine &reason) {
    if (proof.outOfScope.empty())
      proof.outOfScope = reason.str();
  }
  /// Whether LOCAL is a program of ranks, of which attributes say how values lie, and not one of
  /// one device, where they say how values will lie.
  bool communicates = false;

  dist::PlacementAttr placementOf(mlir::BlockArgument argument);
  dist::PlacementAttr resultPlacement(mlir::func::FuncOp function, unsigned result);
  mlir::FailureOr<llvm::SmallVector<Part>> getParts(mlir::ModuleOp module);
  void readMesh();
  void readArguments(llvm::ArrayRef<Part> parts);
  bool readArgument(llvm::StringRef name, mlir::BlockArgument argument,
                    mlir::RankedTensorType globalType);
  void checkTies(llvm::ArrayRef<Part> parts);
  std::optional<Tensor> toLocal(Tensor value, dist::PlacementAttr placement);
  void walk(llvm::ArrayRef<Part> parts, bool isLocal, std::vector<Result> *results);
  void compare(const Result &result);
  void explain(const Tensor &found, const Tensor &expected, const Result &result, Finding &finding);
  void blame(const Result &result, size_t numGlobalTerms, Finding &finding);
};

llvm::StringRef nameOf(Part::Kind kind);
/// Whether the value passes from one function of a microbatch to another.
bool passesOn(train::RoleAttr role);
/// The name of a value with this role, in all functions of both programs.
std::string nameOf(train::RoleAttr role);
/// The same, for a value that the part takes: of gradients each part has its own.
std::string nameOf(Part part, train::RoleAttr role, unsigned number);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_PROVER_H
