//===- TensorNames.h - files that name tensors otherwise ---------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_TENSORNAMES_H
#define CLEAVE_RUNTIME_IO_TENSORNAMES_H

#include "runtime/io/TensorSet.h"

namespace cleave::runtime {

/// How the names of a program's weights become those of a file.
struct TensorNames {
  /// A JSON object from names of the program to names of the file, or from patterns to patterns:
  /// each `*` of a file's pattern stands for what the `*` in its place has matched. A name of its
  /// own goes before patterns, of patterns the one with the most characters. Empty for none.
  std::string file;
  /// The file's names begin with it, once they are mapped; what does not begin so is left out.
  std::string prefix;
};

/// `tensors` under the names that `wanted` has for them, the rest, but for what the prefix leaves
/// out, under their own.
llvm::Expected<std::unique_ptr<TensorSet>> renameTensors(std::unique_ptr<TensorSet> tensors,
                                                         const TensorNames &names,
                                                         llvm::ArrayRef<std::string> wanted);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TENSORNAMES_H
