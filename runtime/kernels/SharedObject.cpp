//===- SharedObject.cpp - shared objects that are in memory ------------------===//

#include "runtime/kernels/SharedObject.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/SHA1.h"

#include <cstring>
#include <mutex>

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace cleave::runtime;

/// The system's loader maps what the program headers say and trusts them: a file that ends too
/// early would be a bus error.
static llvm::Error checkElf(llvm::ArrayRef<char> code) {
  Elf64_Ehdr header;
  if (code.size() < sizeof header)
    return makeError("the code is damaged: expected an ELF header of " +
                     llvm::Twine(sizeof header) + " bytes, found " + llvm::Twine(code.size()));
  std::memcpy(&header, code.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN ||
      header.e_machine != EM_X86_64)
    return makeError("the code is damaged: expected a shared object for x86-64, found another "
                     "kind of file");
  uint64_t end = header.e_phoff + uint64_t(header.e_phnum) * sizeof(Elf64_Phdr);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phoff > code.size() || end > code.size())
    return makeError("the code is damaged: its program headers are truncated");
  bool isDynamic = false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, code.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    isDynamic |= segment.p_type == PT_DYNAMIC;
    if ((segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) &&
        (segment.p_offset > code.size() || segment.p_filesz > code.size() - segment.p_offset))
      return makeError("the code is damaged: segment " + llvm::Twine(i) + " ends at byte " +
                       llvm::Twine(segment.p_offset + segment.p_filesz) + ", but there are " +
                       llvm::Twine(code.size()));
  }
  if (!isDynamic)
    return makeError("the code is damaged: it has no dynamic section");
  return llvm::Error::success();
}

static llvm::Expected<int> writeToMemory(llvm::ArrayRef<char> code) {
  int file = memfd_create("cleave-kernels", MFD_CLOEXEC);
  if (file < 0)
    return makeError("memfd_create: " + llvm::StringRef(std::strerror(errno)));
  while (!code.empty()) {
    ssize_t written = write(file, code.data(), code.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      llvm::Error error = makeError("cannot write " + llvm::Twine(code.size()) +
                                    " bytes to memory: " + std::strerror(errno));
      close(file);
      return error;
    }
    code = code.drop_front(written);
  }
  return file;
}

llvm::Expected<std::shared_ptr<SharedObject>> SharedObject::load(llvm::ArrayRef<char> code) {
  // By digest of the code.
  static std::mutex mutex;
  static llvm::StringMap<std::weak_ptr<SharedObject>> loaded;
  auto digest = llvm::SHA1::hash({reinterpret_cast<const uint8_t *>(code.data()), code.size()});
  std::lock_guard lock(mutex);
  std::weak_ptr<SharedObject> &known = loaded[llvm::toHex(digest)];
  if (std::shared_ptr<SharedObject> object = known.lock())
    return object;

  if (llvm::Error error = checkElf(code))
    return error;
  std::shared_ptr<SharedObject> object(new SharedObject());
  llvm::Expected<int> file = writeToMemory(code);
  if (!file)
    return file.takeError();
  object->file = *file;
  std::string path = "/proc/self/fd/" + std::to_string(*file);
  object->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object->handle) {
    llvm::StringRef message = dlerror();
    message.consume_front(path);
    return makeError("the system cannot load it" + message);
  }
  known = object;
  return object;
}

SharedObject::~SharedObject() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

void *SharedObject::find(llvm::StringRef symbol) const {
  return dlsym(handle, symbol.str().c_str());
}
