//===- Program.h - a loaded training program and its signature -----*- C++ -*-===//
//
// A program is read from text or bytecode, verified, and described by the roles of its arguments
// and results (`docs/ir.md`). It is immutable; sessions run it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PROGRAM_H
#define CLEAVE_PROGRAM_H

#include "cleave/Tensor.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class MemoryBuffer;
} // namespace llvm

namespace cleave::runtime {

/// Parts of a training step; each is a function of the program (`docs/ir.md`). A microbatch is one
/// function, or a forward with its backward or the backward's two halves.
enum class Phase : uint8_t {
  Microbatch,
  Update,
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Unshard,
  Reduce,
  Action ///< a function that a schedule's custom actions run; none of the phases of a step
};
inline constexpr size_t kNumPhases = 9;
/// "backward_input"
llvm::StringRef getPhaseName(Phase phase);

/// What an argument or result is to a step (the table in `docs/ir.md`).
enum class RoleKind : uint8_t {
  Parameter,
  Buffer,
  Constant,
  Input,
  Target,
  Seed,
  Loss,
  Output,
  Accumulator,
  Gradient,
  OptimizerState,
  Step,
  RngSeed,
  RngOffset,
  Saved,
  Crossing,
  CrossingGradient,
  StageSum,
  LossScale
};

/// How a value of a typed function lies along one mesh axis (`docs/types.md`).
struct AxisPlacement {
  enum class Kind : uint8_t { Replicate, Partial, Invariant, Varying, Shard };
  std::string axis;
  Kind kind = Kind::Replicate;
  std::string reduction; ///< set for Partial: "sum", "avg", "max", "min", "product"
  int64_t dim = 0;       ///< set for Shard: the tensor's dimension
  int64_t order = 0;     ///< set for Shard: 0 is the major one of the axes that shard the dimension
};

/// One argument or result of a program function.
struct ValueInfo {
  RoleKind role = RoleKind::Input;
  std::string name; ///< empty for roles without one (loss, seed, step, ...)
  std::string slot; ///< optimizer state: "exp_avg", ...
  TensorType type;  ///< what this rank holds
  /// The shape of the tensor of all ranks, where they hold parts of different sizes; else each
  /// holds as much as this one.
  std::optional<llvm::SmallVector<int64_t, 4>> wholeShape;
  /// In a typed function, by axis; empty otherwise, and where no axis is mentioned.
  std::vector<AxisPlacement> placements;
  /// The dimension that counts examples; absent: the same tensor for every microbatch.
  std::optional<int64_t> batch;
  /// Mesh axes over whose ranks the examples are divided.
  std::vector<std::string> over;
  /// Further state-dict names of a tied parameter.
  std::vector<std::string> aliases;
  /// A parameter that takes no gradient.
  bool frozen = false;
  /// What lies in a bucket of gradients, in order; set if it is one. The type is then the buffer's.
  std::vector<ValueInfo> members;
  /// Of such a member: mesh axes over which its bucket is summed, whole, on each rank.
  std::vector<std::string> summedOver;
  /// The name in evaluation dumps: `loss`, `output.0`, `grad.w`, `param.w`, `optim.w.exp_avg`.
  std::string fileName;
};

/// One axis of the program's mesh; size 0 takes the ranks that the other axes leave.
struct MeshAxis {
  std::string name;
  int64_t size = 0;
};

/// Which of how many ranks loads a program.
struct RankPlace {
  int rank = 0;
  int ranks = 1;
};

/// The pipeline schedule of a program in stages (`docs/pipeline.md`).
struct ScheduleInfo {
  std::string name;         ///< "1f1b"
  std::string axis;         ///< the mesh axis along which stages are placed
  int64_t ranks = 1;        ///< along that axis
  int64_t microbatches = 1; ///< in a step, on the ranks that hold the stages together
  bool isForwardOnly = false;
};

class Program {
public:
  ~Program();
  Program(const Program &) = delete;

  /// The file it was read from.
  llvm::StringRef path() const;
  /// The module's name; the file's stem where it has none.
  llvm::StringRef name() const;
  /// 40 hex digits over everything but source locations: equal programs on all ranks have equal
  /// fingerprints, whether read from text or bytecode.
  llvm::StringRef fingerprint() const;

  bool hasUpdate() const;
  /// Whether types say how values lie on the mesh. Then a microbatch is that of all ranks together.
  bool isTyped() const;
  /// The functions that run for each microbatch, in this order: one of phase Microbatch, or a
  /// forward and its backward. In stages, each phase once.
  llvm::ArrayRef<Phase> microbatchPhases() const;
  /// Pipeline stages; 0 for a program that is not in stages.
  int64_t numStages() const;
  /// The schedule by which several ranks run the stages; null for a program without one. It has
  /// been proved for transfers that match by tag, as Gloo's do.
  const ScheduleInfo *schedule() const;
  /// Arguments and results in the order of the function; empty for a phase that it does not have.
  /// Where several stages have a function of the phase, what they take and give together.
  /// Those of Microbatch are there in every program: where a microbatch is several functions, what
  /// they take and give together, without what they save for each other.
  llvm::ArrayRef<ValueInfo> arguments(Phase phase) const;
  llvm::ArrayRef<ValueInfo> results(Phase phase) const;

  /// What a microbatch leaves, as evaluation dumps it: its results, with the gradients that lie in
  /// a bucket in the bucket's place.
  llvm::ArrayRef<ValueInfo> outcomes() const;

  /// What sessions keep and files store: parameters, buffers and constants, each once, in the
  /// order of the microbatch function.
  llvm::ArrayRef<ValueInfo> weights() const;
  /// Optimizer states, in the order of the update function.
  llvm::ArrayRef<ValueInfo> optimizerStates() const;
  /// Inputs and targets of one microbatch.
  llvm::ArrayRef<ValueInfo> inputs() const;

  /// Random numbers that one microbatch draws.
  int64_t draws() const;
  /// Axes of the mesh; empty for a program that has none, which one rank runs. That of the schedule
  /// is among them, the first one where the module's mesh does not have it.
  llvm::ArrayRef<MeshAxis> mesh() const;

  class Impl;
  const Impl &impl() const { return *pimpl; }

private:
  friend llvm::Expected<std::unique_ptr<Program>> parseProgram(std::unique_ptr<llvm::MemoryBuffer>,
                                                               RankPlace);
  explicit Program(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> pimpl;
};

/// Reads and verifies the program in `path`, text or bytecode. An error's text holds the
/// diagnostics with file, line and column. Where dimensions do not divide evenly, ranks have
/// functions of their own (`train.ranks`): the program is then that of `place` on the mesh.
llvm::Expected<std::unique_ptr<Program>> loadProgram(llvm::StringRef path, RankPlace place = {});
/// The same of a program in memory, which errors call by the buffer's name.
llvm::Expected<std::unique_ptr<Program>> parseProgram(std::unique_ptr<llvm::MemoryBuffer> buffer,
                                                      RankPlace place = {});

} // namespace cleave::runtime

#endif // CLEAVE_PROGRAM_H
