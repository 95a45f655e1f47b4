//===- Program.h - a program that passes change, for Python --------*- C++ -*-===//
//
// What cleave-opt does to a file, in memory. No header of LibTorch or MLIR is needed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PYTHON_NATIVE_PROGRAM_H
#define CLEAVE_PYTHON_NATIVE_PROGRAM_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace cleave::python {

/// An op as Python knows it.
using OpId = int64_t;
/// Result `index` of an op, or argument `index` of its block number `block`.
struct ValueId {
  OpId op;
  int64_t block = -1;
  int64_t index;
};
struct OpFacts {
  std::string location;
  std::string function; ///< that the op is in, or is; empty outside of functions
  std::vector<ValueId> operands, results;
  std::vector<std::pair<std::string, std::string>> attributes;
};

class Program {
public:
  ~Program();

  /// Reads text or bytecode; errors call it `name`.
  static llvm::Expected<std::unique_ptr<Program>> parse(llvm::StringRef data, llvm::StringRef name);

  /// Runs a pipeline in MLIR's syntax, `sync-gradients{axis=dp},cse`, and checks types and plans of
  /// memory as cleave-opt does. After an error the program is what it was before.
  llvm::Error runPasses(llvm::StringRef pipeline);

  /// As text, with or without the source locations of ops.
  std::string print(bool hasLocations) const;
  /// The groups of numbers that the caller may set at each step, ascending.
  std::vector<int64_t> rateGroups() const;
  /// As bytecode with a digest.
  llvm::Expected<std::string> serialize() const;
  llvm::StringRef name() const { return fileName; }

  // Ops, by numbers; those of ops that are gone are errors.

  /// All ops but the module, each before those in it.
  std::vector<OpId> walk();
  llvm::Expected<std::string> nameOf(OpId id);
  llvm::Expected<OpFacts> facts(OpId id);
  /// Numbers the values of the whole function: not for each op in turn.
  llvm::Expected<std::string> textOf(OpId id);
  llvm::Expected<std::string> typeOf(const ValueId &id);
  /// In the order of the uses.
  llvm::Expected<std::vector<OpId>> usersOf(const ValueId &id);

  /// What follows changes the program, between these. `endRewrite` verifies it as `runPasses` does;
  /// after an error, or where `keeps` is false, it is what it was before.
  llvm::Error beginRewrite();
  llvm::Error endRewrite(bool keeps);
  /// Without a text the attribute is removed.
  llvm::Error setAttribute(OpId id, llvm::StringRef name, std::optional<std::string> text);
  llvm::Error setOperand(OpId id, int64_t index, const ValueId &to);
  /// All uses of a value, but those by the op that makes the new one.
  llvm::Error replace(const ValueId &from, const ValueId &to);
  /// An op whose results no op uses.
  llvm::Error erase(OpId id);
  llvm::Expected<OpId>
  insertBefore(OpId id, const std::string &name, const std::vector<ValueId> &operands,
               const std::vector<std::pair<std::string, std::string>> &attributes,
               const std::vector<std::string> &types);

private:
  Program();
  /// An error unless the module, after `what`, is valid in every respect.
  llvm::Error checkModule(llvm::StringRef what);
  llvm::Expected<mlir::Operation *> findForChange(OpId id);
  struct Impl;
  std::unique_ptr<Impl> impl;
  std::string fileName;
};

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_PROGRAM_H
