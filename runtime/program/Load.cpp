//===- Load.cpp - reads and verifies a program -------------------------------===//

#include "dialects/Register.h"
#include "dialects/exec/Exec.h"
#include "lib/memory/verify/Verify.h"
#include "lib/support/Buffer.h"
#include "lib/support/Input.h"
#include "lib/typing/Check.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA1.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

namespace {
/// Feeds what is printed to a hash, without keeping it.
class HashStream : public llvm::raw_ostream {
public:
  ~HashStream() override { flush(); }
  std::string digest() {
    flush();
    return llvm::toHex(hash.final(), /*LowerCase=*/true);
  }

private:
  void write_impl(const char *data, size_t size) override {
    hash.update(llvm::StringRef(data, size));
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  llvm::SHA1 hash;
  uint64_t position = 0;
};
} // namespace

std::string cleave::runtime::computeFingerprint(ModuleOp module) {
  HashStream stream;
  // Programs are verified: skipping the check that printing makes halves its time. Compiled code is
  // hashed as it is, not as digits.
  module->print(
      stream,
      OpPrintingFlags().assumeVerified().enableDebugInfo(false).elideLargeResourceString(0));
  for (auto binary : module.getOps<exec::BinaryOp>())
    stream.write(binary.getBytes().data(), binary.getBytes().size());
  return stream.digest();
}

llvm::Expected<std::unique_ptr<Program>> cleave::runtime::loadProgram(llvm::StringRef path,
                                                                      RankPlace place) {
  if (llvm::sys::fs::is_directory(path))
    return makeError("cannot read program '" + path + "': it is a directory");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return makeError("cannot read program '" + path + "': " + buffer.getError().message());
  return parseProgram(std::move(*buffer), place);
}

llvm::Expected<std::unique_ptr<Program>>
cleave::runtime::parseProgram(std::unique_ptr<llvm::MemoryBuffer> buffer, RankPlace place) {
  std::string path = buffer->getBufferIdentifier().str();
  if (buffer->getBufferSize() == 0)
    return makeError("cannot read program '" + path + "': the file is empty");

  if (llvm::Error error = support::checkInput(buffer->getBuffer(), path))
    return error;

  auto impl = std::make_unique<Program::Impl>();
  DialectRegistry registry;
  registerDialects(registry);
  // Without threads: a program is small, and starting a pool costs more than it gains.
  impl->context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  // The op would often be a function with the whole program in it.
  impl->context->printOpOnDiagnostic(false);
  impl->path = path;

  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(support::align(std::move(buffer)), llvm::SMLoc());
  std::string diagnostics;
  llvm::raw_string_ostream os(diagnostics);
  SourceMgrDiagnosticHandler handler(*sources, impl->context.get(), os);
  auto invalid = [&] {
    llvm::StringRef text = llvm::StringRef(diagnostics).rtrim();
    return makeError("program '" + path + "' is not valid:\n" +
                     (text.empty() ? "it is neither MLIR text nor MLIR bytecode" : text));
  };

  impl->module = parseSourceFile<ModuleOp>(sources, ParserConfig(impl->context.get()));
  if (!impl->module)
    return invalid();
  FailureOr<llvm::SmallVector<train::ProgramClass, 1>> classes =
      train::getProgramClasses(*impl->module, train::ProgramForms::Staged);
  if (failed(classes) || failed(placement::checkSpmdTypes(*impl->module)) ||
      failed(exec::verifyLowered(*impl->module)))
    return invalid();
  impl->classes = std::move(*classes);
  if (llvm::Error error = readSignature(*impl, place))
    return makeError("program '" + path + "': " + llvm::toString(std::move(error)));
  if (failed(readSchedule(*impl)))
    return invalid();
  if (impl->name.empty())
    impl->name = llvm::sys::path::stem(path).str();
  impl->fingerprint = computeFingerprint(*impl->module);
  return std::unique_ptr<Program>(new Program(std::move(impl)));
}
