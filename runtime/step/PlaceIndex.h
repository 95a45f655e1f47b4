//===- PlaceIndex.h - the values of a program, numbered ------------*- C++ -*-===//
//
// Names are looked up here once, when functions are bound and when callers ask for values; steps
// use the indices.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STEP_PLACEINDEX_H
#define CLEAVE_RUNTIME_STEP_PLACEINDEX_H

#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/StageMap.h"
#include "runtime/step/Place.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::runtime {

/// Numbers the values that one rank's functions take and return, and gives each of their arguments
/// and results its Place. Immutable; the program outlives it.
class PlaceIndex {
public:
  PlaceIndex() = default;
  /// `keepsInputs`: microbatches have inputs of their own, which go with their last use.
  PlaceIndex(const Program &program, const StageMap &stages, bool keepsInputs);

  using Index = std::optional<size_t>;
  /// A parameter, buffer or constant by its state-dict name or one of its aliases.
  Index weight(llvm::StringRef name) const { return find(weights, name); }
  Index optimizerState(llvm::StringRef parameter, llvm::StringRef slot) const {
    return find(states, stateKey(parameter, slot));
  }
  Index input(llvm::StringRef name) const { return find(inputs, name); }
  /// A result by its file name. The results of the microbatch come first, in their order.
  Index result(llvm::StringRef fileName) const { return find(results, fileName); }
  Index stageSum(llvm::StringRef name) const { return find(stageSums, name); }
  /// A value that crosses the boundary between stages `boundary` and `boundary` + 1, among a
  /// microbatch's saved values.
  Index crossing(bool isForward, int64_t boundary, llvm::StringRef name) const {
    return find(saved, crossingKey(isForward, boundary, name));
  }

  size_t numResults() const { return accumulated.size(); }
  size_t numSaved() const { return saved.size(); }
  size_t numUnsharded() const { return unsharded.size(); }
  size_t numStageSums() const { return stageSums.size(); }
  /// Whether a result is a gradient to which each microbatch of a step adds.
  bool isAccumulated(size_t result) const { return accumulated[result]; }

  llvm::Expected<Place> ofArgument(const PhaseFunction &part, const ValueInfo &value) const;
  Place ofResult(const PhaseFunction &part, const ValueInfo &value) const;

private:
  using Map = llvm::StringMap<size_t>;
  static Index find(const Map &map, llvm::StringRef key) {
    auto found = map.find(key);
    return found == map.end() ? std::nullopt : Index(found->second);
  }
  static std::string stateKey(llvm::StringRef parameter, llvm::StringRef slot) {
    return (parameter + "\n" + slot).str();
  }
  static std::string crossingKey(bool isForward, int64_t boundary, llvm::StringRef name);
  static std::string savedKey(const PhaseFunction &part, const ValueInfo &value, bool isResult);
  void numberResults(const Program &program);
  void numberSaved(const Program &program, const StageMap &stages);
  Place ofSaved(const PhaseFunction &part, const ValueInfo &value, bool isResult) const;

  bool keepsInputs = false;
  Map weights, states, inputs, results, gradients, saved, unsharded, stageSums;
  std::vector<bool> accumulated; ///< by index of the result
  /// Which function of a microbatch takes a saved value or an input last.
  llvm::StringMap<const PhaseFunction *> lastConsumer, lastInputConsumer;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_PLACEINDEX_H
