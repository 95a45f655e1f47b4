//===- Files.h - mapped reads and atomic writes ------------------*- C++ -*-===//
//
// Reading a file without copying it, and writing one so that a reader, or a machine that loses
// power, sees either the old file or the whole new one.
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

/// A file that appears under its name only once it is whole: written beside it under another name,
/// flushed to the disk, renamed. Dropped without `commit` it leaves nothing behind.
class AtomicFile {
public:
  static llvm::Expected<std::unique_ptr<AtomicFile>> create(llvm::StringRef path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  llvm::Error write(llvm::ArrayRef<uint8_t> bytes);
  llvm::Error write(llvm::StringRef text);
  llvm::Error commit();

private:
  AtomicFile() = default;
  std::string target, temporary;
  int descriptor = -1;
};

/// Writes the entries of a directory (names, renames) to the disk.
llvm::Error syncDirectory(llvm::StringRef path);
/// Creates the directory and its parents if need be and makes sure that files can be created in
/// it; leaves no trace in it.
llvm::Error checkWritableDirectory(llvm::StringRef path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_FILES_H
