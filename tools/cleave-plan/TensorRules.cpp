// Which modules Megatron's tensor parallelism divides, and how.
#include "tools/cleave-plan/Source.h"

#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "lib/aten/OpCost.h"
#include "lib/placement/plan/Apply.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

std::string plan::getModules(StringRef parameter, StringRef layers) {
  StringRef module = parameter.contains('.') ? parameter.rsplit('.').first : parameter;
  StringRef rest = module;
  if (layers.empty() || !rest.consume_front(layers) || !rest.consume_front("."))
    return module.str();
  auto [number, inside] = rest.split('.');
  return (layers + ".*" + (inside.empty() ? "" : "." + inside)).str();
}

namespace {
class RuleFinder {
public:
  RuleFinder(func::FuncOp microbatch, StringRef layers) : microbatch(microbatch), layers(layers) {}

  std::vector<TensorRule> run() {
    for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
      train::RoleAttr role = train::getArgumentRole(microbatch, index);
      Value value = microbatch.getArgument(index);
      if (role && role.getKind() == train::RoleKind::Parameter)
        parameters[value] = role.getNameOrEmpty();
      if (role && role.getKind() == train::RoleKind::Input)
        computed.insert(value);
    }
    for (Operation &op : microbatch.front().without_terminator())
      if (!op.hasAttr(train::kBackwardAttrName))
        visit(&op);
    if (conflicts)
      return {};
    return std::move(rules);
  }

private:
  void add(StringRef parameter, StringRef style, int64_t size = 0) {
    std::string modules = getModules(parameter, layers);
    auto found =
        llvm::find_if(rules, [&](const TensorRule &rule) { return rule.modules == modules; });
    if (found == rules.end()) {
      rules.push_back({modules, style.str(), size});
      return;
    }
    found->size = std::gcd(found->size, size);
    if (found->style != style)
      conflicts |= style != "sequence" && found->style != "sequence";
  }

  /// Of a product with a parameter, the dimension that is summed, or that makes columns.
  static int64_t getSize(Operation *op, Value matrix, bool isSummed) {
    auto weight = cast<RankedTensorType>(matrix.getType());
    if (isa<aten::ConvolutionOp>(op)) // [columns, summed, ...]
      return weight.getDimSize(isSummed ? 1 : 0);
    const int64_t columns = cast<RankedTensorType>(op->getResult(0).getType()).getShape().back();
    return isSummed && columns > 0 ? weight.getNumElements() / columns : columns;
  }

  /// Convolutions in groups, such as depthwise ones: their weights cannot be cut.
  static bool isGrouped(Operation *op) {
    auto convolution = dyn_cast<aten::ConvolutionOp>(op);
    return convolution && convolution.getGroups() > 1;
  }

  void visit(Operation *op) {
    StringRef matrix, vector;
    Value weight;
    bool takesValues = false, takesSplit = false, takesComputed = false;
    unsigned numParameters = 0;
    for (Value operand : op->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      auto parameter = parameters.find(operand);
      if (parameter != parameters.end()) {
        ++numParameters;
        const bool isMatrix = type && type.getRank() > 1;
        (isMatrix ? matrix : vector) = parameter->second;
        weight = isMatrix ? operand : weight;
        continue;
      }
      takesValues |= bool(type);
      takesSplit |= split.contains(operand);
      takesComputed |= computed.contains(operand);
    }
    if (numParameters == 1 && !takesValues) {
      for (Value result : op->getResults())
        parameters[result] = matrix.empty() ? vector : matrix;
      return;
    }
    bool isSplit = takesSplit;
    if (isGrouped(op)) {
      // Its weight is whole, whatever its input.
      isSplit = false;
    } else if (!matrix.empty() && aten::describeWork(op).kind == cost::OpWork::Product) {
      isSplit = !takesSplit;
      if (!embeddings.contains(matrix))
        add(matrix, takesSplit ? "rowwise" : "colwise", getSize(op, weight, takesSplit));
    } else if (!matrix.empty() && isa<aten::EmbeddingOp>(op)) {
      isSplit = false;
      if (takesComputed) {
        add(matrix, "rowwise", cast<RankedTensorType>(weight.getType()).getDimSize(0));
        embeddings.insert(matrix);
      }
    } else if (!vector.empty() && !takesSplit) {
      add(vector, "sequence");
    }
    for (Value result : op->getResults()) {
      if (isSplit)
        split.insert(result);
      if (takesComputed)
        computed.insert(result);
    }
  }

  func::FuncOp microbatch;
  StringRef layers;
  /// Values that are made of one parameter alone, and its name.
  llvm::DenseMap<Value, StringRef> parameters;
  llvm::DenseSet<Value> split, computed;
  llvm::DenseSet<StringRef> embeddings;
  std::vector<TensorRule> rules;
  bool conflicts = false;
};
} // namespace

std::vector<TensorRule> plan::deriveTensorRules(func::FuncOp microbatch, StringRef layers) {
  return RuleFinder(microbatch, layers).run();
}

/// "h.*.experts" of the stack of the matrices "h.3.experts.0.up.weight", "h.3.experts.1.up.weight",
/// ...; empty if it is none of that kind.
static std::string findModulesOfExperts(func::FuncOp microbatch, aten::StackOp stack,
                                        StringRef layers) {
  if (stack.getDim().value_or(0) != 0 || stack->getNumOperands() < 2)
    return "";
  std::string before, after;
  for (auto [number, operand] : llvm::enumerate(stack->getOperands())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    train::RoleAttr role =
        argument ? train::getArgumentRole(microbatch, argument.getArgNumber()) : train::RoleAttr();
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!role || role.getKind() != train::RoleKind::Parameter || !type || type.getRank() != 2)
      return "";
    const std::string name = withoutNumber(role.getNameOrEmpty(), layers);
    const std::string expert = "." + std::to_string(number) + ".";
    const size_t place = name.rfind(expert);
    if (place == std::string::npos)
      return "";
    const std::string rest = name.substr(place + expert.size());
    if (number > 0 && (name.substr(0, place) != before || rest != after))
      return "";
    before = name.substr(0, place);
    after = rest;
  }
  return before;
}

std::vector<ExpertRule> plan::findExperts(func::FuncOp microbatch, StringRef layers) {
  std::vector<ExpertRule> rules;
  auto add = [&](const std::string &modules, int64_t experts, bool hasRows, bool areModules) {
    auto found =
        llvm::find_if(rules, [&](const ExpertRule &rule) { return rule.modules == modules; });
    if (found == rules.end())
      found = rules.insert(found, {modules, experts, hasRows, areModules});
    found->experts = std::gcd(found->experts, experts);
    found->hasRows &= hasRows;
  };
  /// What is made of one parameter alone, and still counts experts along its first dimension.
  llvm::DenseMap<Value, StringRef> stacks;
  auto isStack = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 3 && type.getDimSize(0) > 1;
  };
  for (BlockArgument argument : microbatch.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
    if (role && role.getKind() == train::RoleKind::Parameter && isStack(argument))
      stacks[argument] = role.getNameOrEmpty();
  }
  for (Operation &op : microbatch.front().without_terminator()) {
    if (op.hasAttr(train::kBackwardAttrName))
      continue;
    if (isa<aten::GroupedMmOp, aten::BmmOp>(op)) {
      for (Value operand : op.getOperands())
        if (auto stack = stacks.find(operand); stack != stacks.end())
          add(getModules(stack->second, layers),
              cast<RankedTensorType>(operand.getType()).getDimSize(0), isa<aten::GroupedMmOp>(op),
              /*areModules=*/false);
      continue;
    }
    if (auto stack = dyn_cast<aten::StackOp>(op)) {
      const std::string modules = findModulesOfExperts(microbatch, stack, layers);
      SmallVector<OpOperand *> products;
      if (!modules.empty())
        placement::findGroupedProducts(stack.getResult(), products);
      if (!products.empty())
        add(modules, stack->getNumOperands(), /*hasRows=*/true, /*areModules=*/true);
      continue;
    }
    if (op.getNumOperands() != 1 || op.getNumResults() != 1 || !isStack(op.getResult(0)))
      continue;
    auto stack = stacks.find(op.getOperand(0));
    if (stack == stacks.end() ||
        cast<RankedTensorType>(op.getOperand(0).getType()).getDimSize(0) !=
            cast<RankedTensorType>(op.getResult(0).getType()).getDimSize(0))
      continue;
    // A copy: a new entry may move the others.
    StringRef parameter = stack->second;
    stacks[op.getResult(0)] = parameter;
  }
  return rules;
}
