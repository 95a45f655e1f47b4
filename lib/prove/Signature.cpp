//===- Signature.cpp - what the programs say of their arguments -------------===//
//
// All of LOCAL that is believed: how its arguments and results lie.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Placed.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

llvm::StringRef cleave::prove::nameOf(Part::Kind kind) {
  switch (kind) {
  case Part::Microbatch:
    return "microbatch";
  case Part::Reduce:
    return "reduce";
  case Part::Update:
    return "update";
  case Part::Plain:
    return "";
  }
  return "";
}

bool cleave::prove::passesOn(train::RoleAttr role) {
  return role && (role.getKind() == RoleKind::Saved || role.getKind() == RoleKind::Crossing ||
                  role.getKind() == RoleKind::CrossingGradient);
}

bool cleave::prove::isStageSum(train::RoleAttr role) {
  return role && role.getKind() == RoleKind::StageSum;
}

std::string cleave::prove::nameOf(train::RoleAttr role) {
  return (train::stringifyRoleKind(role.getKind()) + " " + role.getNameOrEmpty() + " " +
          role.getSlotOrEmpty())
      .str();
}

std::string cleave::prove::nameOf(Part part, train::RoleAttr role, unsigned number) {
  if (!role)
    return (part.function.getName() + " argument " + Twine(number)).str();
  if (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Accumulator)
    return (nameOf(part.kind) + " " + nameOf(role)).str();
  return nameOf(role);
}

std::string cleave::prove::nameOf(const Result &result) {
  return result.role ? (nameOf(result.part.kind) + " " + nameOf(result.role)).str()
                     : nameOf(result.part, result.role, result.number);
}

//===----------------------------------------------------------------------===//
// Programs and their signatures
//===----------------------------------------------------------------------===//

SmallVector<Part> cleave::prove::partsOf(const train::ProgramFunctions &program) {
  SmallVector<Part> parts;
  for (func::FuncOp function : program.getFunctions()) {
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
    Part::Kind kind = phase == train::Phase::Update   ? Part::Update
                      : phase == train::Phase::Reduce ? Part::Reduce
                                                      : Part::Microbatch;
    parts.push_back({kind, function});
  }
  return parts;
}

FailureOr<SmallVector<Part>> Prover::getParts(ModuleOp module) {
  bool hasPhases = llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kPhaseAttrName);
  });
  if (!hasPhases) {
    SmallVector<Part> parts;
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        parts.push_back({Part::Plain, function});
    return parts;
  }
  FailureOr<train::ProgramFunctions> program =
      train::getProgram(module, train::ProgramForms::Staged);
  if (failed(program))
    return failure();
  return partsOf(*program);
}

bool Prover::doesCommunicate(func::FuncOp function) {
  return function->getParentOp() == local.getOperation() ? communicates : globalCommunicates;
}

dist::PlacementAttr Prover::placementOf(BlockArgument argument) {
  if (dist::PlacementAttr placement = dist::getPlacement(argument.getType()))
    return placement;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return doesCommunicate(function) ? function.getArgAttrOfType<dist::PlacementAttr>(
                                         argument.getArgNumber(), dist::kPlacementAttr)
                                   : nullptr;
}

dist::PlacementAttr Prover::resultPlacement(func::FuncOp function, unsigned result) {
  if (dist::PlacementAttr placement = dist::getPlacement(function.getResultTypes()[result]))
    return placement;
  return doesCommunicate(function)
             ? function.getResultAttrOfType<dist::PlacementAttr>(result, dist::kPlacementAttr)
             : nullptr;
}

bool cleave::prove::hasCommunication(ModuleOp module) {
  return module.walk([](dist::CommunicationOpInterface) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Whether attributes say of an argument or a result how it lies.
static bool hasAttributes(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, dist::kPlacementAttr))
        return true;
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, dist::kPlacementAttr))
        return true;
    return false;
  });
}

void Prover::readMesh() {
  // Ranks need not communicate: where they should, and do not, that is the error.
  communicates = hasCommunication(local) || (!mayBeOfOneDevice && hasAttributes(local));
  globalCommunicates = comparesRanks && hasCommunication(global);
  dist::MeshOp mesh = dist::getMesh(local);
  if (!mesh)
    return;
  for (dist::AxisAttr axis : mesh.getAxes().getAsRange<dist::AxisAttr>()) {
    Axis &made = axes.emplace_back();
    made.name = axis.getName().str();
    made.size = axis.getSize() > 0 ? axis.getSize() : kOpenSize;
    made.whole = terms.variables.make(made.size);
    SmallVector<int64_t> strides;
    if (auto found = cuts.find(made.name); found != cuts.end())
      strides.assign(found->second.begin(), found->second.end());
    auto chain = chainOf(strides, made.size);
    if (!chain || chain->size() < 2) {
      made.digits.push_back(made.whole);
      continue;
    }
    int64_t size = made.size;
    for (int64_t stride : llvm::reverse(*chain)) {
      made.digits.push_back(terms.variables.make(size / stride));
      size = stride;
    }
  }
}

std::optional<Tensor> Prover::toLocal(Tensor value, dist::PlacementAttr placement) {
  if (!placement)
    return value;
  for (unsigned dim = 0; dim < value.dims.size(); ++dim) {
    SmallVector<Axis> along;
    for (StringAttr name : placement.getShardingAxes(dim)) {
      const Axis *axis = localEvaluator->findAxis(name);
      if (!axis)
        return std::nullopt;
      along.push_back(*axis);
    }
    if (along.empty())
      continue;
    std::optional<Tensor> part = localEvaluator->shard(value, dim, along);
    if (!part)
      return std::nullopt;
    value = std::move(*part);
  }
  return value;
}

SmallVector<int64_t> cleave::prove::wholeShape(RankedTensorType local,
                                               dist::PlacementAttr placement, ArrayRef<Axis> axes) {
  SmallVector<int64_t> shape(local.getShape());
  if (placement)
    for (auto [dim, size] : llvm::enumerate(shape))
      for (StringAttr name : placement.getShardingAxes(dim))
        for (const Axis &axis : axes)
          if (axis.name == name.getValue())
            size *= axis.size;
  return shape;
}

bool Prover::readArgument(StringRef name, RankedTensorType type, dist::PlacementAttr placement,
                          func::FuncOp function, RankedTensorType globalType) {
  auto [place, isNew] = arguments.try_emplace(name);
  Argument &result = place->second;
  if (!isNew) {
    if (result.placement == placement)
      return true;
    outOfScope("'" + name + "' lies in one way in one function and in another in '" +
               function.getName() + "'");
    return false;
  }
  result.placement = placement;
  if (globalType.getElementType() != type.getElementType() ||
      ArrayRef<int64_t>(wholeShape(type, placement, axes)) != globalType.getShape()) {
    outOfScope("'" + name + "' is " + llvm::formatv("{0}", globalType).str() +
               " on one device, of which " + llvm::formatv("{0}", type).str() +
               " is not an even part");
    return false;
  }

  // What the update takes is what the reduction before it returns, which is proved to be what it
  // takes, in another place: sums over stages are of the same gradients.
  StringRef reduced = name;
  if (reduced.consume_front("update gradient ") && !globalReduces &&
      !isCutInTerms(placement, axes) && byRole.lookup(name) == ByRole::Same) {
    auto before = arguments.find(("reduce gradient " + reduced).str());
    if (before != arguments.end()) {
      result.global = before->second.global;
      std::optional<Tensor> part = toLocal(result.global, placement);
      if (part) {
        result.local = std::move(*part);
        result.local.meaning = terms.normalize(std::move(result.local.meaning));
        return true;
      }
    }
  }

  // Terms of a sum, one a rank; elsewhere all ranks have parts of one tensor.
  SmallVector<Var> summed;
  SmallVector<Index> indices;
  SmallVector<int64_t> sizes;
  Rational scale(1);
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (!on || on->isSameOnAllRanks() || on->isShard())
      continue;
    for (Var digit : axis.digits) {
      indices.push_back(Index::of(digit));
      sizes.push_back(terms.variables.getSize(digit));
    }
    if (on->isPartial() &&
        (on->reduction == dist::Reduction::Sum || on->reduction == dist::Reduction::Avg)) {
      llvm::append_range(summed, axis.digits);
      if (on->reduction == dist::Reduction::Avg)
        scale = scale / Rational(axis.size);
      continue;
    }
    // Nothing is known of how they belong together.
    result.local = localEvaluator->opaque(type);
    result.global = globalEvaluator->opaque(globalType);
    return true;
  }
  addBatchPlaces(name, indices, sizes, summed);
  result.global.dims = makeDims(terms, globalType.getShape());
  for (const auto &dim : result.global.dims)
    for (Var var : dim) {
      indices.push_back(Index::of(var));
      sizes.push_back(terms.variables.getSize(var));
    }
  result.global.meaning = terms.leaf(name, sizes, indices);
  Tensor whole = result.global;
  if (byRole.lookup(name) != ByRole::Same)
    whole.meaning = terms.sum(std::move(whole.meaning), scatteredPlaces(placement));
  std::optional<Tensor> part = toLocal(std::move(whole), placement);
  if (!part) {
    outOfScope("'" + name + "' lies in parts of several sizes");
    return false;
  }
  result.local = std::move(*part);
  result.local.meaning = terms.normalize(std::move(result.local.meaning));
  result.global.meaning = terms.scale(terms.sum(result.global.meaning, summed), scale);
  return true;
}

bool Prover::readNamed(StringRef name, RankedTensorType type, dist::PlacementAttr placement,
                       func::FuncOp function) {
  if (comparesRanks)
    return readOfRanks(name, type, placement, function);
  // Roles say how it lies where they divide inputs.
  if (!axes.empty() && communicates && !placement && batchAxes.empty()) {
    outOfScope("'" + name +
               "' has no placement, and the program communicates: its signature does "
               "not say how its arguments lie");
    return false;
  }
  auto found = globalTypes.find(name);
  // What only LOCAL takes, and a `reduce`, of which GLOBAL has none.
  RankedTensorType globalType =
      found != globalTypes.end()
          ? found->second
          : RankedTensorType::get(wholeShape(type, placement, axes), type.getElementType());
  return readArgument(name, type, placement, function, globalType);
}

void Prover::readArguments(ArrayRef<Part> parts) {
  for (Part part : parts)
    for (BlockArgument argument : part.function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (passesOn(role) || isStageSum(role))
        continue;
      std::string name = nameOf(part, role, argument.getArgNumber());
      if (train::BucketOp bucket = getBucket(part.function, argument.getType()); bucket && role) {
        for (const Member &member : getMembers(bucket, part, role))
          if (!readNamed(nameOf(part, member.role, 0), member.type, dist::getPlacement(member.type),
                         part.function))
            return;
        continue;
      }
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type)
        return outOfScope("'" + name + "' is not a tensor");
      if (!readNamed(name, type, placementOf(argument), part.function))
        return;
      localValues[argument] = arguments[name].local;
    }
}

bool cleave::prove::lieAlike(dist::PlacementAttr a, dist::PlacementAttr b, ArrayRef<Axis> axes) {
  for (const Axis &axis : axes) {
    auto on = [&](dist::PlacementAttr placement) {
      std::optional<dist::AxisPlacement> found =
          placement ? placement.get(axis.name) : std::nullopt;
      if (!found || found->isInvariant())
        return dist::AxisPlacement::replicate();
      return *found;
    };
    if (on(a) != on(b))
      return false;
  }
  return true;
}

/// What a function returns, the next one takes: both must say that it lies in the same way.
void Prover::checkTies(ArrayRef<Part> parts) {
  auto hasPart = [&](Part::Kind kind) {
    return llvm::any_of(parts, [&](const Part &part) { return part.kind == kind; });
  };
  for (Part part : parts)
    for (unsigned i = 0; i < part.function.getNumResults(); ++i) {
      train::RoleAttr role = train::getResultRole(part.function, i);
      if (!role || passesOn(role) || isStageSum(role))
        continue;
      dist::PlacementAttr placement = resultPlacement(part.function, i);
      SmallVector<std::string> takers;
      if (role.getKind() == RoleKind::Gradient) {
        auto of = [&](Part::Kind kind, RoleKind roleKind) {
          takers.push_back((nameOf(kind) + " " + train::stringifyRoleKind(roleKind) + " " +
                            role.getNameOrEmpty() + " ")
                               .str());
        };
        if (part.kind == Part::Microbatch) {
          of(Part::Microbatch, RoleKind::Accumulator);
          of(hasPart(Part::Reduce) ? Part::Reduce : Part::Update, RoleKind::Gradient);
        } else {
          of(Part::Update, RoleKind::Gradient);
        }
      } else {
        takers.push_back(nameOf(role));
      }
      for (const std::string &taker : takers) {
        auto found = arguments.find(taker);
        if (found != arguments.end() && !lieAlike(found->second.placement, placement, axes))
          outOfScope("'" + part.function.getName() + "' returns '" + nameOf(role) +
                     "' in another placement than that in which '" + taker + "' is taken");
      }
    }
}
