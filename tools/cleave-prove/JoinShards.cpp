//===- JoinShards.cpp - signatures of whole tensors, for a run --------------===//

#include "tools/cleave-prove/JoinShards.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Placed.h"
#include "dialects/train/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

namespace {
/// The shards of one argument or result.
struct Shards {
  dist::PlacementAttr placement;
  RankedTensorType part;

  /// What files have: nothing if its size is not known.
  std::optional<RankedTensorType> whole(dist::MeshOp mesh) const {
    SmallVector<int64_t> shape(part.getShape());
    for (auto [dim, size] : llvm::enumerate(shape))
      for (StringAttr name : placement.getShardingAxes(dim)) {
        dist::AxisAttr axis = mesh.findAxis(name);
        if (!axis || axis.getSize() <= 0)
          return std::nullopt;
        size *= axis.getSize();
      }
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
};
} // namespace

static std::optional<Shards> shardsOf(train::RoleAttr role, Type type, Attribute attribute) {
  auto placement = dyn_cast_or_null<dist::PlacementAttr>(attribute);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!role || !placement || !tensor || tensor.getEncoding() ||
      (role.getKind() != RoleKind::Parameter && role.getKind() != RoleKind::OptimizerState))
    return std::nullopt;
  Shards shards{placement, tensor};
  return shards.dims().empty() ? std::nullopt : std::optional(shards);
}

static ArrayAttr axesOf(const Shards &shards, unsigned dim, Builder &b) {
  auto names = shards.placement.getShardingAxes(dim);
  return b.getArrayAttr(SmallVector<Attribute>(names.begin(), names.end()));
}

/// The type with dimension `dim` as large as that of `like`.
static RankedTensorType resize(RankedTensorType type, unsigned dim, RankedTensorType like) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = like.getDimSize(dim);
  return RankedTensorType::get(shape, type.getElementType());
}

/// A rank's part of what all ranks have: the greatest of equal values is each of them.
static Value takePart(OpBuilder &b, Value whole, const Shards &shards, FlatSymbolRefAttr mesh) {
  auto greatest = dist::ReductionAttr::get(b.getContext(), dist::Reduction::Max);
  for (unsigned dim : shards.dims())
    whole =
        dist::ReduceScatterOp::create(
            b, whole.getLoc(), resize(cast<RankedTensorType>(whole.getType()), dim, shards.part),
            whole, greatest, b.getI64IntegerAttr(dim), mesh, axesOf(shards, dim, b))
            .getResult(0);
  return whole;
}

static Value gather(OpBuilder &b, Value part, const Shards &shards, RankedTensorType whole,
                    FlatSymbolRefAttr mesh) {
  for (unsigned dim : shards.dims())
    part = dist::AllGatherOp::create(b, part.getLoc(),
                                     resize(cast<RankedTensorType>(part.getType()), dim, whole),
                                     part, b.getI64IntegerAttr(dim), mesh, axesOf(shards, dim, b))
               .getResult(0);
  return part;
}

static void joinShards(func::FuncOp function, dist::MeshOp mesh) {
  auto symbol = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  OpBuilder begin = OpBuilder::atBlockBegin(&function.front());
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    std::optional<Shards> shards =
        shardsOf(train::getArgumentRole(function, number), argument.getType(),
                 function.getArgAttr(number, dist::kPlacementAttr));
    std::optional<RankedTensorType> whole = shards ? shards->whole(mesh) : std::nullopt;
    if (!whole)
      continue;
    argument.setType(*whole);
    Value part = takePart(begin, argument, *shards, symbol);
    Operation *first = part.getDefiningOp();
    while (first->getOperand(0) != argument)
      first = first->getOperand(0).getDefiningOp();
    argument.replaceAllUsesExcept(part, first);
  }
  Operation *end = function.front().getTerminator();
  OpBuilder b(end);
  for (OpOperand &operand : end->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    std::optional<Shards> shards =
        shardsOf(train::getResultRole(function, number), operand.get().getType(),
                 function.getResultAttr(number, dist::kPlacementAttr));
    std::optional<RankedTensorType> whole = shards ? shards->whole(mesh) : std::nullopt;
    if (!whole)
      continue;
    operand.set(gather(b, operand.get(), *shards, *whole, symbol));
  }
  function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                     end->getOperandTypes()));
}

bool prove::joinShards(ModuleOp module) {
  dist::MeshOp mesh = dist::getMesh(module);
  bool isChanged = false;
  for (auto function : module.getOps<func::FuncOp>())
    if (mesh && !function.isExternal() && function.getBody().hasOneBlock() &&
        function->hasAttr(train::kPhaseAttrName) && dist::isPlaced(function)) {
      ::joinShards(function, mesh);
      // What gradients say too: to the runtime these attributes are plans.
      dist::erasePlacements(function);
      isChanged = true;
    }
  return isChanged;
}
