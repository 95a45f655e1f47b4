//===- UserActions.h - what a schedule's own actions run ------------*- C++ -*-===//
//
// A schedule may have actions that are its user's: `call "log"(2.0)`, or `collective "tied"[0 3]`,
// which several ranks enter together. A call runs the function of the program that has its name;
// for other names a session runs what SessionOptions::actions has for them (docs/schedules.md).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_USERACTIONS_H
#define CLEAVE_USERACTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace cleave::runtime {

/// An action of the user's that a rank has come to.
struct UserAction {
  llvm::StringRef name;
  int64_t step = 0; ///< in the run, from 1
  int rank = 0;     ///< in the run
  /// What `call` has in parentheses.
  std::optional<int64_t> stage, microbatch;
  /// The places along the pipeline axis whose ranks all enter a collective.
  llvm::ArrayRef<unsigned> places;
};

/// It may read and write the values of the rank's session (`weight`, `result`, ...), but run
/// nothing on it. An error ends the step.
using UserCallback = std::function<llvm::Error(const UserAction &)>;
/// By the action's name.
using UserCallbacks = std::map<std::string, UserCallback>;

} // namespace cleave::runtime

#endif // CLEAVE_USERACTIONS_H
