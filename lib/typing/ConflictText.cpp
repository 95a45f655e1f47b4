//===- ConflictText.cpp - errors of the type checker in words ----------------===//

#include "lib/typing/ConflictText.h"

#include "dialects/aten/Aten.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::ShardingRule;
using Reason = Conflict::Reason;

//===----------------------------------------------------------------------===//
// Parts of messages
//===----------------------------------------------------------------------===//

bool cleave::placement::haveSameAxes(dist::PlacementAttr a, dist::PlacementAttr b) {
  return a.getMesh() == b.getMesh() &&
         llvm::equal(a.getEntries(), b.getEntries(),
                     [](auto &x, auto &y) { return x.axis == y.axis; });
}

std::string cleave::placement::describeOperand(Operation *op, unsigned operand) {
  if (auto aten = dyn_cast<aten::AtenOpInterface>(op)) {
    unsigned at = 0;
    for (const aten::Argument &argument : aten.getArguments())
      for (Value value : argument.values)
        if (value && at++ == operand)
          return "'" + argument.name.str() + "'";
  }
  return "operand " + std::to_string(operand);
}

void cleave::placement::noteOrigin(InFlightDiagnostic &diagnostic, Value value, const Twine &what) {
  Diagnostic &note = diagnostic.attachNote(value.getLoc());
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    note << what << " is argument " << argument.getArgNumber();
    if (auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()))
      if (Attribute role = function.getArgAttr(argument.getArgNumber(), "train.role"))
        note << ", " << role;
  } else {
    note << what << " is made by '" << value.getDefiningOp()->getName() << "'";
  }
  note << ": " << value.getType();
}

std::string cleave::placement::describeTransition(AxisPlacement from, AxisPlacement to) {
  auto dim = [](AxisPlacement placement) {
    return placement.isShard() ? " dim " + std::to_string(placement.dim) : std::string();
  };
  auto say = [&](const std::string &op) {
    return "insert dist." + op + " from " + toString(from) + " to " + toString(to);
  };
  from.order = to.order = 0;
  if (from.isPartial()) {
    std::string reduction = stringifyReduction(from.reduction).str();
    if (to.isSameOnAllRanks())
      return say("all_reduce " + reduction);
    if (to.isShard())
      return say("reduce_scatter " + reduction + dim(to));
    if (to.isVarying())
      return describeTransition(from, AxisPlacement::replicate()) +
             " and dist.reinterpret from R to V";
    return "";
  }
  bool isDivided = from.isShard() || from.isVarying();
  if (from.isShard() && to.isSameOnAllRanks())
    return say("all_gather" + dim(from));
  // In the shape that both have; who means the parts of something can say so: S(d).
  if (from.isVarying() && to.isSameOnAllRanks())
    return say("all_reduce sum");
  if (from.isShard() && to.isShard())
    return say("all_to_all split " + std::to_string(to.dim) + " concat " +
               std::to_string(from.dim));
  bool sameBits = (isDivided && (to.isShard() || to.isVarying())) ||
                  (from.isVarying() && to.isPartialSum()) || (from.isReplicate() && to.isVarying());
  if (sameBits)
    return say("reinterpret");
  if (from.isInvariant() && to.isVarying())
    return "insert dist.convert from I to R and dist.reinterpret from R to V";
  if (to.isPartial() && !to.isPartialSum())
    return "";
  return say("convert");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

namespace {

/// What the texts of one conflict are made of.
struct ConflictWriter {
  Operation *op;
  const ShardingRule &rule;
  StringAttr axis;
  const Conflict &conflict;

  std::string name(unsigned operand) const { return describeOperand(op, operand); }
  Type type(unsigned operand) const { return op->getOperand(operand).getType(); }
  AxisPlacement on(unsigned operand) const { return *dist::getPlacement(type(operand)).get(axis); }
  std::string text(unsigned operand) const { return toString(on(operand)); }
  /// "dimension 1 of 'self'"
  std::string shardedDim(unsigned operand) const {
    return "dimension " + std::to_string(on(operand).dim) + " of " + name(operand);
  }
  /// The dimension that has the conflict's factor.
  std::optional<unsigned> factorDim(unsigned operand) const {
    if (conflict.factor)
      for (auto [dim, factors] : llvm::enumerate(rule.operands[operand]))
        if (llvm::is_contained(factors, *conflict.factor))
          return dim;
    return std::nullopt;
  }
  std::string axisText() const { return "\"" + axis.str() + "\""; }

  void write(InFlightDiagnostic &diagnostic) const;
  void writePartial(InFlightDiagnostic &diagnostic) const;
  void writeShard(InFlightDiagnostic &diagnostic) const;
};

} // namespace

static std::string reduceFirst(const ConflictWriter &writer, unsigned operand) {
  AxisPlacement placement = writer.on(operand);
  return "reduce " + writer.name(operand) + " first (dist.all_reduce " +
         stringifyReduction(placement.reduction).str() + " from " + toString(placement) + " to R)";
}

void ConflictWriter::writePartial(InFlightDiagnostic &diagnostic) const {
  unsigned operand = conflict.operand, other = conflict.other;
  switch (conflict.reason) {
  case Reason::PartialPlusWhole:
    diagnostic << "adds " << text(operand) << " and " << text(other) << " on axis " << axisText()
               << ": ";
    if (!on(operand).isPartialSum()) {
      diagnostic << "only a pending sum passes through an addition; "
                 << reduceFirst(*this, operand);
      break;
    }
    diagnostic << name(other) << " would be added once per rank; " << reduceFirst(*this, operand)
               << ", or insert dist.convert of " << name(other) << " from " << text(other)
               << " to P";
    break;
  case Reason::PartialAddend:
    diagnostic << "adds " << text(other) << " to a product that is P on axis " << axisText()
               << ", as " << shardedDim(operand) << " is sharded and summed: " << name(other)
               << " would be added once per rank; reduce the product's "
                  "sum before adding "
               << name(other) << " (dist.all_reduce sum from P to R), or insert dist.convert of "
               << name(other) << " from " << text(other) << " to P";
    break;
  case Reason::PartialProduct:
    diagnostic << "multiplies P by P on axis " << axisText() << " (" << name(operand) << " and "
               << name(other) << "): the product of two sums is not the sum of the products; "
               << reduceFirst(*this, operand);
    break;
  case Reason::PartialNonlinear:
    diagnostic << "is not linear in " << name(operand) << ", which is " << text(operand)
               << " on axis " << axisText() << "; " << reduceFirst(*this, operand);
    break;
  case Reason::PartialMoved:
    diagnostic << "computes with " << name(operand) << ", which is " << text(operand) << " on axis "
               << axisText() << " and passes through views only; " << reduceFirst(*this, operand);
    break;
  case Reason::PartialMixed:
    diagnostic << "joins " << text(operand) << " and " << text(other) << " on axis " << axisText()
               << " (" << name(operand) << " and " << name(other) << "); "
               << reduceFirst(*this, operand);
    break;
  default:
    diagnostic << "joins " << text(operand) << " and " << text(other) << " on axis " << axisText()
               << " (" << name(operand) << " and " << name(other)
               << "): each rank would combine its term with different data; ";
    if (std::optional<unsigned> dim = factorDim(operand))
      diagnostic << "insert dist.reduce_scatter " << stringifyReduction(on(operand).reduction)
                 << " dim " << *dim << " of " << name(operand) << " from " << text(operand)
                 << " to S(" << *dim << ")";
    else
      diagnostic << reduceFirst(*this, operand);
    break;
  }
}

void ConflictWriter::writeShard(InFlightDiagnostic &diagnostic) const {
  unsigned operand = conflict.operand, other = conflict.other;
  auto gather = [&](unsigned which) {
    return "gather " + name(which) + " first (dist.all_gather dim " +
           std::to_string(on(which).dim) + " from " + text(which) + " to R)";
  };
  switch (conflict.reason) {
  case Reason::ShardWhole: {
    diagnostic << "needs " << shardedDim(operand) << " whole, which is sharded on axis "
               << axisText();
    const char *why =
        conflict.factor ? rule.factors[*conflict.factor].wholeReason : rule.opaqueReason;
    if (why)
      diagnostic << ", because " << why;
    diagnostic << "; " << gather(operand);
    break;
  }
  case Reason::ShardUnlike:
    diagnostic << "has " << shardedDim(operand) << " sharded on axis " << axisText() << ", but not "
               << "dimension " << *factorDim(other) << " of " << name(other)
               << ", which corresponds to it; shard both, or " << gather(operand);
    break;
  case Reason::ShardCrossed:
    diagnostic << "has " << shardedDim(operand) << " and " << shardedDim(other)
               << " sharded on axis " << axisText() << ", which do not correspond; "
               << gather(operand);
    if (std::optional<unsigned> dim = factorDim(other))
      diagnostic << ", or bring " << name(other) << " to dimension " << *dim
                 << " (dist.all_to_all split " << *dim << " concat " << on(other).dim << " from "
                 << text(other) << " to S(" << *dim << "))";
    break;
  case Reason::ShardInner:
    diagnostic << "would make " << shardedDim(operand) << ", sharded on axis " << axisText()
               << ", the inner part of a dimension of result " << conflict.result
               << ", whose shards are not contiguous; " << gather(operand)
               << ", or move it in front";
    break;
  default:
    diagnostic << "has " << name(operand) << " and " << name(other) << " sharded by axis "
               << axisText() << " and another one in orders that do not agree";
    break;
  }
}

void ConflictWriter::write(InFlightDiagnostic &diagnostic) const {
  unsigned operand = conflict.operand, other = conflict.other;
  switch (conflict.reason) {
  case Reason::InvariantMixed:
    diagnostic << "mixes I and " << text(other) << " on axis " << axisText() << ": "
               << name(operand)
               << " carries a gradient of which each rank would compute only a part, and nothing "
                  "would sum the parts; insert dist.convert of "
               << name(operand) << " from I to R (Megatron's f)";
    break;
  case Reason::PartialPlusWhole:
  case Reason::PartialProduct:
  case Reason::PartialNonlinear:
  case Reason::PartialMoved:
  case Reason::PartialMixed:
  case Reason::PartialVarying:
  case Reason::PartialAddend:
    writePartial(diagnostic);
    break;
  case Reason::ShardWhole:
  case Reason::ShardUnlike:
  case Reason::ShardCrossed:
  case Reason::ShardInner:
  case Reason::OrderUnlike:
    writeShard(diagnostic);
    break;
  }
  diagnostic << "; operands are " << TypeRange(op->getOperandTypes());
}

InFlightDiagnostic cleave::placement::emitConflict(Operation *op, const ShardingRule &rule,
                                                   StringAttr axis, const Conflict &conflict) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  // One op stands for many operators.
  if (auto call = dyn_cast<aten::AtenOpInterface>(op); call && rule.isOpaque())
    diagnostic << "calling '" << call.getSchemaName() << "' ";
  ConflictWriter{op, rule, axis, conflict}.write(diagnostic);
  for (unsigned operand : {conflict.operand, conflict.other}) {
    noteOrigin(diagnostic, op->getOperand(operand), describeOperand(op, operand));
    if (conflict.operand == conflict.other)
      break;
  }
  return diagnostic;
}

InFlightDiagnostic cleave::placement::emitWrongResult(OpResult result, StringAttr axis,
                                                      AxisPlacement inferred,
                                                      AxisPlacement declared) {
  Operation *op = result.getOwner();
  // No single op changes the order alone.
  bool isOrder = inferred.isShard() && declared.isShard(inferred.dim);
  InFlightDiagnostic diagnostic = op->emitOpError("produces ")
                                  << toString(inferred, isOrder) << " on axis \"" << axis.getValue()
                                  << "\", found " << toString(declared, isOrder)
                                  << " declared for result " << result.getResultNumber();
  std::string advice = isOrder ? "" : describeTransition(inferred, declared);
  if (!advice.empty())
    diagnostic << "; declare " << inferred << " and " << advice;
  diagnostic << "; the result is " << result.getType() << ", operands are "
             << TypeRange(op->getOperandTypes());
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (isa<RankedTensorType>(operand.getType()))
      noteOrigin(diagnostic, operand, describeOperand(op, i));
  return diagnostic;
}
