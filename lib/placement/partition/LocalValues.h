//===- LocalValues.h - the local forms of a program's values --------*- C++ -*-===//
//
// Each value of the global function has a local one, as it was made, and others: redistributed for
// those who take it in another placement. Each of these is made once, in front of its first user.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H

#include "lib/placement/partition/Partition.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

namespace cleave::placement {

class LocalValues {
public:
  /// New ops come where `builder` stands, which only moves on.
  LocalValues(mlir::OpBuilder &builder, PartitionContext &context)
      : builder(builder), context(context) {}

  /// `local` is how `global` is made. Values that are no tensors have one form.
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

    bool operator<(const Wish &other) const;
  };
  /// How to make a value from the source of the view that it is.
  struct ViewWay {
    AxisPlacements source;
    llvm::SmallVector<AxisStrategy, 2> strategies;
  };

  Wish makeWish(mlir::Value global, llvm::ArrayRef<dist::AxisPlacement> target,
                mlir::Operation *user) const;
  bool isMade(const Wish &wish) const;
  /// What a rank sends until the wish is fulfilled, in bytes; none where there is no way.
  std::optional<int64_t> estimate(const Wish &wish);
  std::optional<ViewWay> throughView(const Wish &wish);
  mlir::FailureOr<mlir::Value> make(const Wish &wish, mlir::Operation *user);
  mlir::Value redistribute(const Wish &wish, mlir::Operation *user);

  mlir::OpBuilder &builder;
  PartitionContext &context;
  llvm::DenseMap<mlir::Value, mlir::Value> originals;
  std::map<Wish, mlir::Value> others;
  /// Made from one parameter alone, element by element or as a view.
  llvm::DenseSet<mlir::Value> ofParameter;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_LOCALVALUES_H
