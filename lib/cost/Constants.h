//===- Constants.h - numbers of a device or link, with bounds -------*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_CONSTANTS_H
#define CLEAVE_LIB_COST_CONSTANTS_H

#include "lib/support/JSONReader.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace cleave::cost {

/// Most constants that a device or a link may have: more could be fitted to anything.
constexpr size_t maxConstants = 12;

/// One number that a file names: a fact of a data sheet, or a constant that is fitted: those stand
/// in the file as {"value", "start", "lower", "upper", "unit", "meaning"}; `start` is where a fit
/// begins, and "bounds" may say why a value cannot lie lower or higher. A constant that is not to
/// be fitted may be a plain number.
struct NamedNumber {
  llvm::StringRef name;
  double *value;
  /// A file need not have it.
  bool isOptional = false;
};

/// Reads facts, plain non-negative numbers, from the object's field "facts".
llvm::Error readFacts(support::JSONReader &file, llvm::ArrayRef<NamedNumber> facts);

/// Reads constants from the object's field "constants". Fails where a value lies outside its
/// bounds or a name is not one of `constants`. Returns the names that the file leaves out.
llvm::Expected<std::vector<std::string>> readConstants(support::JSONReader &file,
                                                       llvm::ArrayRef<NamedNumber> constants);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_CONSTANTS_H
