//===- Execute.cpp - runs both programs to tell them apart ------------------===//

#include "tools/cleave-prove/Execute.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Program.h"
#include "runtime/io/DType.h"
#include "runtime/io/Metrics.h"
#include "runtime/io/Safetensors.h"
#include "tools/cleave-prove/Widen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <random>

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

// More ranks than this are not run: they are threads of one process.
static constexpr int64_t kMaxRanks = 16;

//===----------------------------------------------------------------------===//
// What the programs need
//===----------------------------------------------------------------------===//

/// Ranks of the mesh, and of the pipeline if it is not an axis of it. An axis of open size may have
/// one.
static int64_t countRanks(ModuleOp module) {
  int64_t ranks = 1;
  dist::MeshOp mesh = dist::getMesh(module);
  if (mesh)
    for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
      ranks *= std::max<int64_t>(axis.getSize(), 1);
  for (auto schedule : module.getOps<pipeline::ScheduleOp>()) {
    StringRef axis = schedule.getAxis().value_or("pp");
    if (!mesh || !mesh.findAxis(axis))
      ranks *= int64_t(schedule.getLists().size());
  }
  return ranks;
}

/// Whether roles divide inputs over several ranks: each has results of microbatches of its own.
static bool hasOwnBatches(ModuleOp module) {
  dist::MeshOp mesh = dist::getMesh(module);
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto role = function.getArgAttrOfType<train::RoleAttr>(i, train::kRoleAttrName);
      if (mesh && role && role.getOver() &&
          llvm::any_of(role.getOver().getAsValueRange<StringAttr>(), [&](StringRef name) {
            dist::AxisAttr axis = mesh.findAxis(name);
            return axis && axis.getSize() > 1;
          }))
        return true;
    }
  return false;
}

/// Of the mesh's axes.
static llvm::SmallVector<int64_t> getSizes(ModuleOp module) {
  llvm::SmallVector<int64_t> sizes;
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
      sizes.push_back(axis.getSize());
  return sizes;
}

static int64_t countMicrobatches(ModuleOp module) {
  int64_t count = 1;
  for (auto schedule : module.getOps<pipeline::ScheduleOp>())
    count = int64_t(schedule.getMicrobatches());
  return count;
}

/// Above which a difference is none of rounding, where all is computed in float64: sums in another
/// order differ by less than 1e-12 in the models of the tests.
static constexpr double kTolerance = 1e-6;

/// The same where `bits` is the narrowest type; nothing where rounding may be as large as errors.
/// Sums of float32 in another order differ by less than 1e-4 in the models of the tests.
static std::optional<double> toleranceFor(unsigned bits) {
  if (bits < 32)
    return std::nullopt;
  return bits < 64 ? 1e-2 : kTolerance;
}

/// An integer input holds rows of tables and numbers of classes: below this number they are there
/// in all that it leads to.
static int64_t findRows(Value input) {
  int64_t rows = std::numeric_limits<int64_t>::max();
  llvm::SetVector<Value> reached;
  reached.insert(input);
  for (size_t i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses()) {
      Operation *op = use.getOwner();
      if (auto embedding = dyn_cast<aten::EmbeddingOp>(op))
        rows =
            std::min(rows, cast<RankedTensorType>(embedding.getWeight().getType()).getDimSize(0));
      if (auto loss = dyn_cast<aten::NllLossForwardOp>(op)) {
        auto scores = cast<RankedTensorType>(loss.getSelf().getType());
        rows = std::min(rows, scores.getDimSize(scores.getRank() == 1 ? 0 : 1));
      }
      for (Value result : op->getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType());
            type && type.getElementType().isInteger(64))
          reached.insert(result);
    }
  return rows == std::numeric_limits<int64_t>::max() ? 2 : std::max<int64_t>(rows, 1);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

namespace {
struct Input {
  std::string name;
  runtime::TensorType type;
  std::vector<char> bytes;
};
} // namespace

namespace {
/// Draws rows of a table, half of them beside the borders of its shards: errors are there.
class Rows {
public:
  Rows(int64_t count, llvm::ArrayRef<int64_t> shards) : any(0, count - 1) {
    for (int64_t size : shards)
      for (int64_t shard = 0; shard < size && count % size == 0; ++shard) {
        borders.push_back(shard * (count / size));
        borders.push_back((shard + 1) * (count / size) - 1);
      }
  }
  int64_t draw(std::mt19937_64 &random) const {
    if (borders.empty() || (random() & 1))
      return any(random);
    return borders[random() % borders.size()];
  }

private:
  mutable std::uniform_int_distribution<int64_t> any;
  llvm::SmallVector<int64_t> borders;
};
} // namespace

/// Random values for the inputs and targets of `microbatches`, where axes have `sizes`; a reason if
/// one cannot be made.
static llvm::Expected<std::vector<Input>> makeInputs(ModuleOp global, llvm::ArrayRef<int64_t> sizes,
                                                     int64_t microbatches, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Input> inputs;
  for (auto function : global.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto role =
          function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttrName);
      if (!role || (role.getKind() != RoleKind::Input && role.getKind() != RoleKind::Target) ||
          llvm::any_of(inputs,
                       [&](const Input &made) { return made.name == role.getNameOrEmpty(); }))
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      Input input{role.getNameOrEmpty().str(), {}, {}};
      input.type.shape.assign(type.getShape().begin(), type.getShape().end());
      if (std::optional<int64_t> batch = role.getBatch())
        input.type.shape[*batch] *= microbatches;
      Type element = type.getElementType();
      auto fill = [&](runtime::DType dtype, auto next) {
        input.type.dtype = dtype;
        using T = decltype(next());
        input.bytes.resize(size_t(*runtime::countBytes(dtype, input.type.shape)));
        for (size_t at = 0; at < input.bytes.size(); at += sizeof(T)) {
          T value = next();
          std::memcpy(&input.bytes[at], &value, sizeof(T));
        }
      };
      if (element.isF32())
        fill(runtime::DType::F32, [&] { return float(normal(random)); });
      else if (element.isF64())
        fill(runtime::DType::F64, [&] { return normal(random); });
      else if (element.isInteger(64))
        fill(runtime::DType::I64,
             [&, rows = Rows(findRows(argument), sizes)] { return rows.draw(random); });
      else if (element.isInteger(1))
        fill(runtime::DType::Bool, [&] { return uint8_t(random() & 1); });
      else
        return runtime::makeError("input '{0}' has elements of a type of which none are drawn",
                                  input.name);
      inputs.push_back(std::move(input));
    }
  return inputs;
}

static llvm::Error write(llvm::StringRef path, llvm::ArrayRef<Input> inputs) {
  std::vector<runtime::TensorView> views;
  for (const Input &input : inputs)
    views.push_back({input.name,
                     input.type.dtype,
                     {input.type.shape.begin(), input.type.shape.end()},
                     {reinterpret_cast<const uint8_t *>(input.bytes.data()), input.bytes.size()}});
  return runtime::writeSafetensors(path, views);
}

namespace {
/// The files of a run.
struct Files {
  std::string global, local, weights, inputs;
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
                                      llvm::StringRef folder) {
  if (narrowestFloat(global) == 64 && narrowestFloat(local) == 64)
    return std::nullopt;
  OwningOpRef<ModuleOp> wideGlobal = widen(global), wideLocal = widen(local);
  if (!wideGlobal || !wideLocal)
    return std::nullopt;
  auto inFolder = [&](llvm::StringRef name) { return (folder + "/wide-" + name).str(); };
  Files wide{inFolder("global.mlir"), inFolder("local.mlir"), inFolder("weights.safetensors"),
             inFolder("inputs.safetensors")};
  llvm::Error error =
      llvm::joinErrors(write(wide.global, *wideGlobal), write(wide.local, *wideLocal));
  error = llvm::joinErrors(std::move(error), widenFile(files.weights, wide.weights));
  error = llvm::joinErrors(std::move(error), widenFile(files.inputs, wide.inputs));
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

/// What `cleave-run --json` says of both programs.
static void readReport(const llvm::json::Object &report, Execution &execution) {
  const llvm::json::Array *values = report.getArray("values");
  execution.numValues = values ? values->size() : 0;
  for (size_t i = 0; i < execution.numValues; ++i) {
    const llvm::json::Object &value = *(*values)[i].getAsObject();
    if (!value.getBoolean("above_tolerance").value_or(false))
      continue;
    Counterexample example;
    example.name = value.getString("name").value_or("").str();
    example.relative = value.getNumber("relative");
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

/// Runs both programs by `program`, cleave-run; a reason if they were not.
static std::string run(llvm::StringRef program, const Files &files, llvm::StringRef folder,
                       std::chrono::steady_clock::time_point deadline, Execution &execution) {
  auto left =
      std::chrono::duration_cast<std::chrono::seconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() < 1)
    return "the time limit was reached";
  auto inFolder = [&](llvm::StringRef name) { return (folder + "/" + name).str(); };
  std::string report = inFolder("report.json"), output = inFolder("output"),
              errors = inFolder("errors");
  (void)llvm::sys::fs::remove(report);
  std::string numRanks = std::to_string(execution.ranks), limit = std::to_string(left.count()),
              bound = runtime::formatNumber(execution.tolerance);
  std::vector<llvm::StringRef> arguments = {
      program,      files.local, "--against", files.global,  "--weights", files.weights, "--inputs",
      files.inputs, "--json",    report,      "--tolerance", bound,       "--seed",      "0"};
  if (execution.ranks > 1)
    arguments.insert(arguments.end(),
                     {"--ranks", numRanks, "--ranks-as", "threads", "--timeout", limit});
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), output, errors};
  std::string message;
  llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, redirects, unsigned(left.count()), 0,
                            &message);
  auto file = llvm::MemoryBuffer::getFile(report);
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
  readReport(*parsed->getAsObject(), execution);
  return "";
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
  if (hasOwnBatches(local))
    return notRun("each rank has results of microbatches of its own, of which none is that of one "
                  "device");
  int64_t ranks = countRanks(local);
  if (ranks > kMaxRanks)
    return notRun("it is for " + llvm::Twine(ranks) + " ranks, of which at most " +
                  llvm::Twine(kMaxRanks) + " are run");
  execution.ranks = ranks;
  auto inputs = makeInputs(global, getSizes(local), countMicrobatches(local), options.seed);
  if (!inputs)
    return notRun(llvm::toString(inputs.takeError()));

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
  auto inFolder = [&](llvm::StringRef name) { return (folder + "/" + name).str(); };
  Files files{options.global, options.local, weights.str().str(),
              options.inputs.empty() ? inFolder("inputs.safetensors") : options.inputs};
  if (llvm::Error error = write(files.inputs, *inputs))
    return notRun(llvm::toString(std::move(error)));

  // Beside this executable, as they are installed.
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<128> program(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(program, "cleave-run");
  if (!llvm::sys::fs::can_execute(program))
    return notRun("expected '" + llvm::Twine(program) + "', which runs them");
  // In float64 first, where a smaller difference is seen, and as the programs are if that cannot be
  // run.
  if (std::optional<Files> wide = writeWide(global, local, files, folder)) {
    execution.isWide = true;
    execution.tolerance = kTolerance;
    if (run(program, *wide, folder, options.deadline, execution).empty())
      return execution;
    execution.isWide = false;
  }
  std::optional<double> tolerance =
      toleranceFor(std::min(narrowestFloat(global), narrowestFloat(local)));
  if (!tolerance)
    return notRun("it computes in less than float32, whose rounding may be as large as an error");
  execution.tolerance = *tolerance;
  execution.notRun = run(program, files, folder, options.deadline, execution);
  return execution;
}
