//===- Classes.cpp - ranks with parts of different sizes --------------------===//
//
// Where a dimension does not divide evenly, the ranks of each class have functions of their own:
// those at some places on one axis. A value of such a program is one of two things. What the
// functions of all classes make alike is one value over the rank's place on the axis, as in other
// programs: class by class it is the same function of the place. What depends on sizes is a value
// of each class, over the place within the class, so that no place of another class is read. How
// functions are walked stands in ClassWalk.cpp.
//
//===----------------------------------------------------------------------===//

#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/RankClasses.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

bool cleave::prove::hasClasses(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kRanksAttrName);
  });
}

/// The classes, by their places. Fails if the program is none.
LogicalResult Prover::readClasses() {
  auto read = train::getProgramClasses(local, train::ProgramForms::Staged);
  if (failed(read))
    return failure();
  auto firstOf = [](const train::ProgramClass &of) {
    return cast<DenseI64ArrayAttr>(of.ranks.begin()->getValue()).asArrayRef().front();
  };
  llvm::sort(*read, [&](const train::ProgramClass &a, const train::ProgramClass &b) {
    return firstOf(a) < firstOf(b);
  });
  std::string name;
  for (const train::ProgramClass &each : *read) {
    if (each.ranks.size() != 1 ||
        (!name.empty() && name != each.ranks.begin()->getName().getValue())) {
      outOfScope("ranks have functions of their own by their places on several axes");
      return success();
    }
    name = each.ranks.begin()->getName().str();
    ArrayRef<int64_t> places = cast<DenseI64ArrayAttr>(each.ranks.begin()->getValue());
    RankClass &made = classes.emplace_back();
    made.first = places.front();
    made.count = places.size();
    made.parts = partsOf(each.program);
    if (places.back() - places.front() + 1 != made.count)
      outOfScope("ranks with the same functions are not neighbours on '" + Twine(name) + "'");
    for (Part part : made.parts)
      if (llvm::any_of(part.function.getArgumentTypes(), llvm::IsaPred<train::BucketType>))
        outOfScope("ranks with parts of different sizes have buckets");
  }
  if (!local.getOps<pipeline::ScheduleOp>().empty())
    outOfScope("stages run on ranks with parts of different sizes");
  localParts = classes.front().parts;
  readMesh();
  classAxis =
      llvm::find_if(axes, [&](const Axis &axis) { return axis.name == name; }) - axes.begin();
  if (classAxis == axes.size() || axes[classAxis].digits.size() != 1)
    outOfScope("places on '" + Twine(name) + "' are cut, and say which functions a rank runs");
  return success();
}

/// In values of a class its axis has no name: what asks for the place on it has no meaning there.
void Prover::makeClassEvaluators() {
  SmallVector<Var> ranks = placesOf(axes);
  for (RankClass &each : classes) {
    each.digit = terms.variables.make(each.count);
    ranks.push_back(each.digit);
    each.axes.assign(axes.begin(), axes.end());
    each.axes[classAxis] = {"", each.count, {each.digit}, each.digit};
    each.evaluator.emplace(terms, each.axes, lookUps, missingCuts);
    each.evaluator->keepJoins(keptJoins);
  }
  terms.nameRanks(ranks);
}

//===----------------------------------------------------------------------===//
// Values of a class, and of all
//===----------------------------------------------------------------------===//

Tensor Prover::valueIn(const RankClass &of, mlir::Value value) {
  Tensor tensor = localValues[value];
  if (ownValues.contains(value))
    return tensor;
  // Rows in an order are known by more than what they are made of.
  if (tensor.rows)
    return localEvaluator->opaque(value.getType());
  Substitution digits;
  digits[axes[classAxis].digits[0]] =
      Index(terms.breaks(Lemma::ValueInClass) ? 0 : of.first) + Index::of(of.digit);
  substitute(tensor.meaning, digits);
  tensor.meaning = terms.normalize(std::move(tensor.meaning));
  return tensor;
}

bool Prover::isSameInAll(ArrayRef<mlir::Value> values) {
  return llvm::all_of(values, [&](mlir::Value value) {
    return !ownValues.contains(value) && !localValues[value].rows &&
           tensorOf(value.getType()).getShape() == tensorOf(values[0].getType()).getShape() &&
           (value == values[0] || terms.breaks(Lemma::SameInClasses) ||
            areEqual(terms, localValues[value], localValues[values[0]]));
  });
}

/// Of values with the same shape that which the rank at each place has.
std::optional<Tensor> Prover::valueByPlace(ArrayRef<mlir::Value> values) {
  if (isSameInAll(values))
    return localValues[values[0]];
  std::vector<Tensor> parts;
  for (auto [each, value] : llvm::zip(classes, values))
    parts.push_back(withOwnDigits(terms, valueIn(each, value)));
  Tensor result{parts[0].dims, {}};
  // Twice, since a later one may cut what earlier ones were given.
  for (bool isLast : {false, true}) {
    result = {parts[0].dims, {}};
    for (auto [each, part] : llvm::zip(classes, parts)) {
      Substitution digits;
      if (part.dims.size() != parts[0].dims.size())
        return std::nullopt;
      for (unsigned dim = 0; dim < part.dims.size(); ++dim)
        if (!cutAlike(terms, parts[0], dim, part, dim, digits))
          return std::nullopt;
      if (!isLast)
        continue;
      Index place = Index::of(axes[classAxis].digits[0]);
      digits[each.digit] = place - Index(each.first);
      Meaning meaning = part.meaning;
      substitute(meaning, digits);
      for (Summand &summand : meaning) {
        if (!terms.breaks(Lemma::ClassByPlace))
          summand.guards.push_back({place, each.first, each.first + each.count});
        result.meaning.push_back(std::move(summand));
      }
    }
  }
  result.dims = parts[0].dims;
  result.meaning = terms.normalize(std::move(result.meaning));
  return result;
}

/// Where the parts of a class begin and how large they are, if all its ranks have one size.
std::optional<dist::Chunk> Prover::chunkIn(const RankClass &of, int64_t whole) {
  int64_t ranks = axes[classAxis].size;
  dist::Chunk first = dist::chunkOf(whole, ranks, of.first);
  dist::Chunk last = dist::chunkOf(whole, ranks, of.first + of.count - 1);
  // Sizes do not grow from place to place.
  if (first.size != last.size || first.size == 0)
    return std::nullopt;
  return first;
}

/// A part may begin and end within a run of places that other digits say.
bool Prover::putInOneDigit(Tensor &value, unsigned dim) {
  coarsen(terms, value);
  if (value.dims[dim].size() == 1)
    return true;
  int64_t size = sizeOf(value.dims[dim], terms.variables);
  std::optional<Tensor> one =
      localEvaluator->putTogether({std::move(value)}, {size}, dim, /*inOneDigit=*/true);
  if (!one || one->dims[dim].size() != 1)
    return false;
  value = std::move(*one);
  return true;
}

std::optional<Tensor> Prover::takeChunk(const RankClass &of, Tensor value, unsigned dim) {
  int64_t whole = sizeOf(value.dims[dim], terms.variables);
  std::optional<dist::Chunk> chunk = chunkIn(of, whole);
  if (!chunk || value.rows)
    return std::nullopt;
  if (!putInOneDigit(value, dim))
    return std::nullopt;
  Index place =
      Index(terms.breaks(Lemma::UnevenPart) ? 0 : chunk->offset) + Index::of(of.digit, chunk->size);
  SmallVector<Var, 2> digits;
  if (chunk->size > 1) {
    digits.push_back(terms.variables.make(chunk->size));
    place = place + Index::of(digits[0]);
  }
  return takeAt(terms, std::move(value), dim, place, digits);
}

/// The part of a rank in zeros, where it lies in the whole. No part is larger than the first, so
/// that all begin at multiples of its size: where what parts are of does not depend on the rank, it
/// is one value of all ranks, each with the part at its own place.
std::optional<Tensor> Prover::putInZeros(const RankClass &of, Tensor value, unsigned dim,
                                         int64_t whole) {
  std::optional<dist::Chunk> chunk = chunkIn(of, whole);
  int64_t size = sizeOf(value.dims[dim], terms.variables);
  int64_t largest = dist::chunkOf(whole, axes[classAxis].size, 0).size;
  if (!chunk || chunk->size != size || chunk->offset != largest * of.first || value.rows ||
      (size > 1 && !putInOneDigit(value, dim)))
    return std::nullopt;
  Var place = terms.variables.make(whole);
  Index offset(terms.breaks(Lemma::PartInZeros) ? 0 : chunk->offset);
  value = takeAt(terms, std::move(value), dim,
                 Index::of(place) - offset - Index::of(of.digit, size), {place});
  if (terms.mentions(value.meaning, of.digit))
    return std::nullopt;
  Index within = Index::of(place) - Index::of(axes[classAxis].digits[0], largest);
  for (Summand &summand : value.meaning)
    summand.guards.push_back({within, 0, largest});
  value.meaning = terms.normalize(std::move(value.meaning));
  return value;
}

std::optional<Tensor> Prover::toClass(const RankClass &of, Tensor value,
                                      dist::PlacementAttr placement) {
  const Axis &axis = axes[classAxis];
  if (value.rows)
    return std::nullopt;
  for (unsigned dim = 0; placement && dim < value.dims.size(); ++dim) {
    SmallVector<Axis> along;
    bool isUneven = false;
    for (StringAttr name : placement.getShardingAxes(dim)) {
      const Axis *found = localEvaluator->findAxis(name);
      if (!found)
        return std::nullopt;
      along.push_back(*found);
      isUneven |= name == axis.name;
    }
    if (along.empty())
      continue;
    isUneven &= sizeOf(value.dims[dim], terms.variables) % ranksAlong(along) != 0;
    if (isUneven && along.size() > 1)
      return std::nullopt;
    std::optional<Tensor> part =
        isUneven ? takeChunk(of, value, dim) : localEvaluator->shard(value, dim, along);
    if (!part)
      return std::nullopt;
    value = std::move(*part);
  }
  Substitution digits;
  digits[axis.digits[0]] = Index(of.first) + Index::of(of.digit);
  substitute(value.meaning, digits);
  value.meaning = terms.normalize(std::move(value.meaning));
  return value;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Parts of one size are those of any program; others are taken from the whole class by class.
bool Prover::readClassArgument(const RankClass &of, mlir::Value argument, StringRef name,
                               dist::PlacementAttr placement, func::FuncOp function) {
  auto type = cast<RankedTensorType>(argument.getType());
  auto found = globalTypes.find(name);
  auto refuse = [&](const Twine &reason) {
    outOfScope("'" + name + "' " + reason);
    return false;
  };
  auto place = arguments.find(name);
  bool isNew = place == arguments.end();
  if (found == globalTypes.end() ||
      ArrayRef<int64_t>(wholeShape(type, placement, axes)) == found->second.getShape()) {
    if (!readNamed(name, type, placement, function))
      return false;
    localValues[argument] = arguments[name].local;
  } else {
    if (isCutInTerms(placement, axes) || found->second.getElementType() != type.getElementType())
      return refuse("lies in parts of several sizes");
    if (isNew) {
      Argument &made = arguments[name];
      made.placement = placement;
      made.global.dims = makeDims(terms, found->second.getShape());
      SmallVector<Index> indices;
      SmallVector<int64_t> sizes;
      for (const auto &dim : made.global.dims)
        for (Var var : dim) {
          indices.push_back(Index::of(var));
          sizes.push_back(terms.variables.getSize(var));
        }
      made.global.meaning = terms.leaf(name, sizes, indices);
      made.local = made.global;
    } else if (place->second.placement != placement) {
      return refuse("lies in one way in one function and in another in '" + function.getName() +
                    "'");
    }
    std::optional<Tensor> part = toClass(of, arguments[name].global, placement);
    if (!part)
      return refuse("lies in parts that are not understood");
    localValues[argument] = std::move(*part);
    ownValues.insert(argument);
  }
  if (!hasShape(localValues[argument], type.getShape(), terms.variables))
    return refuse("has another size in '" + function.getName() + "' than its ranks have");
  return true;
}

void Prover::readClassArguments() {
  for (const RankClass &of : classes)
    for (Part part : of.parts)
      for (BlockArgument argument : part.function.getArguments()) {
        train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
        if (passesOn(role))
          continue;
        std::string name = nameOf(part, role, argument.getArgNumber());
        if (!isa<RankedTensorType>(argument.getType()) || isStageSum(role) ||
            (role && role.getOver()))
          return outOfScope("'" + name + "' is taken by ranks with parts of different sizes");
        dist::PlacementAttr placement = placementOf(argument);
        if (!placement)
          return outOfScope("'" + name + "' has no placement");
        if (!readClassArgument(of, argument, name, placement, part.function))
          return;
      }
}
