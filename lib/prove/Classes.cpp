//===- Classes.cpp - ranks with parts of different sizes --------------------===//
//
// Where a dimension does not divide evenly, the ranks of each class have functions of their own:
// those at some places on one axis. A value of such a program is one of two things. What the
// functions of all classes make alike is one value over the rank's place on the axis, as in other
// programs: class by class it is the same function of the place. What depends on sizes is a value
// of each class, over the place within the class, so that no place of another class is read.
// Functions are walked side by side: where ranks communicate, all classes do, and what one of them
// gets is made of the values of all.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Random.h"
#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/RankClasses.h"
#include "lib/prove/Prover.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using dist::Reduction;

bool cleave::prove::hasClasses(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kRanksAttrName);
  });
}

static SmallVector<int64_t> shapeOf(const Tensor &value, const Variables &variables) {
  SmallVector<int64_t> shape;
  for (const auto &dim : value.dims)
    shape.push_back(sizeOf(dim, variables));
  return shape;
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

std::optional<Tensor> Prover::takeChunk(const RankClass &of, Tensor value, unsigned dim) {
  int64_t whole = sizeOf(value.dims[dim], terms.variables);
  std::optional<dist::Chunk> chunk = chunkIn(of, whole);
  if (!chunk || value.rows)
    return std::nullopt;
  coarsen(terms, value);
  if (value.dims[dim].size() != 1) {
    // A part may begin and end within a run of places that other digits say.
    std::optional<Tensor> one =
        localEvaluator->putTogether({std::move(value)}, {whole}, dim, /*inOneDigit=*/true);
    if (!one || one->dims[dim].size() != 1)
      return std::nullopt;
    value = std::move(*one);
  }
  Index place =
      Index(terms.breaks(Lemma::UnevenPart) ? 0 : chunk->offset) + Index::of(of.digit, chunk->size);
  SmallVector<Var, 2> digits;
  if (chunk->size > 1) {
    digits.push_back(terms.variables.make(chunk->size));
    place = place + Index::of(digits[0]);
  }
  return takeAt(terms, std::move(value), dim, place, digits);
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
  if (shapeOf(localValues[argument], terms.variables) != type.getShape())
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

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

static bool isAlong(Operation *op, StringRef axis) {
  auto names = op->getAttrOfType<ArrayAttr>("axes");
  return names && llvm::any_of(names.getAsRange<StringAttr>(),
                               [&](StringAttr name) { return name == axis; });
}

/// Whether what a rank gets is made of what ranks of other classes have.
bool Prover::crossesClasses(Operation *op) {
  return !isa<dist::AxisIndexOp>(op) && isAlong(op, axes[classAxis].name);
}

void Prover::setOpaque(RankClass &of, Operation *op, const Twine &why) {
  unknowns[op] = why.str();
  for (OpResult result : op->getResults()) {
    localValues[result] = of.evaluator->opaque(result.getType());
    ownValues.insert(result);
  }
}

void Prover::evaluateInClass(RankClass &of, Operation *op) {
  bool isOwn = llvm::any_of(op->getOperands(),
                            [&](mlir::Value operand) { return ownValues.contains(operand); });
  auto convert = dyn_cast<dist::ConvertOp>(op);
  bool isOnAxis = convert && convert.getAxis() == axes[classAxis].name;
  // Parts of one size are those of any program.
  std::optional<int64_t> sliced = isOnAxis ? convert.getSlicedDim() : std::nullopt;
  bool isUneven =
      sliced &&
      tensorOf(op->getOperand(0).getType()).getDimSize(*sliced) % axes[classAxis].size != 0;
  if (isOnAxis && (isOwn || isUneven)) {
    // A class has its own part of what all ranks have; else only the type changes.
    std::optional<int64_t> dim = convert.getSlicedDim();
    if (convert.getDestination().isPartial() || (dim && !convert.getSource().isSameOnAllRanks()))
      return setOpaque(of, op, "its ranks have parts of different sizes");
    Tensor value = localValues[op->getOperand(0)];
    if (dim && !isOwn) {
      std::optional<Tensor> part = takeChunk(of, std::move(value), *dim);
      RankedTensorType type = tensorOf(op->getResult(0).getType());
      if (!part || ArrayRef<int64_t>(shapeOf(*part, terms.variables)) != type.getShape())
        return setOpaque(of, op, "the rank's part is not understood");
      value = std::move(*part);
      Substitution digits;
      digits[axes[classAxis].digits[0]] = Index(of.first) + Index::of(of.digit);
      substitute(value.meaning, digits);
    } else if (dim) {
      return setOpaque(of, op, "its ranks have parts of different sizes");
    }
    localValues[op->getResult(0)] = std::move(value);
    ownValues.insert(op->getResult(0));
    return;
  }
  if (isOwn && isa<aten::RandomOpInterface>(op))
    return setOpaque(of, op, "its ranks draw parts of different sizes");
  std::vector<Tensor> own;
  SmallVector<const Tensor *> operands;
  own.reserve(op->getNumOperands());
  for (mlir::Value operand : op->getOperands()) {
    own.push_back(isOwn ? valueIn(of, operand) : localValues[operand]);
    operands.push_back(&own.back());
  }
  std::string unknown;
  std::vector<Tensor> made =
      (isOwn ? *of.evaluator : *localEvaluator).evaluate(op, operands, unknown);
  if (!unknown.empty())
    unknowns[op] = unknown;
  if (isOwn && llvm::any_of(made, [](const Tensor &value) { return bool(value.rows); }))
    return setOpaque(of, op, "rows in an order of parts of different sizes");
  for (auto [result, value] : llvm::zip(op->getResults(), made)) {
    localValues[result] = std::move(value);
    if (isOwn)
      ownValues.insert(result);
  }
}

/// Parts of all classes, one after the other.
std::optional<Tensor> Prover::gatherClasses(ArrayRef<mlir::Value> values, unsigned dim,
                                            int64_t whole) {
  std::vector<Tensor> parts;
  SmallVector<int64_t> sizes;
  for (auto [each, value] : llvm::zip(classes, values)) {
    std::optional<dist::Chunk> chunk = chunkIn(each, whole);
    if (!chunk || tensorOf(value.getType()).getDimSize(dim) != chunk->size)
      return std::nullopt;
    Tensor part = withOwnDigits(terms, valueIn(each, value));
    Var place = terms.variables.make(each.count);
    Substitution digits;
    digits[each.digit] = Index::of(place);
    substitute(part.meaning, digits);
    if (each.count > 1)
      part.dims[dim].insert(part.dims[dim].begin(), place);
    coarsen(terms, part);
    parts.push_back(std::move(part));
    sizes.push_back(chunk->size * each.count);
  }
  return localEvaluator->putTogether(std::move(parts), sizes, dim);
}

/// What all ranks along the op's axes have, joined as it says, with the dimension of which each
/// then takes its part.
std::optional<Tensor> Prover::joinClasses(ArrayRef<Operation *> ops, unsigned result,
                                          std::optional<int64_t> &scattered) {
  Operation *first = ops.front();
  SmallVector<mlir::Value> operands;
  for (Operation *op : ops)
    operands.push_back(op->getOperand(result));
  SmallVector<Axis> along;
  auto names = first->getAttrOfType<ArrayAttr>("axes");
  for (auto name : names.getAsRange<StringAttr>())
    if (const Axis *axis = localEvaluator->findAxis(name))
      along.push_back(*axis);
  if (along.size() != names.size())
    return std::nullopt;
  bool isOne = along.size() == 1;
  auto gather = [&](int64_t dim) {
    int64_t whole = 0;
    for (auto [each, operand] : llvm::zip(classes, operands))
      whole += each.count * tensorOf(operand.getType()).getDimSize(dim);
    return isOne ? gatherClasses(operands, dim, whole) : std::nullopt;
  };
  if (auto op = dyn_cast<dist::AllGatherOp>(first))
    return gather(op.getDim());
  if (auto op = dyn_cast<dist::AllToAllOp>(first)) {
    scattered = op.getSplit();
    return op.getSplit() != op.getConcat() ? gather(op.getConcat()) : std::nullopt;
  }
  auto reduction = first->getAttrOfType<dist::ReductionAttr>("reduction");
  if (!reduction || !isa<dist::AllReduceOp, dist::ReduceScatterOp>(first) ||
      (reduction.getKind() != Reduction::Sum && reduction.getKind() != Reduction::Avg))
    return std::nullopt;
  if (auto op = dyn_cast<dist::ReduceScatterOp>(first)) {
    scattered = op.getDim();
    if (!isOne)
      return std::nullopt;
  }
  std::optional<Tensor> value = valueByPlace(operands);
  return value ? localEvaluator->reduce(*value, reduction, along) : std::nullopt;
}

void Prover::crossClasses(ArrayRef<Operation *> ops) {
  Operation *first = ops.front();
  bool isSame = true, isAlike = true;
  for (unsigned i = 0; i < first->getNumOperands(); ++i) {
    SmallVector<mlir::Value> operands;
    for (Operation *op : ops)
      operands.push_back(op->getOperand(i));
    isSame &= isSameInAll(operands);
  }
  for (unsigned i = 0; i < first->getNumResults(); ++i)
    for (Operation *op : ops)
      isAlike &= op->getResult(i).getType() == first->getResult(i).getType();
  if (isSame && isAlike) {
    evaluateInClass(classes[0], first);
    for (Operation *op : ArrayRef(ops).drop_front())
      for (auto [from, to] : llvm::zip(first->getResults(), op->getResults())) {
        // Not at once: the map may grow.
        Tensor value = localValues[from];
        localValues[to] = std::move(value);
      }
    return;
  }
  for (unsigned i = 0; i < first->getNumResults(); ++i) {
    std::optional<int64_t> scattered;
    std::optional<Tensor> joined = joinClasses(ops, i, scattered);
    for (auto [each, op] : llvm::zip(classes, ops)) {
      std::optional<Tensor> value = joined;
      bool isOwn = scattered.has_value();
      if (value && scattered)
        value = takeChunk(each, std::move(*value), *scattered);
      RankedTensorType type = tensorOf(op->getResult(i).getType());
      if (!value || ArrayRef<int64_t>(shapeOf(*value, terms.variables)) != type.getShape()) {
        unknowns[op] = "parts of different sizes are not understood here";
        value = each.evaluator->opaque(type);
        isOwn = true;
      }
      value->meaning = terms.normalize(std::move(value->meaning));
      coarsen(terms, *value);
      localValues[op->getResult(i)] = std::move(*value);
      if (isOwn)
        ownValues.insert(op->getResult(i));
    }
  }
}

void Prover::walkClasses() {
  std::vector<llvm::StringMap<mlir::Value>> returned(classes.size());
  for (unsigned number = 0; number < localParts.size(); ++number) {
    std::vector<Block::iterator> next;
    for (auto [each, passedOn] : llvm::zip(classes, returned)) {
      func::FuncOp function = each.parts[number].function;
      next.push_back(function.front().begin());
      for (BlockArgument argument : function.getArguments()) {
        train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
        if (!passesOn(role))
          continue;
        mlir::Value source = passedOn.lookup(nameOf(role));
        localValues[argument] =
            source ? localValues[source] : each.evaluator->opaque(argument.getType());
        if (!source || ownValues.contains(source))
          ownValues.insert(argument);
        if (source)
          passed[argument] = source;
      }
    }
    while (true) {
      SmallVector<Operation *> ops;
      for (auto [each, op] : llvm::zip(classes, next)) {
        for (; !op->hasTrait<OpTrait::IsTerminator>() && !crossesClasses(&*op); ++op) {
          if (terms.isLate())
            return;
          evaluateInClass(each, &*op);
        }
        ops.push_back(&*op++);
      }
      // Else ranks would wait for each other.
      for (Operation *op : ops)
        if (op->getName() != ops[0]->getName() ||
            op->getPropertiesAsAttribute() != ops[0]->getPropertiesAsAttribute() ||
            op->getNumOperands() != ops[0]->getNumOperands())
          return outOfScope("ranks with parts of different sizes communicate in different orders");
      if (ops[0]->hasTrait<OpTrait::IsTerminator>()) {
        returnFromClasses(number, ops, returned);
        break;
      }
      crossClasses(ops);
    }
  }
}

void Prover::returnFromClasses(unsigned number, ArrayRef<Operation *> ends,
                               std::vector<llvm::StringMap<mlir::Value>> &returned) {
  Part part = localParts[number];
  for (unsigned i = 0; i < ends[0]->getNumOperands(); ++i) {
    train::RoleAttr role = train::getResultRole(part.function, i);
    for (auto [end, passedOn] : llvm::zip(ends, returned))
      if (passesOn(role))
        passedOn[nameOf(role)] = end->getOperand(i);
    if (passesOn(role))
      continue;
    if (isStageSum(role))
      return outOfScope("ranks with parts of different sizes make terms of stage sums");
    Result result{part, i, ends[0]->getOperand(i), role, resultPlacement(part.function, i)};
    for (const RankClass &each : classes)
      if (resultPlacement(each.parts[number].function, i) != result.placement)
        return outOfScope("'" + nameOf(role) +
                          "' lies in one way on some ranks and in another on " + "others");
    for (Operation *end : ends)
      result.byClass.push_back(end->getOperand(i));
    results.push_back(std::move(result));
  }
}

/// Whether a result that the functions of all classes return is right on the ranks of each.
bool Prover::isRightInClasses(const Result &result, Finding &finding) {
  std::optional<dist::AxisPlacement> on =
      result.placement ? result.placement.get(axes[classAxis].name) : std::nullopt;
  bool isCut = on && !on->isSameOnAllRanks() && !on->isShard();
  if (isCut || isSameInAll(result.byClass)) {
    std::optional<Tensor> value = valueByPlace(result.byClass);
    if (!value)
      return false;
    std::optional<Tensor> wanted = expect(result, *value, finding.relation, &finding.isNew);
    if (wanted && areEqual(terms, *value, *wanted))
      return true;
    if (wanted)
      explain(*value, *wanted, result, finding);
    if (wanted || isCut)
      return false;
  }
  for (auto [each, returned] : llvm::zip(classes, result.byClass)) {
    Tensor value = valueIn(each, returned);
    std::optional<Tensor> wanted = expect(result, value, finding.relation, &finding.isNew, &each);
    if (wanted && areEqual(terms, value, *wanted))
      continue;
    finding.function =
        cast<func::FuncOp>(mlir::Value(returned).getParentRegion()->getParentOp()).getName().str();
    if (wanted)
      explain(value, *wanted, result, finding);
    return false;
  }
  return true;
}
