// Reads global programs.
#include "tools/cleave-plan/Source.h"

#include "dialects/dist/Dist.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/support/Input.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SourceMgr.h"

#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

bool plan::mayBeLeftOut(Operation *op) {
  return op->hasAttr(train::kRecomputedAttrName) ||
         (op->hasAttr(train::kCheckpointAttrName) && op->hasAttr(train::kBackwardAttrName));
}

static llvm::Expected<OwningOpRef<ModuleOp>> parse(MLIRContext &context, StringRef path) {
  auto buffer = support::readInput(path);
  if (!buffer)
    return buffer.takeError();
  std::string diagnostics;
  llvm::raw_string_ostream os(diagnostics);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(*sources, &context, os);
  auto module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return makeError("{0} cannot be planned:\n{1}", path,
                     diagnostics.empty() ? "it is neither MLIR text nor MLIR bytecode"
                                         : StringRef(diagnostics).rtrim());
  return std::move(module);
}

/// The list of modules, numbered from 0, with the fewest modules around it; of several the longest.
static std::pair<std::string, int64_t> findLayers(func::FuncOp microbatch) {
  std::map<std::string, std::set<unsigned>> lists;
  for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(microbatch, index);
    if (!role || role.getKind() != train::RoleKind::Parameter)
      continue;
    SmallVector<StringRef> parts;
    role.getNameOrEmpty().split(parts, '.');
    std::string prefix;
    for (StringRef part : parts) {
      unsigned number;
      if (!prefix.empty() && !part.getAsInteger(10, number))
        lists[prefix].insert(number);
      prefix += (prefix.empty() ? "" : ".") + part.str();
    }
  }
  std::pair<std::string, int64_t> best{"", 1};
  size_t bestDepth = 0;
  for (const auto &[prefix, numbers] : lists) {
    size_t depth = StringRef(prefix).count('.');
    auto count = int64_t(numbers.size());
    if (count < 2 || *numbers.rbegin() + 1 != count)
      continue;
    if (best.second > 1 && std::make_pair(depth, -count) >= std::make_pair(bestDepth, -best.second))
      continue;
    best = {prefix, count};
    bestDepth = depth;
  }
  return best;
}

static ProgramBytes countBytes(const train::ProgramFunctions &program) {
  ProgramBytes bytes;
  llvm::StringSet<> seen;
  for (func::FuncOp function : program.getFunctions())
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      train::RoleAttr role = train::getArgumentRole(function, index);
      bool isParameter = role && role.getKind() == train::RoleKind::Parameter;
      bool isState = role && role.getKind() == train::RoleKind::OptimizerState;
      bool isGradient = role && role.getKind() == train::RoleKind::Gradient;
      if ((isParameter || isState || isGradient) && !function.getArgument(index).use_empty() &&
          seen.insert(role.getFileName()).second)
        (isParameter  ? bytes.parameters
         : isGradient ? bytes.gradients
                      : bytes.states) +=
            double(memory::getByteSize(function.getArgument(index).getType()));
    }
  return bytes;
}

bool Source::isOfExperts(StringRef parameter, ArrayRef<int64_t> shape) const {
  if (experts.empty())
    return false;
  const std::string modules = getModules(parameter, layers);
  return llvm::any_of(experts, [&](const ExpertRule &rule) {
    if (rule.areModules)
      return shape.size() == 2 && StringRef(modules).starts_with(rule.modules + ".");
    return shape.size() == 3 && rule.modules == modules;
  });
}

unsigned ParameterGroup::expertDim(int64_t ranks) const {
  // Of a stack the first dimension counts experts; of a matrix each rank stores a part.
  if (shape.size() == 3)
    return 0;
  return unsigned(llvm::find_if(shape, [&](int64_t size) { return size % ranks == 0; }) -
                  shape.begin());
}

/// What experts take of the bytes of each layer.
static void countExpertBytes(Source &source) {
  if (source.experts.empty())
    return;
  std::vector<ProgramBytes> &layers = source.facts.expertBytes;
  layers.resize(size_t(source.facts.layers));
  llvm::StringSet<> seen;
  for (func::FuncOp function : source.functions.getFunctions())
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!role || !type || argument.use_empty() ||
          !source.isOfExperts(role.getNameOrEmpty(), type.getShape()))
        continue;
      double ProgramBytes::*kind =
          role.getKind() == train::RoleKind::Parameter        ? &ProgramBytes::parameters
          : role.getKind() == train::RoleKind::OptimizerState ? &ProgramBytes::states
          : role.getKind() == train::RoleKind::Gradient       ? &ProgramBytes::gradients
                                                              : nullptr;
      if (!kind || !seen.insert(role.getFileName()).second)
        continue;
      unsigned layer = 0;
      StringRef rest = role.getNameOrEmpty();
      if (rest.consume_front(source.layers) && rest.consume_front("."))
        rest.split('.').first.getAsInteger(10, layer);
      layers[layer].*kind += double(memory::getByteSize(type));
    }
}

static void countLayerParameters(Source &source) {
  func::FuncOp microbatch = source.functions.microbatch;
  for (BlockArgument argument : microbatch.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !role || role.getKind() != train::RoleKind::Parameter || argument.use_empty() ||
        withoutNumber(role.getNameOrEmpty(), source.layers) == role.getNameOrEmpty())
      continue;
    const bool isOfExperts = source.isOfExperts(role.getNameOrEmpty(), type.getShape());
    auto &parameters = isOfExperts ? source.layerExperts : source.layerParameters;
    const auto bytes = double(memory::getByteSize(type));
    parameters[SmallVector<int64_t>(type.getShape())] += bytes;
    if (!isOfExperts)
      source.largestParameter = std::max(source.largestParameter, bytes);
  }
}

std::string plan::withoutNumber(StringRef name, StringRef layers) {
  StringRef rest = name;
  if (layers.empty() || !rest.consume_front(layers) || !rest.consume_front("."))
    return name.str();
  return (layers + ".*." + rest.split('.').second).str();
}

/// Parameters that have optimizer states of their shape.
static std::vector<ParameterGroup> groupParameters(const Source &source) {
  using Shape = SmallVector<int64_t>;
  std::map<std::string, std::map<Shape, std::set<std::string>>> names;
  func::FuncOp update = source.functions.update;
  for (BlockArgument argument : update.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    bool isState = role && role.getKind() == train::RoleKind::OptimizerState;
    // Of a scalar state, such as a count of steps, there is nothing to shard.
    if (!type || !isState || type.getRank() == 0)
      continue;
    const std::string name = role.getNameOrEmpty().str();
    names[withoutNumber(name, source.layers)][Shape(type.getShape())].insert(name);
  }
  std::vector<ParameterGroup> list;
  for (auto &[pattern, shapes] : names)
    for (auto &[shape, members] : shapes) {
      const bool isOfExperts = source.isOfExperts(*members.begin(), shape);
      if (shapes.size() == 1)
        list.push_back({pattern, shape, isOfExperts});
      else // stages of a convolutional network, say, that differ in their width
        for (const std::string &name : members)
          list.push_back({name, shape, isOfExperts});
    }
  return list;
}

llvm::Expected<Source> plan::readSource(MLIRContext &context, StringRef path,
                                        std::optional<double> expertCapacity) {
  auto module = parse(context, path);
  if (!module)
    return module.takeError();
  Source source;
  source.module = std::move(*module);
  source.facts.path = path.str();
  if (!source.module->getOps<dist::MeshOp>().empty())
    return makeError("{0}: expected a program for one device, found one with a mesh", path);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  auto functions = train::getProgram(*source.module, train::ProgramForms::Staged);
  if (failed(functions))
    return makeError("{0}: {1}", path, message);
  source.functions = std::move(*functions);
  func::FuncOp microbatch = source.functions.microbatch;
  if (!microbatch)
    return makeError(
        "{0}: expected a program with one function of phase microbatch, found {1}", path,
        source.functions.isSplit() ? "one in parts, which passes have made of it" : "none");
  if (!source.functions.update)
    return makeError("{0}: expected a training program, found no update", path);
  std::optional<int64_t> batch;
  for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(microbatch, index);
    auto type = dyn_cast<RankedTensorType>(microbatch.getArgument(index).getType());
    if (!role || role.getKind() != train::RoleKind::Input || !role.getBatch() || !type || batch)
      continue;
    batch = type.getDimSize(*role.getBatch());
    if (type.getRank() > 1 && *role.getBatch() == 0)
      source.facts.tokens = type.getDimSize(1);
  }
  if (!batch)
    return makeError("{0}: expected an input with a batch dimension, found none", path);
  source.facts.batch = *batch;
  std::tie(source.layers, source.facts.layers) = findLayers(microbatch);
  source.experts = findExperts(microbatch, source.layers);
  source.rules = deriveTensorRules(microbatch, source.layers, source.experts);
  source.facts.hasTensorRules =
      llvm::any_of(source.rules, [](const TensorRule &rule) { return rule.style != "sequence"; });
  source.facts.hasSequenceRules =
      llvm::any_of(source.rules, [](const TensorRule &rule) { return rule.style == "sequence"; });
  source.facts.sortsRows =
      llvm::any_of(source.experts, [](const ExpertRule &rule) { return rule.hasRows; });
  source.expertCapacity = expertCapacity;
  if (!expertCapacity)
    llvm::erase_if(source.experts, [](const ExpertRule &rule) { return rule.areModules; });
  if (!source.experts.empty()) {
    source.facts.experts = 0;
    for (const ExpertRule &rule : source.experts)
      source.facts.experts = std::gcd(source.facts.experts, rule.experts);
  }
  source.parameters = groupParameters(source);
  source.bytes = countBytes(source.functions);
  countLayerParameters(source);
  countExpertBytes(source);
  return std::move(source);
}
