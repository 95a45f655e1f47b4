//===- cleave-prove.cpp - whether the program of many ranks is that of one --===//
//
// Reads both programs, and says what is proved. The exit status is the answer.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/prove/Prove.h"
#include "lib/support/Buffer.h"
#include "lib/support/Input.h"

#include "mlir/IR/Location.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace cleave;
using prove::Finding;
using prove::Proof;

// Refuted, which only an execution may say, is 1.
enum ExitStatus { Proved = 0, Unknown = 2, BadInput = 3 };

static cl::OptionCategory category("cleave-prove options");
static cl::opt<std::string>
    globalOption(cl::Positional, cl::cat(category), cl::value_desc("GLOBAL"),
                 cl::desc("<program of one device> <program of each rank>"));
static cl::opt<std::string> localOption(cl::Positional, cl::cat(category), cl::value_desc("LOCAL"));
static cl::opt<double>
    limitOption("time-limit", cl::cat(category), cl::init(60), cl::value_desc("seconds"),
                cl::desc("After this time the answer is unknown (60 if not given)"));
static cl::opt<bool> jsonOption("json", cl::cat(category), cl::desc("Print the answer as JSON"));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-prove") << message << "\n";
  return BadInput;
}

static mlir::OwningOpRef<mlir::ModuleOp> read(llvm::StringRef name, mlir::MLIRContext &context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(name, &message);
  if (!input) {
    fail(message);
    return {};
  }
  if (llvm::Error error = support::checkInput(input->getBuffer(), name)) {
    fail(llvm::toString(std::move(error)));
    return {};
  }
  auto manager = std::make_shared<llvm::SourceMgr>();
  manager->AddNewSourceBuffer(support::align(std::move(input)), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler handler(*manager, &context);
  return mlir::parseSourceFile<mlir::ModuleOp>(manager, mlir::ParserConfig(&context));
}

/// The module path and line of the model, or the line of the file: "h.0.attn (gpt.py:57)".
static std::string describe(mlir::Location location) {
  std::string text;
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(location)) {
    std::string line = describe(name.getChildLoc());
    return name.getName().str() + (line.empty() ? "" : " (" + line + ")");
  }
  if (auto line = mlir::dyn_cast<mlir::FileLineColLoc>(location))
    return line.getFilename().str() + ":" + std::to_string(line.getLine());
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location))
    return fused.getLocations().empty() ? "" : describe(fused.getLocations().front());
  if (auto call = mlir::dyn_cast<mlir::CallSiteLoc>(location))
    return describe(call.getCallee());
  return text;
}

static std::string describe(mlir::Operation *op) {
  std::string place = describe(op->getLoc());
  return "'" + op->getName().getStringRef().str() + "'" + (place.empty() ? "" : " at " + place);
}

static void printJson(const Proof &proof) {
  llvm::json::Array findings;
  for (const Finding &finding : proof.findings) {
    llvm::json::Object entry{
        {"function", finding.function}, {"result", finding.result}, {"relation", finding.relation}};
    if (finding.op) {
      entry["op"] = finding.op->getName().getStringRef();
      entry["location"] = describe(finding.op->getLoc());
    }
    if (finding.counterpart)
      entry["global_location"] = describe(finding.counterpart->getLoc());
    if (!finding.reason.empty())
      entry["reason"] = finding.reason;
    findings.push_back(std::move(entry));
  }
  llvm::json::Object answer{{"version", 1},
                            {"answer", proof.isProved ? "proved" : "unknown"},
                            {"results", int64_t(proof.numResults)},
                            {"terms", int64_t(proof.numTerms)},
                            {"findings", std::move(findings)}};
  if (!proof.outOfScope.empty())
    answer["reason"] = proof.outOfScope;
  else if (proof.isLate)
    answer["reason"] = "the time limit was reached";
  llvm::outs() << llvm::json::Value(std::move(answer)) << "\n";
}

static void printText(const Proof &proof) {
  if (proof.isProved) {
    llvm::outs() << "proved: " << proof.numResults << " results\n";
    return;
  }
  llvm::outs() << "unknown";
  if (!proof.outOfScope.empty())
    llvm::outs() << ": " << proof.outOfScope;
  else if (proof.isLate)
    llvm::outs() << ": the time limit was reached";
  else
    llvm::outs() << ": " << proof.findings.size() << " of " << proof.numResults
                 << " results are not proved";
  llvm::outs() << "\n";
  constexpr size_t kShown = 10;
  for (const Finding &finding : llvm::ArrayRef(proof.findings).take_front(kShown)) {
    llvm::outs() << finding.result;
    if (!finding.function.empty())
      llvm::outs() << " of '" << finding.function << "'";
    llvm::outs() << ": " << finding.relation << "\n";
    if (finding.op)
      llvm::outs() << "  first op without a counterpart: " << describe(finding.op) << "\n";
    if (finding.counterpart)
      llvm::outs() << "  on one device: " << describe(finding.counterpart) << "\n";
    if (!finding.reason.empty())
      llvm::outs() << "  " << finding.reason << "\n";
  }
  if (proof.findings.size() > kShown)
    llvm::outs() << "and " << proof.findings.size() - kShown << " more (--json lists all)\n";
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "cleave-prove\n"; });
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Proves that what each rank of a mesh runs computes the program of one "
          "device.\nExit status: 0 proved, 2 unknown, 3 bad input\n",
          &llvm::errs()))
    return BadInput;
  if (globalOption.empty() || localOption.empty())
    return fail("expected two programs: cleave-prove GLOBAL LOCAL");
  if (!(limitOption > 0))
    return fail("--time-limit: expected more than 0 seconds");
  auto limit = std::chrono::duration<double>(std::min<double>(limitOption, 1e6));
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  mlir::OwningOpRef<mlir::ModuleOp> global = read(globalOption, context);
  if (!global)
    return BadInput;
  mlir::OwningOpRef<mlir::ModuleOp> local = read(localOption, context);
  if (!local)
    return BadInput;
  for (mlir::ModuleOp module : {*global, *local})
    if (module
            .walk([](mlir::Operation *op) {
              return op->getName().getDialectNamespace() == "exec" ? mlir::WalkResult::interrupt()
                                                                   : mlir::WalkResult::advance();
            })
            .wasInterrupted())
      return fail("expected programs before they are lowered, found ops of the exec dialect: an "
                  "executable program is checked against what it was lowered from, by "
                  "--verify-exec");
  mlir::FailureOr<Proof> proof = prove::prove(*global, *local, deadline);
  if (failed(proof))
    return BadInput;
  if (jsonOption)
    printJson(*proof);
  else
    printText(*proof);
  return proof->isProved ? Proved : Unknown;
}
