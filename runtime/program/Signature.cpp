//===- Signature.cpp - roles, names and types of a program -------------------===//

#include "dialects/dist/Dist.h"
#include "dialects/dist/Placed.h"
#include "runtime/io/DType.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/program/RankClasses.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave::runtime;
namespace dist = cleave::dist;
namespace train = cleave::train;

// The public enumeration names the dialect's kinds without its headers.
static_assert(unsigned(RoleKind::Parameter) == unsigned(train::RoleKind::Parameter) &&
              unsigned(RoleKind::Loss) == unsigned(train::RoleKind::Loss) &&
              unsigned(RoleKind::RngOffset) == unsigned(train::RoleKind::RngOffset) &&
              unsigned(RoleKind::CrossingGradient) == unsigned(train::RoleKind::CrossingGradient) &&
              unsigned(RoleKind::LossScale) == unsigned(train::RoleKind::LossScale));
static_assert(unsigned(Phase::Update) == unsigned(train::Phase::Update) &&
              unsigned(Phase::BackwardWeight) == unsigned(train::Phase::BackwardWeight) &&
              unsigned(Phase::Reduce) == unsigned(train::Phase::Reduce) &&
              unsigned(Phase::Reduce) + 2 == kNumPhases);

DType cleave::runtime::toDType(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element))
    return complex.getElementType().isF64() ? DType::C128 : DType::C64;
  if (element.isF16())
    return DType::F16;
  if (element.isBF16())
    return DType::BF16;
  if (element.isF32())
    return DType::F32;
  if (element.isF64())
    return DType::F64;
  if (element.isUnsignedInteger(8))
    return DType::U8;
  switch (element.getIntOrFloatBitWidth()) {
  case 1:
    return DType::Bool;
  case 8:
    return DType::I8;
  case 16:
    return DType::I16;
  case 32:
    return DType::I32;
  default:
    return DType::I64;
  }
}

cleave::runtime::TensorType cleave::runtime::toTensorType(Type type) {
  if (auto bucket = dyn_cast<train::BucketType>(type))
    type = bucket.getFlat();
  auto tensor = cast<RankedTensorType>(dist::valueTypeOf(type));
  return {toDType(tensor.getElementType()), llvm::SmallVector<int64_t, 4>(tensor.getShape())};
}

std::string cleave::runtime::describeLocation(Location location) {
  std::string text;
  if (auto name = dyn_cast<NameLoc>(location)) {
    text = name.getName().str();
    std::string child = describeLocation(name.getChildLoc());
    if (!child.empty())
      text += text.empty() ? child : " (" + child + ")";
    return text;
  }
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return (file.getFilename().getValue() + ":" + llvm::Twine(file.getLine())).str();
  if (auto range = dyn_cast<FileLineColRange>(location))
    return (range.getFilename().getValue() + ":" + llvm::Twine(range.getStartLine())).str();
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return describeLocation(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (text = describeLocation(part); !text.empty())
        return text;
  return text;
}

static std::vector<cleave::runtime::AxisPlacement> readPlacements(Type type) {
  using Placement = cleave::runtime::AxisPlacement;
  std::vector<Placement> placements;
  dist::PlacementAttr encoding = dist::getPlacement(type);
  if (!encoding)
    return placements;
  for (const dist::AxisEntry &entry : encoding.getEntries()) {
    Placement placement;
    placement.axis = entry.axis.str();
    switch (entry.placement.kind) {
    case dist::PlacementKind::R:
      placement.kind = Placement::Kind::Replicate;
      break;
    case dist::PlacementKind::P:
      placement.kind = Placement::Kind::Partial;
      placement.reduction = dist::stringifyReduction(entry.placement.reduction).str();
      break;
    case dist::PlacementKind::I:
      placement.kind = Placement::Kind::Invariant;
      break;
    case dist::PlacementKind::V:
      placement.kind = Placement::Kind::Varying;
      break;
    case dist::PlacementKind::S:
      placement.kind = Placement::Kind::Shard;
      placement.dim = entry.placement.dim;
      placement.order = entry.placement.order;
      break;
    }
    placements.push_back(std::move(placement));
  }
  return placements;
}

static ValueInfo readValue(train::RoleAttr role, Type type) {
  ValueInfo value;
  value.role = RoleKind(role.getKind());
  value.name = role.getNameOrEmpty().str();
  value.slot = role.getSlotOrEmpty().str();
  value.type = toTensorType(type);
  value.placements = readPlacements(type);
  value.batch = role.getBatch();
  auto strings = [](ArrayAttr array, std::vector<std::string> &out) {
    if (array)
      for (StringAttr text : array.getAsRange<StringAttr>())
        out.push_back(text.str());
  };
  strings(role.getOver(), value.over);
  strings(role.getAliases(), value.aliases);
  value.frozen = bool(role.getFrozen());
  value.fileName = role.getFileName();
  return value;
}

/// The gradients in a bucket, as if each were a result of its own.
static void readMembers(func::FuncOp function, ValueInfo &value, Type type) {
  auto bucket = dyn_cast<train::BucketType>(type);
  if (!bucket)
    return;
  auto op = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(function, bucket.getSymbol());
  for (auto [index, name] : llvm::enumerate(op.getNames().getAsRange<StringAttr>())) {
    ValueInfo &member = value.members.emplace_back(readValue(
        train::RoleAttr::get(type.getContext(), train::RoleKind::Gradient, name.getValue()),
        op.getReducedType(index)));
    if (ArrayAttr axes = op.getAxes().value_or(ArrayAttr()))
      for (StringAttr axis : axes.getAsRange<StringAttr>())
        member.summedOver.push_back(axis.str());
  }
}

Signature cleave::runtime::readSignature(func::FuncOp function) {
  Signature signature;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    signature.arguments.push_back(
        readValue(train::getArgumentRole(function, i), function.getArgumentTypes()[i]));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    signature.results.push_back(
        readValue(train::getResultRole(function, i), function.getResultTypes()[i]));
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    readMembers(function, signature.arguments[i], function.getArgumentTypes()[i]);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    readMembers(function, signature.results[i], function.getResultTypes()[i]);
  return signature;
}

/// Adds what `part`, one function of several, takes and gives to what they have together.
static void addPart(Signature &whole, const Signature &part) {
  auto add = [](std::vector<ValueInfo> &values, const ValueInfo &value) {
    bool isKnown = llvm::any_of(values, [&](const ValueInfo &other) {
      return other.role == value.role && other.name == value.name && other.slot == value.slot;
    });
    if (!isKnown)
      values.push_back(value);
  };
  for (const ValueInfo &value : part.arguments)
    add(whole.arguments, value);
  for (const ValueInfo &value : part.results)
    add(whole.results, value);
}

/// What functions of a program make for each other.
static bool isInternal(const ValueInfo &value) {
  return value.role == RoleKind::Saved || value.role == RoleKind::Crossing ||
         value.role == RoleKind::CrossingGradient;
}

/// The signature of a microbatch, whatever functions it is made of: with weights that only
/// unsharding takes, and gradients as their reduction leaves them.
static void joinMicrobatch(Program::Impl &impl) {
  Signature whole;
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (llvm::is_contained(impl.microbatchPhases, part.phase))
      addPart(whole, part.signature);
  for (const ValueInfo &value : impl.signature(Phase::Unshard).arguments)
    addPart(whole, {{value}, {}});
  llvm::erase_if(whole.arguments, isInternal);
  llvm::erase_if(whole.results, isInternal);
  for (const ValueInfo &reduced : impl.signature(Phase::Reduce).results)
    for (ValueInfo &value : whole.results)
      if (value.role == reduced.role && value.name == reduced.name)
        std::tie(value.type, value.wholeShape, value.placements) =
            std::tie(reduced.type, reduced.wholeShape, reduced.placements);
  impl.signatures[size_t(Phase::Microbatch)] = std::move(whole);
}

/// Whether an update waits for what a scaled loss makes of the gradients.
static bool takesFlag(const Program::Impl &impl) {
  return llvm::any_of(impl.signature(Phase::Update).arguments, [](const ValueInfo &value) {
    return value.role == RoleKind::StageSum && value.name == train::kNonFiniteGradients;
  });
}

/// What a step needs that no verifier of a single function sees.
static llvm::Error checkUpdate(const Program::Impl &impl) {
  bool isScaled = (*impl.module)->hasAttr(train::kLossScalingAttrName);
  if (isScaled != takesFlag(impl))
    return makeError(isScaled ? "it scales its loss (train.loss_scaling), but no update takes the "
                                "stage_sum \"nonfinite_gradients\", by which steps are skipped"
                              : "an update takes the stage_sum \"nonfinite_gradients\", but the "
                                "module does not scale its loss (train.loss_scaling)");
  for (const ValueInfo &value : impl.signature(Phase::Update).arguments) {
    switch (value.role) {
    case RoleKind::Parameter:
    case RoleKind::Gradient:
    case RoleKind::OptimizerState:
    case RoleKind::Step:
    case RoleKind::StageSum:
      break;
    default:
      return makeError("its update function takes '" + value.fileName +
                       "', but an update has parameters, gradients, optimizer states, the step and "
                       "sums over stages");
    }
  }
  return llvm::Error::success();
}

/// Sizes that no machine can count would wrap around in every sum over them.
static llvm::Error checkSizes(ModuleOp module) {
  Type tooLarge;
  Location location = module.getLoc();
  auto check = [&](Type type, Location where) {
    auto bucket = dyn_cast<train::BucketType>(type);
    auto tensor = bucket ? bucket.getFlat() : dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        countBytes(toDType(tensor.getElementType()), tensor.getShape()))
      return false;
    tooLarge = type;
    location = where;
    return true;
  };
  WalkResult walk = module.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (check(result.getType(), op->getLoc()))
        return WalkResult::interrupt();
    if (auto function = dyn_cast<func::FuncOp>(op))
      for (Type type : function.getArgumentTypes())
        if (check(type, op->getLoc()))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (!walk.wasInterrupted())
    return llvm::Error::success();
  std::string text;
  llvm::raw_string_ostream(text) << tooLarge;
  return makeError(describeLocation(location) + ": the bytes of " + text + " cannot be counted");
}

/// The mesh's axes; at most one mesh. That of a placed program is none: it says where tensors are
/// to lie once the program is partitioned, and is a program for one device until then.
static llvm::Error readMesh(Program::Impl &impl) {
  auto meshes = llvm::to_vector(impl.module->getOps<dist::MeshOp>());
  if (meshes.size() > 1)
    return makeError("it has " + llvm::Twine(meshes.size()) +
                     " meshes; an executable program has at most one");
  if (llvm::any_of(impl.module->getOps<func::FuncOp>(), dist::isPlaced))
    return llvm::Error::success();
  for (dist::MeshOp mesh : meshes)
    for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
      impl.mesh.push_back({axis.getName().str(), axis.getSize()});
  return llvm::Error::success();
}

llvm::Error cleave::runtime::readSignature(Program::Impl &impl, RankPlace place) {
  if (llvm::Error error = checkSizes(*impl.module))
    return error;
  if (llvm::Error error = readMesh(impl))
    return error;
  RankClasses classes(impl.classes, impl.mesh, place);
  impl.functions = classes.mine().program;
  if (std::optional<llvm::StringRef> name = impl.module->getSymName())
    impl.name = name->str();
  for (func::FuncOp function : impl.functions.getFunctions()) {
    auto phase = Phase(function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue());
    auto stage = function->getAttrOfType<IntegerAttr>(train::kStageAttrName);
    impl.phaseFunctions.push_back(
        {phase, function, readSignature(function), stage ? stage.getInt() : 0});
    classes.readWholeShapes(impl.phaseFunctions.size() - 1, impl.phaseFunctions.back().signature);
    Signature &whole = impl.signatures[size_t(phase)];
    if (whole.arguments.empty() && whole.results.empty())
      whole = impl.phaseFunctions.back().signature;
    else
      addPart(whole, impl.phaseFunctions.back().signature);
    for (Type type :
         llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()))
      impl.isTyped |= bool(dist::getPlacement(type));
    if (auto draws = function->getAttrOfType<IntegerAttr>(train::kDrawsAttrName))
      impl.draws = draws.getInt();
  }
  for (func::FuncOp function : impl.functions.getMicrobatchFunctions()) {
    auto phase = Phase(function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue());
    if (!llvm::is_contained(impl.microbatchPhases, phase))
      impl.microbatchPhases.push_back(phase);
  }
  joinMicrobatch(impl);

  llvm::StringMap<RoleKind> seen;
  for (const ValueInfo &value : impl.signature(Phase::Microbatch).arguments) {
    bool isWeight = value.role == RoleKind::Parameter || value.role == RoleKind::Buffer ||
                    value.role == RoleKind::Constant;
    if (isWeight) {
      for (const std::string &name : llvm::concat<const std::string>(llvm::ArrayRef(value.name),
                                                                     llvm::ArrayRef(value.aliases)))
        if (!seen.try_emplace(name, value.role).second)
          return makeError("two of its parameters, buffers and constants are named '" + name + "'");
      impl.weights.push_back(value);
    } else if (value.role == RoleKind::Input || value.role == RoleKind::Target) {
      impl.inputs.push_back(value);
    }
  }
  for (const ValueInfo &value : impl.signature(Phase::Microbatch).results)
    if (value.members.empty())
      impl.outcomes.push_back(value);
    else
      llvm::append_range(impl.outcomes, value.members);
  llvm::StringMap<char> inputNames;
  for (const ValueInfo &value : impl.inputs)
    if (!inputNames.try_emplace(value.name).second)
      return makeError("two of its inputs and targets are named '" + value.name + "'");
  for (const ValueInfo &value : impl.signature(Phase::Update).arguments)
    if (value.role == RoleKind::OptimizerState)
      impl.optimizerStates.push_back(value);
  return checkUpdate(impl);
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

Program::Program(std::unique_ptr<Impl> impl) : pimpl(std::move(impl)) {}
Program::~Program() = default;
llvm::StringRef Program::path() const {
  return pimpl->path;
}
llvm::StringRef Program::name() const {
  return pimpl->name;
}
llvm::StringRef Program::fingerprint() const {
  return pimpl->fingerprint;
}
llvm::StringRef cleave::runtime::getPhaseName(Phase phase) {
  return phase == Phase::Action ? "action" : train::stringifyPhase(train::Phase(phase));
}
llvm::ArrayRef<Phase> Program::microbatchPhases() const {
  return pimpl->microbatchPhases;
}
bool Program::hasUpdate() const {
  return llvm::any_of(pimpl->phaseFunctions,
                      [](const PhaseFunction &part) { return part.phase == Phase::Update; });
}
int64_t Program::numStages() const {
  return static_cast<int64_t>(pimpl->functions.stages.size());
}
const cleave::runtime::ScheduleInfo *Program::schedule() const {
  return pimpl->schedule ? &pimpl->schedule->info : nullptr;
}
llvm::ArrayRef<ValueInfo> Program::arguments(Phase phase) const {
  return pimpl->signature(phase).arguments;
}
llvm::ArrayRef<ValueInfo> Program::results(Phase phase) const {
  return pimpl->signature(phase).results;
}
llvm::ArrayRef<ValueInfo> Program::outcomes() const {
  return pimpl->outcomes;
}
llvm::ArrayRef<ValueInfo> Program::weights() const {
  return pimpl->weights;
}
llvm::ArrayRef<ValueInfo> Program::optimizerStates() const {
  return pimpl->optimizerStates;
}
llvm::ArrayRef<ValueInfo> Program::inputs() const {
  return pimpl->inputs;
}
bool Program::isTyped() const {
  return pimpl->isTyped;
}
int64_t Program::draws() const {
  return pimpl->draws;
}
llvm::ArrayRef<MeshAxis> Program::mesh() const {
  return pimpl->mesh;
}
