//===- Replication.h - whether equal values are equal --------------*- C++ -*-===//
//
// `--check replicated`: of what ops make, all ranks tell each other hashes of what the types call
// equal (R and I), those of some dozen values at a time, and look for two neighbours along such an
// axis that differ. All ranks see all hashes, so that all of them stop there, with the same
// message: it names the first op that made something different.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_REPLICATION_H
#define CLEAVE_RUNTIME_EXEC_REPLICATION_H

#include "cleave/Session.h"
#include "runtime/exec/Instruction.h"
#include "runtime/ranks/RankGrid.h"

#include "mlir/IR/Value.h"
#include "llvm/Support/xxhash.h"

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
  /// Bytes of its type: the same number on all ranks.
  int64_t bytes = 0;
};

/// What `value` promises, as its type says; nothing if `axes` is empty.
ReplicatedValue describeReplication(mlir::Value value, uint32_t slot, std::string name,
                                    const RankGrid &grid);

/// Compares values over all ranks, several at a time: an exchange takes longer than most ops.
class ReplicationChecker {
public:
  explicit ReplicationChecker(RankGrid &grid) : grid(grid) {}

  /// Forgets what has not been compared, of a run that failed.
  void begin() { pending.clear(), pendingBytes = 0; }
  /// Notes values, and compares what is noted if that is enough. `values` stay. Throws as
  /// `compare`.
  void check(llvm::ArrayRef<ReplicatedValue> values, const Frame &frame, const std::string &where);
  /// Throws a CommunicationFailure on all ranks if a noted value is not what it promises; it begins
  /// with the `where` of the first. Collective.
  void compare();

private:
  /// A value as it was.
  struct Noted {
    const ReplicatedValue *value;
    std::string where;
    at::Tensor tensor; ///< on the host, contiguous
    llvm::XXH128_hash_t hash;
  };
  /// Two ranks that differ along one axis of a value, and in their data.
  struct Mismatch {
    size_t value, axis;
    int left, right;
  };
  std::optional<Mismatch> findMismatch(const at::Tensor &hashes) const;
  llvm::Expected<std::string> describe(const Mismatch &mismatch);

  RankGrid &grid;
  std::vector<Noted> pending;
  int64_t pendingBytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_REPLICATION_H
