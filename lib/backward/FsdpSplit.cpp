//===- FsdpSplit.cpp - FSDP once per step -------------------------------------===//

#include "lib/backward/FsdpSplit.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Verify.h"
#include "lib/backward/FsdpChains.h"
#include "lib/backward/PhaseFunction.h"
#include "lib/backward/ReduceLast.h"
#include "lib/backward/SignatureEditor.h"
#include "lib/backward/ValueNumbering.h"
#include "lib/memory/MemoryPlan.h"

#include "mlir/IR/IRMapping.h"

#include <deque>

using namespace mlir;
using namespace cleave;
using train::RoleKind;

using backward::getReturn;
using backward::SignatureEditor;

/// Clones what makes `value`, down to arguments that `mapping` has, and returns the clone.
static Value cloneChain(OpBuilder &b, Value value, IRMapping &mapping,
                        llvm::function_ref<void(BlockArgument)> mapArgument) {
  if (Value there = mapping.lookupOrNull(value))
    return there;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    mapArgument(argument);
    return mapping.lookup(value);
  }
  for (Value operand : value.getDefiningOp()->getOperands())
    (void)cloneChain(b, operand, mapping, mapArgument);
  b.clone(*value.getDefiningOp(), mapping);
  return mapping.lookup(value);
}

//===----------------------------------------------------------------------===//
// Gathering parameters
//===----------------------------------------------------------------------===//

namespace {
/// Moves parameters' gathers to a function of phase unshard.
class Unsharder {
public:
  /// For `program`, the whole or one stage. `taken` are the names of values in all of it.
  Unsharder(const train::ProgramFunctions &program, llvm::StringSet<> &taken, OpBuilder &b)
      : program(program), b(b), taken(taken) {}

  void run() {
    keepChainsTogether();
    // Numbers before anything moves: the same gather in two functions is one.
    SmallVector<func::FuncOp, 3> functions = program.getMicrobatchFunctions();
    for (func::FuncOp function : functions)
      numbering.add(function);
    for (func::FuncOp function : functions)
      moveGathers(function);
    if (unshard)
      unshard->commit();
  }

  func::FuncOp getFunction() const { return unshard ? unshard->getFunction() : func::FuncOp(); }
  unsigned numGathers = 0;
  int64_t heldBytes = 0;

private:
  /// Where one function saves a gathered parameter (or a view of it) for another, lets the other
  /// make it from the parameter, so that every function has its chains to itself.
  void keepChainsTogether() {
    SmallVector<func::FuncOp, 3> functions = program.getMicrobatchFunctions();
    for (func::FuncOp producer : functions) {
      backward::ParameterChains chains(producer);
      std::deque<SignatureEditor> signatures;
      for (func::FuncOp function : functions)
        signatures.emplace_back(function);
      for (unsigned i = producer.getNumResults(); i-- > 0;) {
        train::RoleAttr role = train::getResultRole(producer, i);
        Value value = getReturn(producer).getOperand(i);
        if (role.getKind() != RoleKind::Saved || !chains.isGathered(value))
          continue;
        for (SignatureEditor &signature : signatures) {
          if (BlockArgument saved = signature.findArgument(RoleKind::Saved, role.getName()))
            makeAgain(producer, value, signature, saved);
          if (signature.getFunction() == producer)
            signature.eraseResult(i);
        }
      }
      for (SignatureEditor &signature : signatures)
        signature.commit();
    }
  }

  void makeAgain(func::FuncOp producer, Value value, SignatureEditor &consumer,
                 BlockArgument saved) {
    auto inner = OpBuilder::atBlockBegin(&consumer.getFunction().front());
    IRMapping mapping;
    Value again = cloneChain(inner, value, mapping, [&](BlockArgument argument) {
      train::RoleAttr role = train::getArgumentRole(producer, argument.getArgNumber());
      BlockArgument own = consumer.findArgument(role.getKind(), role.getName());
      if (!own)
        own = consumer.addArgument(argument.getType(), role, argument.getLoc());
      mapping.map(argument, own);
    });
    saved.replaceAllUsesWith(again);
    consumer.eraseArgument(saved);
  }

  void moveGathers(func::FuncOp function) {
    backward::ParameterChains chains(function);
    llvm::SetVector<Value> needed = chains.needed();
    SignatureEditor signature(function);
    // Everything is copied before anything is replaced: one of the values may be made of another.
    SmallVector<std::string> names;
    for (Value value : needed) {
      auto [name, isNew] = saved.try_emplace(numbering.lookup(value));
      if (isNew)
        name->second = addToUnshard(function, value, chains.getParameter(value));
      names.push_back(name->second);
    }
    for (auto [needed, name] : llvm::zip_equal(needed.getArrayRef(), names)) {
      Value value = needed;
      auto role = train::RoleAttr::get(b.getContext(), RoleKind::Saved, name);
      BlockArgument whole = signature.findArgument(RoleKind::Saved, role.getName());
      if (!whole)
        whole = signature.addArgument(value.getType(), role, value.getLoc());
      value.replaceAllUsesWith(whole);
    }
    eraseUnused(signature, chains);
    signature.commit();
  }

  std::string addToUnshard(func::FuncOp function, Value value, train::RoleAttr parameter) {
    if (!unshard)
      unshard.emplace(backward::makePhaseFunction(b, function, train::Phase::Unshard));
    auto inner = OpBuilder(getReturn(unshard->getFunction()));
    IRMapping &mapping = mappings[function];
    Value whole = cloneChain(inner, value, mapping, [&](BlockArgument argument) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      BlockArgument own = unshard->findArgument(role.getKind(), role.getName());
      if (!own)
        own = unshard->addArgument(argument.getType(), role, argument.getLoc());
      mapping.map(argument, own);
    });
    std::string name = ("unshard." + parameter.getNameOrEmpty()).str(), unique = name;
    for (unsigned i = 1; !taken.insert(unique).second; ++i)
      unique = (Twine(name) + "." + Twine(i)).str();
    unshard->addResult(whole, train::RoleAttr::get(b.getContext(), RoleKind::Saved, unique));
    heldBytes += memory::getByteSize(whole.getType());
    return unique;
  }

  /// Erases ops of chains that have lost their uses, and then the parameters that have.
  void eraseUnused(SignatureEditor &signature, const backward::ParameterChains &chains) {
    Block &body = signature.getFunction().front();
    llvm::SmallDenseSet<Value> before;
    for (BlockArgument argument : body.getArguments())
      if (argument.use_empty())
        before.insert(argument);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.getNumResults() != 0 && chains.contains(op.getResult(0)) && op.use_empty()) {
        numGathers += isa<dist::AllGatherOp>(op);
        op.erase();
      }
    for (BlockArgument argument : body.getArguments())
      if (argument.use_empty() && !before.contains(argument) &&
          signature.getRole(argument).getKind() == RoleKind::Parameter)
        signature.eraseArgument(argument);
  }

  const train::ProgramFunctions &program;
  OpBuilder &b;
  std::optional<SignatureEditor> unshard; ///< if there are gathers
  backward::ValueNumbering numbering;
  llvm::StringSet<> &taken;                    ///< names of saved values
  llvm::DenseMap<unsigned, std::string> saved; ///< by number
  llvm::DenseMap<Operation *, IRMapping> mappings;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reducing gradients
//===----------------------------------------------------------------------===//

static Type withElement(Type type, Type element) {
  if (auto future = dyn_cast<dist::FutureType>(type))
    return dist::FutureType::get(type.getContext(), withElement(future.getValueType(), element));
  return cast<RankedTensorType>(type).clone(element);
}

static Type elementOf(Value value) {
  return cast<RankedTensorType>(dist::valueTypeOf(value.getType())).getElementType();
}

static Value castTo(OpBuilder &b, Value value, Type element) {
  if (elementOf(value) == element)
    return value;
  OperationState state(value.getLoc(), "aten._to_copy");
  state.addOperands(value);
  state.addTypes(withElement(value.getType(), element));
  state.addAttribute("dtype", TypeAttr::get(element));
  return b.create(state)->getResult(0);
}

namespace {
/// Moves gradients' reductions to a function of phase reduce. What a microbatch gives, and the
/// accumulator with it, is from then on the whole gradient of the rank, before its reduction.
class Reducer {
public:
  explicit Reducer(OpBuilder &b) : b(b) {}

  void run(func::FuncOp function, const backward::GradientResults &results) {
    backward::reduceLast(function, results);
    SmallVector<backward::GradientChain> chains = backward::findGradientChains(function, results);
    llvm::SetVector<Operation *> moved;
    for (const backward::GradientChain &chain : chains)
      moved.insert(chain.ops.begin(), chain.ops.end());
    if (moved.empty())
      return;
    if (!reduce)
      reduce.emplace(backward::makePhaseFunction(b, function, train::Phase::Reduce));
    for (backward::GradientChain &chain : chains)
      accumulateBefore(function, chain);
    function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                       getReturn(function)->getOperandTypes()));
    auto inner = OpBuilder(getReturn(reduce->getFunction()));
    for (Operation &op : function.front())
      if (moved.contains(&op))
        moveOp(inner, &op);
    for (const Reduced &reduced : pending) {
      Value value = castTo(inner, mapping.lookup(reduced.gradient), reduced.element);
      reduce->addResult(value, reduced.role);
    }
    reduce->commit();
    pending.clear();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (moved.contains(&op))
        op.erase();
  }

  func::FuncOp getFunction() const { return reduce ? reduce->getFunction() : func::FuncOp(); }
  unsigned numReductions = 0;
  int64_t addedBytes = 0;

private:
  struct Reduced {
    Value gradient; ///< in the microbatch's function, reduced
    train::RoleAttr role;
    Type element; ///< in which the function returns it, added up
  };

  /// Lets the function accumulate and return what its chain starts from; its type is set later.
  void accumulateBefore(func::FuncOp function, backward::GradientChain &chain) {
    train::RoleAttr role = train::getResultRole(function, chain.result);
    func::ReturnOp terminator = getReturn(function);
    Value gradient = terminator.getOperand(chain.result);
    Type element = elementOf(gradient);
    if (chain.accumulate)
      gradient = cast<train::AccumulateOp>(chain.accumulate).getGradient();
    OpBuilder inner(terminator);
    inner.setInsertionPointAfterValue(chain.start);
    Value start = chain.start;
    int64_t before = memory::getByteSize(gradient.getType());
    if (chain.accumulate) {
      // Sums of many microbatches are kept no less precisely than they were.
      auto accumulate = cast<train::AccumulateOp>(chain.accumulate);
      Type element = elementOf(accumulate.getAccumulator());
      if (dist::getElementBits(element) > dist::getElementBits(elementOf(start)))
        start = castTo(inner, start, element);
      auto accumulator = cast<BlockArgument>(accumulate.getAccumulator());
      accumulator.setType(start.getType());
      auto sum = train::AccumulateOp::create(inner, accumulate.getLoc(), start, accumulator);
      terminator->setOperand(chain.result, sum);
      accumulate.erase();
      chain.accumulate = sum;
    } else {
      terminator->setOperand(chain.result, start);
    }
    Value returned = terminator.getOperand(chain.result);
    mapping.map(chain.start, reduce->addArgument(returned.getType(), role, returned.getLoc()));
    pending.push_back({gradient, role, element});
    addedBytes += memory::getByteSize(returned.getType()) - before;
  }

  /// Clones an op of the chains, which may now work on a wider element type.
  void moveOp(OpBuilder &inner, Operation *op) {
    numReductions += isa<dist::ReduceScatterOp, dist::AllReduceOp>(op);
    auto aten = dyn_cast<aten::AtenOpInterface>(op);
    if (aten && aten.getSchemaName() == "aten::_to_copy" &&
        elementOf(mapping.lookup(op->getOperand(0))) == elementOf(op->getResult(0))) {
      mapping.map(op->getResult(0), mapping.lookup(op->getOperand(0)));
      return;
    }
    bool isCast = aten && aten.getSchemaName() == "aten::_to_copy";
    Operation *clone = inner.clone(*op, mapping);
    if (isCast)
      return;
    for (auto [result, operand] : llvm::zip_equal(clone->getResults(), clone->getOperands()))
      result.setType(withElement(result.getType(), elementOf(operand)));
  }

  OpBuilder &b;
  std::optional<SignatureEditor> reduce; ///< if there are reductions
  IRMapping mapping;
  SmallVector<Reduced> pending;
};
} // namespace

llvm::StringSet<> backward::listResultNames(const train::ProgramFunctions &program) {
  llvm::StringSet<> names;
  for (func::FuncOp function : program.getFunctions())
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      names.insert(train::getResultRole(function, i).getNameOrEmpty());
  return names;
}

FailureOr<backward::FsdpSplit>
backward::splitFsdpCollectives(const train::ProgramFunctions &program, size_t number,
                               llvm::StringSet<> &names, const FsdpSplitOptions &options) {
  const train::ProgramFunctions &part = program.getParts()[number];
  for (func::FuncOp there : {part.unshard, part.reduce})
    if (there)
      return there.emitError()
             << "already exists; communication once per step cannot be added to it";
  SmallVector<func::FuncOp, 3> functions = part.getMicrobatchFunctions();
  OpBuilder b(functions.front());
  Unsharder unsharder(part, names, b);
  if (options.unshard)
    unsharder.run();
  b.setInsertionPointAfter(functions.back());
  // Parameters that only the new function takes are the program's all the same.
  train::ProgramFunctions known = program;
  (known.isStaged() ? known.stages[number] : known).unshard = unsharder.getFunction();
  Reducer reducer(b);
  if (options.reduce)
    for (func::FuncOp function : functions) {
      FailureOr<GradientResults> results = sortResults(known, function);
      if (failed(results))
        return failure();
      reducer.run(function, *results);
    }
  return FsdpSplit{unsharder.getFunction(), reducer.getFunction(), unsharder.numGathers,
                   reducer.numReductions,   unsharder.heldBytes,   reducer.addedBytes};
}
