//===- Failures.cpp - which pass failed, and how often ------------------------===//
//
// A diagnostic says what is wrong with which op; of twenty passes on a command line, the user also
// needs the one that found it. And one wrong type may be wrong at a hundred ops: the first few say
// all of it.
//
//===----------------------------------------------------------------------===//

#include "tools/cleave-opt/Failures.h"
#include "tools/cleave-opt/CommandLine.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace cleave;

static llvm::cl::opt<unsigned>
    errorLimit("error-limit", llvm::cl::cat(ownOptions), llvm::cl::value_desc("n"),
               llvm::cl::init(5),
               llvm::cl::desc("Maximum number of pass errors to print (default 5; 0: all)"));

struct Failures::State {
  unsigned errors = 0;
  /// The argument of the first pass that failed, and the check after it if that is what did.
  std::string pass, check;
};

namespace {
template <typename Note> struct NotePass : PassInstrumentation {
  explicit NotePass(Note note) : note(std::move(note)) {}
  void runAfterPassFailed(Pass *pass, Operation *) override { note(pass); }
  Note note;
};
} // namespace

Failures::Failures() : state(std::make_shared<State>()) {}
Failures::~Failures() = default;

void Failures::addFailedCheck(llvm::StringRef pass, llvm::StringRef check) {
  if (!state->pass.empty())
    return;
  state->pass = pass.str();
  state->check = check.str();
}

void Failures::watch(PassManager &manager) {
  auto note = [state = state](Pass *pass) {
    // The adaptors that run nested passes have no name.
    if (state->pass.empty())
      state->pass = pass->getArgument().str();
  };
  manager.addInstrumentation(std::make_unique<NotePass<decltype(note)>>(note));
  // Handlers that are registered later are asked first; what they do not take goes to the printer.
  manager.getContext()->getDiagEngine().registerHandler([state = state](Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return success(isError && ++state->errors > errorLimit && errorLimit > 0);
  });
}

void Failures::report(llvm::raw_ostream &os) const {
  if (errorLimit > 0 && state->errors > errorLimit)
    os << (state->errors - errorLimit) << " more errors (--error-limit=0 prints all)\n";
  if (state->pass.empty())
    return;
  llvm::WithColor::error(os, "cleave-opt");
  if (!state->check.empty())
    os << "the " << state->check << " after --" << state->pass << " failed\n";
  else
    os << "--" << state->pass << " failed\n";
}
