//===- SplitFunction.cpp - builds the halves of a backward ---------------------===//

#include "lib/backward/SplitFunction.h"

#include "lib/backward/OutputMask.h"
#include "lib/backward/PartBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;
using train::RoleKind;

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
  Splitter(const train::ProgramFunctions &program, func::FuncOp whole, const SplitPlan &plan)
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

  BackwardHalves getHalves() const {
    return {input.function, weight.function, numDivided, numRecomputed};
  }

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
        Operation *clone = cloneInPart(b, &op, input.mapping, isInput);
        if (llvm::any_of(op.getResults(),
                         [&](Value v) { return plan.activationGradients.contains(v); }))
          clone->setAttr(train::kActivationGradientAttrName, UnitAttr::get(context));
      }
      b.setInsertionPointToEnd(&weight.function.front());
      if (llvm::any_of(op.getResults(), isAgain)) {
        Operation *clone = cloneInPart(b, &op, weight.mapping, isAgain);
        clone->setAttr(train::kRecomputedAttrName, UnitAttr::get(context));
        ++numRecomputed;
      }
      if (inWeight)
        cloneInPart(b, &op, weight.mapping, isWeight);
      numDivided += inInput && inWeight;
    }
  }

  func::FuncOp whole;
  const SplitPlan &plan;
  SavedNames names;
  Half input, weight;
  unsigned numDivided = 0, numRecomputed = 0;
  /// What dI gives for dW, with the role of the argument and result.
  SmallVector<std::pair<Value, DictionaryAttr>> byProducts;
};
} // namespace

BackwardHalves cleave::backward::splitFunction(const train::ProgramFunctions &program,
                                               func::FuncOp whole, const SplitPlan &plan) {
  Splitter splitter(program, whole, plan);
  splitter.run();
  return splitter.getHalves();
}
