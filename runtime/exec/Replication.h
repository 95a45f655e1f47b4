//===- Replication.h - whether equal values are equal --------------*- C++ -*-===//
//
// `--check replicated`: after every op, all ranks tell each other hashes of what the types call
// equal (R and I), and look for two neighbours along such an axis that differ. All ranks see all
// hashes, so that all of them stop at the same op, with the same message.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_REPLICATION_H
#define CLEAVE_RUNTIME_EXEC_REPLICATION_H

#include "cleave/Session.h"
#include "runtime/exec/Instruction.h"
#include "runtime/exec/RankGrid.h"

#include "mlir/IR/Value.h"

namespace cleave::runtime {

/// A value that has the same bits on all ranks along some axes.
struct ReplicatedValue {
  uint32_t slot;
  /// For messages: "result 0", or the file name of an argument.
  std::string name;
  struct Axis {
    std::string name;
    char placement; ///< 'R' or 'I'
  };
  /// In the mesh's order, those with several ranks.
  std::vector<Axis> axes;
};

/// What `value` promises, as its type says; nothing where `axes` is empty.
ReplicatedValue describeReplication(mlir::Value value, uint32_t slot, std::string name,
                                    const RankGrid &grid);

/// Compares values over all ranks.
class ReplicationChecker {
public:
  explicit ReplicationChecker(RankGrid &grid) : grid(grid) {}

  /// Throws a CommunicationFailure that begins with `where` on all ranks if a value is not what it
  /// promises. Collective.
  void check(llvm::ArrayRef<ReplicatedValue> values, const Frame &frame, llvm::StringRef where);

private:
  /// Two ranks that differ along one axis of a value, and in their data.
  struct Mismatch {
    size_t value, axis;
    int left, right;
  };
  std::optional<Mismatch> findMismatch(llvm::ArrayRef<ReplicatedValue> values,
                                       const at::Tensor &hashes) const;
  llvm::Expected<std::string> describe(const at::Tensor &mine, const Mismatch &mismatch);

  RankGrid &grid;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_REPLICATION_H
