//===- Log.h - what a proof says, line by line ----------------------*- C++ -*-===//
//
//   cleave-proof 1
//   axis NAME SIZES              digits of a rank's place, major first
//   leaf SIZES NAME              terms, numbered from 2 (0 is one, 1 a place)
//   op KEPT SIZES READ TERMS : FUNCTION
//   sum SIZES : FORM
//   global | local               values of the program's ops, in order, of each function
//   func NAME
//   value STEP DIMS FORM
//
// Lists are separated by commas, and `-` where empty. docs/proof.md has an example.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_REPLAY_LOG_H
#define CLEAVE_LIB_REPLAY_LOG_H

#include "lib/replay/Form.h"

#include "llvm/Support/Error.h"

namespace cleave::replay {

/// A value: `form` is over the digits of ranks, numbered from 0, then those of dimensions, then
/// bound ones.
struct Claim {
  std::string step;
  SmallVector<SmallVector<int64_t, 2>, 4> dims;
  Form form;
  std::map<Var, int64_t> boundSizes;
  unsigned line = 0;
};

struct Log {
  std::vector<std::pair<std::string, SmallVector<int64_t, 1>>> axes;
  /// By program and name of function.
  std::map<std::pair<bool, std::string>, std::vector<Claim>> values;
};

/// Reads the log; the terms that it defines go to `forms`.
llvm::Expected<Log> readLog(StringRef text, StringRef name, Forms &forms);

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_LOG_H
