//===- Options.cpp - the command line of cleave-run --------------------------===//

#include "tools/cleave-run/Options.h"
#include "runtime/environment/Environment.h"
#include "runtime/environment/Version.h"
#include "tools/cleave-run/Devices.h"
#include "tools/cleave-run/Ranks.h"
#include "tools/cleave-run/Training.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;

static cl::OptionCategory general("What to run");
static cl::OptionCategory evaluating("Evaluating (the program once, on given inputs)");
static cl::OptionCategory comparing("Comparing two programs");
static cl::OptionCategory checking("Checking a program as it runs");

static cl::opt<std::string> program(cl::Positional, cl::desc("<program.mlir>"), cl::cat(general));
static cl::opt<std::string>
    weights("weights",
            cl::desc("Parameters, buffers and constants (default: NAME.safetensors "
                     "beside NAME.mlir)"),
            cl::value_desc("file.safetensors"), cl::cat(general));
static cl::opt<uint64_t> seed("seed", cl::desc("Seed of random numbers (default: 0)"), cl::init(0),
                              cl::cat(general));
static cl::opt<int> threads("threads",
                            cl::desc("Threads that one op may use (default: LibTorch's choice)"),
                            cl::init(0), cl::cat(general));
static cl::opt<bool> dryRun("dry-run", cl::desc("Print memory, ops and communication; run nothing"),
                            cl::cat(general));
static cl::opt<bool> printEnvironment(
    "environment",
    cl::desc("Print versions, processor, device and variables of this process, for bug reports"),
    cl::cat(general));
static cl::opt<std::string> memoryLimit(
    "memory-limit",
    cl::desc("Refuse a program that needs more on a rank, with a table of what takes it"),
    cl::value_desc("bytes, or as in 4GiB"), cl::cat(general));
static cl::opt<cleave::runtime::WeightGradients>
    weightGradients("weight-gradients",
                    cl::desc("When the weight part of a split backward runs (default: immediate)"),
                    cl::init(cleave::runtime::WeightGradients::Immediate),
                    cl::values(clEnumValN(cleave::runtime::WeightGradients::Immediate, "immediate",
                                          "After each microbatch's input part"),
                               clEnumValN(cleave::runtime::WeightGradients::Deferred, "deferred",
                                          "After the input parts of all microbatches of the step")),
                    cl::cat(general));
static cl::opt<std::string>
    kernels("kernels",
            cl::desc("Which of the program's compiled kernels run: best (default): those for the "
                     "best processor that this machine is; those for x86-64-v2, x86-64-v3 or "
                     "x86-64-v4; none: the ops of each kernel run one by one"),
            cl::init("best"), cl::value_desc("best | TARGET | none"), cl::cat(general));
static cl::opt<std::string> inputs("inputs", cl::desc("Inputs and targets of one microbatch"),
                                   cl::value_desc("file.safetensors"), cl::cat(evaluating));
static cl::opt<std::string>
    dump("dump", cl::desc("Write every result: loss, output.N, grad.NAME, buffer.NAME"),
         cl::value_desc("file.safetensors"), cl::cat(evaluating));
static cl::opt<std::string>
    against("against",
            cl::desc("Run this program too, on the same weights and inputs (with --steps: train it "
                     "on the same data), and print by how much each value differs"),
            cl::value_desc("other.mlir"), cl::cat(comparing));
static cl::opt<double>
    tolerance("tolerance",
              cl::desc("Largest difference, max|a-b| / max(max|b|, 1e-3 x median over gradients of "
                       "max|g|), that is no failure (default: 0, bitwise equality)"),
              cl::init(0), cl::cat(comparing));

enum class Check { Nothing, Replicated, Memory };
static cl::opt<Check> check(
    "check", cl::desc("What to check after every op"), cl::init(Check::Nothing),
    cl::values(clEnumValN(Check::Replicated, "replicated",
                          "That values of types R and I have the same bits on all ranks along "
                          "the axis"),
               clEnumValN(Check::Memory, "memory",
                          "That nothing reads memory that the plan of a lowered program holds for "
                          "dead: it is filled with NaN")),
    cl::cat(checking));
static cl::opt<std::string> injectFault(
    "inject-fault",
    cl::desc("Flip a bit of the first element that op N of the microbatch (from 0) gives "
             "on a rank, to see --check find it"),
    cl::value_desc("rank=R,op=N"), cl::cat(checking));

static const char *overview =
    "cleave-run: runs training programs\n\n"
    "  cleave-run gpt.mlir --steps 100 --data text:book.txt --metrics loss.jsonl\n"
    "  cleave-run gpt.mlir --inputs batch.safetensors --dump results.safetensors\n"
    "  cleave-run gpt.mlir --against gpt.local.mlir --inputs batch.safetensors\n"
    "  cleave-run gpt.mlir --dry-run\n";

cleave::runtime::WeightGradients
cleave::run::chooseWeightGradients(const runtime::Program &program,
                                   runtime::WeightGradients wanted) {
  return llvm::is_contained(program.microbatchPhases(), runtime::Phase::BackwardWeight)
             ? wanted
             : runtime::WeightGradients::Immediate;
}

/// "1.5GiB" in bytes; nothing for what is no positive amount.
static std::optional<int64_t> parseBytes(llvm::StringRef text) {
  static constexpr std::pair<const char *, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double factor = 1;
  for (auto [unit, bytes] : units)
    if (text.consume_back(unit))
      factor = bytes;
  double value = 0;
  if (text.trim().getAsDouble(value) || !(value > 0) || value * factor > 0x1p62)
    return std::nullopt;
  return static_cast<int64_t>(value * factor);
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
  if (!result.fault || !result.isOn) {
    llvm::WithColor::error(llvm::errs(), "cleave-run")
        << (result.isOn ? "--inject-fault: expected rank=R,op=N, found '" + injectFault + "'"
                        : "--inject-fault is for --check replicated")
        << "\n";
    exit(EXIT_FAILURE);
  }
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
  if (program.empty()) {
    llvm::WithColor::error(llvm::errs(), "cleave-run")
        << "expected a program, as in: cleave-run gpt.mlir (--help explains)\n";
    exit(EXIT_FAILURE);
  }
  options.program = program;
  options.weights = weights;
  if (options.weights.empty()) {
    llvm::SmallString<128> path(options.program);
    llvm::sys::path::replace_extension(path, "safetensors");
    options.weights = path.str();
  }
  options.inputs = inputs;
  options.dump = dump;
  options.against = against;
  options.tolerance = tolerance;
  options.seed = seed;
  options.nameRanges = namesRanges();
  options.threads = threads;
  options.dryRun = dryRun;
  if (memoryLimit.getNumOccurrences()) {
    options.memoryLimit = parseBytes(memoryLimit);
    if (!options.memoryLimit) {
      llvm::WithColor::error(llvm::errs(), "cleave-run")
          << "expected --memory-limit as a number of bytes, or with KiB, MiB, GiB or TiB, found '"
          << memoryLimit << "'\n";
      exit(EXIT_FAILURE);
    }
  }
  options.weightGradients = weightGradients;
  options.kernels = kernels;
  options.check = parseCheck();
  options.poisonsDeadMemory = check == Check::Memory;
  return options;
}
