//===- LocalValues.h - the local forms of a program's values --------*- C++ -*-===//
//
// Each value of the global function has a local one, as it was made, and others: redistributed for
// those who take it in another placement. Each of these is made once, before its first user.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H

#include "lib/placement/partition/Partition.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::placement {

class LocalValues {
public:
  /// New ops come where `builder` stands, which only moves on.
  LocalValues(mlir::OpBuilder &builder, PartitionContext &context)
      : builder(builder), context(context) {}

  /// `local` is how `global` is made. Values that are not tensors have one form.
  void define(mlir::Value global, mlir::Value local);
  /// The value as `user`, an op of the global program, takes it. Failure after an error at it.
  mlir::FailureOr<mlir::Value> get(mlir::Value global, llvm::ArrayRef<dist::AxisPlacement> target,
                                   mlir::Operation *user);

private:
  /// What a value is asked for: a placement, and in which part of the program where that matters.
  struct Wish {
    mlir::Value global;
    AxisPlacements target;
    bool inBackward;
  };
  /// One form of a value.
  struct Form {
    mlir::Value local;
    AxisPlacements entries;
    /// For a parameter that is gathered again for the backward: valid there only.
    bool inBackward;
  };
  /// The form that leads to another one with the least communication.
  struct Way {
    mlir::Value local;
    const Redistribution *plan = nullptr;
  };
  /// How to make a value from the source of the view that it is.
  struct ViewWay {
    AxisPlacements source;
    llvm::SmallVector<AxisStrategy, 2> strategies;
  };

  Wish makeWish(mlir::Value global, llvm::ArrayRef<dist::AxisPlacement> target,
                mlir::Operation *user) const;
  /// Nothing if no form leads there.
  std::optional<Way> findWay(const Wish &wish);
  /// What a rank sends until the wish is fulfilled, in bytes; none if there is no way.
  std::optional<int64_t> estimate(const Wish &wish);
  std::optional<ViewWay> throughView(const Wish &wish);
  mlir::FailureOr<mlir::Value> make(const Wish &wish, mlir::Operation *user);
  mlir::FailureOr<mlir::Value> makeThroughView(const Wish &wish, const ViewWay &way,
                                               mlir::Operation *user);
  mlir::Value redistribute(const Way &way, mlir::Value global, mlir::Operation *user);

  mlir::OpBuilder &builder;
  PartitionContext &context;
  /// By global value: as it was made first, then the others. What is not a tensor has one.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Form, 1>> forms;
  /// Made from one parameter alone, element by element or as a view.
  llvm::DenseSet<mlir::Value> ofParameter;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H
