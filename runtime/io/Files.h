//===- Files.h - mapped reads, directories -----------------------*- C++ -*-===//
//
// Reading a file without copying it, and what directories need. Writing is in OutputFile.h.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_FILES_H
#define CLEAVE_RUNTIME_IO_FILES_H

#include "runtime/io/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <string>

namespace cleave::runtime {

/// A regular file's bytes, mapped read-only for as long as the object lives.
class MappedFile {
public:
  static llvm::Expected<std::unique_ptr<MappedFile>> open(llvm::StringRef path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  llvm::ArrayRef<uint8_t> bytes() const { return contents; }
  llvm::StringRef path() const { return name; }

private:
  MappedFile() = default;
  std::string name;
  llvm::ArrayRef<uint8_t> contents;
};

/// Writes the entries of a directory (names, renames) to the disk.
llvm::Error syncDirectory(llvm::StringRef path);
/// Creates the directory and its parents if need be and makes sure that files can be created in
/// it; leaves no trace in it.
llvm::Error checkWritableDirectory(llvm::StringRef path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_FILES_H
