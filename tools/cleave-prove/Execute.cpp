//===- Execute.cpp - runs both programs to tell them apart ------------------===//

#include "tools/cleave-prove/Execute.h"
#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Program.h"
#include "runtime/io/Metrics.h"
#include "runtime/io/Safetensors.h"
#include "tools/cleave-prove/JoinShards.h"
#include "tools/cleave-prove/RandomTensors.h"
#include "tools/cleave-prove/Updates.h"
#include "tools/cleave-prove/Widen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

// More ranks than this are not run: they are threads of one process.
static constexpr int64_t kMaxRanks = 16;

//===----------------------------------------------------------------------===//
// What the programs need
//===----------------------------------------------------------------------===//

/// Of an axis of the mesh whose size is open.
static constexpr int64_t kOpenSizes[] = {3, 2};

/// Ranks of the mesh, and of the pipeline if it is not an axis of it, where an open axis has
/// `openSize`.
static int64_t countRanks(ModuleOp module, int64_t openSize) {
  int64_t ranks = 1;
  dist::MeshOp mesh = dist::getMesh(module);
  if (mesh)
    for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
      ranks *= axis.getSize() > 0 ? axis.getSize() : openSize;
  for (auto schedule : module.getOps<pipeline::ScheduleOp>()) {
    StringRef axis = schedule.getAxis().value_or("pp");
    if (!mesh || !mesh.findAxis(axis))
      ranks *= int64_t(schedule.getLists().size());
  }
  return ranks;
}

/// How many parts of the batch ranks have by roles, each with microbatches of its own.
static int64_t countBatchParts(ModuleOp module, int64_t openSize) {
  dist::MeshOp mesh = dist::getMesh(module);
  int64_t parts = 1;
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; mesh && i < function.getNumArguments(); ++i) {
      auto role = function.getArgAttrOfType<train::RoleAttr>(i, train::kRoleAttrName);
      if (!role || !role.getOver())
        continue;
      int64_t product = 1;
      for (StringRef name : role.getOver().getAsValueRange<StringAttr>())
        if (dist::AxisAttr axis = mesh.findAxis(name))
          product *= axis.getSize() > 0 ? axis.getSize() : openSize;
      parts = std::max(parts, product);
    }
  return parts;
}

/// Of the mesh's axes.
static llvm::SmallVector<int64_t> getSizes(ModuleOp module) {
  llvm::SmallVector<int64_t> sizes;
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
      sizes.push_back(axis.getSize());
  return sizes;
}

/// Those of a schedule.
static std::optional<int64_t> countMicrobatches(ModuleOp module) {
  std::optional<int64_t> count;
  for (auto schedule : module.getOps<pipeline::ScheduleOp>())
    count = int64_t(schedule.getMicrobatches());
  return count;
}

/// Above which a difference is none of rounding, where all is computed in float64: sums in another
/// order differ by less than 1e-12 in the models of the tests.
static constexpr double kTolerance = 1e-6;

/// The same of parameters and optimizer states after an update.
static constexpr double kUpdateTolerance = 1e-9;

/// By what share of the greatest norm of any gradient others are changed, to see which updates turn
/// with rounding; and how much more a value may differ than with that.
static constexpr double kChange = 1e-10, kChangeOfFloat32 = 1e-4, kTimesChange = 10;

/// The same where `bits` is the narrowest type; nothing where rounding may be as large as errors.
/// Sums of float32 in another order differ by less than 1e-4 in the models of the tests.
static std::optional<double> toleranceFor(unsigned bits) {
  if (bits < 32)
    return std::nullopt;
  return bits < 64 ? 1e-2 : kTolerance;
}

namespace {
/// The files of a run.
struct Files {
  std::string global, local, weights, inputs;
  std::string states; ///< empty where no whole step is run
};
} // namespace

static llvm::Error write(llvm::StringRef path, ModuleOp module) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (code)
    return llvm::errorCodeToError(code);
  module->print(file, OpPrintingFlags().enableDebugInfo());
  return llvm::Error::success();
}

/// The same run in float64, as files in `folder`; nothing if the programs compute in float64
/// anyway, or cannot.
static std::optional<Files> writeWide(ModuleOp global, ModuleOp local, const Files &files,
                                      bool hasUpdate, llvm::StringRef folder) {
  if (narrowestFloat(global) == 64 && narrowestFloat(local) == 64)
    return std::nullopt;
  OwningOpRef<ModuleOp> inputs[] = {global.clone(), local.clone()};
  if (!hasUpdate)
    for (OwningOpRef<ModuleOp> &module : inputs)
      eraseUpdates(*module);
  OwningOpRef<ModuleOp> wideGlobal = widen(*inputs[0]), wideLocal = widen(*inputs[1]);
  if (!wideGlobal || !wideLocal)
    return std::nullopt;
  auto inFolder = [&](llvm::StringRef name) { return (folder + "/wide-" + name).str(); };
  Files wide{inFolder("global.mlir"), inFolder("local.mlir"), inFolder("weights.safetensors"),
             inFolder("inputs.safetensors"),
             files.states.empty() ? "" : inFolder("states.safetensors")};
  llvm::Error error =
      llvm::joinErrors(write(wide.global, *wideGlobal), write(wide.local, *wideLocal));
  error = llvm::joinErrors(std::move(error), widenFile(files.weights, wide.weights));
  error = llvm::joinErrors(std::move(error), widenFile(files.inputs, wide.inputs));
  if (!wide.states.empty())
    error = llvm::joinErrors(std::move(error), widenFile(files.states, wide.states));
  if (!error)
    return wide;
  // Weights in several files, say: the programs are run as they are.
  llvm::consumeError(std::move(error));
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

/// The first two lines of an error: what is wrong, and where.
static std::string readError(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return "";
  auto [first, rest] = (*file)->getBuffer().trim().split('\n');
  first.consume_front("cleave-run: ");
  first.consume_front("error: ");
  llvm::StringRef second = rest.split('\n').first;
  return (first + (second.empty() || second.starts_with(" ") ? "" : " " + second)).str();
}

static bool isOfUpdate(llvm::StringRef name) {
  return name.starts_with("param.") || name.starts_with("optim.");
}

/// Whether a value differs by more than rounding explains. What an update makes is as large as the
/// states before it, whose rounding is less than that of gradients, and these may be small.
static bool isRefuted(const Counterexample &example, const Execution &execution) {
  if (!example.relative)
    return true;
  return *example.relative > (isOfUpdate(example.name) && execution.tolerance <= kTolerance
                                  ? kUpdateTolerance
                                  : execution.tolerance);
}

/// What `cleave-run --json` says of both programs.
static void readReport(const llvm::json::Object &report, Execution &execution) {
  execution.counterexamples.clear();
  const llvm::json::Array *values = report.getArray("values");
  execution.numValues = values ? values->size() : 0;
  for (size_t i = 0; i < execution.numValues; ++i) {
    const llvm::json::Object &value = *(*values)[i].getAsObject();
    Counterexample example;
    example.name = value.getString("name").value_or("").str();
    example.relative = value.getNumber("relative");
    if (!isRefuted(example, execution))
      continue;
    example.rank = value.getInteger("rank");
    if (const llvm::json::Array *place = value.getArray("at"))
      for (const llvm::json::Value &index : *place)
        example.place.push_back(index.getAsInteger().value_or(0));
    if (const llvm::json::Array *numbers = value.getArray("numbers");
        numbers && numbers->size() == 2) {
      example.local = (*numbers)[0].getAsNumber();
      example.global = (*numbers)[1].getAsNumber();
    }
    execution.counterexamples.push_back(std::move(example));
  }
  // The furthest off first: what a wrong value goes into is off by less.
  llvm::stable_sort(execution.counterexamples,
                    [](const Counterexample &a, const Counterexample &b) {
                      constexpr double infinity = std::numeric_limits<double>::infinity();
                      return a.relative.value_or(infinity) > b.relative.value_or(infinity);
                    });
}

/// The first step of some optimizers does not read their states.
static constexpr const char *kStep = "2";

/// A run of both programs on some ranks.
struct Run {
  llvm::StringRef program, folder; ///< cleave-run, and where its report goes
  int64_t ranks = 1;
  int64_t microbatches = 0; ///< of each rank, where a whole step is run; else 0
  double tolerance = 0;
  std::chrono::steady_clock::time_point deadline;
};

/// What cleave-run says of both programs; a reason if they were not run.
static std::string run(const Run &run, const Files &files, llvm::json::Object &report) {
  auto left = std::chrono::duration_cast<std::chrono::seconds>(run.deadline -
                                                               std::chrono::steady_clock::now());
  if (left.count() < 1)
    return "the time limit was reached";
  auto inFolder = [&](llvm::StringRef name) { return (run.folder + "/" + name).str(); };
  std::string path = inFolder("report.json"), output = inFolder("output"),
              errors = inFolder("errors");
  (void)llvm::sys::fs::remove(path);
  std::string numRanks = std::to_string(run.ranks), limit = std::to_string(left.count()),
              bound = runtime::formatNumber(run.tolerance);
  std::vector<llvm::StringRef> arguments = {
      run.program,  files.local, "--against", files.global,  "--weights", files.weights, "--inputs",
      files.inputs, "--json",    path,        "--tolerance", bound,       "--seed",      "0"};
  if (run.ranks > 1)
    arguments.insert(arguments.end(),
                     {"--ranks", numRanks, "--ranks-as", "threads", "--timeout", limit});
  std::string microbatches = std::to_string(run.microbatches);
  if (run.microbatches > 0)
    arguments.insert(arguments.end(), {"--whole-step", kStep, "--microbatches", microbatches});
  if (!files.states.empty())
    arguments.insert(arguments.end(), {"--states", files.states});
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), output, errors};
  std::string message;
  llvm::sys::ExecuteAndWait(run.program, arguments, std::nullopt, redirects, unsigned(left.count()),
                            0, &message);
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    std::string said = message.empty() ? readError(errors) : message;
    return said.empty() ? "cleave-run gave no report" : said;
  }
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse((*file)->getBuffer());
  if (!parsed || !parsed->getAsObject()) {
    if (!parsed)
      llvm::consumeError(parsed.takeError());
    return "cleave-run's report is no JSON object";
  }
  report = std::move(*parsed->getAsObject());
  return "";
}

/// The parameter that an update makes, or whose state: the names of states begin with it.
static bool isOfParameter(llvm::StringRef name, llvm::StringRef parameter) {
  if (name.consume_front("param."))
    return name == parameter;
  return name.consume_front("optim.") && name.rsplit('.').first == parameter;
}

/// Leaves out what the update of one device turns as much, if the gradients that it takes change by
/// so little as rounding might: signs and comparisons of them say nothing there. Where the gradient
/// differs by more, it is no rounding. A reason if that cannot be run.
static std::string removeTurning(ModuleOp global, Run run, Files files, Execution &execution) {
  auto mayTurn = [&](const Counterexample &example) {
    return isOfUpdate(example.name) &&
           llvm::none_of(execution.counterexamples, [&](const Counterexample &other) {
             llvm::StringRef gradient = other.name;
             return gradient.consume_front("grad.") && isOfParameter(example.name, gradient);
           });
  };
  if (llvm::none_of(execution.counterexamples, mayTurn))
    return "";
  run.microbatches *= execution.batchParts;
  run.ranks = 1;
  files.local = (run.folder + "/changed.mlir").str();
  llvm::StringMap<double> turned;
  for (Change change : {Change::Larger, Change::Smaller, Change::BySign}) {
    OwningOpRef<ModuleOp> changed = global.clone();
    changeGradients(*changed, change,
                    execution.tolerance <= kTolerance ? kChange : kChangeOfFloat32);
    if (llvm::Error error = write(files.local, *changed))
      return llvm::toString(std::move(error));
    llvm::json::Object report;
    if (std::string reason = ::run(run, files, report); !reason.empty())
      return reason;
    if (const llvm::json::Array *values = report.getArray("values"))
      for (const llvm::json::Value &value : *values) {
        const llvm::json::Object &object = *value.getAsObject();
        double &most = turned[object.getString("name").value_or("")];
        most = std::max(
            most, object.getNumber("relative").value_or(std::numeric_limits<double>::infinity()));
      }
  }
  size_t before = execution.counterexamples.size();
  llvm::erase_if(execution.counterexamples, [&](const Counterexample &example) {
    return isOfUpdate(example.name) && example.relative &&
           *example.relative <= kTimesChange * turned.lookup(example.name);
  });
  execution.numTurning = before - execution.counterexamples.size();
  return "";
}

namespace {
/// What may be run of two programs.
class Runner {
public:
  Runner(ModuleOp global, ModuleOp local, const ExecuteOptions &options, llvm::StringRef program,
         llvm::StringRef weights, llvm::StringRef folder)
      : global(global), local(local), options(options), program(program), folder(folder) {
    files.global = options.global;
    files.local = options.local;
    files.weights = weights.str();
    if (options.weights.empty())
      varyWeights();
  }

  /// `openSize` is that of an axis of the mesh whose size is open.
  void run(int64_t openSize, Execution &execution);

private:
  std::string inFolder(llvm::StringRef name) const { return folder + "/" + name.str(); }
  std::string fileFor(llvm::StringRef name) const;
  void varyWeights();
  std::string runStep(Execution &execution);
  std::string runMicrobatches(Execution &execution);
  std::string writeInputs(const Execution &execution, int64_t microbatches);
  std::string writeStates();
  std::string compare(const Files &files, int64_t microbatches, Execution &execution);
  std::string compareWide(int64_t microbatches, Execution &execution);
  std::string compareNarrow(int64_t microbatches, Execution &execution);

  ModuleOp global, local;
  const ExecuteOptions &options;
  std::string program, folder; ///< cleave-run, and where files are
  Files files;
  /// Microbatches that a schedule says.
  std::optional<int64_t> scheduled;
};
} // namespace

/// Where the run's inputs, states or weights go: beside the inputs, if these are kept.
std::string Runner::fileFor(llvm::StringRef name) const {
  if (options.inputs.empty())
    return inFolder((name + ".safetensors").str());
  if (name == "inputs")
    return options.inputs;
  llvm::SmallString<128> beside(options.inputs);
  llvm::sys::path::replace_extension(beside, name + ".safetensors");
  return beside.str().str();
}

/// Weights of which all elements are equal, as they are before training, hide that one takes the
/// place of another: they are made different, where files can be read.
void Runner::varyWeights() {
  std::string varied = fileFor("weights");
  llvm::Expected<bool> isVaried = varyEqualWeights(global, files.weights, varied, options.seed);
  if (!isVaried)
    llvm::consumeError(isVaried.takeError());
  else if (*isVaried)
    files.weights = varied;
}

/// Writes inputs of as many microbatches as each part of the batch has; a reason if there are none.
std::string Runner::writeInputs(const Execution &execution, int64_t microbatches) {
  files.inputs = fileFor("inputs");
  auto inputs =
      makeInputs(global, getSizes(local), microbatches * execution.batchParts, options.seed);
  if (!inputs)
    return llvm::toString(inputs.takeError());
  return llvm::toString(writeTensors(files.inputs, *inputs));
}

std::string Runner::writeStates() {
  files.states = fileFor("states");
  return llvm::toString(writeTensors(files.states, makeStates(global, options.seed)));
}

std::string Runner::compare(const Files &files, int64_t microbatches, Execution &execution) {
  Run both{program, folder, execution.ranks, microbatches, execution.tolerance, options.deadline};
  llvm::json::Object report;
  std::string reason = ::run(both, files, report);
  if (!reason.empty())
    return reason;
  readReport(report, execution);
  OwningOpRef<ModuleOp> alone = parseSourceFile<ModuleOp>(files.global, global.getContext());
  if (execution.hasUpdate && alone)
    reason = removeTurning(*alone, both, files, execution);
  if (!reason.empty())
    execution.counterexamples.clear();
  return reason;
}

/// In float64, where a smaller difference is seen.
std::string Runner::compareWide(int64_t microbatches, Execution &execution) {
  std::optional<Files> wide = writeWide(global, local, files, execution.hasUpdate, folder);
  if (!wide)
    return "the programs have no copies in float64";
  execution.isWide = true;
  execution.tolerance = kTolerance;
  std::string reason = compare(*wide, microbatches, execution);
  if (!reason.empty())
    execution.isWide = false;
  return reason;
}

/// As the programs are.
std::string Runner::compareNarrow(int64_t microbatches, Execution &execution) {
  std::optional<double> tolerance =
      toleranceFor(std::min(narrowestFloat(global), narrowestFloat(local)));
  if (!tolerance)
    return "it computes in less than float32, whose rounding may be as large as an error";
  execution.tolerance = *tolerance;
  return compare(files, microbatches, execution);
}

/// A whole step, with its update; a reason if it is not run.
std::string Runner::runStep(Execution &execution) {
  // Two of them show whether gradients are added up.
  int64_t microbatches = scheduled.value_or(2);
  bool isTyped = execution.batchParts == 1 && !hasShards(local);
  execution.hasUpdate = hasUpdates(global);
  execution.microbatches = microbatches;
  std::string reason = writeInputs(execution, microbatches);
  if (reason.empty() && execution.hasUpdate)
    reason = writeStates();
  // Files hold whole tensors.
  OwningOpRef<ModuleOp> joined;
  ModuleOp asWritten = local;
  if (reason.empty() && hasShards(local)) {
    joined = local.clone();
    if (!joinShards(*joined))
      return "what ranks have of a value is not a part of a whole";
    files.local = inFolder("joined.mlir");
    reason = llvm::toString(::write(files.local, *joined));
    local = *joined;
  }
  if (reason.empty())
    reason = compareWide(microbatches, execution);
  // Of typed programs the microbatches are run then.
  if (!reason.empty() && !isTyped)
    reason = compareNarrow(microbatches, execution);
  local = asWritten;
  return reason;
}

/// The microbatches of a typed program, without an update.
std::string Runner::runMicrobatches(Execution &execution) {
  files.states = "";
  execution.hasUpdate = false;
  execution.microbatches = 0;
  std::string reason = writeInputs(execution, scheduled.value_or(1));
  if (reason.empty() && !compareWide(0, execution).empty())
    reason = compareNarrow(0, execution);
  return reason;
}

void Runner::run(int64_t openSize, Execution &execution) {
  execution.ranks = countRanks(local, openSize);
  execution.batchParts = countBatchParts(local, openSize);
  scheduled = countMicrobatches(local);
  execution.notRun = runStep(execution);
  if (!execution.notRun.empty() && execution.batchParts == 1 && !hasShards(local))
    execution.notRun = runMicrobatches(execution);
}

Execution cleave::prove::execute(ModuleOp global, ModuleOp local, const ExecuteOptions &options) {
  Execution execution;
  auto notRun = [&](const llvm::Twine &reason) {
    execution.notRun = reason.str();
    return execution;
  };
  for (ModuleOp program : {global, local})
    if (llvm::none_of(program.getOps<func::FuncOp>(), [](func::FuncOp function) {
          return function->hasAttr(train::kPhaseAttrName);
        }))
      return notRun("only programs of training steps are run");
  const auto *openSize =
      llvm::find_if(kOpenSizes, [&](int64_t size) { return countRanks(local, size) <= kMaxRanks; });
  int64_t ranks = countRanks(local, kOpenSizes[0]);
  if (openSize == std::end(kOpenSizes))
    return notRun("it is for " + llvm::Twine(ranks) + " ranks, of which at most " +
                  llvm::Twine(kMaxRanks) + " are run");
  llvm::SmallString<128> weights(options.weights), folder;
  if (weights.empty()) {
    weights = options.global;
    llvm::sys::path::replace_extension(weights, "safetensors");
  }
  if (!llvm::sys::fs::exists(weights))
    return notRun("expected weights in '" + llvm::Twine(weights) + "', or --weights");
  if (llvm::sys::fs::createUniqueDirectory("cleave-prove", folder))
    return notRun("no temporary folder can be made");
  auto removed = llvm::make_scope_exit([&] { (void)llvm::sys::fs::remove_directories(folder); });
  // Beside this executable, as they are installed.
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> program(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(program, "cleave-run");
  if (!llvm::sys::fs::can_execute(program))
    return notRun("expected '" + llvm::Twine(program) + "', which runs them");
  Runner(global, local, options, program, weights, folder).run(*openSize, execution);
  return execution;
}
