//===- SplitBackward.cpp - backward into backward-input and backward-weight --===//

#include "passes/backward/Passes.h"

#include "lib/backward/HeldValues.h"
#include "lib/backward/OutputMask.h"
#include "lib/backward/PartBuilder.h"
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
// Building the halves
//===----------------------------------------------------------------------===//

namespace {
/// One half of the backward, under construction.
struct Half {
  func::FuncOp function;
  IRMapping mapping;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
  SmallVector<Value> results;

  Half(func::FuncOp whole, train::Phase phase, StringRef suffix) {
    OpBuilder b(whole);
    function = func::FuncOp::create(b, whole.getLoc(), (whole.getName() + suffix).str(),
                                    b.getFunctionType({}, {}));
    for (NamedAttribute attribute : whole->getDiscardableAttrs())
      function->setDiscardableAttr(attribute.getName(), attribute.getValue());
    function->setAttr(train::kPhaseAttrName, train::PhaseAttr::get(b.getContext(), phase));
    function.addEntryBlock();
  }

  void addArgument(Value value, DictionaryAttr attributes) {
    mapping.map(value, function.front().addArgument(value.getType(), value.getLoc()));
    argumentAttributes.push_back(attributes);
  }

  void addResult(Value value, DictionaryAttr attributes) {
    results.push_back(mapping.lookup(value));
    resultTypes.push_back(value.getType());
    resultAttributes.push_back(attributes);
  }

  /// The signature is set once: each change builds all of it again.
  void finish() {
    auto b = OpBuilder::atBlockEnd(&function.front());
    func::ReturnOp::create(b, function.getLoc(), results);
    function.setType(b.getFunctionType(function.front().getArgumentTypes(), resultTypes));
    function.setAllArgAttrs(argumentAttributes);
    function.setAllResultAttrs(resultAttributes);
  }
};

/// Takes a function apart as a plan says.
class Splitter {
public:
  Splitter(const train::ProgramFunctions &program, func::FuncOp whole,
           const backward::SplitPlan &plan)
      : whole(whole), plan(plan), names(program),
        input(whole, train::Phase::BackwardInput, "_input"),
        weight(whole, train::Phase::BackwardWeight, "_weight") {}

  void run() {
    nameByProducts();
    addArguments();
    addOps();
    Operation *terminator = whole.front().getTerminator();
    for (unsigned result : plan.inputResults)
      input.addResult(terminator->getOperand(result), whole.getResultAttrDict(result));
    for (auto &[value, attributes] : byProducts)
      input.addResult(value, attributes);
    for (unsigned result : plan.weightResults)
      weight.addResult(terminator->getOperand(result), whole.getResultAttrDict(result));
    input.finish();
    weight.finish();
    SymbolTable table(whole->getParentOp());
    for (func::FuncOp half : {input.function, weight.function}) {
      half->remove();
      table.insert(half, Block::iterator(whole));
    }
    table.erase(whole);
  }

  func::FuncOp getInput() { return input.function; }
  func::FuncOp getWeight() { return weight.function; }
  unsigned numDivided = 0, numRecomputed = 0;

private:
  train::RoleAttr roleOf(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? train::getArgumentRole(whole, argument.getArgNumber()) : train::RoleAttr();
  }

  /// Whether dW can take the held `value` from where the whole backward takes it. The gradient that
  /// a stage continues, and a buffer that dI updates, are only there while dI runs.
  bool outlivesInput(Value value) const {
    train::RoleAttr role = roleOf(value);
    if (!role || role.getKind() == RoleKind::Gradient ||
        role.getKind() == RoleKind::CrossingGradient)
      return false;
    if (role.getKind() != RoleKind::Buffer)
      return true;
    return llvm::none_of(plan.inputResults, [&](unsigned result) {
      train::RoleAttr updated = train::getResultRole(whole, result);
      return updated.getKind() == RoleKind::Buffer && updated.getName() == role.getName();
    });
  }

  void nameByProducts() {
    MLIRContext *context = whole.getContext();
    for (Value value : plan.held)
      if (!outlivesInput(value)) {
        auto role = train::RoleAttr::get(context, RoleKind::Saved, names.makeName(value));
        NamedAttribute named(StringAttr::get(context, train::kRoleAttrName), role);
        byProducts.emplace_back(value, DictionaryAttr::get(context, named));
      }
  }

  void addArguments() {
    llvm::DenseSet<Value> needed;
    for (Operation &op : whole.front().without_terminator())
      if (plan.input.containsOp(&op))
        needed.insert(op.operand_begin(), op.operand_end());
    for (unsigned result : plan.inputResults)
      needed.insert(whole.front().getTerminator()->getOperand(result));
    for (auto &[value, attributes] : byProducts)
      needed.insert(value);
    for (BlockArgument argument : whole.getArguments()) {
      DictionaryAttr attributes = whole.getArgAttrDict(argument.getArgNumber());
      if (needed.contains(argument))
        input.addArgument(argument, attributes);
      if (plan.held.contains(argument) && outlivesInput(argument))
        weight.addArgument(argument, attributes);
    }
    for (auto &[value, attributes] : byProducts)
      weight.addArgument(value, attributes);
  }

  void addOps() {
    MLIRContext *context = whole.getContext();
    auto b = OpBuilder(context);
    for (Operation &op : whole.front().without_terminator()) {
      auto isInput = [&](Value value) { return plan.input.contains(value); };
      auto isAgain = [&](Value value) { return plan.recomputed.contains(value); };
      auto isWeight = [&](Value value) { return plan.weight.contains(value); };
      bool inInput = llvm::any_of(op.getResults(), isInput);
      bool inWeight = llvm::any_of(op.getResults(), isWeight);
      if (inInput) {
        b.setInsertionPointToEnd(&input.function.front());
        Operation *clone = backward::cloneInPart(b, &op, input.mapping, isInput);
        if (llvm::any_of(op.getResults(),
                         [&](Value v) { return plan.activationGradients.contains(v); }))
          clone->setAttr(train::kActivationGradientAttrName, UnitAttr::get(context));
      }
      b.setInsertionPointToEnd(&weight.function.front());
      if (llvm::any_of(op.getResults(), isAgain)) {
        Operation *clone = backward::cloneInPart(b, &op, weight.mapping, isAgain);
        clone->setAttr(train::kRecomputedAttrName, UnitAttr::get(context));
        ++numRecomputed;
      }
      if (inWeight)
        backward::cloneInPart(b, &op, weight.mapping, isWeight);
      numDivided += inInput && inWeight;
    }
  }

  func::FuncOp whole;
  const backward::SplitPlan &plan;
  backward::SavedNames names;
  Half input, weight;
  /// What dI gives for dW, with the role of the argument and result.
  SmallVector<std::pair<Value, DictionaryAttr>> byProducts;
};
} // namespace

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
    Splitter splitter(program, whole, **plan);
    splitter.run();
    part.backward = nullptr;
    part.backwardInput = splitter.getInput();
    part.backwardWeight = splitter.getWeight();
    numInputOps += countOps(splitter.getInput());
    numWeightOps += countOps(splitter.getWeight());
    numDividedOps += splitter.numDivided;
    numHeldBytes += (*plan)->memory.totalBytes();
    numRecomputedOps += splitter.numRecomputed;
    if (explain) {
      llvm::errs() << title;
      printTable(table, splitter);
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

  void printTable(StringRef table, Splitter &splitter) {
    llvm::errs() << llvm::formatv("backward_input: {0} ops\nbackward_weight: {1} ops, {2} of them "
                                  "recomputed\ndivided by output mask: {3} ops\n",
                                  countOps(splitter.getInput()), countOps(splitter.getWeight()),
                                  splitter.numRecomputed, splitter.numDivided)
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
