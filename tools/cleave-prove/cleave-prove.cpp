//===- cleave-prove.cpp - whether the program of many ranks is that of one --===//
//
// Reads both programs, and says what is proved. The exit status is the answer.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/prove/Assume.h"
#include "lib/prove/Prove.h"
#include "tools/ReadProgram.h"
#include "tools/cleave-prove/Execute.h"

#include "mlir/IR/Location.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace cleave;
using prove::Counterexample;
using prove::Execution;
using prove::Finding;
using prove::Proof;

enum ExitStatus { Proved = 0, Refuted = 1, Unknown = 2, BadInput = 3 };

static cl::OptionCategory category("cleave-prove options");
static cl::opt<std::string>
    globalOption(cl::Positional, cl::cat(category), cl::value_desc("GLOBAL"),
                 cl::desc("<program of one device> <program of each rank>"));
static cl::opt<std::string> localOption(cl::Positional, cl::cat(category), cl::value_desc("LOCAL"));
static cl::opt<double>
    limitOption("time-limit", cl::cat(category), cl::init(60), cl::value_desc("seconds"),
                cl::desc("After this time the answer is unknown (60 if not given)"));
static cl::opt<bool> executeOption(
    "execute", cl::cat(category), cl::init(true),
    cl::desc(
        "Where the answer is unknown, run both programs on random inputs, which may refute it"));
static cl::opt<std::string>
    weightsOption("weights", cl::cat(category), cl::value_desc("file.safetensors"),
                  cl::desc("Weights of the run (the file beside GLOBAL if not given)"));
static cl::opt<std::string> inputsOption("counterexample", cl::cat(category),
                                         cl::value_desc("file.safetensors"),
                                         cl::desc("Keep the inputs of the run in this file"));
static cl::opt<uint64_t> seedOption("seed", cl::cat(category), cl::init(0),
                                    cl::desc("Seed of the random inputs"));
enum Assumption : uint8_t { ExactCasts, RoomForRows, OwnBuffers };
static cl::bits<Assumption> assumeOption(
    "assume", cl::cat(category), cl::CommaSeparated,
    cl::desc("Prove it for programs of which this holds, which the answer says"),
    cl::values(clEnumValN(ExactCasts, "exact-casts",
                          "Conversions between floating-point types change no value"),
               clEnumValN(RoomForRows, "room-for-rows",
                          "No rank receives more rows than it has room for: a run in which one "
                          "does ends with an error"),
               clEnumValN(OwnBuffers, "own-buffers",
                          "Buffers may be each rank's own, of the microbatches that it runs")));
// For developers: CONTRIBUTING.md.
static cl::opt<std::string>
    breakOption("break-lemma", cl::cat(category), cl::Hidden, cl::value_desc("name"),
                cl::desc("Make this lemma wrong: a test of the tests. What is proved then is not"));
static cl::opt<unsigned> formOption("form", cl::cat(category), cl::Hidden, cl::value_desc("0 to 7"),
                                    cl::desc("Try a proof in this form alone: for tests of each"));
static cl::opt<bool> listLemmasOption("list-lemmas", cl::cat(category), cl::Hidden,
                                      cl::desc("Print the lemmas by name, with what they say"));
static cl::opt<std::string>
    logOption("log", cl::cat(category), cl::value_desc("file"),
              cl::desc("Where it is proved, write the proof for cleave-check-proof"));
static cl::opt<bool> jsonOption("json", cl::cat(category), cl::desc("Print the answer as JSON"));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-prove") << message << "\n";
  return BadInput;
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

static llvm::json::Value toJson(std::optional<double> number) {
  return number ? llvm::json::Value(*number) : llvm::json::Value(nullptr);
}

static llvm::json::Object toJson(const Execution &execution) {
  if (!execution.notRun.empty())
    return llvm::json::Object{{"not_run", execution.notRun}};
  llvm::json::Array values;
  for (const Counterexample &example : execution.counterexamples) {
    llvm::json::Object value{{"name", example.name},
                             {"at", llvm::json::Array(example.place)},
                             {"local", toJson(example.local)},
                             {"global", toJson(example.global)},
                             {"relative", toJson(example.relative)}};
    if (example.rank)
      value["rank"] = *example.rank;
    values.push_back(std::move(value));
  }
  return llvm::json::Object{{"ranks", execution.ranks},
                            {"microbatches", execution.microbatches},
                            {"own_microbatches", execution.ownMicrobatches()},
                            {"update", execution.hasUpdate},
                            {"float64", execution.isWide},
                            {"tolerance", execution.tolerance},
                            {"values", int64_t(execution.numValues)},
                            {"turning", int64_t(execution.numTurning)},
                            {"counterexamples", std::move(values)}};
}

static bool isRefuted(const std::optional<Execution> &execution) {
  return execution && !execution->counterexamples.empty();
}

static void printJson(const Proof &proof, const std::optional<Execution> &execution) {
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
    if (!finding.operand.empty())
      entry["operand"] = finding.operand;
    if (!finding.repair.empty())
      entry["repair"] = finding.repair;
    if (!finding.reason.empty())
      entry["reason"] = finding.reason;
    findings.push_back(std::move(entry));
  }
  llvm::json::Object answer{{"version", 1},
                            {"answer", proof.isProved         ? "proved"
                                       : isRefuted(execution) ? "refuted"
                                                              : "unknown"},
                            {"results", int64_t(proof.numResults)},
                            {"terms", int64_t(proof.numTerms)},
                            {"findings", std::move(findings)}};
  llvm::json::Array assumptions;
  if (assumeOption.isSet(ExactCasts))
    assumptions.push_back("exact-casts");
  if (assumeOption.isSet(RoomForRows))
    assumptions.push_back("room-for-rows");
  if (assumeOption.isSet(OwnBuffers))
    assumptions.push_back("own-buffers");
  if (!assumptions.empty())
    answer["assumptions"] = std::move(assumptions);
  if (!proof.note.empty())
    answer["note"] = proof.note;
  if (!proof.outOfScope.empty())
    answer["reason"] = proof.outOfScope;
  else if (proof.isLate)
    answer["reason"] = "the time limit was reached";
  if (execution)
    answer["execution"] = toJson(*execution);
  llvm::outs() << llvm::json::Value(std::move(answer)) << "\n";
}

static void print(std::optional<double> number) {
  if (number)
    llvm::outs() << llvm::format("%.9g", *number);
  else
    llvm::outs() << "not finite";
}

/// "grad.wte.weight at [3, 7] is 0.25, expected 0.5"
static void print(const Counterexample &example) {
  llvm::outs() << "  " << example.name;
  if (!example.place.empty()) {
    llvm::outs() << " at [";
    llvm::interleaveComma(example.place, llvm::outs());
    llvm::outs() << "]";
  }
  if (example.rank)
    llvm::outs() << " on rank " << *example.rank;
  llvm::outs() << " is ";
  print(example.local);
  llvm::outs() << ", expected ";
  print(example.global);
  llvm::outs() << "\n";
}

/// ", in float64, on 3 ranks with 2 microbatches each, "
static std::string describeRun(const Execution &execution) {
  std::string text = execution.isWide ? ", in float64" : "";
  if (execution.microbatches > 0)
    text += ", on " + std::to_string(execution.ranks) +
            (execution.ranks == 1 ? " rank" : " ranks") + " with " +
            std::to_string(execution.microbatches) +
            (execution.microbatches == 1 ? " microbatch" : " microbatches") +
            (execution.ownMicrobatches() > 0 ? " each"
             : execution.ranks > 1           ? " together"
                                             : "");
  return text.empty() ? " " : text + ", ";
}

/// "all 87 values agree"
static std::string describeAgreement(const Execution &execution) {
  std::string count = std::to_string(execution.numValues);
  if (execution.numTurning == 0)
    return "all " + count + " values agree";
  return std::to_string(execution.numValues - execution.numTurning) + " of " + count +
         " values agree, and the others turn where rounding changes a gradient";
}

static void printText(const Proof &proof, const std::optional<Execution> &execution) {
  if (proof.isProved) {
    llvm::outs() << "proved: " << proof.numResults << " results";
    llvm::StringRef separator = ", if ";
    if (assumeOption.isSet(ExactCasts)) {
      llvm::outs() << separator << "conversions between floating-point types change no value";
      separator = ", and ";
    }
    if (assumeOption.isSet(RoomForRows)) {
      llvm::outs() << separator << "no rank receives more rows than it has room for";
      separator = ", and ";
    }
    if (assumeOption.isSet(OwnBuffers))
      llvm::outs() << separator
                   << "buffers may be each rank's own, of the microbatches that it runs";
    llvm::outs() << "\n";
    return;
  }
  constexpr size_t kShown = 10;
  if (isRefuted(execution)) {
    size_t count = execution->counterexamples.size();
    llvm::outs() << "refuted: on random inputs" << describeRun(*execution) << count << " of "
                 << execution->numValues << " values differ\n";
    for (const Counterexample &example :
         llvm::ArrayRef(execution->counterexamples).take_front(kShown))
      print(example);
    if (count > kShown)
      llvm::outs() << "  and " << count - kShown << " more (--json lists all)\n";
  } else {
    llvm::outs() << "unknown";
  }
  if (!proof.outOfScope.empty())
    llvm::outs() << (isRefuted(execution) ? "not compared: " : ": ") << proof.outOfScope;
  else if (proof.isLate)
    llvm::outs() << (isRefuted(execution) ? "not compared: " : ": ")
                 << "the time limit was reached";
  else
    llvm::outs() << (isRefuted(execution) ? "" : ": ") << proof.findings.size() << " of "
                 << proof.numResults << " results are not proved";
  llvm::outs() << "\n";
  for (const Finding &finding : llvm::ArrayRef(proof.findings).take_front(kShown)) {
    llvm::outs() << finding.result;
    if (!finding.function.empty())
      llvm::outs() << " of '" << finding.function << "'";
    llvm::outs() << ": " << finding.relation << "\n";
    if (finding.op)
      llvm::outs() << "  first op without a counterpart: " << describe(finding.op) << "\n";
    if (finding.counterpart)
      llvm::outs() << "  on one device: " << describe(finding.counterpart) << "\n";
    if (!finding.operand.empty())
      llvm::outs() << "  it is, or takes, " << finding.operand << "\n";
    if (!finding.repair.empty())
      llvm::outs() << "  it would be right " << finding.repair << "\n";
    if (!finding.reason.empty())
      llvm::outs() << "  " << finding.reason << "\n";
  }
  if (proof.findings.size() > kShown)
    llvm::outs() << "and " << proof.findings.size() - kShown << " more (--json lists all)\n";
  if (!proof.note.empty())
    llvm::outs() << proof.note << "\n";
  if (!execution || isRefuted(execution))
    return;
  if (!execution->notRun.empty())
    llvm::outs() << "not run: " << execution->notRun << "\n";
  else
    llvm::outs() << "on random inputs" << describeRun(*execution) << describeAgreement(*execution)
                 << ", to a relative " << llvm::format("%g", execution->tolerance)
                 << (execution->hasUpdate ? "\n" : "; an update is not run\n");
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "cleave-prove\n"; });
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "Proves that what each rank of a mesh runs computes the program of one "
          "device.\nExit status: 0 proved, 1 refuted, 2 unknown, 3 bad input\n",
          &llvm::errs()))
    return BadInput;
  if (listLemmasOption) {
    for (const prove::LemmaInfo &lemma : prove::getLemmas())
      llvm::outs() << lemma.name << ": " << lemma.claim << "\n";
    return Proved;
  }
  if (globalOption.empty() || localOption.empty())
    return fail("expected two programs: cleave-prove GLOBAL LOCAL");
  if (!(limitOption > 0))
    return fail("--time-limit: expected more than 0 seconds");
  std::optional<prove::Lemma> broken;
  if (!breakOption.empty() && !(broken = prove::findLemma(breakOption)))
    return fail("--break-lemma: unknown lemma '" + breakOption + "' (--list-lemmas names all)");
  auto limit = std::chrono::duration<double>(std::min<double>(limitOption, 1e6));
  auto deadline = std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  mlir::OwningOpRef<mlir::ModuleOp> global, local;
  for (auto [path, program] : {std::pair(&globalOption, &global), {&localOption, &local}}) {
    auto parsed = readProgram(*path, context);
    if (!parsed)
      return fail(llvm::toString(parsed.takeError()));
    if (!*parsed)
      return BadInput;
    *program = std::move(*parsed);
  }
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
  // What is run is the programs as they are.
  mlir::OwningOpRef<mlir::ModuleOp> assumedGlobal, assumedLocal;
  if (assumeOption.isSet(ExactCasts)) {
    assumedGlobal = global->clone();
    assumedLocal = local->clone();
    if (llvm::Error error = prove::assumeExactCasts({*assumedGlobal, *assumedLocal}))
      return fail("--assume=exact-casts: " + llvm::toString(std::move(error)));
  }
  std::string log;
  mlir::FailureOr<Proof> proof = prove::prove(
      assumedGlobal ? *assumedGlobal : *global, assumedLocal ? *assumedLocal : *local,
      {deadline, broken,
       formOption.getNumOccurrences() ? std::optional<unsigned>(formOption) : std::nullopt,
       logOption.empty() ? nullptr : &log, assumeOption.isSet(RoomForRows),
       assumeOption.isSet(OwnBuffers)});
  if (failed(proof))
    return BadInput;
  if (proof->isProved && !logOption.empty())
    if (llvm::Error error = llvm::writeToOutput(logOption, [&](llvm::raw_ostream &os) {
          os << log;
          return llvm::Error::success();
        }))
      return fail(llvm::toString(std::move(error)));
  std::optional<Execution> execution;
  // What a wrong lemma leaves unproved says nothing.
  if (!proof->isProved && executeOption && !broken)
    execution = prove::execute(
        *global, *local,
        {globalOption, localOption, weightsOption, inputsOption, seedOption, deadline});
  if (jsonOption)
    printJson(*proof, execution);
  else
    printText(*proof, execution);
  return proof->isProved ? Proved : isRefuted(execution) ? Refuted : Unknown;
}
