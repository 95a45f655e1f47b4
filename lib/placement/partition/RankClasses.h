//===- RankClasses.h - ranks that hold parts of the same sizes ------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_RANKCLASSES_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_RANKCLASSES_H

#include "lib/placement/partition/Partition.h"

namespace cleave::placement {

/// Ranks for which the same functions serve.
struct RankClass {
  /// `train.ranks` of the functions; null if there is only this class.
  mlir::DictionaryAttr ranks;
  /// The mesh's axes, at the places of one of the ranks.
  llvm::SmallVector<MeshAxis> axes;
};

/// The classes of the ranks of a placed program: where an axis shards no dimension unevenly, all
/// places along it are alike; else those with equal parts of every dimension. In the order of
/// their first ranks.
llvm::SmallVector<RankClass> findRankClasses(llvm::ArrayRef<mlir::func::FuncOp> functions,
                                             llvm::ArrayRef<MeshAxis> axes);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_RANKCLASSES_H
