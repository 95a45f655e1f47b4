//===- RuleLocation.h - which rule of a plan has placed a value -----*- C++ -*-===//
//
// Kept in the value's location, where it is for explanations only: a fused location whose metadata
// has the rules by axis.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_RULELOCATION_H
#define CLEAVE_LIB_PLACEMENT_RULELOCATION_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::placement {

/// The rule that says how the value at this location lies along an axis: "rules[3] (train.py:14)".
/// Empty where no plan does.
llvm::StringRef getRule(mlir::Location location, llvm::StringRef axis);

/// The location with rules by axis, beside those that it has. The name of a module stays outermost.
mlir::Location withRules(mlir::Location location, const llvm::StringMap<std::string> &byAxis);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_RULELOCATION_H
