//===- Signature.cpp - what the programs say of themselves ------------------===//
//
// All that is believed of LOCAL: how its arguments and results lie.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "lib/replay/Replayer.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

bool cleave::replay::passesOn(RoleAttr role) {
  return role && (role.getKind() == RoleKind::Saved || role.getKind() == RoleKind::Crossing ||
                  role.getKind() == RoleKind::CrossingGradient);
}

bool cleave::replay::isStageSum(RoleAttr role) {
  return role && role.getKind() == RoleKind::StageSum;
}

bool Replay::readParts(Program &program) {
  auto functions = llvm::to_vector(program.module.getOps<func::FuncOp>());
  bool hasPhases = llvm::any_of(
      functions, [](func::FuncOp function) { return function->hasAttr(train::kPhaseAttrName); });
  program.communicates =
      program.module.walk([](dist::CommunicationOpInterface) { return WalkResult::interrupt(); })
          .wasInterrupted();
  // Attributes say how values of ranks lie, whether or not they communicate.
  for (func::FuncOp function : program.isLocal ? functions : SmallVector<func::FuncOp>())
    for (unsigned i = 0; i < std::max(function.getNumArguments(), function.getNumResults()); ++i)
      program.communicates |=
          (i < function.getNumArguments() && function.getArgAttr(i, dist::kPlacementAttr)) ||
          (i < function.getNumResults() && function.getResultAttr(i, dist::kPlacementAttr));
  if (hasPhases) {
    auto read = train::getProgram(program.module, train::ProgramForms::Staged);
    if (failed(read))
      return fail("not a training program");
    functions = llvm::to_vector(read->getFunctions());
  }
  for (func::FuncOp function : functions) {
    if (function.isExternal())
      continue;
    if (function->hasAttr(train::kRanksAttrName) || !function.getBody().hasOneBlock())
      return fail("'" + function.getName() + "' is of a form that is not replayed");
    std::string phase;
    if (hasPhases) {
      auto of = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
      phase = of == train::Phase::Update   ? "update"
              : of == train::Phase::Reduce ? "reduce"
                                           : "microbatch";
    }
    program.parts.push_back({phase, function});
  }
  return program.isLocal || program.module.getOps<pipeline::ScheduleOp>().empty() ||
         fail("one device has a schedule");
}

bool Replay::readMesh() {
  dist::MeshOp mesh = dist::getMesh(local.module);
  size_t next = 0;
  if (mesh)
    for (dist::AxisAttr axis : mesh.getAxes().getAsRange<dist::AxisAttr>()) {
      if (next == log.axes.size() || log.axes[next].first != axis.getName().str())
        return fail("the log is of another mesh");
      Axis made{axis.getName().str(), axis.getSize() > 0 ? axis.getSize() : Forms::kOpen, {}};
      int64_t size = 1;
      for (int64_t digit : log.axes[next++].second) {
        made.digits.push_back(forms.make(digit));
        size *= digit;
        localDigits.insert(numRankDigits++);
      }
      if (size != made.size || size <= 0)
        return fail("the digits of mesh axis '" + axis.getName().str() + "' are not its size");
      axes.push_back(std::move(made));
    }
  return next == log.axes.size() || fail("the log is of another mesh");
}

PlacementAttr Replay::placementOf(Program &program, func::FuncOp function, unsigned number,
                                  bool isResult) {
  if (PlacementAttr placement = dist::getPlacement(isResult ? function.getResultTypes()[number]
                                                            : function.getArgumentTypes()[number]))
    return placement;
  if (!program.communicates)
    return nullptr;
  return isResult ? function.getResultAttrOfType<PlacementAttr>(number, dist::kPlacementAttr)
                  : function.getArgAttrOfType<PlacementAttr>(number, dist::kPlacementAttr);
}

/// The places over which a gradient was summed when ranks got shards of it: those along axes over
/// which roles divide the batch.
SmallVector<Var> Replay::scatteredPlaces(PlacementAttr placement) {
  SmallVector<Var> places;
  if (batches.getAxes())
    for (StringRef name : batches.getAxes().getAsValueRange<StringAttr>())
      if (const Axis *axis = ops.findAxis(name); axis && on(placement, name).isShard())
        llvm::append_range(places, axis->digits);
  return places;
}

std::optional<Tensor> Replay::toLocal(Tensor value, PlacementAttr placement) {
  for (unsigned dim = 0; placement && dim < value.dims.size(); ++dim) {
    SmallVector<Axis> along;
    for (StringAttr name : placement.getShardingAxes(dim)) {
      const Axis *axis = ops.findAxis(name);
      if (!axis)
        return std::nullopt;
      along.push_back(*axis);
    }
    std::optional<Tensor> part = along.empty() ? value : ops.shard(value, dim, along);
    if (!part)
      return std::nullopt;
    value = std::move(*part);
  }
  return value;
}

dist::AxisPlacement cleave::replay::on(PlacementAttr placement, StringRef axis) {
  auto found = placement ? placement.get(axis) : std::nullopt;
  return !found || found->isInvariant() ? dist::AxisPlacement::replicate() : *found;
}

std::optional<Replay::Terms> Replay::termsOf(PlacementAttr placement) {
  Terms terms;
  for (const Axis &axis : axes) {
    dist::AxisPlacement there = on(placement, axis.name);
    if (there.isReplicate() || there.isShard())
      continue;
    bool isMean = there.isPartial() && there.reduction == dist::Reduction::Avg;
    if (!isMean && !(there.isPartial() && there.reduction == dist::Reduction::Sum))
      return std::nullopt;
    llvm::append_range(terms.places, axis.digits);
    if (isMean)
      terms.share = terms.share / Rational(axis.size);
  }
  return terms;
}

/// The signature: each argument of LOCAL is its part, or its term, of a leaf, and GLOBAL's the
/// leaf, or the sum of its terms.
bool Replay::readArguments() {
  std::map<std::string, RankedTensorType> wholes;
  for (Part part : global.parts)
    for (BlockArgument argument : part.function.getArguments())
      if (auto type = dyn_cast<RankedTensorType>(argument.getType())) {
        std::string name =
            nameOf(part, train::getArgumentRole(part.function, argument.getArgNumber()),
                   argument.getArgNumber(), false);
        wholes[name] = type;
        global.takes.insert(name);
      }
  for (Part part : local.parts)
    for (BlockArgument argument : part.function.getArguments()) {
      unsigned number = argument.getArgNumber();
      RoleAttr role = train::getArgumentRole(part.function, number);
      if (passesOn(role) || isStageSum(role))
        continue;
      for (const Held &held : heldBy(part.function, argument.getType(), role)) {
        std::string name = nameOf(part, held.role, number, false);
        PlacementAttr placement = placementOf(local, held, part.function, number, false);
        if (!readArgument(part, held, name, placement, wholes))
          return false;
        if (held.bucket)
          local.buckets[argument].members[held.role.getNameOrEmpty().str()] = arguments[name].local;
        else
          local.values[argument] = arguments[name].local;
      }
    }
  return true;
}

bool Replay::readArgument(Part part, const Held &of, const std::string &name,
                          PlacementAttr placement,
                          const std::map<std::string, RankedTensorType> &wholes) {
  auto type = dyn_cast<RankedTensorType>(of.type);
  if (!type || (local.communicates && !placement && !axes.empty() && !batches.getAxes()))
    return fail("'" + name + "' is of a form that is not replayed");
  SmallVector<int64_t> shape(type.getShape());
  for (auto [dim, size] : llvm::enumerate(shape))
    for (StringAttr axis : placement ? placement.getShardingAxes(dim) : SmallVector<StringAttr>())
      if (const Axis *found = ops.findAxis(axis))
        size *= found->size;
  auto whole = wholes.find(name);
  if (whole != wholes.end() && (whole->second.getShape() != ArrayRef(shape) ||
                                whole->second.getElementType() != type.getElementType()))
    return fail("'" + name + "' is no even part of what one device takes");
  auto [slot, isNew] = arguments.try_emplace(name);
  Argument &taken = slot->second;
  if (!isNew)
    return (taken.placement == placement && taken.bucket == of.bucket) ||
           fail("'" + name + "' lies in two ways");
  taken.placement = placement;
  taken.bucket = of.bucket;
  std::optional<Terms> terms = termsOf(placement);
  if (!terms)
    return fail("'" + name + "' lies in a way that is not replayed");
  // What the update takes is what the reduction before it returns, in another place.
  StringRef rest = name;
  Batches::How how = batches.howOf(part.function, of.role);
  bool reduces =
      llvm::any_of(global.parts, [](const Part &part) { return part.phase == "reduce"; });
  if (rest.consume_front("update gradient ") && !reduces && terms->places.empty() &&
      how == Batches::Same)
    if (auto before = arguments.find("reduce gradient " + rest.str()); before != arguments.end()) {
      std::optional<Tensor> own = toLocal(before->second.global, placement);
      if (!own)
        return fail("'" + name + "' lies in parts of several sizes");
      taken.global = before->second.global;
      taken.local = std::move(*own);
      return true;
    }
  SmallVector<Index, 4> places;
  SmallVector<int64_t, 4> sizes;
  SmallVector<Var> summed = terms->places;
  auto add = [&](Var var) {
    places.push_back(Index::of(var));
    sizes.push_back(forms.sizeOf(var));
  };
  llvm::for_each(summed, add);
  if (how != Batches::Same)
    for (StringAttr axis : batches.getAxes().getAsRange<StringAttr>())
      for (Var digit : ops.findAxis(axis)->digits) {
        add(digit);
        if (how == Batches::Term)
          summed.push_back(digit);
      }
  taken.global.dims = ops.makeDims(shape);
  for (const auto &dim : taken.global.dims)
    llvm::for_each(dim, add);
  std::optional<TermId> leaf = forms.findLeaf(name);
  if (!leaf || ArrayRef(forms.get(*leaf).sizes) != ArrayRef(sizes))
    return fail("the log has another '" + name + "'");
  Summand summand;
  summand.value = {*leaf, places};
  unknowns.insert(*leaf);
  taken.global.form = {summand};
  Tensor held = taken.global;
  if (how != Batches::Same)
    held.form = forms.sum(std::move(held.form), scatteredPlaces(placement));
  std::optional<Tensor> own = toLocal(std::move(held), placement);
  if (!own)
    return fail("'" + name + "' lies in parts of several sizes");
  own->form = forms.normal(own->form);
  taken.local = std::move(*own);
  taken.global.form = forms.scale(forms.sum(taken.global.form, summed), terms->share);
  return true;
}

/// What one function returns and another takes lies in the same way, so that steps follow by
/// induction over microbatches.
bool Replay::checkTies() {
  bool reduces = llvm::any_of(local.parts, [](const Part &part) { return part.phase == "reduce"; });
  for (Part part : local.parts)
    for (unsigned i = 0; i < part.function.getNumResults(); ++i) {
      RoleAttr returned = train::getResultRole(part.function, i);
      if (!returned || passesOn(returned) || isStageSum(returned))
        continue;
      for (const Held &held : heldBy(part.function, part.function.getResultTypes()[i], returned)) {
        SmallVector<std::string> takers{nameOf(held.role)};
        if (held.role.getKind() == RoleKind::Gradient) {
          std::string name = held.role.getNameOrEmpty().str() + " ";
          takers = {"update gradient " + name};
          if (part.phase == "microbatch")
            takers = {"microbatch accumulator " + name,
                      (reduces ? "reduce gradient " : "update gradient ") + name};
        }
        PlacementAttr placement = placementOf(local, held, part.function, i, true);
        for (const std::string &taker : takers)
          if (auto found = arguments.find(taker); found != arguments.end())
            for (const Axis &axis : axes)
              if (on(placement, axis.name) != on(found->second.placement, axis.name) ||
                  found->second.bucket != held.bucket)
                return fail("'" + taker + "' is taken in another placement than it is returned in");
      }
    }
  return true;
}

/// Each microbatch gets the same part of the batch, as many random numbers, and the same share of
/// the mean.
bool Replay::checkStep() {
  std::map<std::string, RoleAttr> roles;
  std::map<bool, int64_t> draws;
  bool areSame = true, usesDraws = false;
  for (Program *program : {&global, &local})
    for (Part part : program->parts) {
      if (auto count = part.function->getAttrOfType<IntegerAttr>(train::kDrawsAttrName))
        draws.try_emplace(program->isLocal, count.getInt());
      auto see = [&](const std::string &name, RoleAttr role) {
        if (!role)
          return;
        usesDraws |= program->isLocal && role.getKind() == RoleKind::RngOffset;
        auto [place, isNew] = roles.try_emplace(name + nameOf(role), role);
        areSame &= place->second.getBatch() == role.getBatch();
      };
      for (unsigned i = 0; i < part.function.getNumArguments(); ++i)
        see("takes ", train::getArgumentRole(part.function, i));
      for (unsigned i = 0; i < part.function.getNumResults(); ++i)
        see("returns ", train::getResultRole(part.function, i));
    }
  for (StringRef name : {train::kMeanOverAttrName, train::kLossScalingAttrName})
    areSame &= global.module->getAttr(name) == local.module->getAttr(name);
  return (areSame && (!usesDraws || draws[false] == draws[true])) ||
         fail("microbatches are other parts of the batch, draw otherwise, or are scaled otherwise");
}

/// The axes over which roles divide inputs, and no others of any size.
bool Replay::readBatches() {
  auto functionsOf = [](const Program &program) {
    return llvm::map_to_vector(program.parts, [](const Part &part) { return part.function; });
  };
  if (std::string problem = batches.read(functionsOf(global), functionsOf(local)); !problem.empty())
    return fail(problem);
  auto along = batches.getAxes() ? ops.findAxes(batches.getAxes()) : SmallVector<Axis>();
  if (!along)
    return fail("inputs are divided over an axis that the mesh lacks");
  Var digit = 0;
  for (const Axis &axis : axes) {
    bool isDivided =
        llvm::any_of(*along, [&](const Axis &other) { return other.name == axis.name; });
    if (axis.size == Forms::kOpen && !isDivided)
      return fail("the size of mesh axis '" + axis.name + "' is not known");
    for (size_t i = 0; i < axis.digits.size(); ++i, ++digit)
      if (isDivided)
        globalDigits.insert(digit);
  }
  return true;
}

const std::string *Replay::findDependent(bool ofGradients) {
  llvm::DenseSet<TermId> states;
  for (const auto &[name, argument] : arguments)
    if (StringRef(name).starts_with("microbatch accumulator ") ||
        (StringRef(name).starts_with("buffer ") && global.results.count("microbatch " + name)))
      if (std::optional<TermId> leaf = forms.findLeaf(name))
        states.insert(*leaf);
  for (const auto &[name, result] : global.results) {
    RoleAttr role = train::getResultRole(result.part.function, result.number);
    if (result.part.phase != "microbatch" || !role ||
        (ofGradients && role.getKind() != RoleKind::Gradient))
      continue;
    std::optional<Tensor> own = result.value;
    std::string sum = "microbatch accumulator " + role.getNameOrEmpty().str() + " ";
    auto before = arguments.find(sum);
    if (role.getKind() == RoleKind::Gradient && before != arguments.end() &&
        global.takes.contains(sum)) {
      Tensor negative = before->second.global;
      negative.form = forms.scale(negative.form, Rational(-1));
      own = ops.add(*own, negative);
    }
    if (role.getKind() == RoleKind::Buffer ? !hasOwnBuffers
                                           : !own || isMadeOf(forms, own->form, states))
      return &name;
  }
  return nullptr;
}

/// What a microbatch makes must not depend on others, of which a rank runs its own alone; but for
/// gradients, to which each adds.
bool Replay::checkBatches() {
  if (!batches.getAxes())
    return true;
  if (forms.countsOpen)
    return fail("it is proved for one size of the mesh only");
  const std::string *dependent = findDependent(/*ofGradients=*/false);
  return !dependent || fail("'" + *dependent + "' depends on other microbatches");
}
