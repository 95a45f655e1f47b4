//===- SharedObject.h - shared objects that are in memory ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_KERNELS_SHAREDOBJECT_H
#define CLEAVE_RUNTIME_KERNELS_SHAREDOBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace cleave::runtime {

/// A loaded shared object; unloaded with its last user.
class SharedObject {
public:
  /// Loads the ELF file `code`, without writing it to a disk. The same bytes are loaded once in a
  /// process, however many programs, or ranks that are threads, bring them. An error says what
  /// about the file is damaged, or what the system's loader says.
  static llvm::Expected<std::shared_ptr<SharedObject>> load(llvm::ArrayRef<char> code);
  ~SharedObject();
  SharedObject(const SharedObject &) = delete;

  /// The address of a symbol; null if there is none.
  void *find(llvm::StringRef symbol) const;

private:
  SharedObject() = default;
  void *handle = nullptr;
  /// The descriptor of the file in memory, open as long as the object is loaded: the loader knows
  /// objects by their path, which has this number.
  int file = -1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_KERNELS_SHAREDOBJECT_H
