//===- Schema.h - schemas of the dispatcher's operators -------------*- C++ -*-===//
//
// The table is dumped from the dispatcher's registry when Cleave is built, so that compiler tools
// can check a call without LibTorch.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_SCHEMA_H
#define CLEAVE_DIALECTS_ATEN_SCHEMA_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace cleave::aten {

/// One argument or return of a schema.
struct SchemaValue {
  llvm::StringRef type; ///< without alias annotation: `Tensor`, `Tensor?[]`, `SymInt[2]`, `Scalar?`
  llvm::StringRef name; ///< empty for an unnamed return
  llvm::StringRef alias; ///< `a`, `a!`, `a -> *`; empty if nothing is shared
  bool hasDefault = false;

  bool isMutated() const { return alias.contains('!'); }
  /// `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`
  bool isTensorLike() const { return type.starts_with("Tensor"); }
};

struct Schema {
  llvm::StringRef name;
  llvm::StringRef text; ///< `(arguments) -> returns`, as PyTorch prints it
  llvm::SmallVector<SchemaValue> arguments;
  llvm::SmallVector<SchemaValue> returns;
  bool drawsRandomNumbers = false;

  const SchemaValue *findArgument(llvm::StringRef name) const;
};

/// The schema of the overload `name` ("aten::add.Tensor"), if the dispatcher has it.
std::optional<Schema> lookupSchema(llvm::StringRef name);
/// The schema `text` of an operator that the dispatcher does not have; nothing where it is none. It
/// refers to both.
std::optional<Schema> parseSchema(llvm::StringRef name, llvm::StringRef text);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_SCHEMA_H
