//===- DataSources.h - the kinds of data source ------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_DATASOURCES_H
#define CLEAVE_RUNTIME_IO_DATASOURCES_H

#include "runtime/io/Data.h"

namespace cleave::runtime {

/// One term of a `--data` argument, which is a mixture of them or one alone.
struct SourceTerm {
  double weight = 1;
  /// text, u16, u32 or safetensors.
  std::string kind;
  std::vector<std::string> paths;
  /// As the user wrote it, and where: a file and line, or empty.
  std::string text, place;
};
/// The terms of a source; an error if it has another form.
llvm::Expected<std::vector<SourceTerm>> parseSource(llvm::StringRef source);
bool isMixture(llvm::StringRef source);
/// The files that a term's paths stand for: of a directory the regular files below it that are of
/// its kind, by path (links are left out: they would give a file twice); of a pattern with *, ? or
/// [] what matches.
llvm::Expected<std::vector<std::string>> listFiles(const SourceTerm &term);

/// Sources of one kind each, whose weights are their shares of the examples.
llvm::Expected<std::unique_ptr<DataSource>> openMixture(const DataOptions &options,
                                                        llvm::ArrayRef<InputSpec> inputs,
                                                        llvm::ArrayRef<SourceTerm> terms);
/// A source of one term.
llvm::Expected<std::unique_ptr<DataSource>>
openTerm(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs, const SourceTerm &term);

/// Byte tokens of text files.
llvm::Expected<std::unique_ptr<DataSource>> openText(const DataOptions &options,
                                                     llvm::ArrayRef<InputSpec> inputs,
                                                     llvm::ArrayRef<std::string> paths);
/// Little-endian unsigned tokens of `width` (2 or 4) bytes.
llvm::Expected<std::unique_ptr<DataSource>> openTokens(const DataOptions &options,
                                                       llvm::ArrayRef<InputSpec> inputs,
                                                       llvm::ArrayRef<std::string> paths,
                                                       unsigned width);
/// Whole batches under the names of the inputs.
llvm::Expected<std::unique_ptr<DataSource>> openTensors(const DataOptions &options,
                                                        llvm::ArrayRef<InputSpec> inputs,
                                                        llvm::ArrayRef<std::string> paths);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_DATASOURCES_H
