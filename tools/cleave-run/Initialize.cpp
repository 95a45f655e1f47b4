//===- Initialize.cpp - weights by a module's own initialisation --------------===//

#include "tools/cleave-run/Initialize.h"
#include "runtime/io/Error.h"
#include "tools/cleave-run/Ranks.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace cleave;
using namespace cleave::runtime;

/// The last line says what went wrong, be it cleave.init's error or Python's exception.
static llvm::StringRef getLastLine(llvm::StringRef text) {
  llvm::StringRef line = text.rtrim().rsplit('\n').second;
  line = line.empty() ? text.trim() : line.trim();
  line.consume_front("error: ");
  return line;
}

llvm::Error run::initializeWeights(const Options &options) {
  if (isLaunched())
    return makeError("expected --init in a single process, found one of several that a launcher "
                     "has started; write the weights first, by python -m cleave.init {0} -o {1}",
                     options.init, options.weights.path);
  const char *chosen = std::getenv("CLEAVE_PYTHON");
  llvm::StringRef name = chosen && *chosen ? chosen : "python3";
  llvm::ErrorOr<std::string> python = llvm::sys::findProgramByName(name);
  if (!python || !llvm::sys::fs::can_execute(*python))
    return makeError("--init: cannot find '{0}'; expected a Python with PyTorch in PATH, or its "
                     "path in the environment variable CLEAVE_PYTHON",
                     name);
  llvm::SmallString<128> log;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("cleave-init", "log", log))
    return makeError("--init: cannot create a temporary file: {0}", error.message());
  llvm::FileRemover remover(log);
  std::string seed = std::to_string(options.seed);
  llvm::StringRef arguments[] = {
      *python, "-m", "cleave.init", options.init, "-o", options.weights.path, "--seed", seed};
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, llvm::StringRef(), log.str()};
  std::string message;
  int status =
      llvm::sys::ExecuteAndWait(*python, arguments, std::nullopt, redirects, 0, 0, &message);
  auto buffer = llvm::MemoryBuffer::getFile(log);
  llvm::StringRef said = buffer ? (*buffer)->getBuffer() : llvm::StringRef();
  if (status == 0) {
    llvm::errs() << said;
    return llvm::Error::success();
  }
  if (message.empty())
    message = getLastLine(said).str();
  if (message.empty())
    message = "ended with status " + std::to_string(status);
  return makeError("--init: {0}", message);
}
