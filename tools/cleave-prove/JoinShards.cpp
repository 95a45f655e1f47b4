//===- JoinShards.cpp - signatures of whole tensors, for a run --------------===//

#include "tools/cleave-prove/JoinShards.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Placed.h"
#include "dialects/train/Program.h"
#include "dialects/train/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

namespace {
/// How one argument or result lies over the ranks.
struct Layout {
  dist::PlacementAttr placement;
  RankedTensorType part;
  /// Of the gradients that are each rank's term, by that many ranks, where files have them: the
  /// sum over these ranks has a shard as often.
  int64_t times = 1;

  int64_t sizeOf(StringRef name, dist::MeshOp mesh) const {
    dist::AxisAttr axis = mesh.findAxis(name);
    return axis ? axis.getSize() : 0;
  }

  /// What files have: nothing if its size is not known, or the value is not a part of one.
  std::optional<RankedTensorType> whole(dist::MeshOp mesh) const {
    SmallVector<int64_t> shape(part.getShape());
    for (const dist::AxisEntry &entry : placement.getEntries())
      if (entry.placement.isVarying() ||
          (!entry.placement.isSameOnAllRanks() && sizeOf(entry.axis.getValue(), mesh) <= 0))
        return std::nullopt;
    for (auto [dim, size] : llvm::enumerate(shape))
      for (StringAttr name : placement.getShardingAxes(dim))
        size *= sizeOf(name, mesh);
    return RankedTensorType::get(shape, part.getElementType());
  }

  /// The dimensions that are divided.
  SmallVector<unsigned> dims() const {
    SmallVector<unsigned> dims;
    for (unsigned dim = 0; dim < part.getRank(); ++dim)
      if (!placement.getShardingAxes(dim).empty())
        dims.push_back(dim);
    return dims;
  }

  /// The axes over which a reduction is pending.
  SmallVector<Attribute> pending(dist::Reduction reduction) const {
    SmallVector<Attribute> axes;
    for (const dist::AxisEntry &entry : placement.getEntries())
      if (entry.placement.isPartial() && entry.placement.reduction == reduction)
        axes.push_back(entry.axis);
    return axes;
  }

  bool isWhole() const {
    return llvm::all_of(placement.getEntries(), [](const dist::AxisEntry &entry) {
      return entry.placement.isSameOnAllRanks();
    });
  }
};

/// Makes the signatures of a program's functions those of whole tensors.
class Joiner {
public:
  Joiner(ModuleOp module, dist::MeshOp mesh)
      : module(module), mesh(mesh), symbol(FlatSymbolRefAttr::get(mesh.getSymNameAttr())) {}

  /// False if a value is not a part of a whole.
  bool join();

private:
  bool join(func::FuncOp function);
  std::optional<Layout> layoutOf(func::FuncOp function, train::RoleAttr role, Type type,
                                 Attribute attribute, bool isArgument) const;
  Value takePart(OpBuilder &b, Value whole, const Layout &layout);
  Value gather(OpBuilder &b, Value part, const Layout &layout, RankedTensorType whole);
  void joinSum(Value sum, const Layout &layout, RankedTensorType whole);
  ArrayAttr axesOf(const Layout &layout, unsigned dim, Builder &b) const;

  ModuleOp module;
  dist::MeshOp mesh;
  FlatSymbolRefAttr symbol;
  llvm::StringSet<> batchAxes, reducedGradients;
  llvm::DenseSet<Value> wholeSums;
};
} // namespace

static train::Phase phaseOf(func::FuncOp function) {
  return function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue();
}

static SmallVector<func::FuncOp> phasesOf(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
    return !function.isExternal() && function.getBody().hasOneBlock() &&
           function->hasAttr(train::kPhaseAttrName);
  });
}

/// What files have, or steps hand on.
static bool isJoined(RoleKind kind) {
  switch (kind) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Constant:
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Loss:
  case RoleKind::Output:
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
  case RoleKind::OptimizerState:
    return true;
  default:
    return false;
  }
}

std::optional<Layout> Joiner::layoutOf(func::FuncOp function, train::RoleAttr role, Type type,
                                       Attribute attribute, bool isArgument) const {
  auto placement = dyn_cast_or_null<dist::PlacementAttr>(attribute);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!role || !placement || !tensor || tensor.getEncoding() || !isJoined(role.getKind()))
    return std::nullopt;
  Layout layout{placement, tensor};
  if (layout.isWhole())
    return std::nullopt;
  bool isGradient = role.getKind() == RoleKind::Gradient;
  bool isAfterReduction =
      isGradient && reducedGradients.contains(role.getNameOrEmpty()) &&
      phaseOf(function) == (isArgument ? train::Phase::Update : train::Phase::Reduce);
  if (role.getKind() == RoleKind::Accumulator || (isGradient && !isAfterReduction))
    for (const dist::AxisEntry &entry : placement.getEntries())
      if (entry.placement.isShard() && batchAxes.contains(entry.axis.getValue()))
        layout.times *= layout.sizeOf(entry.axis.getValue(), mesh);
  return layout;
}

ArrayAttr Joiner::axesOf(const Layout &layout, unsigned dim, Builder &b) const {
  auto names = layout.placement.getShardingAxes(dim);
  return b.getArrayAttr(SmallVector<Attribute>(names.begin(), names.end()));
}

/// The type with dimension `dim` as large as that of `like`.
static RankedTensorType resize(RankedTensorType type, unsigned dim, RankedTensorType like) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = like.getDimSize(dim);
  return RankedTensorType::get(shape, type.getElementType());
}

static Value scale(OpBuilder &b, Value value, int64_t times, int64_t of) {
  if (times == of)
    return value;
  if (times > 1)
    return aten::MulScalarOp::create(b, value.getLoc(), value.getType(), value,
                                     b.getF64FloatAttr(double(times)));
  return aten::DivScalarOp::create(b, value.getLoc(), value.getType(), value,
                                   b.getF64FloatAttr(double(of)));
}

/// A rank's part of what all ranks have: the greatest of equal values is each of them, and equal
/// terms make a sum.
Value Joiner::takePart(OpBuilder &b, Value whole, const Layout &layout) {
  auto greatest = dist::ReductionAttr::get(b.getContext(), dist::Reduction::Max);
  for (unsigned dim : layout.dims())
    whole =
        dist::ReduceScatterOp::create(
            b, whole.getLoc(), resize(cast<RankedTensorType>(whole.getType()), dim, layout.part),
            whole, greatest, b.getI64IntegerAttr(dim), symbol, axesOf(layout, dim, b))
            .getResult(0);
  int64_t terms = 1;
  for (Attribute axis : layout.pending(dist::Reduction::Sum))
    terms *= layout.sizeOf(cast<StringAttr>(axis).getValue(), mesh);
  return scale(b, scale(b, whole, layout.times, 1), 1, terms);
}

Value Joiner::gather(OpBuilder &b, Value part, const Layout &layout, RankedTensorType whole) {
  for (unsigned dim : layout.dims())
    part = dist::AllGatherOp::create(b, part.getLoc(),
                                     resize(cast<RankedTensorType>(part.getType()), dim, whole),
                                     part, b.getI64IntegerAttr(dim), symbol, axesOf(layout, dim, b))
               .getResult(0);
  for (dist::Reduction reduction :
       {dist::Reduction::Sum, dist::Reduction::Avg, dist::Reduction::Max, dist::Reduction::Min})
    if (SmallVector<Attribute> axes = layout.pending(reduction); !axes.empty())
      part = dist::AllReduceOp::create(b, part.getLoc(), part.getType(), part,
                                       dist::ReductionAttr::get(b.getContext(), reduction), symbol,
                                       b.getArrayAttr(axes))
                 .getResult(0);
  return scale(b, part, 1, layout.times);
}

/// Adds up whole gradients: before the first microbatch there is no sum of which parts could be
/// taken.
void Joiner::joinSum(Value sum, const Layout &layout, RankedTensorType whole) {
  auto uses = llvm::to_vector(llvm::make_pointer_range(sum.getUses()));
  sum.setType(whole);
  wholeSums.insert(sum);
  for (OpOperand *use : uses) {
    Operation *op = use->getOwner();
    OpBuilder b(op);
    if (auto accumulate = dyn_cast<train::AccumulateOp>(op);
        accumulate && &accumulate.getAccumulatorMutable() == use) {
      accumulate.getGradientMutable().assign(gather(b, accumulate.getGradient(), layout, whole));
      joinSum(accumulate.getResult(), layout, whole);
    } else if (!op->hasTrait<OpTrait::IsTerminator>()) {
      use->set(takePart(b, sum, layout));
    }
  }
}

bool Joiner::join(func::FuncOp function) {
  OpBuilder begin = OpBuilder::atBlockBegin(&function.front());
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    std::optional<Layout> layout =
        layoutOf(function, train::getArgumentRole(function, number), argument.getType(),
                 function.getArgAttr(number, dist::kPlacementAttr), /*isArgument=*/true);
    if (!layout)
      continue;
    std::optional<RankedTensorType> whole = layout->whole(mesh);
    if (!whole || !layout->pending(dist::Reduction::Product).empty())
      return false;
    if (train::getArgumentRole(function, number).getKind() == RoleKind::Accumulator) {
      joinSum(argument, *layout, *whole);
      continue;
    }
    auto uses = llvm::to_vector(llvm::make_pointer_range(argument.getUses()));
    argument.setType(*whole);
    Value part = takePart(begin, argument, *layout);
    for (OpOperand *use : uses)
      use->set(part);
  }
  Operation *end = function.front().getTerminator();
  OpBuilder b(end);
  for (OpOperand &operand : end->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (wholeSums.contains(operand.get()))
      continue;
    std::optional<Layout> layout =
        layoutOf(function, train::getResultRole(function, number), operand.get().getType(),
                 function.getResultAttr(number, dist::kPlacementAttr), /*isArgument=*/false);
    if (!layout)
      continue;
    std::optional<RankedTensorType> whole = layout->whole(mesh);
    if (!whole || !layout->pending(dist::Reduction::Product).empty())
      return false;
    operand.set(gather(b, operand.get(), *layout, *whole));
  }
  function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                     end->getOperandTypes()));
  // What gradients say too: to the runtime these attributes are plans.
  dist::erasePlacements(function);
  return true;
}

bool Joiner::join() {
  SmallVector<func::FuncOp> functions = phasesOf(module);
  for (func::FuncOp function : functions) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (train::RoleAttr role = train::getArgumentRole(function, i); role && role.getOver())
        for (StringRef axis : role.getOver().getAsValueRange<StringAttr>())
          batchAxes.insert(axis);
    if (phaseOf(function) == train::Phase::Reduce)
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (train::RoleAttr role = train::getResultRole(function, i);
            role && role.getKind() == RoleKind::Gradient)
          reducedGradients.insert(role.getNameOrEmpty());
  }
  return llvm::all_of(functions, [&](func::FuncOp function) { return join(function); });
}

bool prove::hasShards(ModuleOp module) {
  return dist::getMesh(module) && llvm::any_of(phasesOf(module), dist::isPlaced);
}

bool prove::joinShards(ModuleOp module) {
  return Joiner(module, dist::getMesh(module)).join();
}
