//===- DistBuilder.cpp - makes dist ops, with their result types --------------===//

#include "lib/autodiff/DistBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;
using dist::AxisPlacement;
using dist::PlacementAttr;
using dist::PlacementKind;

Value autodiff::valueOf(OpResult result) {
  if (!isa<dist::FutureType>(result.getType()))
    return result;
  for (Operation *user : result.getUsers())
    if (auto wait = dyn_cast<dist::WaitOp>(user))
      return wait.getResult();
  return {};
}

PlacementKind DistBuilder::kindOf(Type type) const {
  if (PlacementAttr placement = dist::getPlacement(type))
    for (StringRef axis : axes.getAsValueRange<StringAttr>())
      if (std::optional<AxisPlacement> along = placement.get(axis))
        return along->kind;
  return PlacementKind::V;
}

RankedTensorType DistBuilder::typeWith(Value like, ArrayRef<int64_t> shape, Type dtype,
                                       AxisPlacement along) const {
  auto plain = RankedTensorType::get(shape, dtype);
  PlacementAttr placement = dist::getPlacement(like.getType());
  if (!placement)
    return plain;
  for (StringRef axis : axes.getAsValueRange<StringAttr>())
    if (placement.get(axis))
      placement = placement.with(axis, along);
  return dist::withPlacement(plain, placement);
}

std::optional<int64_t> DistBuilder::ranks(Operation *at) const {
  auto meshOp = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(at, mesh);
  int64_t product = 1;
  for (StringRef axis : axes.getAsValueRange<StringAttr>()) {
    int64_t size = meshOp ? meshOp.findAxis(axis).getSize() : 0;
    if (size == 0)
      return std::nullopt;
    product *= size;
  }
  return product;
}

NamedAttribute DistBuilder::reductionOf(dist::Reduction kind) {
  return b.named("reduction", dist::ReductionAttr::get(mesh.getContext(), kind));
}

SmallVector<Value> DistBuilder::allReduce(dist::Reduction reduction, ValueRange values,
                                          TypeRange types) {
  Operation *op = b.create(dist::AllReduceOp::getOperationName(), types, values,
                           {reductionOf(reduction), b.named("mesh", mesh), b.named("axes", axes)});
  return SmallVector<Value>(op->getResults());
}

Value DistBuilder::make(StringRef name, ValueRange operands, Type type,
                        ArrayRef<NamedAttribute> attributes) {
  SmallVector<NamedAttribute> all(attributes);
  all.push_back(b.named("mesh", mesh));
  all.push_back(b.named("axes", axes));
  return b.create(name, type, operands, all)->getResult(0);
}

Value DistBuilder::allGather(Value value, int64_t dim, Type type) {
  return make(dist::AllGatherOp::getOperationName(), value, type, b.integer("dim", dim));
}
Value DistBuilder::reduceScatter(Value value, int64_t dim, Type type) {
  return make(dist::ReduceScatterOp::getOperationName(), value, type,
              {reductionOf(dist::Reduction::Sum), b.integer("dim", dim)});
}
Value DistBuilder::broadcast(Value value, int64_t root, Type type) {
  return make(dist::BroadcastOp::getOperationName(), value, type, b.integer("root", root));
}
Value DistBuilder::reduce(Value value, int64_t root, Type type) {
  return make(dist::ReduceOp::getOperationName(), value, type,
              {reductionOf(dist::Reduction::Sum), b.integer("root", root)});
}

Value DistBuilder::index(Value like) {
  auto type = RankedTensorType::get({}, IntegerType::get(mesh.getContext(), 64));
  if (PlacementAttr placement = dist::getPlacement(like.getType())) {
    for (const dist::AxisEntry &entry : llvm::to_vector(placement.getEntries())) {
      bool along = llvm::is_contained(axes, entry.axis);
      placement =
          placement.with(entry.axis, along ? AxisPlacement::varying() : AxisPlacement::invariant());
    }
    type = dist::withPlacement(type, placement);
  }
  return make(dist::AxisIndexOp::getOperationName(), {}, type);
}
