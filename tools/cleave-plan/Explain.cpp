// A plan by stage and by tensor.
#include "tools/cleave-plan/Explain.h"

#include "lib/pipeline/StageWork.h"
#include "lib/plan/Samples.h"
#include "lib/support/JSONReader.h"
#include "tools/cleave-plan/LayerWork.h"
#include "tools/cleave-plan/Passes.h"
#include "tools/cleave-plan/Run.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

static constexpr double gib = 1024.0 * 1024 * 1024;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// "h.3.mlp (gpt.py:61)" as "h.*.mlp (gpt.py:61)"; the first number that is left out is `layer`'s.
static std::string generalize(StringRef text, StringRef layers, std::optional<int64_t> &layer) {
  std::string general;
  const std::string prefix = layers.str() + ".";
  while (!layers.empty()) {
    size_t at = text.find(prefix);
    if (at == StringRef::npos)
      break;
    // A name of its own: neither a part of a longer one, nor without a number.
    bool isName =
        at == 0 || !(llvm::isAlnum(text[at - 1]) || text[at - 1] == '_' || text[at - 1] == '.');
    StringRef digits = text.drop_front(at + prefix.size()).take_while(llvm::isDigit);
    general += text.take_front(at + prefix.size());
    text = text.drop_front(at + prefix.size());
    int64_t number;
    if (!isName || digits.getAsInteger(10, number))
      continue;
    layer = layer.value_or(number);
    general += "*";
    text = text.drop_front(digits.size());
  }
  return general + text.str();
}

/// `#train.role<input "tokens" batch 0>` as one would say it.
static std::string nameRoles(StringRef text) {
  constexpr StringRef prefix = "#train.role<";
  std::string plain;
  for (size_t at; (at = text.find(prefix)) != StringRef::npos;) {
    plain += text.take_front(at);
    text = text.drop_front(at + prefix.size());
    auto [role, rest] = text.split('>');
    // The kind, and the name in quotes.
    size_t end = role.find('"');
    if (end != StringRef::npos)
      end = role.find('"', end + 1);
    plain += end == StringRef::npos ? role.take_until([](char c) { return c == ' '; })
                                    : role.take_front(end + 1);
    text = rest;
  }
  return plain + text.str();
}

static std::string joinShape(const llvm::json::Array *sizes) {
  std::string text;
  if (sizes)
    for (const llvm::json::Value &size : *sizes)
      text += (text.empty() ? "" : "x") + std::to_string(size.getAsInteger().value_or(0));
  return text.empty() ? "scalar" : text;
}

/// A tensor of the output of --propagate-placements=explain-json (docs/placements.md).
static TensorDetail readTensor(const llvm::json::Object &entry, StringRef function,
                               StringRef layers) {
  auto read = [&](const llvm::json::Object &object, StringRef field) {
    return object.getString(field).value_or("");
  };
  TensorDetail tensor;
  std::optional<int64_t> layer;
  tensor.function = function.str();
  tensor.isArgument = read(entry, "op").empty();
  tensor.isBackward = entry.getBoolean("backward").value_or(false);
  std::string name = tensor.isArgument
                         ? (read(entry, "role") + " " + read(entry, "role_name")).str()
                         : read(entry, "op").str();
  tensor.name = generalize(StringRef(name).trim(), layers, layer);
  if (!tensor.isArgument)
    tensor.location = generalize(read(entry, "location"), layers, layer);
  tensor.shape = joinShape(entry.getArray("shape"));
  tensor.localShape = joinShape(entry.getArray("local_shape"));
  if (const llvm::json::Object *placement = entry.getObject("placement"))
    for (const auto &[axis, value] : *placement)
      tensor.axes.push_back({axis.str(), value.getAsString().value_or("").str(), ""});
  llvm::sort(tensor.axes, [](const auto &a, const auto &b) { return a.name < b.name; });
  if (const llvm::json::Array *reasons = entry.getArray("reasons"))
    for (const llvm::json::Value &value : *reasons)
      if (const llvm::json::Object *reason = value.getAsObject())
        for (TensorDetail::Axis &axis : tensor.axes)
          if (axis.name == read(*reason, "axis"))
            axis.why = generalize(nameRoles(read(*reason, "text")), layers, layer);
  if (layer)
    tensor.layers.push_back(*layer);
  return tensor;
}

/// In their order; tensors of several layers where the first of them is.
static std::vector<TensorDetail> readTensors(const llvm::json::Object &explanation,
                                             StringRef layers) {
  std::vector<TensorDetail> tensors;
  llvm::StringMap<size_t> known;
  const llvm::json::Array *functions = explanation.getArray("functions");
  for (const llvm::json::Value &value : functions ? *functions : llvm::json::Array()) {
    const llvm::json::Object *function = value.getAsObject();
    const llvm::json::Array *entries = function ? function->getArray("tensors") : nullptr;
    for (const llvm::json::Value &entry : entries ? *entries : llvm::json::Array()) {
      const llvm::json::Object *object = entry.getAsObject();
      if (!object)
        continue;
      TensorDetail tensor = readTensor(*object, function->getString("phase").value_or(""), layers);
      std::string key =
          llvm::join(ArrayRef<std::string>{tensor.function, tensor.name, tensor.location,
                                           tensor.shape, tensor.isBackward ? "backward" : ""},
                     "\n");
      for (const TensorDetail::Axis &axis : tensor.axes)
        key += "\n" + axis.name + "\n" + axis.placement + "\n" + axis.why;
      auto [at, isNew] = known.try_emplace(key, tensors.size());
      if (isNew) {
        tensors.push_back(std::move(tensor));
        continue;
      }
      TensorDetail &first = tensors[at->second];
      ++first.count;
      for (int64_t layer : tensor.layers)
        if (!llvm::is_contained(first.layers, layer))
          first.layers.push_back(layer);
    }
  }
  for (TensorDetail &tensor : tensors)
    llvm::sort(tensor.layers);
  return tensors;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static void countRecomputed(const train::ProgramFunctions &stage, KernelTimer &timer,
                            StageDetail &detail) {
  llvm::StringMap<unsigned> counts;
  for (func::FuncOp function : {stage.backward, stage.backwardInput, stage.backwardWeight}) {
    if (!function)
      continue;
    for (Operation &op : function.front().without_terminator())
      if (op.hasAttr(train::kRecomputedAttrName))
        ++counts[op.getName().getStringRef()];
    for (const auto &[op, work] :
         listWork(function, /*isGlobal=*/false, /*isCut=*/true, /*hasCopies=*/true))
      if (op->hasAttr(train::kRecomputedAttrName))
        detail.recomputedSeconds += timer.time(work).device;
  }
  for (const auto &entry : counts)
    detail.recomputed.emplace_back(entry.first().str(), entry.second);
  llvm::sort(detail.recomputed, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
}

static llvm::Expected<std::vector<StageDetail>> describeStages(ModuleOp module, const Plan &plan,
                                                               const Space &space,
                                                               const cost::Cluster &cluster) {
  const Shape &shape = plan.shape;
  auto stages = listStages(module, shape.numStages() > 1);
  if (!stages)
    return stages.takeError();
  Diagnostics diagnostics(module.getContext());
  pipeline::MeasureOptions options;
  options.ranks = shape.layout.pipeline;
  auto work = pipeline::measureStages(*stages, options);
  if (failed(work))
    return diagnostics.makeError("the stages cannot be measured");
  if (shape.layout.dataInside)
    reorderGroups(shape.layout, *work);
  auto order = orderPasses(plan, space, unsigned(stages->size()));
  if (!order)
    return order.takeError();
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(space.programs[shape.layout.program].layers);
  std::vector<simulate::StageTime> times = simulate::timeStages(cluster, *work);
  KernelTimer timer(cluster, 1);
  std::vector<StageDetail> details;
  int64_t begin = 0;
  for (auto [number, end, functions, measured, time] :
       llvm::enumerate(ends, *stages, work->stages, times)) {
    StageDetail &detail = details.emplace_back();
    detail.firstLayer = std::exchange(begin, end);
    detail.endLayer = end;
    detail.place = order->topology.rankOf(unsigned(number));
    detail.time = time;
    detail.state = measured.state;
    detail.savedBytes = measured.savedBytes;
    detail.hostBytes = measured.hostForward.held;
    countRecomputed(functions, timer, detail);
  }
  return details;
}

llvm::Expected<Explanation> plan::explainPlan(const Plan &plan, const Space &space,
                                              const Source &source, const cost::Cluster &cluster) {
  const Layout &layout = plan.shape.layout;
  llvm::SmallString<128> placements, reasons;
  for (llvm::SmallString<128> *path : {&placements, &reasons})
    if (std::error_code code = llvm::sys::fs::createTemporaryFile("cleave-plan", "json", *path))
      return makeError("cannot write a temporary file: {0}", code.message());
  llvm::FileRemover first(placements), second(reasons);
  {
    std::error_code code;
    llvm::raw_fd_ostream os(placements, code);
    os << llvm::json::Value(makePlacements(layout, source));
  }
  std::vector<PassCall> passes = listPlacing(layout, placements);
  for (PassCall &pass : passes)
    if (pass.name == "propagate-placements")
      pass.options = ("explain-json=" + reasons).str();
  OwningOpRef<ModuleOp> module(source.module.get().clone());
  if (llvm::Error error = runPasses(*module, passes))
    return std::move(error);
  Explanation explanation;
  if (hasPlacements(layout)) {
    auto read = support::readJSONFile(reasons);
    if (!read)
      return read.takeError();
    if (const llvm::json::Object *object = read->getAsObject())
      explanation.tensors = readTensors(*object, source.layers);
  }
  if (llvm::Error error =
          runPasses(*module, listStaging(plan, source, cluster, space.listCuts(plan.shape))))
    return std::move(error);
  auto stages = ::describeStages(*module, plan, space, cluster);
  if (!stages)
    return stages.takeError();
  explanation.stages = std::move(*stages);
  return explanation;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// "0-3, 5".
static std::string joinRanges(ArrayRef<int64_t> numbers) {
  std::string text;
  while (!numbers.empty()) {
    size_t length = 1;
    while (length < numbers.size() && numbers[length] == numbers[0] + int64_t(length))
      ++length;
    if (!text.empty())
      text += ", ";
    text += std::to_string(numbers[0]);
    if (length > 1)
      text += "-" + std::to_string(numbers[length - 1]);
    numbers = numbers.drop_front(length);
  }
  return text;
}

static std::string joinCounts(ArrayRef<std::pair<std::string, unsigned>> counts) {
  std::string text;
  for (const auto &[name, count] : counts)
    text += llvm::formatv("{0}{1} {2}", text.empty() ? "" : ", ", count, name);
  return text;
}

static void printStage(const StageDetail &stage, size_t number, llvm::raw_ostream &os) {
  os << llvm::formatv("  stage {0}, at place {1}, ", number, stage.place);
  if (stage.endLayer - stage.firstLayer > 1)
    os << llvm::formatv("layers {0} to {1}: ", stage.firstLayer, stage.endLayer - 1);
  else
    os << llvm::formatv("layer {0}: ", stage.firstLayer);
  os << llvm::formatv("forward {0:e4} s", stage.time.forward.seconds);
  for (auto [name, time] : {std::pair("backward", &stage.time.backward),
                            {"input gradient", &stage.time.input},
                            {"weight gradient", &stage.time.weight}})
    if (time->seconds > 0)
      os << llvm::formatv(", {0} {1:e4} s", name, time->seconds);
  os << llvm::formatv("; keeps {0:F3} GiB of a microbatch", stage.savedBytes / gib);
  if (stage.hostBytes > 0)
    os << llvm::formatv(", and {0:F3} GiB in the host's memory", stage.hostBytes / gib);
  if (stage.recomputed.empty())
    os << "; recomputes nothing\n";
  else
    os << llvm::formatv("; recomputes {0} ({1:e4} s of kernels)\n", joinCounts(stage.recomputed),
                        stage.recomputedSeconds);
}

static void printTensor(const TensorDetail &tensor, llvm::raw_ostream &os) {
  os << "  " << tensor.name;
  if (!tensor.location.empty())
    os << " of " << tensor.location;
  os << " " << tensor.shape;
  if (tensor.localShape != tensor.shape)
    os << ", of a rank " << tensor.localShape;
  for (const TensorDetail::Axis &axis : tensor.axes) {
    os << (&axis == &tensor.axes.front() ? ": " : "; ") << axis.name << " " << axis.placement;
    if (!axis.why.empty())
      os << ", " << axis.why;
  }
  os << "\n";
}

void plan::printText(const Explanation &explanation, llvm::raw_ostream &os) {
  os << "stages:\n";
  for (auto [number, stage] : llvm::enumerate(explanation.stages))
    printStage(stage, number, os);
  if (explanation.tensors.empty()) {
    os << "tensors: whole on each rank of their stage\n";
    return;
  }
  os << "tensors, and why they lie so; those of layers that lie alike once:\n";
  size_t left = 0;
  for (const TensorDetail &tensor : explanation.tensors) {
    // Accumulators lie with their parameters, as partial sums where these have copies.
    bool isBackward = tensor.isBackward || StringRef(tensor.name).starts_with("accumulator ");
    if (isBackward || (tensor.function == "update" && !tensor.isArgument))
      ++left;
    else
      printTensor(tensor, os);
  }
  os << "  and " << left << " of backward and update: --json\n";
}

llvm::json::Array plan::makeStageList(const Explanation &explanation) {
  llvm::json::Array stages;
  for (const StageDetail &stage : explanation.stages) {
    llvm::json::Object recomputed;
    for (const auto &[name, count] : stage.recomputed)
      recomputed[name] = int64_t(count);
    stages.push_back(
        llvm::json::Object{{"place", int64_t(stage.place)},
                           {"layers", llvm::json::Array{stage.firstLayer, stage.endLayer}},
                           {"forward", stage.time.forward.seconds},
                           {"backward", stage.time.backward.seconds},
                           {"input_gradient", stage.time.input.seconds},
                           {"weight_gradient", stage.time.weight.seconds},
                           {"update", stage.time.update.seconds},
                           {"parameters", stage.state.parameters},
                           {"gradients", stage.state.gradients},
                           {"optimizer", stage.state.optimizer},
                           {"saved", stage.savedBytes},
                           {"host", stage.hostBytes},
                           {"recomputed", std::move(recomputed)},
                           {"recomputed_seconds", stage.recomputedSeconds}});
  }
  return stages;
}

llvm::json::Array plan::makeTensorList(const Explanation &explanation) {
  llvm::json::Array tensors;
  for (const TensorDetail &tensor : explanation.tensors) {
    llvm::json::Object placement, why;
    for (const TensorDetail::Axis &axis : tensor.axes) {
      placement[axis.name] = axis.placement;
      if (!axis.why.empty())
        why[axis.name] = axis.why;
    }
    tensors.push_back(llvm::json::Object{{"name", tensor.name},
                                         {"location", tensor.location},
                                         {"function", tensor.function},
                                         {"argument", tensor.isArgument},
                                         {"backward", tensor.isBackward},
                                         {"shape", tensor.shape},
                                         {"local_shape", tensor.localShape},
                                         {"placement", std::move(placement)},
                                         {"why", std::move(why)},
                                         {"layers", joinRanges(tensor.layers)},
                                         {"count", int64_t(tensor.count)}});
  }
  return tensors;
}
