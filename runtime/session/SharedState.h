//===- SharedState.h - programs that take turns on one state -------*- C++ -*-===//
//
// Programs for the same parameters, such as one for each length of sequences, may train one model:
// each step is one program's. Parameters, buffers and optimizer state are kept by the session of
// the first; others have them while they run a step.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SESSION_SHAREDSTATE_H
#define CLEAVE_RUNTIME_SESSION_SHAREDSTATE_H

#include "cleave/Session.h"
#include "runtime/ranks/RankGrid.h"
#include "runtime/ranks/StageMap.h"

#include <set>
#include <string>

namespace at {
class Tensor;
}

namespace cleave::runtime {

/// Whether two programs' values have the same type, and placements on the mesh.
bool haveSamePlacements(const ValueInfo &a, const ValueInfo &b);

/// The values, by file name, that `other` shares with `keeper`: parameters and optimizer states,
/// which must be the same in both, and buffers. Its constants, and buffers that neither program
/// changes and that state dicts leave out (masks of a length), are its own. One error with all
/// differences where state would not fit: names, types, or where on the mesh values lie.
llvm::Expected<std::set<std::string>> listSharedState(const Program &keeper,
                                                      const StageMap &keepersStages,
                                                      const Program &other,
                                                      const StageMap &othersStages);

/// Moves state between two sessions of this rank, without copying it.
class SharedState {
public:
  /// `borrower` was created without memory for `names` (SessionOptions::borrowed). Both outlive
  /// this.
  SharedState(Session &keeper, Session &borrower, const std::set<std::string> &names);

  /// Gives the borrower what it needs to run; the keeper has none of it until `giveBack`.
  llvm::Error lend();
  llvm::Error giveBack();

private:
  struct Value {
    at::Tensor *kept, *borrowed;
  };
  llvm::Error closeViews();

  Session &keeper, &borrower;
  std::vector<Value> values;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_SHAREDSTATE_H
