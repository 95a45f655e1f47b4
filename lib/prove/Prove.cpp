//===- Prove.cpp - whether a program of many ranks is one of one device -----===//
//
// GLOBAL is walked first, which makes its terms; LOCAL's values then either are these, at places of
// the rank, or are not. Only LOCAL's signature is believed.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Blame.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void Prover::walk(ArrayRef<Part> parts, bool isLocal, std::vector<Result> *results) {
  auto &values = isLocal ? localValues : globalValues;
  Evaluator &evaluator = isLocal ? *localEvaluator : *globalEvaluator;
  llvm::StringMap<mlir::Value> returned;
  stageSums.clear();
  if (log)
    log->beginProgram(isLocal);
  auto note = [&](StringRef step, mlir::Value value) {
    if (log && tensorOf(value.getType()))
      log->add(step, values.find(value)->second);
  };
  for (Part part : parts) {
    func::FuncOp function = part.function;
    if (log)
      log->beginFunction(function.getName());
    if (!isLocal)
      takeReduced(part);
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (train::BucketOp bucket = getBucket(function, argument.getType()); bucket && role) {
        BucketState &state = buckets[argument];
        for (const Member &member : getMembers(bucket, part, role)) {
          auto found = arguments.find(nameOf(part, member.role, 0));
          if (found != arguments.end())
            state.members[member.name] = isLocal ? found->second.local : found->second.global;
        }
        values[argument] = Tensor();
      } else if (isStageSum(role)) {
        auto sum = stageSums.find(nameOf(role));
        values[argument] =
            sum != stageSums.end() ? sum->second : evaluator.opaque(argument.getType());
      } else if (passesOn(role)) {
        auto source = returned.find(nameOf(role));
        if (source == returned.end()) {
          values[argument] = evaluator.opaque(argument.getType());
          note("unknown", argument);
          continue;
        }
        values[argument] = Tensor(values[source->second]);
        if (isLocal)
          passed[argument] = source->second;
      } else if (isLocal && part.kind == Part::Update) {
        // As it is known since GLOBAL has reduced it.
        values[argument] = arguments[nameOf(part, role, argument.getArgNumber())].local;
      } else if (!isLocal) {
        auto found = arguments.find(nameOf(part, role, argument.getArgNumber()));
        values[argument] =
            found != arguments.end() ? found->second.global : evaluator.opaque(argument.getType());
        if (found == arguments.end())
          note("unknown", argument);
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
      if (llvm::any_of(op.getOperandTypes(), llvm::IsaPred<train::BucketType>)) {
        walkBucket(&op, evaluator, values, unknown);
        if (!unknown.empty() && isLocal)
          unknowns[&op] = unknown;
        continue;
      }
      std::vector<Tensor> made = evaluator.evaluate(&op, operands, unknown);
      while (splitAxes()) {
        unknown.clear();
        made = evaluator.evaluate(&op, operands, unknown);
      }
      if (!unknown.empty() && isLocal)
        unknowns[&op] = unknown;
      for (auto [result, value] : llvm::zip(op.getResults(), made)) {
        values[result] = std::move(value);
        note(evaluator.getStep(), result);
      }
    }
    for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, operand.getOperandNumber());
      if (passesOn(role)) {
        returned[nameOf(role)] = operand.get();
        continue;
      }
      if (isStageSum(role)) {
        addStageTerm(stageSums, role, values[operand.get()], evaluator, operand.get().getType());
        continue;
      }
      SmallVector<Result, 0> made;
      if (isa<train::BucketType>(operand.get().getType()))
        returnBucket(part, operand.getOperandNumber(), operand.get(), made);
      else
        made.push_back({part, operand.getOperandNumber(), operand.get(), role,
                        resultPlacement(function, operand.getOperandNumber())});
      for (Result &result : made) {
        if (isLocal)
          results->push_back(std::move(result));
        else if (result.missing.empty()) {
          if (comparesRanks)
            globalReturns[nameOf(result)] = {nullptr, result.placement};
          globalResults[nameOf(result)] =
              result.isMember ? std::move(result.member) : values[result.returned];
        }
      }
    }
  }
}

/// What an update takes is what the reduction before it returns. Where both programs reduce, that
/// is proved to be the same; so it is known of what it is made, as sums over stages are.
void Prover::takeReduced(Part part) {
  // The checker of logs knows it by its name alone.
  if (part.kind != Part::Update || !globalReduces || comparesRanks || log || !classes.empty())
    return;
  for (unsigned i = 0; i < part.function.getNumArguments(); ++i) {
    train::RoleAttr role = train::getArgumentRole(part.function, i);
    if (!role || role.getKind() != train::RoleKind::Gradient)
      continue;
    std::string name = nameOf(part, role, i);
    auto taken = arguments.find(name);
    auto reduced = globalResults.find((nameOf(Part::Reduce) + " " + nameOf(role)).str());
    if (taken == arguments.end() || reduced == globalResults.end() ||
        byRole.lookup(name) != ByRole::Same || isCutInTerms(taken->second.placement, axes))
      continue;
    std::optional<Tensor> own = toLocal(reduced->second, taken->second.placement);
    if (!own)
      continue;
    taken->second.global = reduced->second;
    taken->second.local = std::move(*own);
    taken->second.local.meaning = terms.normalize(std::move(taken->second.local.meaning));
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// What `value`, of this result, is to be, where it is taken as its signature says; nothing if that
/// cannot be said, and `why`.
std::optional<Tensor> Prover::expect(const Result &result, Tensor &value, std::string &why,
                                     bool *isNew, const RankClass *of) {
  auto fail = [&](const Twine &reason) {
    why = reason.str();
    return std::nullopt;
  };
  std::string name = nameOf(result);
  auto found = globalResults.find(name);
  const Tensor *expected = found == globalResults.end() ? nullptr : &found->second;
  if (!expected && result.part.kind == Part::Reduce) {
    // It only changes where gradients lie.
    auto argument = arguments.find(name);
    expected = argument == arguments.end() ? nullptr : &argument->second.global;
  }
  if (!expected) {
    if (isNew)
      *isNew = true;
    return fail("the program of one device has no such result");
  }
  if (!result.missing.empty())
    return fail(result.missing);

  dist::PlacementAttr placement = result.placement;
  Tensor whole;
  if (auto before = globalReturns.find(name); before != globalReturns.end()) {
    if (lieAlike(before->second.placement, placement, axes))
      return *expected;
    std::optional<Tensor> made = toWhole(*expected, before->second.placement);
    if (!made)
      return fail("its placement before says nothing of the whole value");
    whole = std::move(*made);
    expected = &whole;
  }
  if (SmallVector<Var> places = scatteredPlaces(placement);
      !places.empty() && result.part.kind == Part::Microbatch && result.role &&
      result.role.getKind() == train::RoleKind::Gradient) {
    whole = *expected;
    whole.meaning = terms.sum(std::move(whole.meaning), places);
    expected = &whole;
  }
  SmallVector<Var> summed;
  Rational scale(1);
  for (const Axis &axis : axes) {
    std::optional<dist::AxisPlacement> on = placement ? placement.get(axis.name) : std::nullopt;
    if (!on || on->isSameOnAllRanks() || on->isShard())
      continue;
    if (!on->isPartial() ||
        (on->reduction != dist::Reduction::Sum && on->reduction != dist::Reduction::Avg))
      return fail("its placement on '" + axis.name + "' says nothing of the whole value");
    llvm::append_range(summed, axis.digits);
    if (on->reduction == dist::Reduction::Avg)
      scale = scale / Rational(axis.size);
  }
  if (!summed.empty() && !terms.breaks(Lemma::PartialResult))
    value.meaning = terms.scale(terms.sum(std::move(value.meaning), summed), scale);
  std::optional<Tensor> wanted =
      of ? toClass(*of, *expected, placement) : toLocal(*expected, placement);
  if (!wanted)
    return fail("it lies in parts of several sizes");
  wanted->meaning = terms.normalize(std::move(wanted->meaning));
  return wanted;
}

void Prover::compare(const Result &result) {
  ++proof.numResults;
  if (!classes.empty()) {
    Finding finding;
    finding.function = func::FuncOp(result.part.function).getName().str();
    finding.result = StringRef(nameOf(result.role)).rtrim().str();
    if (!isRightInClasses(result, finding))
      proof.findings.push_back(std::move(finding));
    return;
  }
  Tensor value = result.isMember ? result.member : localValues[result.returned];
  Finding finding;
  std::optional<Tensor> wanted = expect(result, value, finding.relation, &finding.isNew);
  while (splitAxes()) {
    value = result.isMember ? result.member : localValues[result.returned];
    finding = Finding();
    wanted = expect(result, value, finding.relation, &finding.isNew);
  }
  if (wanted && areEqual(terms, value, *wanted))
    return;
  func::FuncOp function = result.part.function;
  finding.function = function.getName().str();
  finding.result = result.role ? StringRef(nameOf(result.role)).rtrim().str()
                               : "result " + std::to_string(result.number);
  if (wanted)
    explain(value, *wanted, result, finding);
  proof.findings.push_back(std::move(finding));
}

/// What relation there is between what was found and what was expected.
void Prover::explain(const Tensor &found, const Tensor &expected, const Result &result,
                     Finding &finding) {
  Rational theirs;
  std::string signature = signatureOf(expected.meaning, theirs);
  // Most values are no multiple, which their signatures show.
  auto isScaled = [&](const Tensor &value, Rational factor) {
    Rational first;
    if (signatureOf(value.meaning, first) != signature || first != theirs * factor)
      return false;
    Tensor scaled = expected;
    scaled.meaning = terms.scale(std::move(scaled.meaning), factor);
    return areEqual(terms, value, scaled);
  };
  for (const Axis &axis : axes) {
    if (axis.size == 1)
      continue;
    finding.differs = true;
    std::string size = axis.isOpen() ? "n" : std::to_string(axis.size);
    if (isScaled(found, Rational(axis.size))) {
      finding.relation = llvm::formatv("{0} times the expected value: it is summed over '{1}' "
                                       "once too often, or not divided by its size",
                                       size, axis.name);
      return;
    }
    if (isScaled(found, Rational(1) / Rational(axis.size))) {
      finding.relation = llvm::formatv("1/{0} of the expected value: it is divided by the size of "
                                       "'{1}' once too often, or not summed over it",
                                       size, axis.name);
      return;
    }
    if (!mayBeTermOf(found, axis.digits))
      continue;
    Tensor total = found;
    total.meaning = terms.sum(std::move(total.meaning), axis.digits);
    if (isScaled(total, Rational(1))) {
      finding.relation =
          "a rank's term of the sum over '" + axis.name + "': the reduction is missing";
      return;
    }
  }
  finding.differs = false;
  finding.relation = "no relation to the expected value was found";
}

LogicalResult Prover::run(const ProveOptions &options) {
  terms.setDeadline(options.deadline);
  if (options.broken)
    terms.breakLemma(*options.broken);
  if (options.hasRoomForRows)
    terms.assumeRoom();
  hasOwnBuffers = options.hasOwnBuffers;
  mayBeOfOneDevice = options.mayBeOfOneDevice;
  for (ModuleOp module : {global, local})
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      if (function->hasAttr(train::kRanksAttrName) &&
          (comparesRanks || module == global || !function->hasAttr(train::kPhaseAttrName)))
        outOfScope("ranks with parts of different sizes have functions of their own");
      if (!function.isExternal() && !function.getBody().hasOneBlock())
        outOfScope("'" + function.getName() + "' has several blocks");
    }
  if (!proof.outOfScope.empty())
    return success();
  FailureOr<SmallVector<Part>> globalParts = getParts(global);
  if (failed(globalParts))
    return failure();
  if (hasClasses(local)) {
    if (failed(readClasses()))
      return failure();
    if (!proof.outOfScope.empty())
      return success();
  } else {
    FailureOr<SmallVector<Part>> parts = getParts(local);
    if (failed(parts))
      return failure();
    localParts = std::move(*parts);
    readMesh();
    readBatchAxes(*globalParts, localParts);
    if (!proof.outOfScope.empty())
      return success();
  }
  globalEvaluator.emplace(terms, comparesRanks ? ArrayRef<Axis>(axes) : ArrayRef<Axis>(batchAxes),
                          lookUps, missingCuts,
                          /*isFirst=*/true);
  localEvaluator.emplace(terms, axes, lookUps, missingCuts);
  globalEvaluator->keepJoins(keptJoins);
  localEvaluator->keepJoins(keptJoins);
  makeClassEvaluators();
  for (Part part : *globalParts)
    for (BlockArgument argument : part.function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(part.function, argument.getArgNumber());
      if (train::BucketOp bucket = getBucket(part.function, argument.getType()); bucket && role)
        for (const Member &member : getMembers(bucket, part, role))
          globalTypes[nameOf(part, member.role, 0)] =
              RankedTensorType::get(member.type.getShape(), member.type.getElementType());
      if (RankedTensorType type = dyn_cast<RankedTensorType>(argument.getType()))
        globalTypes[nameOf(part, train::getArgumentRole(part.function, argument.getArgNumber()),
                           argument.getArgNumber())] =
            RankedTensorType::get(type.getShape(), type.getElementType());
    }
  globalReduces = llvm::any_of(*globalParts, [](Part part) { return part.kind == Part::Reduce; });
  if (comparesRanks)
    readBefore(*globalParts);
  if (proof.outOfScope.empty() && classes.empty())
    readArguments(localParts);
  else if (proof.outOfScope.empty())
    readClassArguments();
  if (proof.outOfScope.empty())
    checkTies(localParts);
  if (!proof.outOfScope.empty())
    return success();

  if (options.log)
    options.log->clear();
  if (options.log && classes.empty())
    log.emplace(terms, axes, *options.log);
  walk(*globalParts, /*isLocal=*/false, nullptr);
  accumulateForCaller();
  numGlobalTerms = terms.size();
  localEvaluator->beginSecond(numGlobalTerms);
  for (RankClass &each : classes)
    each.evaluator->beginSecond(numGlobalTerms);
  if (classes.empty())
    walk(localParts, /*isLocal=*/true, &results);
  else
    walkClasses();
  if (!proof.outOfScope.empty())
    return success();
  proof.note = localEvaluator->getNote();
  if (!localEvaluator->isRoomNeeded())
    outOfScope("rows are numbered for parts with less room than their exchange has");
  checkStep(*globalParts);
  checkOwnBatches();
  if (failed(checkSchedule()))
    return failure();
  for (const Result &result : results) {
    size_t before = proof.findings.size();
    compare(result);
    if (proof.findings.size() > before)
      wrong.push_back({&result, before});
    else
      proved.push_back(&result);
  }
  // What GLOBAL returns, LOCAL must return too.
  llvm::StringMap<bool> isReturned;
  for (const Result &result : results)
    isReturned[nameOf(result)] = true;
  for (const auto &entry : globalResults)
    if (!isReturned.contains(entry.first())) {
      Finding finding;
      finding.result = entry.first().str();
      finding.relation = "the local program does not return it";
      proof.findings.push_back(finding);
    }
  if (proof.findings.empty() && terms.doesCountOpen())
    fail("the step", "it is proved only for one size of the mesh axis that is '?'");
  // What results are compared by are terms as well.
  if (log)
    log->end();
  proof.numTerms = terms.size();
  proof.isLate = terms.isLate() || std::chrono::steady_clock::now() > options.deadline;
  proof.isProved = !proof.isLate && proof.findings.empty() && proof.numResults > 0;
  return success();
}

void Prover::explain(const ProveOptions &options) {
  if (!wrong.empty() && !proof.isLate)
    Blame(*this, options.triesRepairs).explain(wrong, proof.findings, proved);
}

FailureOr<Proof> cleave::prove::prove(ModuleOp global, ModuleOp local,
                                      const ProveOptions &options) {
  return Prover::runInBothForms(global, local, options, /*comparesRanks=*/false);
}
