//===- RankClasses.cpp - which functions are this rank's ---------------------===//

#include "runtime/program/RankClasses.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

RankClasses::RankClasses(llvm::ArrayRef<train::ProgramClass> classes, llvm::ArrayRef<MeshAxis> mesh,
                         RankPlace place)
    : classes(classes), mesh(mesh) {
  int64_t rest = place.rank;
  for (const MeshAxis &axis : llvm::reverse(mesh)) {
    // That the number of ranks fits the mesh is checked when they are connected.
    int64_t size = axis.size ? axis.size : std::max<int64_t>(place.ranks, 1);
    places[axis.name] = rest % size;
    rest /= size;
  }
}

const train::ProgramClass &RankClasses::classFor(const Places &at) const {
  for (const train::ProgramClass &each : classes)
    if (each.contains(at))
      return each;
  llvm_unreachable("each rank is of a class");
}

void RankClasses::readWholeShape(ValueInfo &value,
                                 llvm::function_ref<Type(const Places &)> typeAt) const {
  llvm::SmallVector<int64_t, 4> shape = value.type.shape;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    Places at = places;
    llvm::SmallVector<const MeshAxis *> sharding;
    for (const MeshAxis &axis : mesh)
      for (const runtime::AxisPlacement &placement : value.placements)
        if (placement.axis == axis.name && placement.dim == int64_t(dim) &&
            placement.kind == runtime::AxisPlacement::Kind::Shard)
          sharding.push_back(&axis);
    if (sharding.empty())
      continue;
    for (const MeshAxis *axis : sharding)
      at[axis->name] = 0;
    size = 0;
    for (bool isDone = false; !isDone;) {
      size += toTensorType(typeAt(at)).shape[dim];
      isDone = true;
      for (const MeshAxis *axis : sharding) {
        if (++at[axis->name] < axis->size) {
          isDone = false;
          break;
        }
        at[axis->name] = 0;
      }
    }
  }
  value.wholeShape = std::move(shape);
}

void RankClasses::readWholeShapes(size_t function, Signature &signature) const {
  if (classes.size() == 1)
    return;
  auto functionAt = [&](const Places &at) {
    return func::FuncOp(classFor(at).program.getFunctions()[function]);
  };
  for (auto [i, value] : llvm::enumerate(signature.arguments))
    readWholeShape(value,
                   [&, i = i](const Places &at) { return functionAt(at).getArgumentTypes()[i]; });
  for (auto [i, value] : llvm::enumerate(signature.results))
    readWholeShape(value,
                   [&, i = i](const Places &at) { return functionAt(at).getResultTypes()[i]; });
}
