//===- Inference.cpp - the placements of an op's results ---------------------===//

#include "lib/typing/Inference.h"
#include "lib/typing/ConflictText.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;
using sharding::DimFactors;
using sharding::FactorId;
using sharding::ShardingRule;

namespace {

class Inference {
public:
  Inference(Operation *op, const InferenceOptions &options)
      : op(op), options(options), rule(sharding::getShardingRule(op)) {}

  FailureOr<SmallVector<PlacementAttr>> run();

private:
  /// The placement of an operand, null if it has none.
  PlacementAttr placementOf(unsigned operand) const {
    if (operand < options.operands.size() && options.operands[operand])
      return options.operands[operand];
    return dist::getPlacement(op->getOperand(operand).getType());
  }
  LogicalResult fail(StringAttr axis, const Conflict &conflict) const {
    return options.quiet ? failure() : emitConflict(op, rule, axis, conflict);
  }

  LogicalResult findFrame();
  AxisResult inferOn(StringAttr axis) const;
  const AxisChoice &choose(ArrayRef<AxisChoice> choices, StringAttr axis) const;
  FailureOr<bool> isMajor(unsigned axisA, unsigned axisB) const;
  LogicalResult compareOrders();

  Operation *op;
  const InferenceOptions &options;
  ShardingRule rule;
  /// Of the first operand that has one: gives mesh and axes.
  PlacementAttr frame;
  /// What was chosen on each axis, in the order of the frame's entries.
  SmallVector<AxisChoice, 2> chosen;
  /// major[a][b]: axis a is major to axis b where both shard one factor.
  SmallVector<SmallVector<bool, 2>, 2> major;
};

} // namespace

/// Mesh and axes have to be the same for all operands.
LogicalResult Inference::findFrame() {
  Value first;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    PlacementAttr placement = placementOf(i);
    if (!first) {
      first = operand;
      frame = placement;
      continue;
    }
    if (bool(placement) == bool(frame) && (!frame || haveSameAxes(placement, frame)))
      continue;
    if (options.quiet)
      return failure();
    InFlightDiagnostic diagnostic =
        op->emitOpError("expects operands placed on one mesh and set of axes, found ")
        << first.getType() << " and " << operand.getType();
    noteOrigin(diagnostic, first, "the first");
    noteOrigin(diagnostic, operand, "the second");
    return diagnostic;
  }
  if (!frame)
    frame = options.like;
  return success();
}

AxisResult Inference::inferOn(StringAttr axis) const {
  SmallVector<AxisOperand, 4> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    AxisOperand &entry = operands.emplace_back();
    if (PlacementAttr placement = placementOf(i))
      entry.placement = placement.get(axis);
    if (entry.placement && entry.placement->isSameOnAllRanks())
      entry.carriesGradient = options.carriesGradient && options.carriesGradient(operand);
  }
  return inferAxis(rule, operands);
}

/// The first choice that gives what is preferred, else the first.
const AxisChoice &Inference::choose(ArrayRef<AxisChoice> choices, StringAttr axis) const {
  auto isInvariant = [](const AxisChoice &choice) {
    return llvm::all_of(choice.results, [](AxisPlacement p) { return p.isInvariant(); });
  };
  for (const AxisChoice &choice : choices) {
    bool fits = true, isAsked = false;
    for (auto [result, placement] : llvm::enumerate(options.preferred)) {
      if (!placement)
        continue;
      if (std::optional<AxisPlacement> wanted = placement.get(axis)) {
        wanted->order = 0;
        fits &= choice.results[result] == *wanted;
        isAsked = true;
      }
    }
    if (fits && isAsked)
      return choice;
  }
  const AxisChoice *first = choices.begin();
  if (options.preferInvariant && first->results.size() && first->results[0].isReplicate())
    first = llvm::find_if(choices, isInvariant);
  return first == choices.end() ? choices.front() : *first;
}

//===----------------------------------------------------------------------===//
// Orders: several axes that shard one dimension
//===----------------------------------------------------------------------===//

static unsigned positionOf(const DimFactors &dim, FactorId factor) {
  return llvm::find(dim, factor) - dim.begin();
}

/// Fills `major` from the operands, which must agree with each other and with the order of the
/// factors.
LogicalResult Inference::compareOrders() {
  ArrayRef<AxisEntry> axes = frame.getEntries();
  major.assign(axes.size(), SmallVector<bool, 2>(axes.size(), false));
  for (unsigned a = 0; a < axes.size(); ++a)
    for (unsigned b = a + 1; b < axes.size(); ++b) {
      std::optional<unsigned> first;
      // What says a shape alone says the order where nothing else does, as a fill's `self`.
      for (bool isShape : {false, true}) {
        if (first)
          break;
        for (unsigned operand = 0; operand < op->getNumOperands(); ++operand) {
          PlacementAttr placement = placementOf(operand);
          if (!placement || isShape != (rule.kind != sharding::OpKind::Factory &&
                                        llvm::is_contained(rule.shapeOnly, operand)))
            continue;
          AxisPlacement onA = *placement.get(axes[a].axis), onB = *placement.get(axes[b].axis);
          if (!onA.isShard() || !onB.isShard(onA.dim) || !chosen[a].factor || !chosen[b].factor)
            continue;
          bool isMajor = onA.order < onB.order;
          const DimFactors &dim = rule.operands[operand][onA.dim];
          unsigned atA = positionOf(dim, *chosen[a].factor);
          unsigned atB = positionOf(dim, *chosen[b].factor);
          if ((first && major[a][b] != isMajor) || (atA != atB && (atA < atB) != isMajor))
            return fail(axes[a].axis,
                        {Conflict::Reason::OrderUnlike, first.value_or(operand), operand});
          first = operand;
          major[a][b] = isMajor;
          major[b][a] = !isMajor;
        }
      }
    }
  return success();
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<PlacementAttr>> Inference::run() {
  if (failed(findFrame()))
    return failure();
  SmallVector<PlacementAttr> placements(op->getNumResults());
  if (!frame)
    return placements;
  ArrayRef<AxisEntry> axes = frame.getEntries();
  for (const AxisEntry &entry : axes) {
    AxisResult result = inferOn(entry.axis);
    if (auto *conflict = std::get_if<Conflict>(&result))
      return fail(entry.axis, *conflict);
    chosen.push_back(choose(std::get<0>(result), entry.axis));
  }
  if (failed(compareOrders()))
    return failure();
  for (OpResult result : op->getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      continue;
    unsigned number = result.getResultNumber();
    SmallVector<AxisEntry> entries(axes);
    for (unsigned a = 0; a < axes.size(); ++a)
      entries[a].placement = chosen[a].results[number];
    // An axis' order in a dimension is the number of axes that are major to it.
    for (unsigned a = 0; a < axes.size(); ++a)
      for (unsigned b = 0; b < axes.size(); ++b) {
        AxisPlacement &onA = entries[a].placement, onB = entries[b].placement;
        if (a == b || !onA.isShard() || !onB.isShard(onA.dim))
          continue;
        const DimFactors &dim = rule.results[number][onA.dim];
        unsigned atA = positionOf(dim, *chosen[a].factor), atB = positionOf(dim, *chosen[b].factor);
        onA.order += atA == atB ? major[b][a] : atB < atA;
      }
    placements[number] = PlacementAttr::getChecked(
        [&] {
          InFlightDiagnostic diagnostic =
              op->emitOpError("would give a result that no placement describes: ");
          if (options.quiet)
            diagnostic.abandon();
          return diagnostic;
        },
        frame.getMesh(), entries);
    if (!placements[number])
      return failure();
  }
  return placements;
}

FailureOr<SmallVector<PlacementAttr>>
cleave::placement::inferPlacements(Operation *op, const InferenceOptions &options) {
  return Inference(op, options).run();
}

LogicalResult cleave::placement::placeResults(Operation *op, const InferenceOptions &options) {
  FailureOr<SmallVector<PlacementAttr>> placements = inferPlacements(op, options);
  if (failed(placements))
    return failure();
  for (auto [result, placement] : llvm::zip_equal(op->getResults(), *placements))
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      result.setType(dist::withPlacement(type, placement));
  return success();
}
