//===- ProgramImpl.h - the data of a loaded program ---------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_PROGRAMIMPL_H
#define CLEAVE_RUNTIME_PROGRAM_PROGRAMIMPL_H

#include "cleave/Program.h"
#include "dialects/train/RankClasses.h"
#include "runtime/program/ProgramSchedule.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"

#include <array>

namespace cleave::runtime {

/// Names, roles and types of one function's arguments and results.
struct Signature {
  std::vector<ValueInfo> arguments;
  std::vector<ValueInfo> results;
};

/// One function of a program.
struct PhaseFunction {
  Phase phase;
  mlir::func::FuncOp function;
  Signature signature;
  /// Its pipeline stage; 0 in a program that is not in stages.
  int64_t stage = 0;
};

/// A function that custom actions of the program's schedule run (ActionFunctions.h).
struct ActionFunction {
  std::string name;
  /// Its phase is Action.
  PhaseFunction part;
  /// The ranks along the pipeline axis whose lists call it.
  llvm::SmallVector<unsigned, 1> ranks;
};

class Program::Impl {
public:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The functions of all classes of ranks; `functions` are those of this rank.
  llvm::SmallVector<train::ProgramClass, 1> classes;
  train::ProgramFunctions functions;

  std::string path, name, fingerprint;
  /// In the order in which a step runs them.
  std::vector<PhaseFunction> phaseFunctions;
  /// By phase, over all stages; that of a microbatch is there in every form.
  std::array<Signature, kNumPhases> signatures;
  llvm::SmallVector<Phase, 3> microbatchPhases;
  std::vector<ValueInfo> weights, optimizerStates, inputs, outcomes;
  std::vector<MeshAxis> mesh;
  std::optional<ProgramSchedule> schedule;
  /// In the order in which the schedule's lists name them.
  std::vector<ActionFunction> actionFunctions;
  int64_t draws = 0;
  bool isTyped = false;

  const Signature &signature(Phase phase) const { return signatures[size_t(phase)]; }
  /// Whether one of the functions has such an op.
  template <typename Op> bool contains() const {
    return llvm::any_of(phaseFunctions, [](const PhaseFunction &part) {
      return mlir::func::FuncOp(part.function)
          .walk([](Op) { return mlir::WalkResult::interrupt(); })
          .wasInterrupted();
    });
  }
};

/// Reads names, roles, types and the mesh from the verified module into `impl`, as they are for the
/// rank at `place`.
llvm::Error readSignature(Program::Impl &impl, RankPlace place);

/// The signature of one function, whose arguments and results all have roles.
Signature readSignature(mlir::func::FuncOp function);

/// 40 hex digits of SHA-1 over the module's text without locations.
std::string computeFingerprint(mlir::ModuleOp module);

/// The element type of a tensor in a verified program.
DType toDType(mlir::Type element);
TensorType toTensorType(mlir::Type type);

/// Where an op comes from, for messages and traces: "h.0.attn.c_attn (gpt.py:57)".
std::string describeLocation(mlir::Location location);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_PROGRAMIMPL_H
