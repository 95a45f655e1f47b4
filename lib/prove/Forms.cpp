//===- Forms.cpp - the forms in which a proof is tried ----------------------===//
//
// Most programs are proved with exponentials, softmax and attention as they are, and with values as
// large as ops make them. Where that is no proof, what is made of parts is taken as a part of what
// is made of the wholes; where there are statistics, factors are taken out of sums; and where they
// may be what is missing, exponentials and the like as shares of sums: at first where blocks of
// attention go round a ring.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/Softmax.h"
#include "lib/prove/Blame.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether shares of sums say more of what the op makes.
static bool isOfShares(Operation *op) {
  StringRef name = op->getName().stripDialect();
  return llvm::any_of(ArrayRef<StringRef>{"exp", "log", "softmax", "attention", "max"},
                      [&](StringRef part) { return name.contains(part); }) &&
         !name.contains("expand") && !name.contains("logical");
}

/// Whether blocks of attention go round a ring and are merged: which only shares of sums say.
static bool mergesBlocks(ModuleOp module) {
  bool sends = false, merges = false;
  module.walk([&](Operation *op) {
    sends |= isa<dist::ShiftOp>(op);
    merges |= isa<aten::MaximumOp>(op);
  });
  return sends && merges;
}

/// Whether values are put together of parts that ops then read as one.
static bool stacks(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isa<aten::StackOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether values are squared and added up, of which ranks may have parts.
static bool hasStatistics(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isa<aten::NativeBatchNormLegitFunctionalOp, aten::VarCorrectionOp>(op)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether shares of sums may prove what is not proved without them. Not so if each value of GLOBAL
/// that LOCAL has not, though it has what that is made of, is made and used far from them. Where
/// LOCAL has all, its own ops may do nothing.
bool Prover::mayBeOfShares() {
  bool hasShares = false;
  for (ModuleOp module : {global, local}) {
    WalkResult moves = module.walk([&](Operation *op) {
      hasShares |= isa<aten::ExpOp, aten::SoftmaxBackwardDataOp>(op);
      return isa<aten::IndexSelectOp, dist::ShiftOp>(op) ? WalkResult::interrupt()
                                                         : WalkResult::advance();
    });
    if (moves.wasInterrupted())
      return true;
  }
  if (!hasShares)
    return false;
  Rational first;
  llvm::StringSet<> found;
  for (const auto &[value, tensor] : localValues)
    found.insert(signatureOf(tensor.meaning, first));
  auto isMissing = [&](mlir::Value value) {
    auto made = globalValues.find(value);
    return made != globalValues.end() && tensorOf(value.getType()) &&
           !found.contains(signatureOf(made->second.meaning, first));
  };
  llvm::SmallDenseSet<mlir::Value> missing;
  SmallVector<std::pair<Operation *, unsigned>> reached;
  llvm::SmallDenseSet<Operation *> seen;
  global.walk([&](Operation *op) {
    if (op->getNumResults() == 0 || llvm::none_of(op->getResults(), isMissing))
      return;
    missing.insert(op->result_begin(), op->result_end());
    if (llvm::none_of(op->getOperands(),
                      [&](mlir::Value operand) { return missing.contains(operand); })) {
      seen.insert(op);
      reached.push_back({op, 0});
    }
  });
  constexpr unsigned kNear = 6;
  for (unsigned i = 0; i < reached.size(); ++i) {
    auto [op, steps] = reached[i];
    if (isOfShares(op))
      return true;
    if (steps < kNear)
      for (Operation *user : op->getUsers())
        if (seen.insert(user).second)
          reached.push_back({user, steps + 1});
  }
  return reached.empty();
}

std::unique_ptr<Prover> Prover::runWithCuts(ModuleOp global, ModuleOp local,
                                            const ProveOptions &options, bool comparesRanks,
                                            Form form) {
  AxisCuts cuts;
  // Few cuts are enough.
  constexpr unsigned kRuns = 4;
  for (unsigned run = 1;; ++run) {
    auto prover = std::make_unique<Prover>(global, local, cuts, comparesRanks, form);
    if (failed(prover->run(options)))
      return nullptr;
    size_t before = 0, after = 0;
    for (const auto &entry : cuts)
      before += entry.second.size();
    for (const auto &[name, strides] : prover->getMissingCuts())
      cuts[name].insert(strides.begin(), strides.end());
    for (const auto &entry : cuts)
      after += entry.second.size();
    const Proof &proof = prover->getProof();
    if (proof.isProved || proof.isLate || before == after || run == kRuns)
      return prover;
  }
}

static constexpr Form kJoins{.keepsJoins = true}, kPlain,
    kStacked{.takesParts = true, .keepsJoins = true, .sumsByPart = true},
    kParts{.takesParts = true}, kShares{.takesShares = true}, kPieces{.takesPieces = true},
    kFactors{.takesParts = true, .keepsJoins = true, .sumsByPart = true, .takesFactors = true};

FailureOr<Proof> Prover::runInBothForms(ModuleOp global, ModuleOp local,
                                        const ProveOptions &options, bool comparesRanks) {
  if (options.form) {
    constexpr Form kForms[] = {kJoins,
                               kPlain,
                               kStacked,
                               kParts,
                               kShares,
                               kPieces,
                               {.takesShares = true, .takesPieces = true},
                               kFactors};
    std::unique_ptr<Prover> only = runWithCuts(global, local, options, comparesRanks,
                                               kForms[*options.form % std::size(kForms)]);
    if (!only)
      return failure();
    return only->getProof();
  }
  auto isAnswer = [](const Proof &proof) {
    return proof.isProved || proof.isLate || !proof.outOfScope.empty();
  };
  std::unique_ptr<Prover> shares;
  if (mergesBlocks(local) && !mergesBlocks(global)) {
    shares = runWithCuts(global, local, options, comparesRanks, kShares);
    if (!shares)
      return failure();
    if (isAnswer(shares->getProof()))
      return shares->getProof();
  }
  auto numFindings = [](const Prover &prover) { return prover.getProof().findings.size(); };
  std::unique_ptr<Prover> plain = runWithCuts(global, local, options, comparesRanks, kJoins);
  if (plain && plain->keepsJoins() && !isAnswer(plain->getProof())) {
    std::unique_ptr<Prover> parts = runWithCuts(global, local, options, comparesRanks, kPlain);
    if (!parts || numFindings(*parts) <= numFindings(*plain))
      plain = std::move(parts);
  }
  if (!plain)
    return failure();
  if (isAnswer(plain->getProof()))
    return plain->getProof();
  auto take = [&](Form form) {
    std::unique_ptr<Prover> other = runWithCuts(global, local, options, comparesRanks, form);
    if (other && !other->getProof().isLate && numFindings(*other) < numFindings(*plain))
      plain = std::move(other);
    return isAnswer(plain->getProof());
  };
  // A rank's part may begin inside of what is put together, in whatever digits.
  if (((stacks(global) || hasClasses(local)) && take(kStacked)) ||
      (!plain->terms.takesParts() && take(kParts)) ||
      (mayJoinParts(global, local) && !joinsParts(global, local) && take(kPieces)) ||
      (hasStatistics(global) && take(kFactors)))
    return plain->getProof();
  if (!shares && plain->mayBeOfShares())
    shares = runWithCuts(global, local, options, comparesRanks, kShares);
  bool areShares =
      shares && !shares->getProof().isLate && numFindings(*shares) <= numFindings(*plain);
  if (areShares && numFindings(*shares) < numFindings(*plain)) {
    shares->explain(options);
    return shares->getProof();
  }
  // Of two answers the one that says more.
  auto numRepairs = [](const Prover &prover) {
    return size_t(llvm::count_if(prover.getProof().findings,
                                 [](const Finding &finding) { return !finding.repair.empty(); }));
  };
  plain->explain(options);
  if (!areShares || numRepairs(*plain) == numFindings(*plain))
    return plain->getProof();
  shares->explain(options);
  return (numRepairs(*shares) > numRepairs(*plain) ? shares : plain)->getProof();
}
