//===- UserActions.h - what a schedule's own actions run ------------*- C++ -*-===//
//
// A schedule may have actions that are its user's: `call "log"(2.0)`, or `collective "tied"[0 3]`,
// which several ranks enter together. A session runs what was set for their names; one whose list
// has a name without anything set is refused.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_USERACTIONS_H
#define CLEAVE_USERACTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <optional>

namespace cleave::runtime {

/// An action of the user's that a rank has come to.
struct UserAction {
  llvm::StringRef name;
  int64_t step = 0; ///< of the run, from 1
  int rank = 0;     ///< of the run
  /// What `call` has in parentheses.
  std::optional<int64_t> stage, microbatch;
  /// Of a collective: the places along the pipeline axis whose ranks all enter it.
  llvm::ArrayRef<unsigned> places;
};

/// It may read and write the values of the rank's session (`weight`, `result`, ...), but run
/// nothing on it. An error ends the step.
using UserCallback = std::function<llvm::Error(const UserAction &)>;

/// Sets what actions of that name run, in sessions of this process that are created from now on;
/// null: nothing. For one thread at a time, and not while sessions are created.
void setUserAction(llvm::StringRef name, UserCallback callback);
/// Null where nothing is set.
UserCallback getUserAction(llvm::StringRef name);

} // namespace cleave::runtime

#endif // CLEAVE_USERACTIONS_H
