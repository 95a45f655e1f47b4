//===- SessionImpl.h - state of a session, and how steps use it ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_SESSIONIMPL_H
#define CLEAVE_RUNTIME_EXEC_SESSIONIMPL_H

#include "runtime/exec/Executor.h"
#include "runtime/exec/RandomStream.h"
#include "runtime/exec/RankGrid.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::runtime {

class SessionImpl {
public:
  static llvm::Expected<std::unique_ptr<SessionImpl>> create(const Program &program,
                                                             const SessionOptions &options);

  llvm::Error runMicrobatch(int64_t step, int64_t index);
  llvm::Error runUpdate(int64_t step);
  llvm::Expected<ConstTensorRef> result(llvm::StringRef fileName);

  const Program *program = nullptr;
  SessionOptions options;
  std::unique_ptr<RankGrid> ranks;
  Session::BatchPart part;

  /// By their index in `program->weights()`, `optimizerStates()` and `inputs()`.
  std::vector<at::Tensor> weights, optimizerStates, inputs;
  /// By index of the microbatch function's result; state among them is moved to the above.
  std::vector<c10::IValue> results;

  /// State-dict names, aliases included; `parameter` and slot joined by a line feed; input names.
  llvm::StringMap<size_t> weightIndex, stateIndex, inputIndex;
  static std::string stateKey(llvm::StringRef parameter, llvm::StringRef slot) {
    return (parameter + "\n" + slot).str();
  }

private:
  /// Where an argument comes from, or a result goes.
  struct Place {
    enum Kind : uint8_t { Weight, State, Input, Result, Seed, Step, RngSeed, RngOffset } kind;
    size_t index = 0;
    /// An argument that a result replaces: the function may overwrite it.
    bool isTied = false;
  };

  llvm::Error allocateState();
  llvm::Error checkMicrobatches() const;
  llvm::Error bindPhase(Phase phase, std::unique_ptr<Executor> &executor,
                        std::vector<Place> &argumentPlaces, std::vector<Place> &resultPlaces);
  llvm::Expected<Place> placeArgument(const ValueInfo &value) const;
  Place placeResult(const ValueInfo &value, size_t index) const;
  void fillArguments(Executor &executor, const std::vector<Place> &places, bool isFirst);
  llvm::Error storeResults(std::vector<c10::IValue> values, const std::vector<Place> &places);
  at::Tensor *state(const Place &place);

  Services services;
  RandomStream random;
  std::unique_ptr<Executor> microbatch, update;
  std::vector<Place> microbatchArguments, microbatchResults, updateArguments, updateResults;
  llvm::StringMap<size_t> gradientIndex; ///< parameter's name -> result of the microbatch
  llvm::StringMap<size_t> resultIndex;   ///< file name -> result of the microbatch
  at::Tensor seed, step, rngSeed, rngOffset;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_SESSIONIMPL_H
