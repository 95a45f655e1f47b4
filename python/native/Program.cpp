//===- Program.cpp - a program that passes change, for Python -----------------===//

#include "dialects/Register.h"
#include "lib/autodiff/Register.h"
#include "lib/memory/verify/Verify.h"
#include "lib/support/Buffer.h"
#include "lib/support/Digest.h"
#include "lib/support/Input.h"
#include "lib/typing/Check.h"
#include "passes/Register.h"
#include "python/native/ProgramImpl.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/SourceMgr.h"

#include <mutex>

using namespace cleave;
using namespace mlir;

/// Errors beyond these are counted: one wrong type may be wrong at a hundred ops.
static constexpr unsigned kMaxErrors = 5;

static DialectRegistry makeRegistry() {
  static std::once_flag isRegistered;
  std::call_once(isRegistered, [] { registerAllPasses(); });
  DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  return registry;
}

namespace {
/// Collects what passes report, and which of them failed.
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) { add(diagnostic); }) {}

  std::string take(llvm::StringRef otherwise) {
    if (errors > kMaxErrors)
      text += llvm::formatv("{0} more errors\n", errors - kMaxErrors);
    llvm::StringRef found = llvm::StringRef(text).rtrim();
    return (found.empty() ? otherwise : found).str();
  }

private:
  void add(Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    if (!isError || ++errors > kMaxErrors)
      return;
    llvm::raw_string_ostream os(text);
    auto print = [&](Diagnostic &each, llvm::StringRef kind) {
      if (!llvm::isa<UnknownLoc>(each.getLocation()))
        os << each.getLocation() << ": ";
      os << kind << each.str() << "\n";
    };
    print(diagnostic, "error: ");
    for (Diagnostic &note : diagnostic.getNotes())
      print(note, "note: ");
  }

  std::string text;
  unsigned errors = 0;
  ScopedDiagnosticHandler handler;
};

struct NoteFailedPass : PassInstrumentation {
  explicit NoteFailedPass(std::string &failed) : failed(failed) {}
  void runAfterPassFailed(Pass *pass, Operation *) override {
    // The adaptors that run nested passes have no name.
    if (failed.empty())
      failed = pass->getArgument().str();
  }
  std::string &failed;
};
} // namespace

python::Program::Program() = default;
python::Program::~Program() = default;

llvm::Expected<std::unique_ptr<python::Program>> python::Program::parse(llvm::StringRef data,
                                                                        llvm::StringRef name) {
  if (data.empty())
    return llvm::createStringError("program '" + name + "' is empty");
  if (llvm::Error error = support::checkInput(data, name))
    return error;
  std::unique_ptr<Program> program(new Program());
  program->fileName = name.str();
  program->impl = std::make_unique<Impl>(makeRegistry());
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(support::align(llvm::MemoryBuffer::getMemBufferCopy(data, name)),
                              llvm::SMLoc());
  std::string text;
  llvm::raw_string_ostream os(text);
  {
    SourceMgrDiagnosticHandler handler(*sources, &program->impl->context, os);
    program->impl->module =
        parseSourceFile<ModuleOp>(sources, ParserConfig(&program->impl->context));
  }
  if (program->impl->module)
    return program;
  llvm::StringRef found = llvm::StringRef(text).rtrim();
  return llvm::createStringError(
      "program '" + name + "' is not valid:\n" +
      (found.empty() ? "it is neither MLIR text nor MLIR bytecode" : found));
}

llvm::Error python::Program::checkModule(llvm::StringRef what) {
  Diagnostics diagnostics(impl->context);
  if (succeeded(mlir::verify(*impl->module)) &&
      succeeded(placement::checkSpmdTypes(*impl->module)) &&
      succeeded(exec::verifyLowered(*impl->module)))
    return llvm::Error::success();
  return llvm::createStringError(diagnostics.take("it is not valid") + "\nthe check after " + what +
                                 " failed");
}

/// What MLIR's parsers of pipelines and of passes' options say, in one line: without their names,
/// and without the pipeline, at which they point.
static std::string pipelineProblem(llvm::StringRef text) {
  if (auto [parser, problem] = text.split(": error: "); !problem.empty())
    return problem.split('\n').first.str();
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef &line : lines)
    line.consume_front("<Pass-Options-Parser>: ");
  return llvm::join(lines, "; ");
}

llvm::Error python::Program::runPasses(llvm::StringRef pipeline) {
  if (impl->before)
    return llvm::createStringError("passes cannot run while the program is being rewritten");
  PassManager manager(&impl->context, ModuleOp::getOperationName(),
                      OpPassManager::Nesting::Implicit);
  std::string problem;
  llvm::raw_string_ostream os(problem);
  Diagnostics diagnostics(impl->context);
  auto refuse = [&](llvm::StringRef after) {
    return llvm::createStringError(diagnostics.take(llvm::StringRef(problem).rtrim()) + after);
  };
  if (failed(parsePassPipeline(pipeline, manager, os)))
    return llvm::createStringError(pipelineProblem(problem));
  std::string failedPass;
  manager.addInstrumentation(std::make_unique<NoteFailedPass>(failedPass));
  OwningOpRef<ModuleOp> copy = impl->module->clone();
  // LLVM takes the process's signals where it makes temporary files, those of kernels' code. This
  // restores the handlers of the process.
  auto restoreSignals = llvm::scope_exit([] { llvm::sys::unregisterHandlers(); });
  if (failed(manager.run(*copy)))
    return refuse(failedPass.empty() ? "" : "\n--" + failedPass + " failed");
  if (failed(placement::checkSpmdTypes(*copy)) || failed(exec::verifyLowered(*copy)))
    return refuse("\nthe check after '" + pipeline.str() + "' failed");
  impl->replaceModule(std::move(copy));
  return llvm::Error::success();
}

std::string python::Program::print(bool hasLocations) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.assumeVerified().enableDebugInfo(hasLocations);
  (*impl->module)->print(os, flags);
  return text;
}

std::vector<int64_t> python::Program::rateGroups() const {
  std::vector<int64_t> groups;
  auto add = [&](auto op) {
    if (std::optional<int64_t> group = op.getGroup())
      groups.push_back(*group);
  };
  impl->module->walk([&](Operation *op) {
    TypeSwitch<Operation *>(op).Case<train::LearningRateOp, train::HyperparameterOp>(add);
  });
  llvm::sort(groups);
  groups.erase(llvm::unique(groups), groups.end());
  return groups;
}

llvm::Expected<std::string> python::Program::serialize() const {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(*impl->module, os)))
    return llvm::createStringError("program '" + fileName + "' cannot be written as bytecode");
  return support::addDigest(bytes);
}
