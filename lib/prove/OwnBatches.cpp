//===- OwnBatches.cpp - ranks with microbatches of their own ----------------===//
//
// Where roles divide inputs over axes of the mesh (`over`), each rank runs microbatches of its own:
// with M of them on n ranks, rank r's microbatch m is number r * M + m of a step of one device. So
// a function of a microbatch is compared for any rank's one: what each microbatch has of its own is
// a leaf with the rank's place, the same in both programs. Gradients that ranks have added up are
// terms of what one device has, since each microbatch adds to them what depends on no other one.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

/// Visits the arguments of all functions with their roles; of a bucket, its members.
static void forEachArgument(
    ArrayRef<Part> parts,
    llvm::function_ref<void(Part, train::RoleAttr, std::string, dist::PlacementAttr)> see) {
  for (Part part : parts)
    for (BlockArgument argument : part.function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (train::BucketOp bucket = getBucket(part.function, argument.getType()); bucket && role) {
        for (const Member &member : getMembers(bucket, part, role))
          see(part, member.role, nameOf(part, member.role, 0), dist::getPlacement(member.type));
        continue;
      }
      see(part, role, nameOf(part, role, argument.getArgNumber()),
          dist::getPlacement(argument.getType()));
    }
}

/// The axes over which roles divide the batch, which all inputs with examples must name.
ArrayAttr Prover::findBatchAxes(ArrayRef<Part> parts) {
  ArrayAttr over;
  std::string first;
  bool isDivided = false;
  forEachArgument(parts, [&](Part, train::RoleAttr role, std::string name, dist::PlacementAttr) {
    if (!role || !role.getBatch() ||
        (role.getKind() != RoleKind::Input && role.getKind() != RoleKind::Target))
      return;
    if (first.empty()) {
      first = name;
      over = role.getOver();
    } else if (over != role.getOver()) {
      outOfScope("'" + StringRef(first).rtrim() + "' and '" + StringRef(name).rtrim() +
                 "' are divided over other axes of the mesh: their examples do not belong "
                 "together");
    }
    isDivided |= bool(role.getOver());
  });
  return isDivided ? over : ArrayAttr();
}

Prover::ByRole Prover::byRoleOf(Part part, train::RoleAttr role, const llvm::StringSet<> &updated,
                                const llvm::StringSet<> &reduced) {
  if (!role)
    return ByRole::Same;
  switch (role.getKind()) {
  case RoleKind::Input:
  case RoleKind::Target:
    return role.getBatch() ? ByRole::Own : ByRole::Same;
  case RoleKind::Seed:
  case RoleKind::RngOffset:
  case RoleKind::Accumulator:
    return ByRole::Own;
  case RoleKind::Buffer:
    return updated.contains(nameOf(role)) ? ByRole::Own : ByRole::Same;
  case RoleKind::Gradient:
    // What a reduction returns is whole.
    return part.kind == Part::Update && reduced.contains(nameOf(role)) ? ByRole::Same
                                                                       : ByRole::Term;
  default:
    return ByRole::Same;
  }
}

void Prover::readBatchAxes(ArrayRef<Part> globalParts, ArrayRef<Part> parts) {
  ArrayAttr over = findBatchAxes(parts);
  if (!comparesRanks && findBatchAxes(globalParts))
    outOfScope("the inputs of the program of one device are divided over ranks");
  for (Axis &axis : axes)
    if (axis.isOpen() &&
        !(over && llvm::is_contained(over.getAsValueRange<StringAttr>(), axis.name)))
      outOfScope("the size of mesh axis '" + axis.name + "' is not known");
  // Of two programs of ranks, each rank has what it had.
  if (!over || comparesRanks || !proof.outOfScope.empty())
    return;
  for (StringRef name : over.getAsValueRange<StringAttr>()) {
    const auto *axis = llvm::find_if(axes, [&](const Axis &axis) { return axis.name == name; });
    if (axis == axes.end())
      return outOfScope("inputs are divided over '" + name + "', which the mesh does not have");
    batchAxes.push_back(*axis);
  }
  llvm::StringSet<> reduced;
  for (ArrayRef<Part> each : {globalParts, parts})
    for (Part part : each)
      for (unsigned i = 0; i < part.function.getNumResults(); ++i) {
        train::RoleAttr role = train::getResultRole(part.function, i);
        if (role && role.getKind() == RoleKind::Buffer)
          updatedBuffers.insert(nameOf(role));
        if (role && role.getKind() == RoleKind::Gradient && part.kind == Part::Reduce &&
            part.function->getParentOp() == local.getOperation())
          reduced.insert(nameOf(role));
        if (dist::getPlacement(part.function.getResultTypes()[i]))
          outOfScope("results lie by their types, and inputs are divided by their roles");
        else
          checkParts(role, resultPlacement(part.function, i));
      }
  for (Part part : parts)
    for (BlockArgument argument : part.function.getArguments())
      if (!dist::getPlacement(argument.getType()))
        checkParts(train::getArgumentRole(part.function, argument.getArgNumber()),
                   placementOf(argument));
  forEachArgument(
      parts, [&](Part part, train::RoleAttr role, std::string name, dist::PlacementAttr placement) {
        if (placement)
          outOfScope("'" + name + "' lies by its type, and inputs are divided by their roles");
        byRole[name] = byRoleOf(part, role, updatedBuffers, reduced);
      });
}

/// Where inputs are divided by roles, attributes may say that ranks have shards of what an update
/// takes and gives, and of what leads to it.
void Prover::checkParts(train::RoleAttr role, dist::PlacementAttr placement) {
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (!on || on->isSameOnAllRanks())
      continue;
    if (!role || !on->isShard())
      return outOfScope("ranks have no shards along '" + axis.name +
                        "' of a value, and inputs are divided by their roles");
    switch (role.getKind()) {
    case RoleKind::Parameter:
    case RoleKind::OptimizerState:
    case RoleKind::Accumulator:
    case RoleKind::Gradient:
      break;
    default:
      return outOfScope("'" + StringRef(nameOf(role)).rtrim() + "' lies in shards along '" +
                        axis.name + "', and inputs are divided by their roles");
    }
  }
}

/// The places of ranks over which a gradient was summed when ranks got shards of it: those along
/// axes of the batch that divide it.
SmallVector<Var> Prover::scatteredPlaces(dist::PlacementAttr placement) {
  SmallVector<Var> places;
  for (const Axis &axis : batchAxes)
    if (std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
        on && on->isShard())
      llvm::append_range(places, axis.digits);
  return places;
}

/// What the leaf of an argument has for each axis over which the batch is divided.
void Prover::addBatchPlaces(StringRef name, SmallVectorImpl<Index> &indices,
                            SmallVectorImpl<int64_t> &sizes, SmallVectorImpl<Var> &summed) {
  ByRole how = byRole.lookup(name);
  if (how == ByRole::Same)
    return;
  for (Var digit : placesOf(batchAxes)) {
    indices.push_back(Index::of(digit));
    sizes.push_back(terms.variables.getSize(digit));
    if (how == ByRole::Term)
      summed.push_back(digit);
  }
}

/// Where LOCAL adds gradients up and GLOBAL leaves that to its caller, the step's gradient is the
/// sum in both.
void Prover::accumulateForCaller() {
  for (auto &entry : globalResults) {
    StringRef name = entry.first();
    if (!name.consume_front("microbatch gradient "))
      continue;
    std::string taken = ("microbatch accumulator " + name).str();
    auto found = arguments.find(taken);
    if (found == arguments.end() || globalTypes.contains(taken))
      continue;
    if (std::optional<Tensor> sum =
            globalEvaluator->addValues(found->second.global, entry.second)) {
      sum->meaning = terms.normalize(std::move(sum->meaning));
      entry.second = std::move(*sum);
    }
  }
}

/// The leaves that one microbatch leaves to the next.
llvm::StringSet<> Prover::statesOfMicrobatches() {
  llvm::StringSet<> states;
  for (const auto &entry : arguments) {
    StringRef name = entry.first();
    // What no microbatch returns stays as it is.
    if (name.starts_with("microbatch accumulator ") ||
        (name.starts_with("buffer ") && globalResults.contains(("microbatch " + name).str())))
      states.insert(name);
  }
  return states;
}

/// Of a step's microbatches each rank runs some: what they make must not depend on the others.
void Prover::checkOwnBatches() {
  if (batchAxes.empty())
    return;
  if (!areGradientsFreeOfOrder())
    fail("gradients", "they depend on the microbatches before, of which a rank runs its own alone");
  llvm::StringSet<> states = statesOfMicrobatches();
  for (const auto &[key, value] : globalResults) {
    StringRef name = key;
    if (!name.consume_front("microbatch ") || name.starts_with("gradient "))
      continue;
    if (name.starts_with("buffer ")) {
      if (!hasOwnBuffers)
        fail(name.rtrim(), "a rank's is of its own microbatches, and that of one device of all: "
                           "--assume=own-buffers proves what others compute");
    } else if (terms.dependsOn(value.meaning, states)) {
      fail(name.rtrim(),
           "it depends on the microbatches before, of which a rank runs its own alone");
    }
  }
}
