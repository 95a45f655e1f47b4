//===- SplitBackward.cpp - backward into backward-input and backward-weight --===//

#include "passes/backward/Passes.h"

#include "lib/backward/SplitFunction.h"
#include "lib/backward/SplitPlan.h"
#include "lib/backward/ValueNumbering.h"
#include "lib/backward/VerifySplit.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/Support/FormatVariadic.h"

namespace cleave::backward {
#define GEN_PASS_DEF_SPLITBACKWARD
#define GEN_PASS_DEF_VERIFYSPLITBACKWARD
#include "passes/backward/Passes.h.inc"
} // namespace cleave::backward

using namespace mlir;
using namespace cleave;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

/// The program's backward function, or an error that says how to come by one.
static func::FuncOp findBackward(train::ProgramFunctions &program) {
  if (program.backward)
    return program.backward;
  if (program.microbatch)
    program.microbatch.emitError() << "has no separate backward; run --partition-joint first";
  else if (!program.backwardInput)
    program.forward.emitError() << "has no backward to split";
  else
    program.backwardInput.emitError() << "is half of an already split backward";
  return {};
}

static int64_t countOps(func::FuncOp function) {
  return std::distance(function.front().begin(), function.front().end()) - 1;
}

namespace {
struct SplitBackward : backward::impl::SplitBackwardBase<SplitBackward> {
  using SplitBackwardBase::SplitBackwardBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    if (!program->isStaged()) {
      if (failed(split(*program, *program, "")))
        return signalPassFailure();
    } else {
      for (auto [number, stage] : llvm::enumerate(program->stages))
        if (failed(split(stage, *program, ("stage " + Twine(number) + "\n").str())))
          return signalPassFailure();
    }
    program = train::getProgram(module, train::ProgramForms::Staged);
    if (failed(program) || failed(verifyAll(*program)))
      return signalPassFailure();
  }

  static LogicalResult verifyAll(const train::ProgramFunctions &program) {
    if (!program.isStaged())
      return backward::verifySplit(program);
    for (const train::ProgramFunctions &stage : program.stages)
      if (failed(backward::verifySplit(stage)))
        return failure();
    return success();
  }

private:
  /// Splits the backward of `part`, the program or one of its stages.
  LogicalResult split(train::ProgramFunctions &part, const train::ProgramFunctions &program,
                      StringRef title) {
    func::FuncOp whole = findBackward(part);
    if (!whole)
      return failure();
    // If dI and dW have the same op, the second is a repetition.
    backward::mergeRepeatedOps(whole);
    auto plan =
        backward::planSplit(part, whole, {inputs, recompute == backward::RecomputeLevel::Cheap});
    if (failed(plan))
      return failure();
    std::string table = explain ? describe(whole, **plan) : "";
    backward::BackwardHalves halves = backward::splitFunction(program, whole, **plan);
    part.backward = nullptr;
    part.backwardInput = halves.input;
    part.backwardWeight = halves.weight;
    numInputOps += countOps(halves.input);
    numWeightOps += countOps(halves.weight);
    numDividedOps += halves.numDivided;
    numHeldBytes += (*plan)->memory.totalBytes();
    numRecomputedOps += halves.numRecomputed;
    if (explain) {
      llvm::errs() << title;
      printTable(table, halves);
    }
    return success();
  }

  /// What is held, largest first.
  std::string describe(func::FuncOp whole, const backward::SplitPlan &plan) {
    struct Entry {
      int64_t bytes;
      std::string text;
    };
    SmallVector<Entry> entries;
    llvm::DenseSet<Value> counted;
    for (Value value : plan.held) {
      Value base = memory::getStorage(value);
      if (!counted.insert(base).second)
        continue;
      std::string text;
      llvm::raw_string_ostream stream(text);
      if (auto argument = dyn_cast<BlockArgument>(base)) {
        train::RoleAttr role = train::getArgumentRole(whole, argument.getArgNumber());
        if (role.getKind() != RoleKind::Saved && role.getKind() != RoleKind::Input &&
            role.getKind() != RoleKind::Target)
          continue;
        stream << train::stringifyRoleKind(role.getKind()) << " " << role.getNameOrEmpty();
      } else {
        Operation *op = base.getDefiningOp();
        stream << op->getName();
        if (auto module = dyn_cast<NameLoc>(op->getLoc()))
          stream << " in " << module.getName().getValue();
      }
      stream << ", " << base.getType();
      entries.push_back({memory::getByteSize(base.getType()), stream.str()});
    }
    llvm::stable_sort(entries, [](const Entry &a, const Entry &b) { return a.bytes > b.bytes; });
    std::string table = llvm::formatv(
        "held between the halves, per microbatch: {0} bytes in {1} values\n"
        "  saved by the forward: {2} bytes\n  produced by backward_input: {3} bytes\n",
        plan.memory.totalBytes(), entries.size(), plan.memory.savedBytes,
        plan.memory.byProductBytes);
    constexpr size_t kShown = 10;
    for (const Entry &entry : ArrayRef(entries).take_front(kShown))
      table += llvm::formatv("{0,12}  {1}\n", entry.bytes, entry.text);
    if (entries.size() > kShown)
      table += llvm::formatv("              and {0} more\n", entries.size() - kShown);
    return table;
  }

  static void printTable(StringRef table, const backward::BackwardHalves &halves) {
    llvm::errs() << llvm::formatv("backward_input: {0} ops\nbackward_weight: {1} ops, {2} of them "
                                  "recomputed\ndivided by output mask: {3} ops\n",
                                  countOps(halves.input), countOps(halves.weight),
                                  halves.numRecomputed, halves.numDivided)
                 << table;
  }
};

struct VerifySplitBackward : backward::impl::VerifySplitBackwardBase<VerifySplitBackward> {
  void runOnOperation() override {
    FailureOr<train::ProgramFunctions> program =
        train::getProgram(getOperation(), train::ProgramForms::Staged);
    if (failed(program))
      return signalPassFailure();
    bool isSplit =
        program->isStaged()
            ? llvm::all_of(program->stages,
                           [](const train::ProgramFunctions &s) { return bool(s.backwardInput); })
            : bool(program->backwardInput);
    if (!isSplit) {
      getOperation().emitError() << "expects functions of phases backward_input and "
                                    "backward_weight; run --split-backward first";
      return signalPassFailure();
    }
    if (failed(SplitBackward::verifyAll(*program)))
      return signalPassFailure();
  }
};
} // namespace
