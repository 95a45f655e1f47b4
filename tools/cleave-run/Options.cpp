//===- Options.cpp - the command line of cleave-run --------------------------===//

#include "tools/cleave-run/Options.h"
#include "lib/support/Bytes.h"
#include "runtime/environment/Environment.h"
#include "runtime/environment/Version.h"
#include "runtime/program/Form.h"
#include "tools/cleave-run/Devices.h"
#include "tools/cleave-run/Ranks.h"
#include "tools/cleave-run/Training.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace cl = llvm::cl;

static cl::OptionCategory general("General options");
static cl::OptionCategory evaluating("Evaluating (one run on given inputs)");
static cl::OptionCategory comparing("Comparing two programs");
static cl::OptionCategory checking("Checking a program while it runs");

static cl::opt<std::string> program(cl::Positional, cl::desc("<program.mlir>"), cl::cat(general));
static cl::opt<std::string> weights(
    "weights",
    cl::desc("Parameters, buffers and constants: a safetensors file, a checkpoint, a Hugging "
             "Face folder, or a folder of torch.distributed.checkpoint (default: "
             "NAME.safetensors next to NAME.mlir)"),
    cl::value_desc("file or directory"), cl::cat(general));
static cl::opt<std::string>
    weightNames("weight-names",
                cl::desc("JSON object from the program's names of weights, or patterns with *, to "
                         "those in --weights"),
                cl::value_desc("file.json"), cl::cat(general));
static cl::opt<std::string>
    weightPrefix("weight-prefix",
                 cl::desc("Read the tensors of --weights whose names begin with this, and what "
                          "follows it as their names"),
                 cl::value_desc("prefix"), cl::cat(general));
static cl::opt<std::string>
    init("init",
         cl::desc("Start from the module's own initialisation, with --seed: runs python -m "
                  "cleave.init for the factory it was exported by, which writes "
                  "NAME.init.safetensors"),
         cl::value_desc("file.py:factory"), cl::cat(general));
static cl::list<std::string> libraries(
    "load-library",
    cl::desc(
        "Load operators that LibTorch does not have; its code is trusted like cleave-run's own "
        "(repeatable)"),
    cl::value_desc("library.so"), cl::cat(general));
static cl::opt<uint64_t> seed("seed", cl::desc("Random seed (default: 0)"), cl::init(0),
                              cl::cat(general));
static cl::opt<int> threads("threads", cl::desc("Threads per op (default: LibTorch's choice)"),
                            cl::init(0), cl::cat(general));
static cl::opt<bool> dryRun("dry-run",
                            cl::desc("Print memory, ops and communication without running"),
                            cl::cat(general));
static cl::opt<bool> printEnvironment(
    "environment",
    cl::desc("Print versions, processor, device and environment variables, for bug reports"),
    cl::cat(general));
static cl::opt<std::string> memoryLimit(
    "memory-limit",
    cl::desc("Reject a program that needs more per rank, with a breakdown of its memory"),
    cl::value_desc("bytes, or e.g. 4GiB"), cl::cat(general));
static cl::opt<cleave::runtime::WeightGradients> weightGradients(
    "weight-gradients",
    cl::desc("When to run the backward-weight half of a split backward (default: immediate)"),
    cl::init(cleave::runtime::WeightGradients::Immediate),
    cl::values(clEnumValN(cleave::runtime::WeightGradients::Immediate, "immediate",
                          "After the backward-input of its microbatch"),
               clEnumValN(cleave::runtime::WeightGradients::Deferred, "deferred",
                          "After the backward-input of all microbatches of the step")),
    cl::cat(general));
static cl::opt<std::string> kernels(
    "kernels",
    cl::desc("Compiled kernels to run: best (default): those for the newest instruction set of "
             "this machine; x86-64-v2, x86-64-v3 or x86-64-v4: those for that level; none: run "
             "the ops of each kernel one by one"),
    cl::init("best"), cl::value_desc("best | TARGET | none"), cl::cat(general));
static cl::opt<std::string> inputs("inputs", cl::desc("Inputs and targets of one microbatch"),
                                   cl::value_desc("file.safetensors"), cl::cat(evaluating));
static cl::opt<std::string>
    dump("dump", cl::desc("Write all results: loss, output.N, grad.NAME, buffer.NAME"),
         cl::value_desc("file.safetensors"), cl::cat(evaluating));
static cl::opt<std::string> against(
    "against",
    cl::desc("Run this program as well, on the same weights and inputs (with --steps: train "
             "on the same data), and print the difference of each value"),
    cl::value_desc("other.mlir"), cl::cat(comparing));
static cl::opt<int64_t> wholeStep(
    "whole-step",
    cl::desc("With --against and --inputs: run step n, all microbatches of all ranks and the "
             "update, and compare what each rank then has"),
    cl::value_desc("n"), cl::init(0), cl::cat(comparing));
static cl::opt<std::string>
    states("states",
           cl::desc("Optimizer states before that step: optim.NAME.SLOT (default: zeros)"),
           cl::value_desc("file.safetensors"), cl::cat(comparing));
static cl::opt<double>
    tolerance("tolerance",
              cl::desc("Maximum difference, max|a-b| / max(max|b|, 1e-3 x median over gradients of "
                       "max|g|) (default: 0, bitwise equality)"),
              cl::init(0), cl::cat(comparing));
static cl::opt<std::string> json("json", cl::desc("Write the comparison to this file, too"),
                                 cl::value_desc("file.json"), cl::cat(comparing));

enum class Check { Nothing, Replicated, Memory };
static cl::opt<Check>
    check("check", cl::desc("What to check after every op"), cl::init(Check::Nothing),
          cl::values(clEnumValN(Check::Replicated, "replicated",
                                "Values of types R and I are bitwise equal on all ranks along "
                                "the axis"),
                     clEnumValN(Check::Memory, "memory",
                                "No op reads memory that is dead in the plan of a lowered "
                                "program: it is filled with NaN")),
          cl::cat(checking));
static cl::opt<std::string> injectFault(
    "inject-fault",
    cl::desc("Flip a bit in the first result element of op N of the microbatch (from 0) on "
             "a rank, to test --check"),
    cl::value_desc("rank=R,op=N"), cl::cat(checking));

static const char *overview =
    "cleave-run: run, evaluate and compare training programs\n\n"
    "  cleave-run gpt.mlir --steps 100 --data text:book.txt --metrics loss.jsonl\n"
    "  cleave-run gpt.mlir --inputs batch.safetensors --dump results.safetensors\n"
    "  cleave-run gpt.mlir --against gpt.local.mlir --inputs batch.safetensors\n"
    "  cleave-run gpt.mlir --dry-run\n";

cleave::run::Options cleave::run::adapt(Options options, const runtime::Program &program) {
  if (!llvm::is_contained(program.microbatchPhases(), runtime::Phase::BackwardWeight))
    options.weightGradients = runtime::WeightGradients::Immediate;
  if (!hasKernels(program))
    options.kernels = "best";
  options.poisonsDeadMemory &= isLowered(program);
  return options;
}

std::vector<cleave::runtime::NamedPath> cleave::run::listInputs(const Options &options) {
  std::vector<runtime::NamedPath> inputs = {{"program", options.program}};
  for (auto [option, path] :
       {std::pair("--weights", options.init.empty() ? options.weights.path : ""),
        std::pair("--weights", options.weights.others),
        std::pair("--weight-names", options.weights.names.file),
        std::pair("--inputs", options.inputs), std::pair("--against", options.against),
        std::pair("--states", options.states)})
    if (!path.empty())
      inputs.push_back({option, path});
  for (const std::string &library : options.libraries)
    inputs.push_back({"--load-library", library});
  return inputs;
}

std::vector<cleave::runtime::NamedPath> cleave::run::listOutputs(const Options &options) {
  std::vector<runtime::NamedPath> outputs;
  if (!options.dump.empty())
    outputs.push_back({"--dump", options.dump});
  if (!options.json.empty())
    outputs.push_back({"--json", options.json});
  if (!options.init.empty() && !options.dryRun)
    outputs.push_back({"--init", options.weights.path});
  return outputs;
}

[[noreturn]] static void fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "cleave-run") << message << "\n";
  exit(EXIT_FAILURE);
}

/// What an option may not be, and which are valid only with another one.
static void checkOptions() {
  if (!std::isfinite(tolerance) || tolerance < 0)
    fail("--tolerance: expected a number of at least 0, found " +
         llvm::formatv("{0}", double(tolerance)).str());
  for (const cl::opt<std::string> *option : {&weightNames, &weightPrefix})
    if (option->getNumOccurrences() && weights.empty())
      fail("--" + option->ArgStr + " is for --weights");
  if (tolerance.getNumOccurrences() && against.empty())
    fail("--tolerance is for --against");
  if (wholeStep.getNumOccurrences() && (against.empty() || cleave::run::isTraining()))
    fail("--whole-step is for --against without --steps");
  if (wholeStep.getNumOccurrences() && wholeStep < 1)
    fail("--whole-step: expected a number of at least 1, found " + llvm::Twine(int64_t(wholeStep)));
  if (!states.empty() && !wholeStep.getNumOccurrences())
    fail("--states is for --whole-step");
  if (!json.empty() && against.empty())
    fail("--json is for --against");
  if (!init.empty() && !weights.empty())
    fail("--init makes the weights; expected it without --weights");
  if (!dump.empty() && !against.empty())
    fail("--dump is for the evaluation of one program, not for --against");
  constexpr int kMaxThreads = 1024;
  if (threads.getNumOccurrences() && (threads < 1 || threads > kMaxThreads))
    fail("--threads: expected a number from 1 to " + llvm::Twine(kMaxThreads) + ", found " +
         llvm::Twine(threads));
}

/// `rank=1,op=12`
static std::optional<cleave::runtime::InjectedFault> parseFault(llvm::StringRef text) {
  cleave::runtime::InjectedFault fault;
  auto [rank, op] = text.split(',');
  if (!rank.consume_front("rank=") || !op.consume_front("op=") ||
      rank.getAsInteger(10, fault.rank) || op.getAsInteger(10, fault.op) || fault.rank < 0 ||
      fault.op < 0)
    return std::nullopt;
  return fault;
}

static cleave::runtime::ReplicationCheck parseCheck() {
  cleave::runtime::ReplicationCheck result;
  result.isOn = check == Check::Replicated;
  if (!injectFault.getNumOccurrences())
    return result;
  result.fault = parseFault(injectFault);
  if (!result.isOn)
    fail("--inject-fault is for --check replicated");
  if (!result.fault)
    fail("--inject-fault: expected rank=R,op=N, found '" + injectFault + "'");
  return result;
}

cleave::run::Options cleave::run::parseOptions(int argc, char **argv) {
  cl::HideUnrelatedOptions({&general, &trainingCategory, &dataCategory, &reportingCategory,
                            &checkpointCategory, &ranksCategory, &deviceCategory, &evaluating,
                            &comparing, &checking});
  cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "cleave-run " << runtime::getVersion() << "\n"
       << "LibTorch " << runtime::getTorchVersion() << " in " << runtime::getTorchDirectory()
       << "\n";
  });
  cl::ParseCommandLineOptions(argc, argv, overview);
  Options options;
  options.printEnvironment = printEnvironment;
  if (printEnvironment)
    return options;
  if (program.empty())
    fail("expected a program, as in: cleave-run gpt.mlir (see --help)");
  checkOptions();
  options.program = program;
  llvm::SmallString<128> path(options.program);
  llvm::sys::path::replace_extension(path, "safetensors");
  options.weights.others = path.str();
  options.weights.path = weights.empty() ? options.weights.others : weights;
  options.weights.names = {weightNames, weightPrefix};
  options.init = init;
  if (!init.empty()) {
    llvm::sys::path::replace_extension(path, "init.safetensors");
    options.weights.path = path.str();
  }
  options.libraries = libraries;
  options.inputs = inputs;
  options.dump = dump;
  options.against = against;
  options.wholeStep = wholeStep;
  options.states = states;
  options.microbatches = cleave::run::getMicrobatches();
  options.tolerance = tolerance;
  options.json = json;
  options.seed = seed;
  options.nameRanges = namesRanges();
  options.threads = threads;
  options.dryRun = dryRun;
  if (memoryLimit.getNumOccurrences()) {
    options.memoryLimit = cleave::support::parseBytes(memoryLimit);
    if (!options.memoryLimit)
      fail("expected --memory-limit as a number of bytes, or with KiB, MiB, GiB or TiB, found '" +
           memoryLimit + "'");
  }
  options.weightGradients = weightGradients;
  options.kernels = kernels;
  options.check = parseCheck();
  options.poisonsDeadMemory = check == Check::Memory;
  return options;
}
