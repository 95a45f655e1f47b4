//===- Evaluator.cpp - the meaning of any op, by what it is ------------------===//

#include "lib/prove/Evaluator.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/View.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

/// Whether a type is that of a tensor without elements.
static bool isNothing(Type type) {
  RankedTensorType tensor = tensorOf(type);
  return tensor && llvm::is_contained(tensor.getShape(), 0);
}

/// The one operand of a concatenation that has elements, if there is but one.
static std::optional<unsigned> onlyPart(aten::CatOp cat) {
  std::optional<unsigned> only;
  for (auto [i, type] : llvm::enumerate(cat->getOperandTypes())) {
    if (isNothing(type))
      continue;
    if (only)
      return std::nullopt;
    only = unsigned(i);
  }
  return only;
}

/// The operand that the result is again, if in another type.
static std::optional<unsigned> copiedOperand(Operation *op) {
  if (isa<aten::CloneOp, aten::LiftFreshCopyOp, aten::ToCopyOp, aten::AliasOp, aten::DetachOp>(op))
    return 0;
  if (auto cat = dyn_cast<aten::CatOp>(op))
    return onlyPart(cat);
  // Of what it writes to the op takes shape and type alone.
  auto copy = dyn_cast<aten::CopyOp>(op);
  if (copy &&
      tensorOf(copy.getSelf().getType()).getShape() == tensorOf(copy.getSrc().getType()).getShape())
    return 1;
  return std::nullopt;
}

static bool isReshape(Operation *op) {
  return isa<aten::ViewOp, aten::UnsafeViewOp, aten::UnsqueezeOp, aten::SqueezeOp,
             aten::SqueezeDimOp, aten::SqueezeDimsOp>(op);
}

bool Evaluator::append(std::optional<Tensor> value, std::vector<Tensor> &results) {
  if (!value)
    return false;
  coarsen(terms, *value);
  results.push_back(std::move(*value));
  return true;
}

Tensor Evaluator::opaque(Type type, StringRef kind) {
  RankedTensorType tensor = tensorOf(type);
  if (!tensor)
    return {};
  Tensor value{makeDims(terms, tensor.getShape()), {}};
  SmallVector<Index> indices;
  SmallVector<int64_t> sizes;
  auto add = [&](Var var) {
    indices.push_back(Index::of(var));
    sizes.push_back(terms.variables.getSize(var));
  };
  for (const Axis &axis : axes)
    llvm::for_each(axis.digits, add);
  for (const auto &dim : value.dims)
    llvm::for_each(dim, add);
  // Unlike anything else in either program.
  std::string name = (kind + " " + llvm::Twine(terms.variables.make(1))).str();
  value.meaning = terms.leaf(name, sizes, indices);
  return value;
}

std::vector<Tensor> Evaluator::evaluate(Operation *op, ArrayRef<const Tensor *> given,
                                        std::string &unknown) {
  std::vector<Tensor> results = evaluateOnWholes(op, given);
  if (results.empty())
    results = evaluatePlain(op, given, unknown);
  for (Tensor &result : results)
    result.rows.reset();
  if (evaluateRows(op, given, results))
    unknown.clear();
  return results;
}

std::vector<Tensor> Evaluator::evaluatePlain(Operation *op, ArrayRef<const Tensor *> given,
                                             std::string &unknown) {
  std::vector<Tensor> results;
  // Tensors without elements are all alike.
  if (op->getNumResults() > 0 && llvm::all_of(op->getResultTypes(), isNothing) && isPure(op)) {
    for (Type type : op->getResultTypes())
      results.push_back({makeDims(terms, tensorOf(type).getShape()), {}});
    return results;
  }
  // A digit is a place in one operand: i.view(-1, 1) and i.view(1, -1) are taken at two.
  SmallVector<const Tensor *> operands(given);
  SmallVector<Tensor, 2> renamed;
  renamed.reserve(operands.size());
  llvm::SmallDenseSet<Var> taken;
  if (operands.size() > 1)
    for (const Tensor *&operand : operands) {
      auto isTaken = [&](Var var) { return taken.contains(var); };
      if (llvm::any_of(operand->dims, [&](const auto &dim) { return llvm::any_of(dim, isTaken); }))
        operand = &renamed.emplace_back(withOwnDigits(terms, *operand));
      for (const auto &dim : operand->dims)
        taken.insert(dim.begin(), dim.end());
    }
  bool isKnown = false;
  StringRef dialect = op->getName().getDialectNamespace();
  auto by = [&](StringRef name, bool isMade) {
    step = name;
    return isMade;
  };
  if (dialect == "dist") {
    isKnown = by("dist", evaluateDist(op, operands, results));
    if (auto swapped = dyn_cast<dist::AllToAllOp>(op); swapped && !isKnown)
      if (std::optional<Tensor> value = swapParts(op, *operands[0])) {
        results.push_back(std::move(*value));
        isKnown = by("rows", true);
      }
  } else if ((dialect == "aten" || dialect == "train") && isPure(op)) {
    // Only ops that are functions of their operands: what else there is may hide anything.
    std::optional<unsigned> copied = copiedOperand(op);
    bool isSame = copied && (terms.breaks(Lemma::Copy) ||
                             tensorOf(op->getOperand(*copied).getType()).getElementType() ==
                                 tensorOf(op->getResult(0).getType()).getElementType());
    if (isSame) {
      results.push_back(*operands[*copied]);
      isKnown = by("copy", true);
    } else if (isa<aten::RandomOpInterface>(op)) {
      isKnown = by("draw", evaluateRandom(op, operands, results));
    } else if (std::optional<Tensor> value =
                   isReshape(op)
                       ? reshape(*operands[0], tensorOf(op->getResult(0).getType()).getShape())
                       : std::nullopt) {
      results.push_back(std::move(*value));
      isKnown = by("reshape", true);
    } else if (std::optional<Tensor> value = evaluateSpecial(op, operands)) {
      results.push_back(std::move(*value));
      isKnown = by("arithmetic", true);
    } else if (std::optional<Tensor> value = terms.takesPieces() && isa<aten::CatOp>(op)
                                                 ? concatenate(op, operands)
                                                 : std::nullopt) {
      results.push_back(std::move(*value));
      isKnown = true;
    } else {
      isKnown = by("rows", evaluateCounts(op, operands, results)) ||
                by("part", evaluateParts(op, operands, results)) ||
                by("lookup", evaluateLookUp(op, operands, results)) ||
                by("attention", attention(op, operands, results)) ||
                by("statistics", evaluateStatistics(op, operands, results)) ||
                by("order", evaluateOrder(op, operands, results)) ||
                by("rule", evaluateByRule(op, operands, results));
    }
  }
  if (isKnown)
    return results;
  unknown = ("'" + op->getName().getStringRef() + "' has no meaning for the prover here").str();
  results.clear();
  for (Type type : op->getResultTypes())
    results.push_back(opaque(type));
  return results;
}
