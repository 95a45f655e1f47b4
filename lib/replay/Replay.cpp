//===- Replay.cpp - the claims of a log against both programs ---------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/replay/Replayer.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

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

/// Whether what the step makes of the op may be taken from a log: there is a lemma about it, which
/// the prover's tests execute, and no formula here. Where data decide an order, any op may have
/// rows.
bool Replay::isTrusted(Operation *op, StringRef step) const {
  if (step == "draw")
    return op->getName().getStringRef().starts_with("aten.rng_");
  if (step == "lookup")
    return isa<aten::IndexAddOp, aten::IndexPutOp>(op);
  if (step == "statistics")
    return isa<aten::StackOp, aten::VarCorrectionOp, aten::NativeBatchNormLegitFunctionalOp,
               aten::NativeBatchNormLegitNoTrainingOp, aten::NativeBatchNormBackwardOp>(op) ||
           (isa<aten::LinalgVectorNormOp>(op) && isEuclidean(op));
  if (step == "rows")
    return hasOrders || isa<aten::IndexOp, aten::IndexSelectOp, aten::FloorDivideScalarOp,
                            aten::RemainderScalarOp>(op);
  return step == "order" && isa<aten::WhereOp>(op);
}

bool Replay::takeClaim(Program &program, mlir::Operation *op, const Claim &claim,
                       const Tensor *made, RankedTensorType type, Tensor &value) {
  auto where = [&](const Twine &what) {
    return (what + (op ? " of '" + op->getName().getStringRef() + "'" : Twine(""))).str();
  };
  // It names only what there is, and is of the value's shape.
  const llvm::DenseSet<Var> &ranks = program.isLocal ? localDigits : globalDigits;
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
      return ranks.contains(var) || (var >= numRankDigits && var < next) ||
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
      if (ranks.contains(var) || var >= numRankDigits)
        places.push_back(Index::of(var));
    const Summand *summand = claim.form.size() == 1 ? &claim.form[0] : nullptr;
    return (summand && summand->factor == Rational(1) && summand->bound.empty() &&
            summand->guards.empty() && ArrayRef(summand->value.at) == ArrayRef(places) &&
            forms.get(summand->value.term).kind == Term::Leaf && summand->value.term > 1 &&
            unknowns.insert(summand->value.term).second) ||
           fail(where("the claim is not an unknown value"), claim.line);
  }
  if (!made && op && isTrusted(op, claim.step)) {
    ++outcome.trusted[claim.step + " of " + op->getName().getStringRef().str()];
    return true;
  }
  return (made && ops.areEqual(*made, value)) ||
         fail(where("step '" + claim.step + "' does not make the value"), claim.line);
}

/// Adds a stage's term to a sum over stages that none has taken so far.
bool Replay::addStageTerm(RoleAttr role, const Tensor &term) {
  if (takenSums.count(nameOf(role)))
    return false;
  auto [place, isNew] = stageSums.try_emplace(nameOf(role), term);
  if (isNew)
    return true;
  std::optional<Tensor> sum = ops.add(place->second, term);
  if (sum)
    place->second = std::move(*sum);
  return sum.has_value();
}

/// What updates of several stages report, such as the norm of all gradients, each of them has.
bool Replay::addResult(Program &program, RoleAttr role, Program::Result result) {
  std::string name = nameOf(result.part, role, result.number, true);
  bool isReport = role && role.getKind() == RoleKind::Output && result.part.phase == "update";
  if (program.results.count(name) && (!program.isLocal || !isReport))
    return !program.isLocal || fail("'" + name + "' is returned twice");
  program.results.emplace(name, std::move(result));
  return true;
}

bool Replay::walk(Program &program) {
  std::map<std::string, mlir::Value> returned;
  ops.beginProgram(program.isLocal);
  stageSums.clear();
  takenSums.clear();
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
      if (program.isLocal && program.buckets.count(argument))
        continue;
      if (!tensorOf(argument.getType()))
        return fail("'" + function.getName().str() + "' is of a form that is not replayed");
      if (isStageSum(role)) {
        auto sum = stageSums.find(nameOf(role));
        if (sum == stageSums.end())
          return fail("'" + nameOf(role) + "' is taken before it is made");
        program.values[argument] = sum->second;
        takenSums.insert(sum->first);
      } else if (passesOn(role)) {
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
      if (llvm::any_of(op.getOperandTypes(), llvm::IsaPred<train::BucketType>)) {
        if (!walkBucket(program, &op))
          return fail("'" + op.getName().getStringRef() + "' is of a form that is not replayed");
        continue;
      }
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
      if (isa<train::BucketType>(operand.get().getType()) && program.isLocal) {
        if (!returnBucket(program, part, operand))
          return fail("a bucket of '" + function.getName().str() +
                      "' lacks a gradient or is not reduced");
        continue;
      }
      if (!tensorOf(operand.get().getType()))
        return fail("'" + function.getName().str() + "' is of a form that is not replayed");
      if (isStageSum(role)) {
        if (!addStageTerm(role, program.values[operand.get()]))
          return fail("'" + nameOf(role) + "' is taken before it is made");
        continue;
      }
      if (passesOn(role))
        returned[nameOf(role)] = operand.get();
      else if (!addResult(program, role,
                          {part, number, program.values[operand.get()],
                           placementOf(program, function, number, true)}))
        return false;
    }
  }
  return true;
}

/// What a microbatch of one device returns as a gradient; where ranks add it up and one device
/// leaves that to its caller, the caller's sum.
std::optional<Tensor> Replay::sumOfCaller(StringRef result, const Tensor &value) {
  if (!result.consume_front("microbatch gradient "))
    return value;
  std::string sum = ("microbatch accumulator " + result).str();
  auto before = arguments.find(sum);
  if (before == arguments.end() || global.takes.contains(sum))
    return value;
  return ops.add(before->second.global, value);
}

bool Replay::compareResults() {
  for (auto &[name, result] : local.results) {
    auto found = global.results.find(name);
    auto argument = arguments.find(name);
    bool isMoved = found == global.results.end() && result.part.phase == "reduce" &&
                   argument != arguments.end();
    if (found == global.results.end() && !isMoved)
      return fail("one device has no result '" + name + "'");
    std::optional<Tensor> expected =
        isMoved ? argument->second.global : sumOfCaller(name, found->second.value);
    if (!expected)
      return fail("'" + name + "' is not added up");
    PlacementAttr placement = result.placement;
    if (StringRef(name).starts_with("microbatch gradient "))
      expected->form = forms.sum(std::move(expected->form), scatteredPlaces(placement));
    std::optional<Terms> terms = termsOf(placement);
    if (!terms)
      return fail("the placement of '" + name + "' says nothing of the whole value");
    Tensor value = result.value;
    if (!terms->places.empty())
      value.form = forms.scale(forms.sum(std::move(value.form), terms->places), terms->share);
    std::optional<Tensor> wanted = toLocal(*expected, placement);
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
  for (ModuleOp module : {globalModule, localModule})
    module.walk([&](Operation *op) {
      hasOrders |= isa<aten::SortStableOp, aten::HistcOp, aten::BincountOp>(op);
    });
  bool isProof = readParts(global) && readParts(local) && readMesh() && readBatches() &&
                 readArguments() && checkTies() && checkStep() && walk(global) && walk(local) &&
                 compareResults() && checkBatches() && checkSchedule();
  if (isProof && hasOverflowed())
    fail("the log has numbers that are too large");
}

Outcome cleave::replay::check(ModuleOp global, ModuleOp local, const Log &log, Forms &forms,
                              bool hasOwnBuffers) {
  Replay replay(log, forms, hasOwnBuffers);
  replay.run(global, local);
  return replay.outcome;
}
