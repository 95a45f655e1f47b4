//===- Ranks.cpp - two programs of the same ranks ---------------------------===//
//
// What a pass left against what it was given, where that is a program of ranks already. Arguments
// that lie as before are one value in both, rank by rank; others are the same whole, of which each
// program has what its signature says. Of terms of a sum only the sum is known to be the same where
// one program has them and the other one the whole, so that nothing is claimed of terms that two
// signatures cut in two ways.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Placed.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

void Prover::readBefore(ArrayRef<Part> parts) {
  dist::MeshOp was = dist::getMesh(global), is = dist::getMesh(local);
  if (!was != !is || (was && was.getAxes() != is.getAxes()))
    return outOfScope("the mesh is another one");
  auto take = [&](StringRef name, RankedTensorType type, dist::PlacementAttr placement) {
    auto [found, isNew] = globalArguments.try_emplace(name, Signed{type, placement});
    if (!isNew && (found->second.type != type || found->second.placement != placement))
      outOfScope("'" + name + "' lies in several ways before");
  };
  for (Part part : parts)
    for (BlockArgument argument : part.function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (passesOn(role))
        continue;
      if (train::BucketOp bucket = getBucket(part.function, argument.getType()); bucket && role) {
        for (const Member &member : getMembers(bucket, part, role))
          take(nameOf(part, member.role, 0), member.type, dist::getPlacement(member.type));
        continue;
      }
      if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
        take(nameOf(part, role, argument.getArgNumber()), type, placementOf(argument));
    }
}

bool cleave::prove::isCutInTerms(dist::PlacementAttr placement, ArrayRef<Axis> axes) {
  return llvm::any_of(axes, [&](const Axis &axis) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    return on && !on->isSameOnAllRanks() && !on->isShard();
  });
}

bool Prover::readOfRanks(StringRef name, RankedTensorType type, dist::PlacementAttr placement,
                         func::FuncOp function) {
  auto wholeOf = [&](RankedTensorType type, dist::PlacementAttr placement) {
    return RankedTensorType::get(wholeShape(type, placement, axes), type.getElementType());
  };
  auto plain = [](RankedTensorType type) {
    return RankedTensorType::get(type.getShape(), type.getElementType());
  };
  auto found = globalArguments.find(name);
  Signed before = found == globalArguments.end() ? Signed{type, placement} : found->second;
  bool isOpen =
      !axes.empty() && ((!placement && communicates) || (!before.placement && globalCommunicates));
  bool isShared =
      plain(before.type) == plain(type) &&
      (isOpen ? before.placement == placement : lieAlike(before.placement, placement, axes));
  if (auto known = arguments.find(name); known != arguments.end()) {
    if (known->second.placement == placement)
      return true;
    outOfScope("'" + name + "' lies in one way in one function and in another in '" +
               function.getName() + "'");
    return false;
  }
  if (isOpen && isShared) {
    // Nothing says how it lies: it is the same on each rank before and after.
    Tensor value = localEvaluator->opaque(type, "argument");
    arguments[name] = {value, value, placement};
    return true;
  }
  if (isShared) {
    if (!readArgument(name, type, placement, function, wholeOf(type, placement)))
      return false;
    // What GLOBAL does not take is a whole.
    if (found != globalArguments.end())
      arguments[name].global = arguments[name].local;
    return true;
  }
  bool isCut = isCutInTerms(before.placement, axes);
  if (isOpen || wholeOf(type, placement) != wholeOf(before.type, before.placement) ||
      (isCut && isCutInTerms(placement, axes))) {
    outOfScope("'" + name + "' lies in another way than before");
    return false;
  }
  if (!readArgument(name, isCut ? before.type : type, isCut ? before.placement : placement,
                    function, wholeOf(type, placement)))
    return false;
  // The whole, and what one of both has of it.
  Argument &argument = arguments[name];
  std::optional<Tensor> other = toLocal(argument.global, isCut ? placement : before.placement);
  if (!other) {
    outOfScope("'" + name + "' lies in parts of several sizes");
    return false;
  }
  other->meaning = terms.normalize(std::move(other->meaning));
  argument.placement = placement;
  argument.global = isCut ? std::move(argument.local) : *other;
  if (isCut)
    argument.local = std::move(*other);
  return true;
}

std::optional<Tensor> Prover::toWhole(Tensor value, dist::PlacementAttr placement) {
  SmallVector<Var> summed;
  Rational scale(1);
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (on && on->isShard())
      continue;
    if (!on || on->isSameOnAllRanks()) {
      for (Var digit : axis.digits)
        if (terms.mentions(value.meaning, digit))
          return std::nullopt;
      continue;
    }
    if (!on->isPartial() ||
        (on->reduction != dist::Reduction::Sum && on->reduction != dist::Reduction::Avg))
      return std::nullopt;
    llvm::append_range(summed, axis.digits);
    if (on->reduction == dist::Reduction::Avg)
      scale = scale / Rational(axis.size);
  }
  value.meaning = terms.scale(terms.sum(std::move(value.meaning), summed), scale);
  Substitution digits;
  for (unsigned dim = 0; placement && dim < value.dims.size(); ++dim) {
    SmallVector<Var> places;
    for (StringAttr name : placement.getShardingAxes(dim)) {
      const Axis *axis = localEvaluator->findAxis(name);
      if (!axis)
        return std::nullopt;
      for (Var digit : axis->digits) {
        places.push_back(terms.variables.make(terms.variables.getSize(digit)));
        digits[digit] = Index::of(places.back());
      }
    }
    value.dims[dim].insert(value.dims[dim].begin(), places.begin(), places.end());
  }
  substitute(value.meaning, digits);
  value.meaning = terms.normalize(std::move(value.meaning));
  coarsen(terms, value);
  return value;
}

/// Whether it is what each rank of a mesh runs, rather than a program of one device that says how
/// its values will lie.
static bool isOfRanks(ModuleOp module) {
  auto isPlaced = [](Type type) {
    return isa<train::BucketType>(type) || dist::getPlacement(type);
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (llvm::any_of(function.getArgumentTypes(), isPlaced) ||
        llvm::any_of(function.getResultTypes(), isPlaced))
      return true;
  return hasCommunication(module);
}

FailureOr<Proof> cleave::prove::provePreserved(ModuleOp before, ModuleOp after,
                                               const ProveOptions &options) {
  // A pass is named, not an op.
  ProveOptions own = options;
  own.triesRepairs = false;
  own.mayBeOfOneDevice = true;
  return Prover::runInBothForms(before, after, own, isOfRanks(before));
}
