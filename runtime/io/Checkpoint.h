//===- Checkpoint.h - the saved state of a training run ----------*- C++ -*-===//
//
// A checkpoint is a directory `step-00000020` with
//   model.safetensors      the model's state dict
//   loss.safetensors       that of a loss module that has one
//   optimizer.safetensors  optimizer state as NAME.SLOT, and what else changes from step to step
//   state.json             what else the next step depends on, and a hash of each file
// The ranks of a sharded program write, in place of one file of tensors, each a file of what they
// hold, `model-00001-of-00004.safetensors`, and the first an index of them (PartedTensors.h).
// It is written under another name and renamed when all of it is on the disk, so a directory of
// this name is whole, whenever the run was killed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_CHECKPOINT_H
#define CLEAVE_RUNTIME_IO_CHECKPOINT_H

#include "cleave/LossScale.h"
#include "runtime/io/EvaluationHistory.h"
#include "runtime/io/PartedTensors.h"
#include <array>
#include <optional>

namespace cleave::runtime {

/// The contents of state.json.
struct CheckpointState {
  /// Steps completed.
  int64_t step = 0;
  /// Seed of random ops and of the order of the data.
  uint64_t seed = 0;
  /// Random numbers drawn so far (docs/ir.md, Random numbers).
  int64_t rngOffset = 0;
  int64_t microbatches = 1;
  int64_t ranks = 1;
  /// Program::fingerprint().
  std::string programFingerprint;
  /// The `--data` argument, DataSource::fingerprint(), and examples consumed.
  std::string data;
  uint64_t dataFingerprint = 0;
  int64_t dataPosition = 0;
  /// Learning rates of `step`, as metrics have them; empty in checkpoints of before they were
  /// noted.
  std::vector<double> learningRates;
  EvaluationHistory evaluations;
  /// Of a program that scales its loss.
  std::optional<LossScale> lossScale;
};

/// A checkpoint that has been opened and whose files have the hashes that state.json gives.
struct Checkpoint {
  std::string path;
  CheckpointState state;
  std::unique_ptr<TensorSet> model, optimizer;
  std::unique_ptr<TensorSet> loss; ///< null where the loss has no state
};

/// The sets of tensors that a checkpoint has.
enum class CheckpointGroup : uint8_t { Model, Loss, Optimizer };
inline constexpr size_t kNumCheckpointGroups = 3;
/// "model"
llvm::StringRef getGroupName(CheckpointGroup group);

/// By group: what a rank writes.
using CheckpointViews = std::array<std::vector<TensorView>, kNumCheckpointGroups>;
/// By group: where all ranks' parts are.
using CheckpointParts = std::array<std::vector<PartedTensor>, kNumCheckpointGroups>;

/// `model-00001-of-00004.safetensors`, what rank 0 of 4 writes.
std::string getPartFile(CheckpointGroup group, int rank, int ranks);

/// Writes a rank's parts to a checkpoint that the first rank has begun, in a directory that all of
/// them share. Gives what `CheckpointDirectory::finish` takes: sizes and hashes of the files.
llvm::Expected<std::string> writeCheckpointParts(llvm::StringRef directory, int64_t step, int rank,
                                                 int ranks, const CheckpointViews &views);

/// The checkpoints of one run in one directory.
class CheckpointDirectory {
public:
  /// Creates the directory if need be, checks that it can be written to, and takes its lock, which
  /// is held until the object goes: two runs cannot write to one directory. Removes what killed
  /// runs left half-written.
  static llvm::Expected<std::unique_ptr<CheckpointDirectory>> open(llvm::StringRef path);
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory &) = delete;
  CheckpointDirectory &operator=(const CheckpointDirectory &) = delete;

  /// Writes `step-N` for `state.step` and, with keepLast > 0, removes all but the newest keepLast
  /// and the one that `best` is a link to.
  llvm::Error write(const CheckpointState &state, llvm::ArrayRef<TensorView> model,
                    llvm::ArrayRef<TensorView> optimizer, int64_t keepLast = 0,
                    llvm::ArrayRef<TensorView> loss = {}) const;

  /// The same by all ranks, each its parts: the first one begins it, then all of them write, then
  /// the first one ends it with the ranks' reports. Only then is it there.
  llvm::Error begin(int64_t step) const;
  llvm::Error finish(const CheckpointState &state, const CheckpointParts &parts,
                     llvm::ArrayRef<std::string> reports, int64_t keepLast = 0) const;

  /// Removes all but the newest `keepLast` and the one that `best` is a link to.
  llvm::Error removeOld(int64_t keepLast) const;

private:
  llvm::Error publish(const CheckpointState &state, llvm::json::Object files,
                      int64_t keepLast) const;

  CheckpointDirectory() = default;
  std::string path;
  int lock = -1;
};

/// Steps of the complete checkpoints in a directory, ascending. A directory that does not exist has
/// none.
llvm::Expected<std::vector<int64_t>> listCheckpoints(llvm::StringRef directory);
/// `DIRECTORY/step-00000020`.
std::string getCheckpointPath(llvm::StringRef directory, int64_t step);
/// Where it is until it is whole: `DIRECTORY/.step-writing-20`.
std::string getUnfinishedPath(llvm::StringRef directory, int64_t step);
/// `CHECKPOINT/model.safetensors`.
std::string getCheckpointModel(llvm::StringRef checkpoint);
/// The loss's tensors in a checkpoint, which not every one has: null then.
llvm::Expected<std::unique_ptr<TensorSet>> openCheckpointLoss(llvm::StringRef checkpoint);
/// Opens the checkpoint and checks state.json, the index and all files' sizes; and of the files'
/// hashes those that fall to `rank` of `ranks` that read it together.
llvm::Expected<Checkpoint> readCheckpoint(llvm::StringRef path, int rank = 0, int ranks = 1);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_CHECKPOINT_H
