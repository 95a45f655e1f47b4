//===- ReduceLast.cpp - a gradient's layout before its reductions ------------===//

#include "lib/backward/ReduceLast.h"

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/aten/Strides.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace cleave;
using dist::PlacementAttr;
using sharding::ShardingRule;
using sharding::SizeAttribute;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(dist::valueTypeOf(value.getType()));
}

/// `to` with the entries that `from` has on `axes`.
static PlacementAttr withEntriesOf(PlacementAttr to, PlacementAttr from,
                                   ArrayRef<StringAttr> axes) {
  for (StringAttr axis : axes)
    if (std::optional<dist::AxisPlacement> entry = from ? from.get(axis) : std::nullopt)
      to = to.with(axis, *entry);
  return to;
}

namespace {
/// The chain of one gradient, taken op by op: each either moves before the reductions so far,
/// or is one of what follows on what has moved.
class Chain {
public:
  Chain(aten::StrideInference &strides, const backward::GradientChain &chain)
      : strides(strides), chain(chain), b(chain.ops.front()), front(chain.start) {}

  void run();

private:
  /// An op that stays after what moves.
  struct Step {
    Operation *op;
    /// For reductions: the axes, and the placement of the result on them.
    SmallVector<StringAttr, 2> axes;
    PlacementAttr after;
    /// For reduce_scatter: the dimension and the number of parts.
    int64_t dim = 0, parts = 1;

    bool isScatter() const { return isa<dist::ReduceScatterOp>(op); }
  };

  bool keep(Operation *op);
  bool move(Operation *op);
  bool moveConversion(dist::ConvertOp op);
  bool moveLayout(Operation *op);
  void copyForView(ArrayRef<int64_t> shape);
  /// What an op that gives `type` after the reductions gives before them.
  PlacementAttr placementInFront(RankedTensorType type);
  void rebuild(ArrayRef<Operation *> rest);
  Type typeOfStep(const Step &step, Value operand);

  aten::StrideInference &strides;
  const backward::GradientChain &chain;
  OpBuilder b;
  /// What has moved so far ends in this value.
  Value front;
  SmallVector<Step> steps;
  bool isChanged = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// What moves
//===----------------------------------------------------------------------===//

/// Reductions, waits for them, and what works element by element have no part in the layout.
bool Chain::keep(Operation *op) {
  if (isa<dist::ReduceScatterOp, dist::AllReduceOp>(op)) {
    auto communication = cast<dist::CommunicationOpInterface>(op);
    Step step{op, {}, dist::getPlacement(typeOf(op->getResult(0))), 0, 1};
    llvm::append_range(step.axes, communication.getAxesAttr().getAsRange<StringAttr>());
    if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
      step.dim = scatter.getDim();
      int64_t whole = typeOf(op->getOperand(0)).getDimSize(step.dim);
      int64_t part = typeOf(op->getResult(0)).getDimSize(step.dim);
      if (part == 0 || whole % part != 0)
        return false;
      step.parts = whole / part;
    }
    steps.push_back(std::move(step));
    return true;
  }
  bool isPointwise = typeOf(op->getOperand(0)).getShape() == typeOf(op->getResult(0)).getShape() &&
                     dist::getPlacement(op->getOperand(0).getType()) ==
                         dist::getPlacement(op->getResult(0).getType()) &&
                     sharding::getShardingRule(op).kind == sharding::OpKind::Compute;
  if (!isa<dist::WaitOp>(op) && !isPointwise)
    return false;
  steps.push_back({op, {}, {}, 0, 1});
  return true;
}

PlacementAttr Chain::placementInFront(RankedTensorType type) {
  PlacementAttr placement = dist::getPlacement(type);
  if (!placement)
    return placement;
  for (const Step &step : steps)
    placement = withEntriesOf(placement, dist::getPlacement(typeOf(front)), step.axes);
  return placement;
}

/// From R to I or back, the ranks hold what they held.
bool Chain::moveConversion(dist::ConvertOp op) {
  if (!op.getSource().isSameOnAllRanks() || !op.getDestination().isSameOnAllRanks())
    return false;
  for (Step &step : llvm::reverse(steps))
    if (llvm::is_contained(step.axes, op.getAxis())) {
      // The reduction can as well give the one as the other.
      step.after = step.after.with(op.getAxis(), op.getDestination());
      return true;
    }
  RankedTensorType type = typeOf(front);
  type =
      dist::withPlacement(type, dist::getPlacement(type).with(op.getAxis(), op.getDestination()));
  front = dist::ConvertOp::create(b, op.getLoc(), type, front, IntegerAttr());
  return true;
}

/// A view that the kernels' strides do not allow needs a copy.
void Chain::copyForView(ArrayRef<int64_t> shape) {
  if (strides.isViewable(front, shape))
    return;
  auto isNotOne = [](int64_t size) { return size != 1; };
  // Dimensions of size 1 come and go whatever the strides.
  if (llvm::equal(llvm::make_filter_range(typeOf(front).getShape(), isNotOne),
                  llvm::make_filter_range(shape, isNotOne)))
    return;
  OperationState state(front.getLoc(), aten::CloneOp::getOperationName());
  state.addOperands(front);
  state.addTypes(front.getType());
  state.addAttribute("memory_format", b.getStringAttr("contiguous_format"));
  front = b.create(state)->getResult(0);
}

/// Its rule says which dimension a scattered one becomes, and whether the parts of the whole's
/// layout are the layouts of its parts.
bool Chain::moveLayout(Operation *op) {
  RankedTensorType local = typeOf(op->getResult(0));
  ShardingRule rule = sharding::getShardingRule(op);
  SmallVector<int64_t> shape(local.getShape()), dims;
  for (const Step &step : steps) {
    dims.push_back(step.dim);
    if (!step.isScatter())
      continue;
    std::optional<unsigned> to;
    for (sharding::FactorId factor : rule.leadingFactors(rule.operands[0][step.dim]))
      if (!to && !rule.factors[factor].isWhole())
        to = rule.leadingDim(rule.results[0], factor);
    if (!to)
      return false;
    dims.back() = *to;
    shape[*to] *= step.parts;
  }
  if (llvm::any_of(rule.sizeAttributes, [&](const SizeAttribute &size) {
        return size.source != SizeAttribute::ResultShape;
      }))
    return false;
  Value before = front;
  if (isa<aten::ViewOp, aten::UnsafeViewOp>(op))
    copyForView(shape);
  Operation *moved = b.clone(*op);
  moved->setOperand(0, front);
  moved->getResult(0).setType(dist::withPlacement(
      RankedTensorType::get(shape, typeOf(front).getElementType()), placementInFront(local)));
  for (const SizeAttribute &size : rule.sizeAttributes)
    if (moved->hasAttr(size.name))
      moved->setAttr(size.name, b.getDenseI64ArrayAttr(shape));
  // It must hold for the whole as it does for a part.
  ShardingRule whole = sharding::getShardingRule(moved);
  bool isSame = true;
  for (auto [step, dim] : llvm::zip_equal(steps, dims)) {
    if (!step.isScatter())
      continue;
    int64_t parts = 1;
    for (const Step &other : steps)
      parts *= other.isScatter() && other.dim == step.dim ? other.parts : 1;
    isSame &=
        llvm::any_of(whole.leadingFactors(whole.operands[0][step.dim]), [&](sharding::FactorId f) {
          return !whole.factors[f].isWhole() && whole.factors[f].size % parts == 0 &&
                 whole.leadingDim(whole.results[0], f) == unsigned(dim);
        });
  }
  if (!isSame) {
    moved->erase();
    if (front != before)
      front.getDefiningOp()->erase();
    front = before;
    return false;
  }
  front = moved->getResult(0);
  for (auto [step, dim] : llvm::zip_equal(steps, dims)) {
    step.dim = dim;
    if (step.after)
      step.after = withEntriesOf(step.after, dist::getPlacement(local), step.axes);
  }
  return true;
}

bool Chain::move(Operation *op) {
  if (auto convert = dyn_cast<dist::ConvertOp>(op))
    return moveConversion(convert);
  // What communication gives has the strides that this would make.
  if (isa<aten::CloneOp, aten::AliasOp>(op))
    return true;
  auto view = dyn_cast<aten::AtenOpInterface>(op);
  if (!view || op->getNumResults() != 1 ||
      (!view.getViewedOperand(0) && !isa<aten::UnsafeViewOp>(op)))
    return false;
  return moveLayout(op);
}

//===----------------------------------------------------------------------===//
// What follows
//===----------------------------------------------------------------------===//

Type Chain::typeOfStep(const Step &step, Value operand) {
  RankedTensorType type = typeOf(operand);
  SmallVector<int64_t> shape(type.getShape());
  if (step.isScatter())
    shape[step.dim] /= step.parts;
  PlacementAttr placement = dist::getPlacement(type);
  if (placement)
    placement = withEntriesOf(placement, step.after, step.axes);
  Type element = type.getElementType();
  if (step.axes.empty() && !isa<dist::WaitOp>(step.op))
    element = typeOf(step.op->getResult(0)).getElementType();
  type = dist::withPlacement(RankedTensorType::get(shape, element), placement);
  if (isa<dist::FutureType>(step.op->getResult(0).getType()))
    return dist::FutureType::get(type.getContext(), type);
  return type;
}

void Chain::rebuild(ArrayRef<Operation *> rest) {
  b.setInsertionPoint(chain.ops.back());
  Value value = front;
  auto append = [&](Operation *op) {
    Operation *clone = b.clone(*op);
    clone->setOperand(0, value);
    value = clone->getResult(0);
    return clone;
  };
  for (const Step &step : steps) {
    Type type = typeOfStep(step, value);
    Operation *clone = append(step.op);
    clone->getResult(0).setType(type);
    if (auto scatter = dyn_cast<dist::ReduceScatterOp>(clone))
      scatter.setDim(step.dim);
  }
  llvm::for_each(rest, append);
  chain.ops.back()->getResult(0).replaceAllUsesWith(value);
  for (Operation *op : llvm::reverse(chain.ops))
    op->erase();
}

void Chain::run() {
  // A coalesced reduction has one dimension for all that it scatters.
  if (llvm::any_of(chain.ops, [](Operation *op) {
        return op->getNumOperands() != 1 || op->getNumResults() != 1;
      }))
    return;
  for (auto [place, op] : llvm::enumerate(chain.ops)) {
    if (move(op)) {
      isChanged = true;
      continue;
    }
    if (keep(op))
      continue;
    if (isChanged)
      rebuild(ArrayRef(chain.ops).drop_front(place));
    return;
  }
  if (isChanged)
    rebuild({});
}

void backward::reduceLast(func::FuncOp function, const GradientResults &results) {
  aten::StrideInference strides;
  for (const GradientChain &chain : findGradientChains(function, results))
    Chain(strides, chain).run();
}
