//===- ModuleStyles.cpp - tensor, sequence and expert parallel modules ------===//
//
// A style cuts one *factor* (ShardingRule.h) of a module's ops: the dimension of a weight that is
// its output or input, the sequence of its activations. How each op then takes its operands and
// makes its results follows from its sharding rule, in the forward as in both products of the
// backward, and whichever way round the weight is stored.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/plan/Apply.h"

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/View.h"
#include "dialects/sharding/ShardingRule.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::FactorId;
using sharding::ShardingRule;
using Strength = Annotations::Strength;

bool placement::isNameIn(StringRef path, StringRef pattern, bool directly) {
  while (true) {
    size_t dot = path.rfind('.');
    path = dot == StringRef::npos ? "" : path.take_front(dot);
    if (path.empty())
      return false;
    if (matchesPath(pattern, path))
      return true;
    if (directly)
      return false;
  }
}

bool PlanApplier::Parameter::isIn(StringRef pattern, bool directly) const {
  return isNameIn(name, pattern, directly) ||
         llvm::any_of(aliases, [&](StringRef alias) { return isNameIn(alias, pattern, directly); });
}

bool placement::isInModules(Operation *op, StringRef pattern) {
  for (StringRef path = getModulePath(op->getLoc()); !path.empty();
       path = path.take_front(path.contains('.') ? path.rfind('.') : 0))
    if (matchesPath(pattern, path))
      return true;
  return false;
}

bool PlanApplier::isCallerOf(const Parameter &parameter, Operation *op) const {
  StringRef caller = getModulePath(op->getLoc());
  auto isWithin = [&](StringRef path) {
    return path.consume_front(caller) && (caller.empty() || path.starts_with("."));
  };
  return isWithin(parameter.name) || llvm::any_of(parameter.aliases, isWithin);
}

static bool isTensor(Type type) {
  return isa<RankedTensorType>(type);
}

static std::optional<FactorId> leadingFactor(const ShardingRule &rule,
                                             const sharding::TensorFactors &tensor, int64_t dim) {
  if (rule.isOpaque() || dim >= static_cast<int64_t>(tensor.size()))
    return std::nullopt;
  ArrayRef<FactorId> factors = rule.leadingFactors(tensor[dim]);
  return factors.empty() ? std::nullopt : std::optional(factors.back());
}

/// Whether a factor of an operand is missing in a result: a contraction, a sum, a look-up.
static bool reduces(const ShardingRule &rule) {
  for (FactorId factor = 0; factor < rule.factors.size(); ++factor)
    for (const sharding::TensorFactors &result : rule.results)
      if (rule.factors[factor].size > 1 && !ShardingRule::contains(result, factor) &&
          !result.empty())
        return true;
  return false;
}

/// What an op is to do with its operands and results where `factor` is cut along an axis.
static LogicalResult cutFactor(Operation *op, const ShardingRule &sharding, FactorId factor,
                               const PlanRule &rule, Annotations &annotations) {
  const sharding::Factor &cut = sharding.factors[factor];
  auto place = [&](Site site, AxisPlacement placement) {
    return annotations.place(site, rule.axis, placement, rule);
  };
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (!isTensor(operand.get().getType()) || llvm::is_contained(sharding.shapeOnly, number))
      continue;
    if (std::optional<unsigned> dim = sharding.leadingDim(sharding.operands[number], factor)) {
      if (failed(place(&operand, AxisPlacement::shard(*dim))))
        return failure();
    } else if (!cut.isWhole() && !llvm::is_contained(cut.addends, number) &&
               !ShardingRule::contains(sharding.operands[number], factor)) {
      // For a whole factor, only a form of the op determines the other operands.
      if (failed(place(&operand, AxisPlacement::replicate())))
        return failure();
    }
  }
  for (OpResult result : op->getResults()) {
    unsigned number = result.getResultNumber();
    if (!isTensor(result.getType()))
      continue;
    if (std::optional<unsigned> dim = sharding.leadingDim(sharding.results[number], factor)) {
      if (failed(place(Value(result), AxisPlacement::shard(*dim))))
        return failure();
    } else if (!cut.isWhole() && !ShardingRule::contains(sharding.results[number], factor)) {
      sharding::FactorReduction reduction = sharding.reductionAt(factor, number);
      if (reduction != sharding::FactorReduction::None &&
          reduction != sharding::FactorReduction::Sum)
        continue;
      if (failed(place(Value(result), reduction == sharding::FactorReduction::Sum
                                          ? AxisPlacement::partial()
                                          : AxisPlacement::replicate())))
        return failure();
    }
  }
  return success();
}

namespace {
/// An op that uses or makes a parameter's dimension, and the factor that it is there.
struct Reached {
  Operation *op;
  /// The operand, or the result, that is the parameter or its gradient.
  unsigned number;
  FactorId factor;
};
} // namespace

/// Whether an op joins tensors that lie alike, as a stack of experts' weights does: what is cut in
/// one is cut in all of them.
static bool joinsAlike(Operation *op, const ShardingRule &rule, unsigned number) {
  const sharding::TensorFactors &factors = rule.operands[number];
  return factors.size() > 1 && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
           return isTensor(operand.get().getType()) &&
                  rule.operands[operand.getOperandNumber()] == factors;
         });
}

/// The ops that really compute with dimension `dim` of a weight: after views and casts of it, and
/// after what joins it with weights that lie alike.
static void findUses(Value weight, int64_t dim, SmallVectorImpl<Reached> &uses) {
  for (OpOperand &use : weight.getUses()) {
    Operation *op = use.getOwner();
    if (op->hasTrait<OpTrait::IsTerminator>())
      continue;
    ShardingRule rule = sharding::getShardingRule(op);
    std::optional<FactorId> factor =
        rule.isOpaque() ? std::nullopt
                        : leadingFactor(rule, rule.operands[use.getOperandNumber()], dim);
    if (!factor)
      continue;
    if (reduces(rule) || (llvm::count_if(op->getOperandTypes(), isTensor) > 1 &&
                          !joinsAlike(op, rule, use.getOperandNumber()))) {
      uses.push_back({op, use.getOperandNumber(), *factor});
      continue;
    }
    for (OpResult result : op->getResults())
      if (std::optional<unsigned> at =
              rule.leadingDim(rule.results[result.getResultNumber()], *factor))
        findUses(result, *at, uses);
  }
}

/// The ops that really compute dimension `dim` of a gradient: before views, casts and sums.
static void findProducers(Value gradient, int64_t dim, SmallVectorImpl<Reached> &producers) {
  auto result = dyn_cast<OpResult>(gradient);
  if (!result)
    return;
  Operation *op = result.getOwner();
  ShardingRule rule = sharding::getShardingRule(op);
  std::optional<FactorId> factor =
      rule.isOpaque() ? std::nullopt
                      : leadingFactor(rule, rule.results[result.getResultNumber()], dim);
  if (!factor)
    return;
  if (reduces(rule)) {
    producers.push_back({op, result.getResultNumber(), *factor});
    return;
  }
  for (OpOperand &operand : op->getOpOperands())
    if (isTensor(operand.get().getType()))
      if (std::optional<unsigned> at =
              rule.leadingDim(rule.operands[operand.getOperandNumber()], *factor))
        findProducers(operand.get(), *at, producers);
}

bool PlanApplier::isCalled(const Parameter &parameter, StringRef pattern) const {
  SmallVector<Reached> uses;
  for (Value value : parameter.values)
    for (int64_t dim = 0; dim < parameter.type.getRank(); ++dim)
      findUses(value, dim, uses);
  return llvm::any_of(uses, [&](const Reached &use) { return isInModules(use.op, pattern); });
}

bool PlanApplier::isOwnUse(const Parameter &parameter, bool called, Operation *op,
                           StringRef pattern) const {
  return called ? isInModules(op, pattern) : isCallerOf(parameter, op);
}

LogicalResult PlanApplier::cutParameter(const Parameter &parameter, int64_t dim,
                                        const PlanRule &rule) {
  SmallVector<Reached> reached;
  bool called = isCalled(parameter, rule.pattern);
  for (Value value : parameter.values) {
    if (failed(annotations.place(value, rule.axis, AxisPlacement::shard(dim), rule)))
      return failure();
    if (llvm::is_contained(functions, value.getParentBlock()->getParentOp()))
      findUses(value, dim, reached);
  }
  for (OpOperand *updated : parameter.updated)
    if (failed(annotations.place(updated, rule.axis, AxisPlacement::shard(dim), rule)))
      return failure();
  for (Value gradient : parameter.gradients)
    findProducers(gradient, dim, reached);
  for (const Reached &use : reached)
    if (isOwnUse(parameter, called, use.op, rule.pattern) &&
        failed(cutFactor(use.op, sharding::getShardingRule(use.op), use.factor, rule, annotations)))
      return failure();
  return success();
}

LogicalResult PlanApplier::replicateParameter(const Parameter &parameter, const PlanRule &rule,
                                              Strength strength) {
  for (Value value : parameter.values)
    if (failed(annotations.place(value, rule.axis, AxisPlacement::replicate(), rule, strength)))
      return failure();
  for (OpOperand *updated : parameter.updated)
    if (failed(annotations.place(updated, rule.axis, AxisPlacement::replicate(), rule, strength)))
      return failure();
  return success();
}

/// The dimension of a weight that an op's result has from it alone (its output), or that its result
/// lacks (its input).
static std::optional<int64_t> findDim(ArrayRef<Value> values, RankedTensorType type, bool output,
                                      llvm::function_ref<bool(Operation *)> isInModule) {
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    SmallVector<Reached> uses;
    for (Value value : values)
      findUses(value, dim, uses);
    for (const Reached &use : uses) {
      if (!isInModule(use.op) || use.op->hasAttr(train::kBackwardAttrName))
        continue;
      ShardingRule rule = sharding::getShardingRule(use.op);
      bool kept = ShardingRule::contains(rule.results[0], use.factor);
      if (kept != output)
        continue;
      // A dimension that another operand of its rank has too counts stacked weights.
      bool shared = kept && llvm::any_of(llvm::enumerate(rule.operands), [&](auto other) {
                      return other.index() != use.number && other.value().size() > 1 &&
                             ShardingRule::contains(other.value(), use.factor);
                    });
      if (!shared)
        return dim;
    }
  }
  return std::nullopt;
}

LogicalResult PlanApplier::applyTensorParallel(const PlanRule &rule) {
  bool output = rule.style == Style::Colwise, matched = false;
  for (const Parameter &parameter : parameters) {
    if (!parameter.isIn(rule.pattern, /*directly=*/true))
      continue;
    if (parameter.type.getRank() < 2) {
      // A bias: of the output.
      if (failed(output ? cutParameter(parameter, 0, rule)
                        : replicateParameter(parameter, rule, Strength::Explicit)))
        return failure();
      continue;
    }
    bool called = isCalled(parameter, rule.pattern);
    std::optional<int64_t> dim =
        findDim(parameter.values, parameter.type, output,
                [&](Operation *op) { return isOwnUse(parameter, called, op, rule.pattern); });
    if (!dim)
      return fail(rule)
             << "expects modules that multiply by their weights or look rows up in them, "
                "to cut them along the "
             << (output ? "output" : "input") << ", but parameter \"" << parameter.name
             << "\" of type " << parameter.type << " has no such dimension";
    matched = true;
    if (failed(cutParameter(parameter, *dim, rule)))
      return failure();
  }
  if (!matched)
    return fail(rule) << "matches no module with weights to cut: '" << rule.pattern << "'; "
                      << listModules();
  return success();
}

/// Casts and transposes of experts' weights take a rank's experts, too: fully sharded parameters
/// would be gathered there, for each use.
LogicalResult PlanApplier::keepCut(const Parameter &parameter, const PlanRule &rule) {
  for (Value value : parameter.values)
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (!llvm::is_contained(functions, op->getParentOp()) || !isInModules(op, rule.pattern))
        continue;
      ShardingRule sharding = sharding::getShardingRule(op);
      if (leadingFactor(sharding, sharding.operands[use.getOperandNumber()], 0) &&
          failed(annotations.place(&use, rule.axis, AxisPlacement::shard(0), rule)))
        return failure();
    }
  return success();
}

void placement::findGroupedProducts(Value weight, SmallVectorImpl<OpOperand *> &products) {
  for (OpOperand &use : weight.getUses()) {
    Operation *op = use.getOwner();
    if (isa<aten::GroupedMmOp>(op) && use.getOperandNumber() == 1 &&
        cast<RankedTensorType>(weight.getType()).getRank() == 3)
      products.push_back(&use);
    else if (isa<aten::StackOp, aten::TransposeOp, aten::TOp, aten::ToCopyOp, aten::CloneOp,
                 aten::UnsqueezeOp, aten::ExpandOp, aten::ViewOp, aten::UnsafeViewOp>(op))
      findGroupedProducts(op->getResult(0), products);
  }
}

FailureOr<bool> PlanApplier::cutStacked(const Parameter &parameter, const PlanRule &rule) {
  dist::MeshOp op = mesh;
  int64_t ranks = op.findAxis(rule.axis).getSize();
  SmallVector<OpOperand *> products, stacked;
  for (Value value : parameter.values)
    if (llvm::is_contained(functions, value.getParentBlock()->getParentOp()))
      for (OpOperand &use : value.getUses())
        if (auto stack = dyn_cast<aten::StackOp>(use.getOwner());
            stack && stack.getDim().value_or(0) == 0) {
          size_t before = products.size();
          findGroupedProducts(stack.getResult(), products);
          if (products.size() > before)
            stacked.push_back(&use);
        }
  if (stacked.empty())
    return false;
  for (OpOperand *product : products)
    if (!product->getOwner()->hasAttr(dist::kPartsAttr))
      return fail(rule) << "divides experts that are modules of their own, parameter \""
                        << parameter.name
                        << "\" among them, only where ranks exchange rows: give it a capacity";
  auto sizes = parameter.type.getShape();
  const int64_t *dim = llvm::find_if(sizes, [&](int64_t size) { return size % ranks == 0; });
  int64_t experts = stacked.front()->getOwner()->getNumOperands();
  if (dim == sizes.end() || experts % ranks)
    return fail(rule) << "expects " << ranks << " ranks to divide the " << experts
                      << " experts and a dimension of each weight, found parameter \""
                      << parameter.name << "\" of type " << parameter.type;
  auto part = AxisPlacement::shard(dim - sizes.begin());
  for (Value value : parameter.values)
    if (failed(annotations.place(value, rule.axis, part, rule)))
      return failure();
  for (OpOperand *use : llvm::concat<OpOperand *const>(parameter.updated, stacked))
    if (failed(annotations.place(use, rule.axis, part, rule)))
      return failure();
  return true;
}

LogicalResult PlanApplier::applyExpert(const PlanRule &rule) {
  bool matched = false;
  for (const Parameter &parameter : parameters) {
    if (!parameter.isIn(rule.pattern, /*directly=*/false))
      continue;
    if (parameter.type.getRank() < 3) {
      FailureOr<bool> isStacked = cutStacked(parameter, rule);
      if (failed(isStacked))
        return failure();
      matched |= *isStacked;
      continue;
    }
    matched = true;
    if (failed(cutParameter(parameter, 0, rule)) || failed(keepCut(parameter, rule)))
      return failure();
  }
  if (!matched)
    return fail(rule) << "matches no module with stacked experts, parameters of three dimensions "
                         "of which the first counts experts: '"
                      << rule.pattern
                      << "'; nor does the program stack weights of modules there (aten.stack) for "
                         "products by expert: divide such experts within, by colwise and rowwise; "
                      << listModules();
  return success();
}

LogicalResult PlanApplier::applySequence(const PlanRule &rule) {
  int64_t dim = rule.dim.value_or(1);
  if (dim < 0)
    return fail(rule) << "expects a non-negative sequence dimension, found " << dim;
  bool matched = false, inModule = false;
  for (const Parameter &parameter : parameters)
    if (parameter.isIn(rule.pattern, /*directly=*/false) &&
        failed(replicateParameter(parameter, rule, Strength::Explicit)))
      return failure();
  for (func::FuncOp function : functions) {
    for (Operation &op : function.front().without_terminator()) {
      if (!isInModules(&op, rule.pattern))
        continue;
      inModule = true;
      ShardingRule sharding = sharding::getShardingRule(&op);
      // Activations have features after the sequence.
      auto isActivation = [&](Type type) {
        auto tensor = dyn_cast<RankedTensorType>(type);
        return tensor && tensor.getRank() > dim + 1 && tensor.getDimSize(dim) > 1;
      };
      std::optional<FactorId> factor;
      for (OpOperand &operand : op.getOpOperands())
        if (!factor && isActivation(operand.get().getType()))
          factor = leadingFactor(sharding, sharding.operands[operand.getOperandNumber()], dim);
      for (OpResult result : op.getResults())
        if (!factor && isActivation(result.getType()))
          factor = leadingFactor(sharding, sharding.results[result.getResultNumber()], dim);
      if (!factor)
        continue;
      if (const char *reason = sharding.factors[*factor].wholeReason)
        return op.emitError() << rule.where() << " cannot divide '" << op.getName()
                              << "' along the sequence, dimension " << dim << ", because "
                              << reason;
      matched = true;
      if (failed(cutFactor(&op, sharding, *factor, rule, annotations)))
        return failure();
    }
  }
  if (matched)
    return success();
  if (!inModule)
    return fail(rule) << "matches no module: '" << rule.pattern << "'";
  return fail(rule) << "expects modules '" << rule.pattern
                    << "' to have activations with a sequence in dimension " << dim
                    << " and features behind it; there are none";
}
