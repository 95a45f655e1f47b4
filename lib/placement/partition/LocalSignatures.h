//===- LocalSignatures.h - the types of local functions -------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSIGNATURES_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSIGNATURES_H

#include "lib/placement/partition/Partition.h"

#include "dialects/train/Program.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave::placement {

/// The types of a function's arguments and results on one rank.
struct LocalSignature {
  llvm::SmallVector<mlir::Type> arguments;
  llvm::SmallVector<mlir::Type> results;
  /// How each result is to lie, by axis.
  llvm::SmallVector<AxisPlacements> resultEntries;
};

/// The signatures of all functions of a program. What is R in the placed program is R or I here, as
/// rules 6 and 7 of docs/types.md demand: a loss is I, and so is a parameter whose gradient all
/// ranks have whole.
class LocalSignatures {
public:
  LocalSignatures(llvm::ArrayRef<mlir::func::FuncOp> functions, const PartitionContext &context)
      : functions(functions), context(context) {}

  /// Emits an error if a function is not completely placed, a dimension does not divide evenly,
  /// or functions disagree about what they hand each other.
  mlir::LogicalResult run();

  const LocalSignature &of(mlir::func::FuncOp function) const {
    return signatures.find(function)->second;
  }

private:
  struct Port {
    mlir::func::FuncOp function;
    unsigned number;
    bool isResult;
    train::RoleAttr role;
    AxisPlacements entries;

    mlir::InFlightDiagnostic error() const;
    mlir::Type type() const;
  };
  mlir::LogicalResult collect();
  mlir::LogicalResult compareFunctions();
  mlir::LogicalResult findInvariants();
  mlir::LogicalResult makeTypes();
  bool isInvariant(const Port &port, unsigned axis) const;

  llvm::ArrayRef<mlir::func::FuncOp> functions;
  const PartitionContext &context;
  llvm::SmallVector<Port> ports;
  /// By parameter's name: on which axes it and what belongs to it are I.
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<bool, 2>> invariants;
  /// The axes on which the loss is a pending sum.
  llvm::SmallVector<bool, 2> lossIsPartial;
  llvm::DenseMap<mlir::Operation *, LocalSignature> signatures;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSIGNATURES_H
