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
#include <string>
#include <vector>

namespace cleave::python {

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
  /// The parameter groups that learning rates name, ascending.
  std::vector<int64_t> rateGroups() const;
  /// As bytecode with a digest.
  llvm::Expected<std::string> serialize() const;
  llvm::StringRef name() const { return fileName; }

private:
  Program();
  struct Impl;
  std::unique_ptr<Impl> impl;
  std::string fileName;
};

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_PROGRAM_H
