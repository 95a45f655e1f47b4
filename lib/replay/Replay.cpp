//===- Replay.cpp - the claims of a log against both programs ---------------===//

#include "lib/replay/Replay.h"
#include "dialects/dist/Placed.h"
#include "dialects/pipeline/Pipeline.h"
#include "dialects/train/Program.h"
#include "lib/replay/Tensor.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

/// Steps whose claims are axioms here: what they rest on is executed by the prover's tests.
static constexpr StringRef kTrusted[] = {"draw", "lookup", "statistics", "order", "rows"};

static bool passesOn(RoleAttr role) {
  return role && (role.getKind() == RoleKind::Saved || role.getKind() == RoleKind::Crossing ||
                  role.getKind() == RoleKind::CrossingGradient);
}

namespace {
/// A function of a program: "microbatch", "reduce", "update", or of no phase.
struct Part {
  std::string phase;
  func::FuncOp function;
};

/// One of the two programs.
struct Program {
  ModuleOp module;
  bool isLocal = false;
  SmallVector<Part> parts;
  bool communicates = false;
  llvm::DenseMap<mlir::Value, Tensor> values;
  struct Result {
    Part part;
    unsigned number;
    Tensor value;
  };
  std::map<std::string, Result> results;
};

class Replay {
public:
  Replay(const Log &log, Forms &forms) : log(log), forms(forms), ops(forms, axes, lookUps) {}
  Outcome outcome;
  void run(ModuleOp globalModule, ModuleOp localModule);

private:
  const Log &log;
  Forms &forms;
  SmallVector<Axis> axes;
  llvm::StringSet<> lookUps;
  Ops ops;
  Program global, local;
  /// By name: how LOCAL's argument lies, and both programs' values.
  struct Argument {
    PlacementAttr placement;
    Tensor global, local;
  };
  std::map<std::string, Argument> arguments;
  llvm::DenseSet<TermId> unknowns;
  unsigned numRankDigits = 0;

  bool fail(const Twine &problem, unsigned line = 0) {
    if (outcome.problem.empty()) {
      outcome.problem = problem.str();
      outcome.line = line;
    }
    return false;
  }
  std::string nameOf(RoleAttr role) {
    return (train::stringifyRoleKind(role.getKind()) + " " + role.getNameOrEmpty() + " " +
            role.getSlotOrEmpty())
        .str();
  }
  std::string nameOf(Part part, RoleAttr role, unsigned number, bool isResult) {
    if (!role)
      return (part.function.getName() + " argument " + Twine(number)).str();
    bool isOfPart =
        isResult || role.getKind() == RoleKind::Gradient || role.getKind() == RoleKind::Accumulator;
    return (isOfPart ? part.phase + " " : "") + nameOf(role);
  }
  bool readParts(Program &program);
  bool readMesh();
  PlacementAttr placementOf(Program &program, func::FuncOp function, unsigned number,
                            bool isResult);
  bool readArguments();
  bool checkTies();
  bool checkStep();
  std::optional<Tensor> toLocal(Tensor value, PlacementAttr placement);
  bool walk(Program &program);
  Tensor valueOf(const Claim &claim);
  bool takeClaim(Program &program, mlir::Operation *op, const Claim &claim, const Tensor *made,
                 RankedTensorType type, Tensor &value);
  bool compareResults();
};
} // namespace

bool Replay::readParts(Program &program) {
  auto functions = llvm::to_vector(program.module.getOps<func::FuncOp>());
  bool hasPhases = llvm::any_of(
      functions, [](func::FuncOp function) { return function->hasAttr(train::kPhaseAttrName); });
  program.communicates =
      program.module.walk([](dist::CommunicationOpInterface) { return WalkResult::interrupt(); })
          .wasInterrupted();
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
  if (!program.module.getOps<pipeline::ScheduleOp>().empty())
    return fail("schedules are not replayed");
  return true;
}

bool Replay::readMesh() {
  dist::MeshOp mesh = dist::getMesh(local.module);
  size_t next = 0;
  if (mesh)
    for (dist::AxisAttr axis : mesh.getAxes().getAsRange<dist::AxisAttr>()) {
      if (next == log.axes.size() || log.axes[next].first != axis.getName().str())
        return fail("the log is of another mesh");
      Axis made{axis.getName().str(), axis.getSize(), {}};
      int64_t size = 1;
      for (int64_t digit : log.axes[next++].second) {
        made.digits.push_back(forms.make(digit));
        size *= digit;
        ++numRankDigits;
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

/// What a placement says of each axis; without it, and invariant, all ranks have the same.
static dist::AxisPlacement on(PlacementAttr placement, StringRef axis) {
  auto found = placement ? placement.get(axis) : std::nullopt;
  return !found || found->isInvariant() ? dist::AxisPlacement::replicate() : *found;
}

static bool isSum(const dist::AxisPlacement &placement) {
  return placement.isPartial() && (placement.reduction == dist::Reduction::Sum ||
                                   placement.reduction == dist::Reduction::Avg);
}

/// The signature: each argument of LOCAL is its part, or its term, of a leaf, and GLOBAL's the
/// leaf, or the sum of its terms.
bool Replay::readArguments() {
  std::map<std::string, RankedTensorType> wholes;
  for (Part part : global.parts)
    for (BlockArgument argument : part.function.getArguments())
      if (auto type = dyn_cast<RankedTensorType>(argument.getType()))
        wholes[nameOf(part, train::getArgumentRole(part.function, argument.getArgNumber()),
                      argument.getArgNumber(), false)] = type;
  bool reduces =
      llvm::any_of(global.parts, [](const Part &part) { return part.phase == "reduce"; });
  for (Part part : local.parts)
    for (BlockArgument argument : part.function.getArguments()) {
      RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (passesOn(role))
        continue;
      std::string name = nameOf(part, role, argument.getArgNumber(), false);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      PlacementAttr placement = placementOf(local, part.function, argument.getArgNumber(), false);
      if (!type || (role && (role.getOver() || role.getKind() == RoleKind::StageSum)) ||
          (local.communicates && !placement && !axes.empty()))
        return fail("'" + name + "' is of a form that is not replayed");
      SmallVector<int64_t> shape(type.getShape());
      for (auto [dim, size] : llvm::enumerate(shape))
        for (StringAttr axis :
             placement ? placement.getShardingAxes(dim) : SmallVector<StringAttr>())
          if (const Axis *found = ops.findAxis(axis))
            size *= found->size;
      auto whole = wholes.find(name);
      if (whole != wholes.end() && (whole->second.getShape() != ArrayRef(shape) ||
                                    whole->second.getElementType() != type.getElementType()))
        return fail("'" + name + "' is no even part of what one device takes");
      auto [place, isNew] = arguments.try_emplace(name);
      Argument &taken = place->second;
      if (!isNew) {
        if (taken.placement != placement)
          return fail("'" + name + "' lies in two ways");
        local.values[argument] = taken.local;
        continue;
      }
      taken.placement = placement;
      bool isCut = llvm::any_of(axes, [&](const Axis &axis) {
        dist::AxisPlacement there = on(placement, axis.name);
        return !there.isReplicate() && !there.isShard();
      });
      // What the update takes is what the reduction before it returns, in another place.
      StringRef of = name;
      if (of.consume_front("update gradient ") && !reduces && !isCut)
        if (auto before = arguments.find("reduce gradient " + of.str());
            before != arguments.end()) {
          std::optional<Tensor> part = toLocal(before->second.global, placement);
          if (!part)
            return fail("'" + name + "' lies in parts of several sizes");
          taken.global = before->second.global;
          taken.local = local.values[argument] = std::move(*part);
          continue;
        }
      SmallVector<Index, 4> places;
      SmallVector<int64_t, 4> sizes;
      SmallVector<Var> summed;
      Rational scale(1);
      auto add = [&](Var var) {
        places.push_back(Index::of(var));
        sizes.push_back(forms.sizeOf(var));
      };
      for (const Axis &axis : axes) {
        dist::AxisPlacement there = on(placement, axis.name);
        if (there.isReplicate() || there.isShard())
          continue;
        if (!isSum(there))
          return fail("'" + name + "' lies in a way that is not replayed");
        for (Var digit : axis.digits) {
          add(digit);
          summed.push_back(digit);
        }
        if (there.reduction == dist::Reduction::Avg)
          scale = scale / Rational(axis.size);
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
      std::optional<Tensor> own = toLocal(taken.global, placement);
      if (!own)
        return fail("'" + name + "' lies in parts of several sizes");
      own->form = forms.normal(own->form);
      taken.local = local.values[argument] = std::move(*own);
      taken.global.form = forms.scale(forms.sum(taken.global.form, summed), scale);
    }
  return true;
}

/// What one function returns and another takes lies in the same way, so that steps follow by
/// induction over microbatches.
bool Replay::checkTies() {
  bool reduces = llvm::any_of(local.parts, [](const Part &part) { return part.phase == "reduce"; });
  for (Part part : local.parts)
    for (unsigned i = 0; i < part.function.getNumResults(); ++i) {
      RoleAttr role = train::getResultRole(part.function, i);
      if (!role || passesOn(role))
        continue;
      SmallVector<std::string> takers{nameOf(role)};
      if (role.getKind() == RoleKind::Gradient) {
        std::string name = role.getNameOrEmpty().str() + " ";
        takers = {"update gradient " + name};
        if (part.phase == "microbatch")
          takers = {"microbatch accumulator " + name,
                    (reduces ? "reduce gradient " : "update gradient ") + name};
      }
      PlacementAttr placement = placementOf(local, part.function, i, true);
      for (const std::string &taker : takers)
        if (auto found = arguments.find(taker); found != arguments.end())
          for (const Axis &axis : axes)
            if (on(placement, axis.name) != on(found->second.placement, axis.name))
              return fail("'" + taker + "' is taken in another placement than it is returned in");
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

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The claim over digits of its own.
Tensor Replay::valueOf(const Claim &claim) {
  Tensor value{{}, claim.form};
  Digits digits;
  Var next = numRankDigits;
  unsigned digit = 0;
  for (const Axis &axis : axes)
    for (Var var : axis.digits)
      digits[digit++] = Index::of(var);
  for (const auto &sizes : claim.dims) {
    auto &dim = value.dims.emplace_back();
    for (int64_t size : sizes) {
      dim.push_back(forms.make(size));
      digits[next++] = Index::of(dim.back());
    }
  }
  for (auto [var, size] : claim.boundSizes)
    if (var >= next)
      digits[var] = Index::of(forms.make(size));
  replace(value.form, digits);
  for (Summand &summand : value.form)
    for (Var &var : summand.bound)
      var = digits.contains(var) ? digits[var].parts.begin()->first : var;
  return value;
}

bool Replay::takeClaim(Program &program, mlir::Operation *op, const Claim &claim,
                       const Tensor *made, RankedTensorType type, Tensor &value) {
  auto where = [&](const Twine &what) {
    return (what + (op ? " of '" + op->getName().getStringRef() + "'" : Twine(""))).str();
  };
  // It names only what there is, and is of the value's shape.
  unsigned numDigits = program.isLocal ? numRankDigits : 0;
  std::vector<std::pair<Var, Var>> known{{0, numDigits}};
  Var next = numRankDigits;
  bool fits = int64_t(claim.dims.size()) == type.getRank();
  for (unsigned dim = 0; fits && dim < claim.dims.size(); ++dim) {
    int64_t size = 1;
    for (int64_t digit : claim.dims[dim]) {
      fits &= digit <= type.getDimSize(dim);
      size *= fits ? digit : 1;
    }
    fits &= size == type.getDimSize(dim);
    next += claim.dims[dim].size();
  }
  auto isKnown = [&](const Summand &summand, const Index &index) {
    return llvm::all_of(index.parts, [&](auto part) {
      Var var = part.first;
      return var < numDigits || (var >= numRankDigits && var < next) ||
             llvm::is_contained(summand.bound, var);
    });
  };
  for (const Summand &summand : claim.form) {
    fits = fits && summand.value.term < forms.numTerms() &&
           summand.value.at.size() == forms.get(summand.value.term).sizes.size();
    for (Var var : summand.bound)
      fits &= var >= next;
    for (const Index &index : summand.value.at)
      fits &= isKnown(summand, index);
    for (const Guard &guard : summand.guards)
      fits &= isKnown(summand, guard.index);
  }
  if (!fits)
    return fail(where("the claim is not one of a value"), claim.line);
  value = valueOf(claim);
  ++outcome.numValues;
  if (claim.step == "unknown") {
    // A value of which only the name is known: one that nothing else has.
    SmallVector<Index, 4> places;
    for (Var var = 0; var < next; ++var)
      if (var < numDigits || var >= numRankDigits)
        places.push_back(Index::of(var));
    const Summand *summand = claim.form.size() == 1 ? &claim.form[0] : nullptr;
    return (summand && summand->factor == Rational(1) && summand->bound.empty() &&
            summand->guards.empty() && ArrayRef(summand->value.at) == ArrayRef(places) &&
            forms.get(summand->value.term).kind == Term::Leaf && summand->value.term > 1 &&
            unknowns.insert(summand->value.term).second) ||
           fail(where("the claim is not an unknown value"), claim.line);
  }
  if (!made && llvm::is_contained(kTrusted, claim.step)) {
    ++outcome.trusted[claim.step + " of " + op->getName().getStringRef().str()];
    return true;
  }
  return (made && ops.areEqual(*made, value)) ||
         fail(where("step '" + claim.step + "' does not make the value"), claim.line);
}

bool Replay::walk(Program &program) {
  std::map<std::string, mlir::Value> returned;
  ops.beginProgram(program.isLocal);
  for (Part part : program.parts) {
    func::FuncOp function = part.function;
    auto found = log.values.find({program.isLocal, function.getName().str()});
    if (found == log.values.end())
      return fail("the log has no function '" + function.getName().str() + "'");
    ArrayRef<Claim> claims = found->second;
    auto takeNext = [&](mlir::Operation *op, const Tensor *made, mlir::Value value) {
      if (claims.empty())
        return fail("the log has too few values of '" + function.getName().str() + "'",
                    found->second.empty() ? 0 : found->second.back().line);
      bool isTaken = takeClaim(program, op, claims.front(), made, tensorOf(value.getType()),
                               program.values[value]);
      claims = claims.drop_front();
      return isTaken;
    };
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (!tensorOf(argument.getType()))
        return fail("'" + function.getName().str() + "' is of a form that is not replayed");
      if (passesOn(role)) {
        if (auto source = returned.find(nameOf(role)); source != returned.end())
          program.values[argument] = Tensor(program.values[source->second]);
        else if (!takeNext(nullptr, nullptr, argument))
          return false;
      } else if (!program.isLocal) {
        auto taken = arguments.find(nameOf(part, role, argument.getArgNumber(), false));
        if (taken != arguments.end())
          program.values[argument] = taken->second.global;
        else if (!takeNext(nullptr, nullptr, argument))
          return false;
      }
    }
    for (mlir::Operation &op : function.front().without_terminator()) {
      std::vector<Tensor> operands, made;
      for (mlir::Value operand : op.getOperands())
        operands.push_back(program.values[operand]);
      auto tensors = llvm::to_vector(llvm::make_filter_range(
          op.getResults(), [](mlir::Value value) { return bool(tensorOf(value.getType())); }));
      if (tensors.empty())
        continue;
      StringRef step = claims.empty() ? "" : StringRef(claims.front().step);
      bool isMade = step != "unknown" && ops.evaluate(&op, step, operands, made) &&
                    made.size() == op.getNumResults();
      for (OpResult result : tensors) {
        if (!claims.empty() && claims.front().step != step && claims.front().step != "unknown")
          return fail("results of one op are made by two steps", claims.front().line);
        if (!takeNext(&op, isMade ? &made[result.getResultNumber()] : nullptr, result))
          return false;
      }
    }
    if (!claims.empty())
      return fail("the log has too many values of '" + function.getName().str() + "'",
                  claims.front().line);
    for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      RoleAttr role = train::getResultRole(function, number);
      if (!tensorOf(operand.get().getType()))
        return fail("'" + function.getName().str() + "' is of a form that is not replayed");
      if (passesOn(role))
        returned[nameOf(role)] = operand.get();
      else if (!program.results
                    .try_emplace(nameOf(part, role, number, true),
                                 Program::Result{part, number, program.values[operand.get()]})
                    .second &&
               program.isLocal)
        return fail("a result is returned twice");
    }
  }
  return true;
}

bool Replay::compareResults() {
  for (auto &[name, result] : local.results) {
    auto found = global.results.find(name);
    auto argument = arguments.find(name);
    bool isMoved = found == global.results.end() && result.part.phase == "reduce" &&
                   argument != arguments.end();
    if (found == global.results.end() && !isMoved)
      return fail("one device has no result '" + name + "'");
    const Tensor &expected = isMoved ? argument->second.global : found->second.value;
    PlacementAttr placement = placementOf(local, result.part.function, result.number, true);
    SmallVector<Var> summed;
    Rational scale(1);
    for (const Axis &axis : axes) {
      dist::AxisPlacement there = on(placement, axis.name);
      if (there.isReplicate() || there.isShard())
        continue;
      if (!isSum(there))
        return fail("the placement of '" + name + "' says nothing of the whole value");
      llvm::append_range(summed, axis.digits);
      if (there.reduction == dist::Reduction::Avg)
        scale = scale / Rational(axis.size);
    }
    Tensor value = result.value;
    if (!summed.empty())
      value.form = forms.scale(forms.sum(std::move(value.form), summed), scale);
    std::optional<Tensor> wanted = toLocal(expected, placement);
    if (!wanted || !ops.areEqual(value, *wanted))
      return fail("'" + name + "' is not that of one device: " + forms.textOf(value.form) +
                  ", expected " + (wanted ? forms.textOf(wanted->form) : "an even part"));
    ++outcome.numResults;
  }
  for (const auto &[name, result] : global.results)
    if (!local.results.count(name))
      return fail("ranks do not return '" + name + "'");
  return outcome.numResults > 0 || fail("the programs have no results");
}

void Replay::run(ModuleOp globalModule, ModuleOp localModule) {
  global.module = globalModule;
  local.module = localModule;
  local.isLocal = true;
  bool isProof = readParts(global) && readParts(local) && readMesh() && readArguments() &&
                 checkTies() && checkStep() && walk(global) && walk(local) && compareResults();
  if (isProof && hasOverflowed())
    fail("the log has numbers that are too large");
}

Outcome cleave::replay::check(ModuleOp global, ModuleOp local, const Log &log, Forms &forms) {
  Replay replay(log, forms);
  replay.run(global, local);
  return replay.outcome;
}
