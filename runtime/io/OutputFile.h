//===- OutputFile.h - what a run writes --------------------------*- C++ -*-===//
//
// Writing never surprises: a reader, or a machine that loses power, sees the old file or the whole
// new one; links are followed; a device or a pipe is written to and stays what it is; and what a
// run reads it does not overwrite.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_OUTPUTFILE_H
#define CLEAVE_RUNTIME_IO_OUTPUTFILE_H

#include "runtime/io/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <string>
#include <sys/types.h>

namespace cleave::runtime {

/// Where the path of an output leads.
struct OutputTarget {
  /// Links resolved.
  std::string path;
  /// A regular file, or nothing yet. Otherwise `descriptor` is open for writing.
  bool isFile = true;
  bool exists = false;
  mode_t mode = 0;
  int descriptor = -1;
};

/// An error for directories and block devices, and for what cannot be opened. A path that leads to
/// the process' own standard output or error shares its descriptor, so that neither overwrites the
/// other.
llvm::Expected<OutputTarget> findOutputTarget(llvm::StringRef path);

/// A file that appears under its name only once it is whole: written next to it under another name,
/// flushed to the disk, renamed. Dropped without `commit`, or killed by a signal that can be
/// caught, it leaves nothing behind. What is not a regular file is written directly.
class OutputFile {
public:
  static llvm::Expected<std::unique_ptr<OutputFile>> open(llvm::StringRef path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  llvm::Error write(llvm::ArrayRef<uint8_t> bytes);
  llvm::Error write(llvm::StringRef text);
  llvm::Error commit();

  /// As the user spells it.
  llvm::StringRef path() const { return name; }
  /// Whether it is, or becomes, a regular file.
  bool isFile() const { return !temporary.empty(); }

private:
  OutputFile() = default;
  std::string name, target, temporary;
  int descriptor = -1;
};

/// Writes all of `bytes` to a descriptor; `path` is for the error.
llvm::Error writeAll(int descriptor, llvm::ArrayRef<uint8_t> bytes, llvm::StringRef path);

/// A path of the command line and what gives it: "--dump", "out.safetensors".
struct NamedPath {
  std::string option, path;
};

/// An error where an output is a file that the run reads or that another output writes, whatever
/// names and links lead there, or lies in a directory that is read as a whole.
llvm::Error checkOutputs(llvm::ArrayRef<NamedPath> inputs, llvm::ArrayRef<NamedPath> outputs);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_OUTPUTFILE_H
