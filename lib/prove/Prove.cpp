//===- Prove.cpp - whether a program of many ranks is one of one device -----===//
//
// GLOBAL is walked first, which makes its terms; LOCAL's values then either are these, at places of
// the rank, or are not. Only LOCAL's signature is believed.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Prove.h"

#include "dialects/dist/Placed.h"
#include "dialects/train/Program.h"
#include "lib/prove/Evaluator.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;
using train::RoleKind;

namespace {

/// A function of a program, and the part of a step to which it belongs.
struct Part {
  enum Kind : uint8_t { Microbatch, Reduce, Update, Plain } kind;
  func::FuncOp function;
};

/// A result of a program: what it is called, and its tensor type.
struct Result {
  Part part;
  unsigned number;
  mlir::Value returned;
};

class Prover {
public:
  Prover(ModuleOp global, ModuleOp local) : global(global), local(local) {}
  FailureOr<Proof> run(std::chrono::steady_clock::time_point deadline);

private:
  ModuleOp global, local;
  Terms terms;
  llvm::StringSet<> lookUps;
  SmallVector<Axis> axes;
  Proof proof;
  std::optional<Evaluator> globalEvaluator, localEvaluator;

  /// By name: the argument as both programs see it.
  struct Argument {
    Tensor global, local;
    dist::PlacementAttr placement;
  };
  llvm::StringMap<Argument> arguments;
  llvm::StringMap<RankedTensorType> globalTypes;
  llvm::StringMap<Tensor> globalResults;
  llvm::DenseMap<mlir::Value, Tensor> localValues;
  llvm::DenseMap<Operation *, std::string> unknowns;
  /// Values that pass from one function to another, of LOCAL: the argument, and what was returned.
  llvm::DenseMap<mlir::Value, mlir::Value> passed;

  void outOfScope(const Twine &reason) {
    if (proof.outOfScope.empty())
      proof.outOfScope = reason.str();
  }
  /// Whether LOCAL is a program of ranks, of which attributes say how values lie, and not one of one
  /// device, where they say how values will lie.
  bool communicates = false;

  dist::PlacementAttr placementOf(BlockArgument argument);
  dist::PlacementAttr resultPlacement(func::FuncOp function, unsigned result);
  FailureOr<SmallVector<Part>> getParts(ModuleOp module);
  void readMesh();
  void readArguments(ArrayRef<Part> parts);
  bool readArgument(StringRef name, BlockArgument argument, RankedTensorType globalType);
  void checkTies(ArrayRef<Part> parts);
  std::optional<Tensor> toLocal(Tensor value, dist::PlacementAttr placement);
  void walk(ArrayRef<Part> parts, bool isLocal, std::vector<Result> *results);
  void compare(const Result &result);
  void explain(const Tensor &found, const Tensor &expected, const Result &result, Finding &finding);
  void blame(const Result &result, size_t numGlobalTerms, Finding &finding);
};

} // namespace

static StringRef nameOf(Part::Kind kind) {
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

static bool passesOn(train::RoleAttr role) {
  return role && (role.getKind() == RoleKind::Saved || role.getKind() == RoleKind::Crossing ||
                  role.getKind() == RoleKind::CrossingGradient);
}

/// The name of a value with this role, in all functions of both programs.
static std::string nameOf(train::RoleAttr role) {
  return (train::stringifyRoleKind(role.getKind()) + " " + role.getNameOrEmpty() + " " +
          role.getSlotOrEmpty())
      .str();
}

/// The same, for a value that the part takes: of gradients each part has its own.
static std::string nameOf(Part part, train::RoleAttr role, unsigned number) {
  if (!role)
    return (part.function.getName() + " argument " + Twine(number)).str();
  if (role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Accumulator)
    return (nameOf(part.kind) + " " + nameOf(role)).str();
  return nameOf(role);
}

static RankedTensorType tensorOf(mlir::Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Programs and their signatures
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Part>> Prover::getParts(ModuleOp module) {
  SmallVector<Part> parts;
  bool hasPhases = llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return function->hasAttr(train::kPhaseAttrName);
  });
  if (!hasPhases) {
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        parts.push_back({Part::Plain, function});
    return parts;
  }
  FailureOr<train::ProgramFunctions> program =
      train::getProgram(module, train::ProgramForms::Staged);
  if (failed(program))
    return failure();
  for (func::FuncOp function : program->getFunctions()) {
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
    Part::Kind kind = phase == train::Phase::Update   ? Part::Update
                      : phase == train::Phase::Reduce ? Part::Reduce
                                                      : Part::Microbatch;
    parts.push_back({kind, function});
  }
  return parts;
}

dist::PlacementAttr Prover::placementOf(BlockArgument argument) {
  if (dist::PlacementAttr placement = dist::getPlacement(argument.getType()))
    return placement;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return communicates ? function.getArgAttrOfType<dist::PlacementAttr>(argument.getArgNumber(),
                                                                       dist::kPlacementAttr)
                      : nullptr;
}

dist::PlacementAttr Prover::resultPlacement(func::FuncOp function, unsigned result) {
  if (dist::PlacementAttr placement = dist::getPlacement(function.getResultTypes()[result]))
    return placement;
  return communicates
             ? function.getResultAttrOfType<dist::PlacementAttr>(result, dist::kPlacementAttr)
             : nullptr;
}

void Prover::readMesh() {
  communicates = local.walk([](dist::CommunicationOpInterface) {
                         return WalkResult::interrupt();
                       }).wasInterrupted();
  dist::MeshOp mesh = dist::getMesh(local);
  if (!mesh)
    return;
  for (dist::AxisAttr axis : mesh.getAxes().getAsRange<dist::AxisAttr>()) {
    if (axis.getSize() <= 0)
      return outOfScope("the size of mesh axis '" + axis.getName() + "' is not known");
    axes.push_back({axis.getName().str(), axis.getSize(), terms.variables.make(axis.getSize())});
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

/// The size that the parts of `local`, placed so, have together in each dimension.
static SmallVector<int64_t> wholeShape(RankedTensorType local, dist::PlacementAttr placement,
                                       ArrayRef<Axis> axes) {
  SmallVector<int64_t> shape(local.getShape());
  if (placement)
    for (auto [dim, size] : llvm::enumerate(shape))
      for (StringAttr name : placement.getShardingAxes(dim))
        for (const Axis &axis : axes)
          if (axis.name == name.getValue())
            size *= axis.size;
  return shape;
}

bool Prover::readArgument(StringRef name, BlockArgument argument, RankedTensorType globalType) {
  RankedTensorType type = tensorOf(argument);
  dist::PlacementAttr placement = placementOf(argument);
  auto [place, isNew] = arguments.try_emplace(name);
  Argument &result = place->second;
  if (!isNew) {
    localValues[argument] = result.local;
    if (result.placement == placement)
      return true;
    outOfScope("'" + name + "' lies in one way in one function and in another in '" +
               cast<func::FuncOp>(argument.getOwner()->getParentOp()).getName() + "'");
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

  // Terms of a sum, one a rank; elsewhere all ranks have parts of one tensor.
  SmallVector<Var> summed;
  SmallVector<Index> indices;
  SmallVector<int64_t> sizes;
  Rational scale(1);
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (!on || on->isSameOnAllRanks() || on->isShard())
      continue;
    indices.push_back(Index::of(axis.place));
    sizes.push_back(axis.size);
    if (on->isPartial() && (on->reduction == dist::Reduction::Sum ||
                            on->reduction == dist::Reduction::Avg)) {
      summed.push_back(axis.place);
      if (on->reduction == dist::Reduction::Avg)
        scale = scale / Rational(axis.size);
      continue;
    }
    // Nothing is known of how they belong together.
    result.local = localEvaluator->opaque(type);
    result.global = globalEvaluator->opaque(globalType);
    localValues[argument] = result.local;
    return true;
  }
  result.global.dims = makeDims(terms, globalType.getShape());
  for (const auto &dim : result.global.dims)
    for (Var var : dim) {
      indices.push_back(Index::of(var));
      sizes.push_back(terms.variables.getSize(var));
    }
  result.global.meaning = terms.leaf(name, sizes, indices);
  std::optional<Tensor> part = toLocal(result.global, placement);
  if (!part) {
    outOfScope("'" + name + "' lies in parts of several sizes");
    return false;
  }
  result.local = std::move(*part);
  result.local.meaning = terms.normalize(std::move(result.local.meaning));
  result.global.meaning = terms.scale(terms.sum(result.global.meaning, summed), scale);
  localValues[argument] = result.local;
  return true;
}

void Prover::readArguments(ArrayRef<Part> parts) {
  for (Part part : parts)
    for (BlockArgument argument : part.function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (passesOn(role))
        continue;
      std::string name = nameOf(part, role, argument.getArgNumber());
      RankedTensorType type = tensorOf(argument);
      if (!type)
        return outOfScope("'" + name + "' is no tensor");
      if (!axes.empty() && communicates && !placementOf(argument))
        return outOfScope("'" + name +
                          "' has no placement, and the program communicates: its signature does "
                          "not say how its arguments lie");
      if (role && role.getOver())
        return outOfScope("'" + name +
                          "' is divided by its role, not by its type: a program of data "
                          "parallelism without types is another step than that of one device");
      auto found = globalTypes.find(name);
      // What only LOCAL takes, and a `reduce`, of which GLOBAL has none.
      RankedTensorType globalType =
          found != globalTypes.end()
              ? found->second
              : RankedTensorType::get(wholeShape(type, placementOf(argument), axes),
                                      type.getElementType());
      if (!readArgument(name, argument, globalType))
        return;
    }
}

/// Whether values that are placed so are the same on each rank.
static bool areAlike(dist::PlacementAttr a, dist::PlacementAttr b, ArrayRef<Axis> axes) {
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
      if (!role || passesOn(role))
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
        if (found != arguments.end() && !areAlike(found->second.placement, placement, axes))
          outOfScope("'" + part.function.getName() + "' returns '" + nameOf(role) +
                     "' in another placement than that in which '" + taker + "' is taken");
      }
    }
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void Prover::walk(ArrayRef<Part> parts, bool isLocal, std::vector<Result> *results) {
  llvm::DenseMap<mlir::Value, Tensor> globalValues;
  auto &values = isLocal ? localValues : globalValues;
  Evaluator &evaluator = isLocal ? *localEvaluator : *globalEvaluator;
  llvm::StringMap<mlir::Value> returned;
  for (Part part : parts) {
    func::FuncOp function = part.function;
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (passesOn(role)) {
        auto source = returned.find(nameOf(role));
        if (source == returned.end()) {
          values[argument] = evaluator.opaque(argument.getType());
          continue;
        }
        values[argument] = Tensor(values[source->second]);
        if (isLocal)
          passed[argument] = source->second;
      } else if (!isLocal) {
        auto found = arguments.find(nameOf(part, role, argument.getArgNumber()));
        values[argument] = found != arguments.end() ? found->second.global
                                                    : evaluator.opaque(argument.getType());
      }
    }
    for (Operation &op : function.front().without_terminator()) {
      if (terms.isLate())
        return;
      SmallVector<const Tensor *> operands;
      // They stay where they are until the results are added.
      for (mlir::Value operand : op.getOperands())
        operands.push_back(&values.find(operand)->second);
      std::string unknown;
      std::vector<Tensor> made = evaluator.evaluate(&op, operands, unknown);
      if (!unknown.empty() && isLocal)
        unknowns[&op] = unknown;
      for (auto [result, value] : llvm::zip(op.getResults(), made))
        values[result] = std::move(value);
    }
    for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, operand.getOperandNumber());
      if (passesOn(role)) {
        returned[nameOf(role)] = operand.get();
        continue;
      }
      if (isLocal)
        results->push_back({part, operand.getOperandNumber(), operand.get()});
      else
        globalResults[role ? (nameOf(part.kind) + " " + nameOf(role)).str()
                           : nameOf(part, role, operand.getOperandNumber())] =
            values[operand.get()];
    }
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void Prover::compare(const Result &result) {
  func::FuncOp function = result.part.function;
  train::RoleAttr role = train::getResultRole(function, result.number);
  std::string name = role ? (nameOf(result.part.kind) + " " + nameOf(role)).str()
                          : nameOf(result.part, role, result.number);
  ++proof.numResults;
  Finding finding;
  finding.function = function.getName().str();
  finding.result = role ? StringRef(nameOf(role)).rtrim().str()
                        : "result " + std::to_string(result.number);
  auto fail = [&](const Twine &relation) {
    finding.relation = relation.str();
    proof.findings.push_back(finding);
  };
  auto found = globalResults.find(name);
  const Tensor *expected = found == globalResults.end() ? nullptr : &found->second;
  if (!expected && result.part.kind == Part::Reduce) {
    // It only changes where gradients lie.
    auto argument = arguments.find(name);
    expected = argument == arguments.end() ? nullptr : &argument->second.global;
  }
  if (!expected)
    return fail("the program of one device has no such result");

  dist::PlacementAttr placement = resultPlacement(function, result.number);
  Tensor value = localValues[result.returned];
  SmallVector<Var> summed;
  Rational scale(1);
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (!on || on->isSameOnAllRanks() || on->isShard())
      continue;
    if (!on->isPartial() || (on->reduction != dist::Reduction::Sum &&
                             on->reduction != dist::Reduction::Avg))
      return fail("its placement on '" + axis.name + "' says nothing of the whole value");
    summed.push_back(axis.place);
    if (on->reduction == dist::Reduction::Avg)
      scale = scale / Rational(axis.size);
  }
  if (!summed.empty())
    value.meaning = terms.scale(terms.sum(std::move(value.meaning), summed), scale);
  std::optional<Tensor> wanted = toLocal(*expected, placement);
  if (!wanted)
    return fail("it lies in parts of several sizes");
  wanted->meaning = terms.normalize(std::move(wanted->meaning));
  if (areEqual(terms, value, *wanted))
    return;
  explain(value, *wanted, result, finding);
  proof.findings.push_back(std::move(finding));
}

/// What relation there is between what was found and what was expected.
void Prover::explain(const Tensor &found, const Tensor &expected, const Result &result,
                     Finding &finding) {
  auto isScaled = [&](const Tensor &value, Rational factor) {
    Tensor scaled = expected;
    scaled.meaning = terms.scale(std::move(scaled.meaning), factor);
    return areEqual(terms, value, scaled);
  };
  for (const Axis &axis : axes) {
    if (axis.size == 1)
      continue;
    if (isScaled(found, Rational(axis.size))) {
      finding.relation = llvm::formatv("{0} times the expected value: it is summed over '{1}' "
                                       "once too often, or not divided by its size",
                                       axis.size, axis.name);
      return;
    }
    if (isScaled(found, Rational(1) / Rational(axis.size))) {
      finding.relation = llvm::formatv("1/{0} of the expected value: it is divided by the size of "
                                       "'{1}' once too often, or not summed over it",
                                       axis.size, axis.name);
      return;
    }
    Tensor total = found;
    total.meaning = terms.sum(std::move(total.meaning), axis.place);
    if (isScaled(total, Rational(1))) {
      finding.relation =
          "a rank's term of the sum over '" + axis.name + "': the reduction is missing";
      return;
    }
  }
  finding.relation = "no relation to the expected value was found";
}

void Prover::blame(const Result &result, size_t numGlobalTerms, Finding &finding) {
  auto isNew = [&](mlir::Value value) {
    return llvm::any_of(localValues[value].meaning, [&](const Summand &summand) {
      return summand.reference.term >= numGlobalTerms;
    });
  };
  llvm::SetVector<mlir::Value> slice;
  slice.insert(result.returned);
  llvm::SmallPtrSet<Operation *, 32> ops;
  for (unsigned i = 0; i < slice.size(); ++i) {
    auto source = passed.find(slice[i]);
    if (source != passed.end())
      slice.insert(source->second);
    if (Operation *op = slice[i].getDefiningOp()) {
      ops.insert(op);
      slice.insert_range(op->getOperands());
    }
  }
  local.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!ops.contains(op) || llvm::none_of(op->getResults(), isNew) ||
        llvm::any_of(op->getOperands(), isNew))
      return WalkResult::advance();
    finding.op = op;
    return WalkResult::interrupt();
  });
  if (!finding.op)
    finding.op = result.returned.getDefiningOp();
  if (!finding.op)
    return;
  finding.reason = unknowns.lookup(finding.op);
  global.walk([&](Operation *op) {
    if (isa<func::FuncOp, ModuleOp>(op) || op->getLoc() != finding.op->getLoc() ||
        op->getName() != finding.op->getName())
      return WalkResult::advance();
    finding.counterpart = op;
    return WalkResult::interrupt();
  });
}

FailureOr<Proof> Prover::run(std::chrono::steady_clock::time_point deadline) {
  terms.setDeadline(deadline);
  for (ModuleOp module : {global, local})
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      if (function->hasAttr(train::kRanksAttrName))
        outOfScope("ranks with parts of different sizes have functions of their own");
      if (!function.isExternal() && !function.getBody().hasOneBlock())
        outOfScope("'" + function.getName() + "' has several blocks");
    }
  if (!proof.outOfScope.empty())
    return proof;
  FailureOr<SmallVector<Part>> globalParts = getParts(global), localParts = getParts(local);
  if (failed(globalParts) || failed(localParts))
    return failure();
  readMesh();
  globalEvaluator.emplace(terms, ArrayRef<Axis>(), lookUps);
  localEvaluator.emplace(terms, axes, lookUps);
  for (Part part : *globalParts)
    for (BlockArgument argument : part.function.getArguments())
      if (RankedTensorType type = tensorOf(argument))
        globalTypes[nameOf(part, train::getArgumentRole(part.function, argument.getArgNumber()),
                           argument.getArgNumber())] =
            RankedTensorType::get(type.getShape(), type.getElementType());
  if (proof.outOfScope.empty())
    readArguments(*localParts);
  if (proof.outOfScope.empty())
    checkTies(*localParts);
  if (!proof.outOfScope.empty())
    return proof;

  walk(*globalParts, /*isLocal=*/false, nullptr);
  size_t numGlobalTerms = terms.size();
  std::vector<Result> results;
  walk(*localParts, /*isLocal=*/true, &results);
  for (const Result &result : results) {
    size_t before = proof.findings.size();
    compare(result);
    if (proof.findings.size() > before)
      blame(result, numGlobalTerms, proof.findings.back());
  }
  // What GLOBAL returns, LOCAL must return too.
  llvm::StringMap<bool> isReturned;
  for (const Result &result : results) {
    train::RoleAttr role = train::getResultRole(result.part.function, result.number);
    isReturned[role ? (nameOf(result.part.kind) + " " + nameOf(role)).str()
                    : nameOf(result.part, role, result.number)] = true;
  }
  for (const auto &entry : globalResults)
    if (!isReturned.contains(entry.first())) {
      Finding finding;
      finding.result = entry.first().str();
      finding.relation = "the local program does not return it";
      proof.findings.push_back(finding);
    }
  proof.numTerms = terms.size();
  proof.isLate = terms.isLate();
  proof.isProved = !proof.isLate && proof.findings.empty() && proof.numResults > 0;
  return proof;
}

FailureOr<Proof> cleave::prove::prove(ModuleOp global, ModuleOp local,
                                      std::chrono::steady_clock::time_point deadline) {
  return Prover(global, local).run(deadline);
}
