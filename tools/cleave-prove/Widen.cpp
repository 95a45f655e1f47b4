//===- Widen.cpp - programs and tensors in float64 --------------------------===//

#include "tools/cleave-prove/Widen.h"
#include "dialects/aten/ops/Call.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "dialects/train/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cstring>

using namespace mlir;
using namespace cleave;

static bool isNarrowFloat(Type type) {
  return isa<FloatType>(type) && !type.isF64();
}

unsigned prove::narrowestFloat(ModuleOp module) {
  unsigned bits = 64;
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type)) {
        Type element = tensor.getElementType();
        if (auto complex = dyn_cast<ComplexType>(element))
          element = complex.getElementType();
        if (isa<FloatType>(element))
          bits = std::min(bits, element.getIntOrFloatBitWidth());
      }
  });
  return bits;
}

static APFloat toDouble(APFloat value) {
  bool losesInfo = false;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
  return value;
}

/// Makes a value float32 again, and what says that it lies in another way; what computes with it
/// takes a copy in float64.
static void narrow(mlir::Value value) {
  auto wide = cast<RankedTensorType>(value.getType());
  value.setType(RankedTensorType::get(wide.getShape(), Float32Type::get(value.getContext()),
                                      wide.getEncoding()));
  mlir::Value copy;
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  for (Operation *user : llvm::to_vector(value.getUsers())) {
    if (isa<train::TrainDialect>(user->getDialect()) || isa<aten::ItemOp>(user))
      continue;
    if (isa<dist::ConvertOp, dist::ReinterpretOp>(user)) {
      narrow(user->getResult(0));
      continue;
    }
    if (!copy)
      copy = aten::ToCopyOp::create(b, value.getLoc(), wide, value,
                                    TypeAttr::get(wide.getElementType()), BoolAttr(), StringAttr());
    user->replaceUsesOfWith(value, copy);
  }
}

/// Makes the number of the step and the loss scale float32 again, as they are in every program.
static void narrowScalars(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (role && isa<RankedTensorType>(argument.getType()) &&
          (role.getKind() == train::RoleKind::Step || role.getKind() == train::RoleKind::LossScale))
        narrow(argument);
    }
    function.setType(FunctionType::get(module.getContext(), function.front().getArgumentTypes(),
                                       function.getResultTypes()));
  }
}

OwningOpRef<ModuleOp> prove::widen(ModuleOp module) {
  OwningOpRef<ModuleOp> result = module.clone();
  Type wide = Float64Type::get(module.getContext());
  bool isPossible = true;
  AttrTypeReplacer replacer;
  // What was added last is asked first: constants are replaced whole, before their types are.
  replacer.addReplacement([&](FloatType type) -> std::optional<Type> {
    return isNarrowFloat(type) ? std::optional(wide) : std::nullopt;
  });
  replacer.addReplacement([&](FloatAttr attr) -> std::optional<std::pair<Attribute, WalkResult>> {
    if (!isNarrowFloat(attr.getType()))
      return std::nullopt;
    return std::pair<Attribute, WalkResult>(FloatAttr::get(wide, toDouble(attr.getValue())),
                                            WalkResult::skip());
  });
  replacer.addReplacement(
      [&](DenseFPElementsAttr attr) -> std::optional<std::pair<Attribute, WalkResult>> {
        if (!isNarrowFloat(attr.getElementType()))
          return std::nullopt;
        return std::pair<Attribute, WalkResult>(
            attr.mapValues(wide,
                           [](const APFloat &value) { return toDouble(value).bitcastToAPInt(); }),
            WalkResult::skip());
      });
  replacer.addReplacement([&](DenseResourceElementsAttr attr) -> std::optional<Attribute> {
    isPossible &= !isNarrowFloat(attr.getElementType());
    return std::nullopt;
  });
  replacer.recursivelyReplaceElementsIn(*result, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  narrowScalars(*result);
  // What an op has against it is no fault of the program.
  ScopedDiagnosticHandler silent(module.getContext(), [](Diagnostic &) { return success(); });
  return isPossible && succeeded(verify(*result)) ? std::move(result) : nullptr;
}

/// Of the bits of one element; nothing if its type is none of narrower floating-point numbers.
static std::optional<double> readNarrow(runtime::DType dtype, const uint8_t *bytes) {
  auto read = [&](const llvm::fltSemantics &semantics, unsigned size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes, size);
    return toDouble(APFloat(semantics, APInt(8 * size, bits))).convertToDouble();
  };
  switch (dtype) {
  case runtime::DType::F32: {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  case runtime::DType::BF16:
    return read(APFloat::BFloat(), 2);
  case runtime::DType::F16:
    return read(APFloat::IEEEhalf(), 2);
  default:
    return std::nullopt;
  }
}

std::optional<std::vector<uint8_t>> prove::widen(const runtime::TensorView &tensor) {
  size_t size = runtime::byteSize(tensor.dtype), count = tensor.bytes.size() / size;
  std::vector<uint8_t> bytes(count * sizeof(double));
  for (size_t i = 0; i < count; ++i) {
    std::optional<double> value = readNarrow(tensor.dtype, tensor.bytes.data() + i * size);
    if (!value)
      return std::nullopt;
    std::memcpy(bytes.data() + i * sizeof(double), &*value, sizeof(double));
  }
  return bytes;
}

llvm::Error prove::widenFile(llvm::StringRef from, llvm::StringRef to) {
  auto file = runtime::SafetensorsFile::open(from);
  if (!file)
    return file.takeError();
  std::vector<runtime::TensorView> views((*file)->tensors());
  std::vector<std::vector<uint8_t>> kept;
  kept.reserve(views.size());
  for (runtime::TensorView &view : views)
    if (std::optional<std::vector<uint8_t>> bytes = widen(view)) {
      kept.push_back(std::move(*bytes));
      view.dtype = runtime::DType::F64;
      view.bytes = kept.back();
    }
  return runtime::writeSafetensors(to, views, (*file)->metadata());
}
