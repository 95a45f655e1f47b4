//===- RankGrid.h - the program's mesh over the ranks that run it --*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_RANKS_RANKGRID_H
#define CLEAVE_RUNTIME_RANKS_RANKGRID_H

#include "cleave/Session.h"
#include "runtime/comm/RankGroup.h"

namespace cleave::runtime {

/// Places this process on the program's mesh. Ranks are numbered in row-major order: the last axis
/// varies fastest.
class RankGrid {
public:
  /// `world` may be null: one rank. Fails if the mesh and the number of ranks do not fit.
  static llvm::Expected<std::unique_ptr<RankGrid>> create(llvm::ArrayRef<MeshAxis> mesh,
                                                          Communicator *world);
  /// The ranks on the program's mesh. One rank alone needs no pipeline axis: it runs all stages.
  static llvm::Expected<std::unique_ptr<RankGrid>> create(const Program &program,
                                                          Communicator *world);

  int rank() const { return world ? world->rank() : 0; }
  int ranks() const { return world ? world->size() : 1; }
  Communicator *communicator() const { return world; }

  /// Place along `axes` together, and how many places there are.
  Session::BatchPart along(llvm::ArrayRef<std::string> axes) const;

  /// Ranks along an axis, and this rank's place on it; 1 and 0 for an axis that the mesh has not.
  int64_t size(llvm::StringRef axis) const;
  int64_t coordinate(llvm::StringRef axis) const { return coordinate(axis, rank()); }
  /// The place of any rank.
  int64_t coordinate(llvm::StringRef axis, int rank) const;

  /// How far apart in rank neighbours along the axis are; 0 for an axis that the mesh has not.
  int64_t stride(llvm::StringRef axis) const;
  /// In the mesh's order.
  std::vector<std::string> axisNames() const;

  /// Place along `axes` together in their row-major order as given: what `dist.axis_index` is.
  int64_t index(llvm::ArrayRef<std::string> axes) const;
  /// What this rank holds of a dimension of size `whole` that `axes`, major first, shard.
  Part part(int64_t whole, llvm::ArrayRef<std::string> axes) const {
    return part(whole, axes, rank());
  }
  /// What any rank holds of it.
  Part part(int64_t whole, llvm::ArrayRef<std::string> axes, int rank) const;

  /// The ranks that differ from this one along `axes` only, in row-major order of `axes` as given.
  /// All ranks ask for the same groups in the same order: it may connect them. Groups of different
  /// lanes do not share a communicator, so the order of operations matters within a lane only.
  llvm::Expected<RankGroup> group(llvm::ArrayRef<std::string> axes, llvm::StringRef lane = {});

private:
  struct Axis {
    std::string name;
    int64_t size;
    int64_t coordinate;
    int64_t stride;
  };
  const Axis *find(llvm::StringRef name) const;

  Communicator *world = nullptr;
  /// This rank as a group of its own.
  std::unique_ptr<Communicator> alone = makeSingleRankCommunicator();
  std::vector<Axis> axes;
  struct Subgroup {
    std::vector<int> members;
    std::string lane;
    std::unique_ptr<Communicator> communicator;
  };
  std::vector<Subgroup> subgroups;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANKS_RANKGRID_H
