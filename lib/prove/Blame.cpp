//===- Blame.cpp - where what was not proved goes wrong ---------------------===//
//
// Each value of LOCAL is compared with the values of GLOBAL that are made of the same: it is one of
// them, in whatever way it lies over the ranks, or that times a number, or unlike all. From a
// result that is wrong one goes back over values that are unlike, to ops that make such a one of
// what is right. Ops that are given a rank's term of a sum, where the sum would do, show that a
// reduction is missing.
//
//===----------------------------------------------------------------------===//

#include "lib/prove/Blame.h"

#include "lib/prove/Repair.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Few findings of a function say where; the others are their consequences.
constexpr unsigned kExplained = 32;

/// The line of an op's model and its name, as addresses.
static std::pair<const void *, const void *> lineOf(Operation *op) {
  return {op->getLoc().getAsOpaquePointer(), op->getName().getIdentifier().getAsOpaquePointer()};
}

Blame::Blame(Prover &prover, bool triesRepairs)
    : prover(prover), terms(prover.terms), triesRepairs(triesRepairs) {
  auto add = [&](mlir::Value value) {
    auto found = prover.globalValues.find(value);
    if (!numbersOf(value) || found == prover.globalValues.end() || found->second.meaning.empty())
      return;
    Rational first;
    counterparts[signatureOf(found->second.meaning, first)].push_back(value);
  };
  prover.global.walk([&](Operation *op) {
    if (auto function = dyn_cast<func::FuncOp>(op); function && !function.isExternal())
      llvm::for_each(function.getArguments(), add);
    llvm::for_each(op->getResults(), add);
    if (!isa<func::FuncOp, ModuleOp>(op))
      opsOfLines.try_emplace(lineOf(op), op);
  });
  prover.local.walk<WalkOrder::PreOrder>(
      [&](Operation *op) { places.try_emplace(op, places.size()); });
}

/// What was returned by the function that ran before, for an argument that takes it.
mlir::Value Blame::sourceOf(mlir::Value value) const {
  auto source = prover.passed.find(value);
  return source == prover.passed.end() ? value : source->second;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// All values that these depend on, and these.
Blame::Values Blame::collectSlice(ArrayRef<mlir::Value> values) {
  Values slice(values.begin(), values.end());
  for (unsigned i = 0; i < slice.size(); ++i) {
    slice.insert(sourceOf(slice[i]));
    if (Operation *op = slice[i].getDefiningOp())
      slice.insert_range(op->getOperands());
  }
  return slice;
}

/// The ops that make them.
Blame::Ops Blame::producersOf(const Values &values) {
  Ops ops;
  for (mlir::Value value : values)
    if (Operation *op = value.getDefiningOp())
      ops.insert(op);
  return ops;
}

/// The ops that make something unlike, on which the value depends, of operands that are right, or
/// `believed`.
Blame::Ops Blame::findCandidates(mlir::Value value, bool allowsShares, const Values &believed) {
  Ops candidates;
  auto isFine = [&](mlir::Value value) {
    Status status = statusOf(value);
    return status.isFine() || (allowsShares && status.isShare) || believed.contains(value);
  };
  Values slice;
  slice.insert(sourceOf(value));
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (!op || isFine(slice[i]))
      continue;
    bool isFirst = true;
    for (mlir::Value operand : op->getOperands())
      if (!isFine(operand)) {
        isFirst = false;
        slice.insert(sourceOf(operand));
      }
    if (isFirst)
      candidates.insert(op);
  }
  return candidates;
}

/// Where values are multiples from `op` on, a number soon after it may be what is wrong: ranks that
/// sum what all have divide by as many.
Operation *Blame::settleFactor(Operation *op) {
  if (op->hasAttr("other") || op->getNumResults() != 1)
    return op;
  Status status = statusOf(op->getResult(0));
  if (status.likeness != Likeness::Scaled)
    return op;
  Operation *at = op;
  for (unsigned steps = 0; steps < 3; ++steps) {
    if (!at->hasOneUse() || (*at->getUsers().begin())->getNumResults() != 1)
      return op;
    at = *at->getUsers().begin();
    Status next = statusOf(at->getResult(0));
    if (next.likeness != Likeness::Scaled)
      return op;
    if (at->hasAttr("other") && !(next.factor == status.factor))
      return at;
  }
  return op;
}

/// Of what is a term all the way to `value`, which `user` takes: the op that takes it where the sum
/// is cheapest, after all terms are added.
Operation *Blame::userOfTerm(Operation *user, mlir::Value value, unsigned axis) {
  auto sizeOf = [](mlir::Value value) {
    RankedTensorType type = numbersOf(value);
    return type ? type.getNumElements() : 0;
  };
  Operation *best = user;
  int64_t least = sizeOf(value);
  for (unsigned steps = 0; steps < 256; ++steps) {
    Operation *op = value.getDefiningOp();
    if (!op)
      break;
    SmallVector<mlir::Value> given;
    for (mlir::Value operand : op->getOperands())
      if (statusOf(operand).isTermOn(axis))
        given.push_back(operand);
    if (given.size() != 1)
      break;
    if (sizeOf(given.front()) <= least) {
      least = sizeOf(given.front());
      best = op;
    }
    value = given.front();
  }
  return best;
}

/// Where the op would make what it should of a sum, of which it has a term: the op that takes the
/// term first.
Operation *Blame::findMissingReduction(Operation *op) {
  if (op->getName().getDialectNamespace() == "dist")
    return op;
  for (mlir::Value operand : op->getOperands()) {
    Status status = statusOf(operand);
    for (unsigned axis = 0; axis < prover.axes.size(); ++axis) {
      if (!status.isTermOn(axis))
        continue;
      SmallVector<const Tensor *> operands;
      Tensor total = prover.localValues[sourceOf(operand)];
      total.meaning = terms.sum(std::move(total.meaning), prover.axes[axis].digits);
      total.rows.reset();
      for (mlir::Value other : op->getOperands())
        operands.push_back(other == operand ? &total : &prover.localValues[other]);
      std::string unknown;
      std::vector<Tensor> made = prover.localEvaluator->evaluate(op, operands, unknown);
      RankedTensorType type = numbersOf(op->getResult(0));
      if (!unknown.empty() || made.empty() || !type || !compare(made.front(), type).isFine())
        continue;
      return userOfTerm(op, operand, axis);
    }
  }
  return op;
}

/// Of a value that lies in another way than it should: the op that lays it so; of another value of
/// GLOBAL the op that makes it.
Operation *Blame::findChangeOfLayout(const Result &result) {
  mlir::Value value = sourceOf(result.returned);
  Operation *op = value.getDefiningOp();
  auto expected = prover.globalResults.find(nameOf(result));
  Rational factor;
  if (!op || expected == prover.globalResults.end() ||
      signatureOf(prover.localValues[value].meaning, factor) !=
          signatureOf(expected->second.meaning, factor))
    return op;
  Status status = statusOf(value);
  for (unsigned axis = 0; axis < prover.axes.size(); ++axis)
    if (status.isTermOn(axis)) {
      Operation *user = userOfTerm(nullptr, value, axis);
      return user ? user : op;
    }
  while (op && op->getName().getDialectNamespace() != "dist") {
    auto given = llvm::find_if(op->getOperands(), [&](mlir::Value operand) {
      Status other = statusOf(operand);
      return other.likeness == Likeness::Alike && !other.layout.empty() &&
             other.layout == status.layout && operand.getDefiningOp();
    });
    if (given == op->getOperands().end())
      break;
    op = (*given).getDefiningOp();
  }
  return op && op->getName().getDialectNamespace() == "dist" ? op : value.getDefiningOp();
}

//===----------------------------------------------------------------------===//
// Findings
//===----------------------------------------------------------------------===//

void Blame::describe(Operation *op, Finding &finding) {
  finding.op = op;
  finding.reason = prover.unknowns.lookup(op);
  finding.counterpart = opsOfLines.lookup(lineOf(op));
  auto say = [&](const Status &status) {
    if (status.likeness == Likeness::Scaled) {
      llvm::raw_string_ostream os(finding.operand);
      // Of an axis of any size: n is the number of its ranks.
      auto print = [&](const llvm::DynamicAPInt &number) {
        if (number == kOpenSize)
          os << 'n';
        else
          os << number;
      };
      print(status.factor.num);
      if (status.factor.den != 1) {
        os << '/';
        print(status.factor.den);
      }
      os << " times the expected value";
    }
    for (auto [axis, on] : llvm::zip(prover.axes, status.layout))
      if (finding.operand.empty() && on == Status::kTerm)
        finding.operand = llvm::formatv("a rank's term of the sum over '{0}'", axis.name);
  };
  for (mlir::Value result : op->getResults())
    say(statusOf(result));
  for (mlir::Value operand : op->getOperands())
    if (finding.operand.empty())
      say(statusOf(operand));
}

/// Values of GLOBAL like which LOCAL has none.
std::vector<mlir::Value> Blame::findMissing(ArrayRef<func::FuncOp> globalFunctions,
                                            ArrayRef<func::FuncOp> localFunctions) {
  Rational first;
  llvm::StringSet<> found;
  for (func::FuncOp function : localFunctions)
    function.walk([&](Operation *op) {
      for (mlir::Value value : op->getResults())
        found.insert(signatureOf(prover.localValues[value].meaning, first));
    });
  std::vector<mlir::Value> missing;
  for (func::FuncOp function : globalFunctions)
    function.walk([&](Operation *op) {
      for (mlir::Value value : op->getResults())
        // Places are all made of one term.
        if (tensorOf(value.getType()) &&
            (!numbersOf(value) ||
             !found.contains(signatureOf(prover.globalValues[value].meaning, first))))
          missing.push_back(value);
    });
  return missing;
}

/// Ops on which all these results depend, near where values are unlike, in order.
SmallVector<Operation *> Blame::findSuspects(ArrayRef<const Result *> wrong) {
  llvm::DenseMap<Operation *, unsigned> counts;
  for (const Result *result : wrong)
    for (Operation *op : producersOf(collectSlice(result->returned)))
      ++counts[op];
  SmallVector<Operation *> common;
  for (auto [op, count] : counts)
    if (count == wrong.size())
      common.push_back(op);
  llvm::sort(common, [&](Operation *a, Operation *b) { return places.at(a) < places.at(b); });
  constexpr size_t kTried = 64;
  if (common.size() <= kTried)
    return common;
  // Values that are not compared, such as masks, are fine; what is wrong with them shows behind.
  llvm::SetVector<Operation *> near;
  for (Operation *op : common)
    if (near.size() < kTried / 2 && llvm::any_of(op->getResults(), [&](mlir::Value value) {
          return !statusOf(value).isFine();
        }))
      near.insert(op);
  for (unsigned i = 0; i < near.size() && near.size() < kTried; ++i)
    for (mlir::Value operand : near[i]->getOperands())
      if (Operation *op = sourceOf(operand).getDefiningOp();
          op && counts.lookup(op) == wrong.size())
        near.insert(op);
  SmallVector<Operation *> ops(near.getArrayRef());
  llvm::sort(ops, [&](Operation *a, Operation *b) { return places.at(a) < places.at(b); });
  return ops;
}

/// Names the op of which a change makes all wrong results of a function right, or of all functions
/// of a step.
void Blame::tryRepairs(ArrayRef<std::pair<const Result *, size_t>> failed,
                       std::vector<Finding> &findings, ArrayRef<const Result *> proved) {
  auto keyOf = [](const Result &result) {
    return result.part.kind == Part::Plain ? result.part.function : func::FuncOp();
  };
  llvm::MapVector<func::FuncOp, SmallVector<std::pair<const Result *, size_t>>> groups;
  for (auto [result, number] : failed)
    if (!result->isMember && !findings[number].isNew && result->missing.empty())
      groups[keyOf(*result)].push_back({result, number});
  // They are only hints: what time is left is for others, too.
  auto now = std::chrono::steady_clock::now();
  auto until = now + (terms.getDeadline() - now) / 4;
  // Of a step in several functions, which also clip, scale and update, not all is aligned.
  SmallVector<Part> ofWhole, ofRanks;
  if (llvm::any_of(groups, [](auto &group) { return bool(group.first); }))
    if (FailureOr<SmallVector<Part>> parts = prover.getParts(prover.global); succeeded(parts)) {
      ofWhole = std::move(*parts);
      ofRanks.assign(prover.localParts.begin(), prover.localParts.end());
    }
  unsigned numAsked = 0;
  constexpr unsigned kAsked = 512;
  Counterparts aligned(ofWhole, ofRanks, prover.passed, prover.axes, [&](mlir::Value value) {
    if (!numbersOf(value) || ++numAsked > kAsked)
      return mlir::Value();
    Status status = statusOf(value);
    return status.likeness == Likeness::Alike ? status.counterpart : mlir::Value();
  });
  for (auto &[function, group] : groups) {
    auto isOurs = [&, &function = function](func::FuncOp other) {
      return !function || other.getName() == function.getName();
    };
    SmallVector<func::FuncOp> ofGlobal, ofLocal;
    for (func::FuncOp other : prover.global.getOps<func::FuncOp>())
      if (!other.isExternal() && isOurs(other))
        ofGlobal.push_back(other);
    for (const Part &part : prover.localParts)
      if (isOurs(part.function))
        ofLocal.push_back(part.function);
    SmallVector<const Result *> wrong, right;
    for (auto [result, number] : ArrayRef(group).take_front(kExplained))
      wrong.push_back(result);
    for (const Result *result : proved)
      if (!result->isMember && keyOf(*result) == function)
        right.push_back(result);
    std::vector<mlir::Value> missing = findMissing(ofGlobal, ofLocal);
    auto isFine = [&](mlir::Value value, const Tensor *tensor) {
      RankedTensorType type = numbersOf(value);
      return !type || (tensor ? compare(*tensor, type) : statusOf(value)).isFine();
    };
    SmallVector<Operation *> suspects = findSuspects(wrong);
    // Of many functions each gets little time.
    auto end = function
                   ? std::min(until, std::chrono::steady_clock::now() + std::chrono::seconds(3))
                   : until;
    Repair repair(prover, aligned, ofGlobal, ofLocal, missing, isFine, end);
    auto findBroken = [&](unsigned steps) {
      SmallVector<Operation *> broken = aligned.findBroken(suspects, steps);
      llvm::erase_if(broken, [&](Operation *op) {
        return op->getName().getDialectNamespace() != "dist" &&
               llvm::all_of(op->getResults(), [&](mlir::Value value) {
                 Status status = statusOf(value);
                 return numbersOf(value) && status.isFine() && status.factor == Rational(1);
               });
      });
      return broken;
    };
    SmallVector<Operation *> broken;
    std::optional<Repair::Found> found;
    if (function && !(broken = findBroken(0)).empty())
      found = repair.find(broken, wrong, right, Repair::Search::Likely);
    if (!found)
      found = repair.find(suspects, wrong, right,
                          function ? Repair::Search::Aligned : Repair::Search::ByValues);
    // Any op behind what is wrong is right with a value of one device.
    auto saysHow = [&](const std::pair<const Result *, size_t> &entry) {
      const Finding &finding = findings[entry.second];
      return !finding.operand.empty() ||
             (finding.op && finding.op->getName().getDialectNamespace() == "dist");
    };
    if (function && (!found || found->kind == Repair::Kind::Value) &&
        llvm::none_of(group, saysHow)) {
      llvm::erase_if(broken, [&](Operation *op) { return aligned.isDivided(op); });
      if (broken.size() != 1)
        broken = findBroken(1);
      if (broken.size() == 1 && aligned.isOnlyChange(broken.front()))
        found = Repair::Found{broken.front(), "", Repair::Kind::Operand};
    }
    if (!found)
      continue;
    for (auto [result, number] : group) {
      Finding &finding = findings[number];
      finding.operand.clear();
      describe(found->op, finding);
      finding.repair = found->change;
    }
  }
}

void Blame::explain(ArrayRef<std::pair<const Result *, size_t>> failed,
                    std::vector<Finding> &findings, ArrayRef<const Result *> proved) {
  llvm::DenseMap<Operation *, unsigned> explained;
  SmallVector<Ops> candidates;
  llvm::DenseMap<Operation *, unsigned> votes;
  // What a result that is right depends on is less likely to be wrong.
  SmallVector<mlir::Value> right;
  for (const Result *result : proved)
    right.push_back(result->returned);
  Values believable = collectSlice(right);
  SmallVector<mlir::Value> returned;
  llvm::SmallDenseSet<const Result *> first;
  for (auto [result, number] : failed)
    if (++explained[result->part.function] <= kExplained) {
      first.insert(result);
      returned.push_back(result->returned);
    }
  compareBackwards(returned);
  for (auto [result, number] : failed) {
    Ops named;
    if (!first.contains(result)) {
      candidates.push_back({});
      continue;
    }
    for (const Values &believed : {believable, Values()})
      for (bool allowsShares : {true, false})
        if (named.empty())
          for (Operation *op : findCandidates(result->returned, allowsShares, believed))
            named.insert(settleFactor(findMissingReduction(op)));
    if (named.empty())
      if (Operation *op = findChangeOfLayout(*result))
        named.insert(op);
    for (Operation *op : named)
      ++votes[op];
    candidates.push_back(std::move(named));
  }
  auto rank = [&](Operation *op) {
    bool isProved = op->getNumResults() > 0 &&
                    llvm::all_of(op->getResults(),
                                 [&](mlir::Value value) { return believable.contains(value); });
    return std::tuple(isProved, -int(votes.lookup(op)), places.lookup(op));
  };
  for (auto [i, entry] : llvm::enumerate(failed)) {
    Operation *best = nullptr;
    for (Operation *op : candidates[i])
      if (!best || rank(op) < rank(best))
        best = op;
    if (best)
      describe(best, findings[entry.second]);
  }
  if (triesRepairs)
    tryRepairs(failed, findings, proved);
}
