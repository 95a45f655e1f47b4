// Which modules Megatron's tensor parallelism divides, and how.
#include "tools/cleave-plan/Source.h"

#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/View.h"
#include "lib/aten/OpCost.h"
#include "lib/placement/plan/Apply.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

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

/// Whether a value has a matrix for each of several experts.
static bool isStack(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 3 && type.getDimSize(0) > 1;
}

/// Whether both have matrices of the same sizes for as many experts.
static bool isAlikeStack(Value a, Value b) {
  return isStack(a) && isStack(b) &&
         cast<RankedTensorType>(a.getType()).getShape() ==
             cast<RankedTensorType>(b.getType()).getShape();
}

/// "h.*.experts" and "h.*.experts.*.up" of the stack of the matrices "h.3.experts.0.up.weight",
/// "h.3.experts.1.up.weight", ...; empty if it is none of that kind.
static std::pair<std::string, std::string>
findPatternOfExperts(func::FuncOp microbatch, aten::StackOp stack, StringRef layers) {
  if (stack.getDim().value_or(0) != 0 || stack->getNumOperands() < 2)
    return {};
  std::string before, after;
  for (auto [number, operand] : llvm::enumerate(stack->getOperands())) {
    auto argument = dyn_cast<BlockArgument>(operand);
    train::RoleAttr role =
        argument ? train::getArgumentRole(microbatch, argument.getArgNumber()) : train::RoleAttr();
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!role || role.getKind() != train::RoleKind::Parameter || !type || type.getRank() != 2)
      return {};
    const std::string name = withoutNumber(role.getNameOrEmpty(), layers);
    const std::string expert = "." + std::to_string(number) + ".";
    const size_t place = name.rfind(expert);
    if (place == std::string::npos)
      return {};
    const std::string rest = name.substr(place + expert.size());
    if (number > 0 && (name.substr(0, place) != before || rest != after))
      return {};
    before = name.substr(0, place);
    after = rest;
  }
  const std::string expert = before + ".*";
  return {before,
          after.find('.') == std::string::npos ? expert : getModules(expert + "." + after, "")};
}

namespace {
/// A parameter that a product takes, or the stack of those of all experts.
struct Matrix {
  std::string parameter;        ///< its name, the first one's
  std::string modules, pattern; ///< of docs/plans.md: of its modules, and its own
  bool isStacked = false;       ///< it has a dimension of experts by itself
  /// Whether the last two dimensions of a stack have changed places.
  bool isTurned = false;
};

class RuleFinder {
public:
  RuleFinder(func::FuncOp microbatch, StringRef layers, ArrayRef<ExpertRule> experts)
      : microbatch(microbatch), layers(layers), experts(experts) {}

  std::vector<TensorRule> run() {
    // What a norm and another product follow, such as latents of attention, is whole, unless that
    // contradicts the rest: a norm may also lie between columns and rows.
    for (bool hasLatents : {true, false}) {
      whole.clear();
      do {
        hasNewWhole = false;
        visitAll(hasLatents);
      } while (hasNewWhole);
      if (conflicts)
        continue;
      llvm::erase_if(rules, [&](const TensorRule &rule) {
        return rule.style == "sequence" && hasMatrix(rule.modules);
      });
      return std::move(rules);
    }
    return {};
  }

private:
  void visitAll(bool hasLatents) {
    findsLatents = hasLatents;
    conflicts = false;
    parameters.clear();
    split.clear();
    computed.clear();
    origins.clear();
    normed.clear();
    embeddings.clear();
    rules.clear();
    for (unsigned index = 0; index < microbatch.getNumArguments(); ++index) {
      train::RoleAttr role = train::getArgumentRole(microbatch, index);
      Value value = microbatch.getArgument(index);
      if (role && role.getKind() == train::RoleKind::Parameter)
        parameters[value] = describe(role.getNameOrEmpty(), value);
      if (role && role.getKind() == train::RoleKind::Input)
        computed.insert(value);
    }
    for (Operation &op : microbatch.front().without_terminator())
      if (!op.hasAttr(train::kBackwardAttrName))
        visit(&op);
  }

  static unsigned getRank(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type ? unsigned(type.getRank()) : 0;
  }

  /// Whether a value has a sequence in dimension 1, and features behind it.
  static bool hasSequence(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() > 2 && type.getDimSize(1) > 1;
  }

  /// Whether modules have matrices, within them or tied to others: then they are more than norms,
  /// such as layers with scales of their own (BEiT), and not all of them lies as vectors do.
  bool hasMatrix(StringRef modules) {
    return llvm::any_of(microbatch.getArguments(), [&](BlockArgument argument) {
      train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
      if (!role || role.getKind() != train::RoleKind::Parameter || getRank(argument) < 2)
        return false;
      if (placement::isNameIn(role.getNameOrEmpty(), modules, /*directly=*/false))
        return true;
      ArrayAttr aliases = role.getAliases();
      return aliases && llvm::any_of(aliases.getAsValueRange<StringAttr>(), [&](StringRef alias) {
               return placement::isNameIn(alias, modules, /*directly=*/false);
             });
    });
  }

  Matrix describe(StringRef name, Value value) const {
    return {name.str(), getModules(name, layers), withoutNumber(name, layers), isStack(value)};
  }

  void add(const std::string &pattern, StringRef style, int64_t size = 0, unsigned dim = 0) {
    auto found =
        llvm::find_if(rules, [&](const TensorRule &rule) { return rule.modules == pattern; });
    if (found == rules.end()) {
      rules.push_back({pattern, style.str(), size, dim});
      return;
    }
    found->size = std::gcd(found->size, size);
    if (found->style != style || found->dim != dim)
      conflicts |= style != "sequence" && found->style != "sequence";
  }

  /// Of a product with a parameter, the dimension that is summed, or that makes columns.
  static int64_t getSize(Operation *op, Value matrix, bool isSummed) {
    auto weight = cast<RankedTensorType>(matrix.getType());
    if (isa<aten::ConvolutionOp>(op)) // [columns, summed, ...]
      return weight.getDimSize(isSummed ? 1 : 0);
    const int64_t columns = cast<RankedTensorType>(op->getResult(0).getType()).getShape().back();
    const int64_t matrices = isOfExperts(op) ? weight.getDimSize(0) : 1;
    return isSummed && columns > 0 ? weight.getNumElements() / matrices / columns : columns;
  }

  /// A product with a matrix for each expert.
  static bool isOfExperts(Operation *op) { return isa<aten::GroupedMmOp, aten::BmmOp>(op); }

  /// Convolutions in groups, such as depthwise ones: their weights cannot be cut.
  static bool isGrouped(Operation *op) {
    auto convolution = dyn_cast<aten::ConvolutionOp>(op);
    return convolution && convolution.getGroups() > 1;
  }

  /// Whether a product says which experts a token goes to: a column for each. All ranks need all.
  bool isRouter(const Matrix &matrix, int64_t columns) const {
    return llvm::any_of(experts, [&](const ExpertRule &rule) {
      StringRef block = StringRef(rule.modules).rsplit('.').first;
      return columns == rule.experts &&
             StringRef(matrix.modules).starts_with((block + ".").str()) &&
             !StringRef(matrix.modules).starts_with(rule.modules);
    });
  }

  /// A product by columns, or by rows of what others made columns of.
  void divide(const Matrix &matrix, Operation *op, Value weight, bool isSummed) {
    const int64_t size = getSize(op, weight, isSummed);
    if (matrix.isStacked && isOfExperts(op))
      // The product takes [experts, summed, columns].
      add(matrix.pattern, "parameter", size, isSummed == matrix.isTurned ? 2 : 1);
    else
      add(matrix.modules, isSummed ? "rowwise" : "colwise", size);
  }

  /// What is made of parameters alone.
  bool follow(Operation *op) {
    const Matrix *only = nullptr;
    for (Value operand : op->getOperands()) {
      auto parameter = parameters.find(operand);
      if (parameter == parameters.end() && isa<RankedTensorType>(operand.getType()))
        return false;
      if (parameter == parameters.end())
        continue;
      if (only && !isa<aten::StackOp>(op))
        return false;
      only = only ? only : &parameter->second;
    }
    if (!only)
      return false;
    Matrix made = *only;
    if (auto stack = dyn_cast<aten::StackOp>(op); stack && stack->getNumOperands() > 1) {
      made.modules = findPatternOfExperts(microbatch, stack, layers).second;
      if (made.modules.empty())
        return false;
    } else if (auto turn = dyn_cast<aten::TransposeOp>(op); turn && made.isStacked) {
      const int64_t rank = 3, first = (turn.getDim0() + rank) % rank;
      const int64_t second = (turn.getDim1() + rank) % rank;
      if (first != second && std::min(first, second) == 0)
        return false;
      made.isTurned ^= first != second;
    } else if (made.isStacked && !isAlikeStack(op->getOperand(0), op->getResult(0))) {
      made.isStacked = false;
    }
    for (Value result : op->getResults())
      parameters[result] = made;
    return true;
  }

  void visit(Operation *op) {
    if (follow(op))
      return;
    // Biases that are joined have no columns of their own.
    if (isa<aten::CatOp>(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
          return parameters.contains(operand);
        }))
      conflicts |= findsLatents;
    Matrix matrix, vector;
    Value weight, scale;
    bool takesSplit = false, takesComputed = false, takesNormed = false, takesSequence = false;
    unsigned numValues = 0;
    llvm::SetVector<StringRef> from;
    for (Value operand : op->getOperands()) {
      auto parameter = parameters.find(operand);
      if (parameter != parameters.end()) {
        const bool isMatrix = getRank(operand) > 1;
        (isMatrix ? matrix : vector) = parameter->second;
        (isMatrix ? weight : scale) = operand;
        continue;
      }
      numValues += isa<RankedTensorType>(operand.getType());
      takesSequence |= hasSequence(operand);
      takesSplit |= split.contains(operand);
      takesComputed |= computed.contains(operand);
      takesNormed |= normed.contains(operand);
      if (auto origin = origins.find(operand); origin != origins.end())
        from.insert_range(origin->second);
    }
    // Norms of heads, say, are followed by attention.
    takesNormed &= numValues == 1;
    bool isSplit = takesSplit;
    const bool isProduct = weight && aten::describeWork(op).kind == cost::OpWork::Product;
    if (isGrouped(op)) {
      // Its weight is whole, whatever its input.
      isSplit = false;
    } else if (isProduct) {
      if (takesSplit && takesNormed && findsLatents)
        for (StringRef latent : from)
          hasNewWhole |= whole.insert(latent).second;
      const bool isWhole = !takesSplit && (whole.contains(matrix.modules) ||
                                           isRouter(matrix, getSize(op, weight, false)));
      isSplit = !takesSplit && !isWhole;
      if (!isWhole && !embeddings.contains(matrix.parameter))
        divide(matrix, op, weight, takesSplit);
      from.clear();
      if (isSplit)
        from.insert(keep(matrix.modules));
      takesNormed = false;
    } else if (weight && isa<aten::EmbeddingOp>(op)) {
      isSplit = false;
      if (takesComputed) {
        add(matrix.modules, "rowwise", cast<RankedTensorType>(weight.getType()).getDimSize(0));
        embeddings.insert(matrix.parameter);
      }
    } else if (scale && !takesSplit) {
      if (takesSequence) // not what was pooled, nor one token alone
        add(vector.modules, "sequence");
    } else if (scale && isa<aten::MulOp, aten::NativeLayerNormOp>(op)) {
      takesNormed = true;
    }
    for (Value result : op->getResults()) {
      if (isSplit) {
        split.insert(result);
        origins[result].assign(from.begin(), from.end());
      }
      if (isSplit && takesNormed)
        normed.insert(result);
      if (takesComputed)
        computed.insert(result);
    }
  }

  /// The same text, for as long as the finder lives.
  StringRef keep(const std::string &text) { return texts.insert(text).first->getKey(); }

  func::FuncOp microbatch;
  StringRef layers;
  ArrayRef<ExpertRule> experts;
  llvm::StringSet<> texts;
  /// Values that are made of one parameter alone, or of one of each expert.
  llvm::DenseMap<Value, Matrix> parameters;
  llvm::DenseSet<Value> split, computed;
  /// Of what is split, products by columns that made it, and whether a norm followed.
  llvm::DenseMap<Value, SmallVector<StringRef, 2>> origins;
  llvm::DenseSet<Value> normed;
  llvm::StringSet<> embeddings, whole;
  std::vector<TensorRule> rules;
  bool conflicts = false, findsLatents = false, hasNewWhole = false;
};
} // namespace

std::vector<TensorRule> plan::deriveTensorRules(func::FuncOp microbatch, StringRef layers,
                                                ArrayRef<ExpertRule> experts) {
  return RuleFinder(microbatch, layers, experts).run();
}

/// Whether a product by group takes rows that were multiplied before, by what no product made.
static bool areWeighed(Value rows, const llvm::DenseSet<Value> &products) {
  Operation *op = rows.getDefiningOp();
  while (op && op->getNumOperands() == 1)
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<aten::MulOp>(op) &&
         llvm::none_of(op->getOperands(), [&](Value value) { return products.contains(value); });
}

std::vector<ExpertRule> plan::findExperts(func::FuncOp microbatch, StringRef layers) {
  std::vector<ExpertRule> rules;
  /// What follows from products by group. The first layer with experts says how they take rows.
  llvm::DenseSet<Value> products;
  auto add = [&](const std::string &modules, int64_t experts, bool hasRows,
                 bool areModules) -> ExpertRule & {
    auto found =
        llvm::find_if(rules, [&](const ExpertRule &rule) { return rule.modules == modules; });
    if (found == rules.end())
      found = rules.insert(found, {modules, experts, hasRows, areModules});
    found->experts = std::gcd(found->experts, experts);
    found->hasRows &= hasRows;
    return *found;
  };
  /// What is made of one parameter alone, and still counts experts along its first dimension.
  llvm::DenseMap<Value, StringRef> stacks;
  for (BlockArgument argument : microbatch.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
    if (role && role.getKind() == train::RoleKind::Parameter && isStack(argument))
      stacks[argument] = role.getNameOrEmpty();
  }
  for (Operation &op : microbatch.front().without_terminator()) {
    if (op.hasAttr(train::kBackwardAttrName))
      continue;
    const bool isGrouped = isa<aten::GroupedMmOp>(op);
    if (isGrouped ||
        llvm::any_of(op.getOperands(), [&](Value value) { return products.contains(value); }))
      products.insert(op.result_begin(), op.result_end());
    if (isGrouped || isa<aten::BmmOp>(op)) {
      for (Value operand : op.getOperands())
        if (auto stack = stacks.find(operand); stack != stacks.end())
          add(getModules(stack->second, layers),
              cast<RankedTensorType>(operand.getType()).getDimSize(0), isGrouped,
              /*areModules=*/false)
              .weighsRows |= isGrouped && areWeighed(op.getOperand(0), products);
      continue;
    }
    if (auto stack = dyn_cast<aten::StackOp>(op)) {
      const std::string modules = findPatternOfExperts(microbatch, stack, layers).first;
      SmallVector<OpOperand *> uses;
      if (!modules.empty())
        placement::findGroupedProducts(stack.getResult(), uses);
      if (!uses.empty())
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
