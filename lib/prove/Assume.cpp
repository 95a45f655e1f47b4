//===- Assume.cpp - what a proof may take for granted on request ------------===//

#include "lib/prove/Assume.h"
#include "dialects/aten/Aten.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

llvm::Error cleave::prove::assumeExactCasts(ArrayRef<ModuleOp> programs) {
  llvm::SetVector<Type> drawn;
  for (ModuleOp program : programs)
    program.walk([&](aten::RandomOpInterface op) {
      for (Type type : op->getResultTypes())
        if (auto tensor = dyn_cast<RankedTensorType>(type);
            tensor && isa<FloatType>(tensor.getElementType()))
          drawn.insert(tensor.getElementType());
    });
  if (drawn.size() > 1)
    return llvm::createStringError(
        llvm::formatv("random numbers are drawn as {0} and as {1}, which are not the same numbers",
                      drawn[0], drawn[1]));

  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [](FloatType type) -> Type { return Float32Type::get(type.getContext()); });
  // Numbers in attributes stay as they are: their types say how they are kept.
  replacer.addReplacement([](FloatAttr number) -> std::pair<Attribute, WalkResult> {
    return {number, WalkResult::skip()};
  });
  replacer.addReplacement([](ElementsAttr numbers) -> std::pair<Attribute, WalkResult> {
    return {numbers, WalkResult::skip()};
  });
  replacer.addReplacement([](DenseArrayAttr numbers) -> std::pair<Attribute, WalkResult> {
    return {numbers, WalkResult::skip()};
  });
  for (ModuleOp program : programs)
    replacer.recursivelyReplaceElementsIn(program, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
  return llvm::Error::success();
}
