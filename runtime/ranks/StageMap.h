//===- StageMap.h - which rank has which stage, and its values ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_RANKS_STAGEMAP_H
#define CLEAVE_RUNTIME_RANKS_STAGEMAP_H

#include "runtime/ranks/RankGrid.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::runtime {

struct PhaseFunction;

/// Places a program's stages on the ranks along the pipeline axis. "Places" here are coordinates on
/// that axis. One rank alone runs all stages of any program, as does every rank of a program
/// without a schedule.
class StageMap {
public:
  /// One rank, which has all stages.
  StageMap() = default;
  StageMap(const Program &program, const RankGrid &grid);

  /// Whether a schedule says what this rank runs.
  bool isScheduled() const { return scheduled; }
  /// This rank's coordinate, and how many there are.
  int place() const { return myPlace; }
  int places() const { return numPlaces; }
  int placeOf(int64_t stage) const;
  bool holds(int64_t stage) const { return placeOf(stage) == myPlace; }
  bool runs(const PhaseFunction &part) const;

  /// Where a parameter, buffer or constant is (any of the places has its value between steps),
  /// where its new value is made, and whether it is here.
  struct Holders {
    llvm::SmallSet<int, 4> places;
    int owner = 0;
  };
  const Holders &weight(llvm::StringRef name) const { return weights.find(name)->second; }
  bool hasWeight(llvm::StringRef name) const;
  int ownerOfWeight(llvm::StringRef name) const { return scheduled ? weight(name).owner : 0; }
  /// Where an optimizer state of the parameter is.
  int placeOfState(llvm::StringRef parameter) const;
  bool hasState(llvm::StringRef parameter) const {
    return !scheduled || placeOfState(parameter) == myPlace;
  }
  bool hasInput(llvm::StringRef name) const { return !scheduled || inputs.contains(name); }
  /// Where a result of a microbatch, or an output of a function that the schedule calls, is made,
  /// by its file name; nothing if it never is: by a forward-only schedule, or without a
  /// schedule.
  std::optional<int> placeOfResult(llvm::StringRef fileName) const;

private:
  void note(const PhaseFunction &part);

  bool scheduled = false;
  int myPlace = 0, numPlaces = 1;
  std::vector<unsigned> stageToPlace;
  llvm::StringMap<Holders> weights;
  llvm::StringMap<int> states, results;
  llvm::StringMap<char> inputs;
  /// What only the schedule's own functions make, by file name.
  llvm::StringMap<int> actionOutputs;
  bool isForwardOnly = false;
};

/// Whether the ranks of `world` (null: one) run the program by its schedule. One rank alone runs
/// stages in order, whatever the number of ranks that a schedule is for.
bool isRunBySchedule(const Program &program, const Communicator *world);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANKS_STAGEMAP_H
