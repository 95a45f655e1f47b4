//===- RankGrid.h - the program's mesh over the ranks that run it --*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_RANKGRID_H
#define CLEAVE_RUNTIME_EXEC_RANKGRID_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// Places this process on the program's mesh. Ranks are numbered in row-major order: the last axis
/// varies fastest.
class RankGrid {
public:
  /// `world` may be null: one rank. Fails where the mesh and the number of ranks do not fit.
  static llvm::Expected<std::unique_ptr<RankGrid>> create(llvm::ArrayRef<MeshAxis> mesh,
                                                          Communicator *world);

  int rank() const { return world ? world->rank() : 0; }
  int ranks() const { return world ? world->size() : 1; }
  Communicator *communicator() const { return world; }

  /// Place along `axes` together, and how many places there are.
  Session::BatchPart along(llvm::ArrayRef<std::string> axes) const;

  /// The ranks that differ from this one along `axes` only; null where that is this rank alone.
  /// All ranks ask for the same groups in the same order.
  llvm::Expected<Communicator *> group(llvm::ArrayRef<std::string> axes);

private:
  struct Axis {
    std::string name;
    int64_t size;
    int64_t coordinate;
    int64_t stride;
  };
  Communicator *world = nullptr;
  std::vector<Axis> axes;
  struct Subgroup {
    std::vector<int> members;
    std::unique_ptr<Communicator> communicator;
  };
  std::vector<Subgroup> subgroups;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANKGRID_H
