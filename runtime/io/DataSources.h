//===- DataSources.h - the kinds of data source ------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_DATASOURCES_H
#define CLEAVE_RUNTIME_IO_DATASOURCES_H

#include "runtime/io/Data.h"

namespace cleave::runtime {

/// The regular files below a directory whose names end with `extension`, by path. Links are left
/// out: they would give a file twice.
llvm::Expected<std::vector<std::string>> listDirectory(llvm::StringRef path,
                                                       llvm::StringRef extension = "");

/// Byte tokens of text files; of a directory, its regular files in the order of their paths.
llvm::Expected<std::unique_ptr<DataSource>> openText(const DataOptions &options,
                                                     llvm::ArrayRef<InputSpec> inputs,
                                                     llvm::ArrayRef<std::string> paths);
/// Little-endian unsigned tokens of `width` (2 or 4) bytes.
llvm::Expected<std::unique_ptr<DataSource>> openTokens(const DataOptions &options,
                                                       llvm::ArrayRef<InputSpec> inputs,
                                                       llvm::ArrayRef<std::string> paths,
                                                       unsigned width);
/// Whole batches under the names of the inputs; of a directory, its .safetensors files in the order
/// of their paths.
llvm::Expected<std::unique_ptr<DataSource>> openTensors(const DataOptions &options,
                                                        llvm::ArrayRef<InputSpec> inputs,
                                                        llvm::ArrayRef<std::string> paths);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_DATASOURCES_H
