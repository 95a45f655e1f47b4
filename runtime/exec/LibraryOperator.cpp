//===- LibraryOperator.cpp - calls of operators that LibTorch does not have --===//

#include "runtime/exec/LibraryOperator.h"

#include <ATen/ops/equal.h>

#include "llvm/ADT/SmallVector.h"

using namespace cleave::runtime;

bool cleave::runtime::isOfLibrary(const c10::OperatorHandle &handle) {
  auto space = handle.schema().getNamespace();
  return space && *space != "aten" && *space != "prims" && *space != "quantized";
}

namespace {
/// A tensor among the arguments.
struct Given {
  size_t argument;
  at::Tensor tensor;
  /// A copy of its bytes, to be compared.
  at::Tensor before;
};
} // namespace

static at::Tensor bytesOf(const at::Tensor &tensor) {
  return tensor.contiguous().reshape({-1}).view(at::kByte);
}

static llvm::SmallVector<Given, 4> tensorsOf(const torch::jit::Stack &stack, bool copies) {
  llvm::SmallVector<Given, 4> given;
  auto add = [&](size_t argument, const c10::IValue &value) {
    if (value.isTensor() && value.toTensor().defined())
      given.push_back(
          {argument, value.toTensor(), copies ? bytesOf(value.toTensor()).clone() : at::Tensor()});
  };
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!stack[i].isList()) {
      add(i, stack[i]);
      continue;
    }
    for (const c10::IValue &element : stack[i].toListRef())
      add(i, element);
  }
  return given;
}

/// Each defined tensor among the results, to be exchanged.
template <typename Visit> static void forEachResult(torch::jit::Stack &stack, Visit visit) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].isTensorList()) {
      c10::List<at::Tensor> list = stack[i].toTensorList();
      for (size_t j = 0; j < list.size(); ++j)
        list.set(j, visit(i, list.get(j)));
    } else if (stack[i].isTensor() && stack[i].toTensor().defined()) {
      stack[i] = visit(i, stack[i].toTensor());
    }
  }
}

void cleave::runtime::callOfLibrary(const c10::OperatorHandle &handle, torch::jit::Stack &stack,
                                    bool compares) {
  const c10::FunctionSchema &schema = handle.schema();
  llvm::SmallVector<Given, 4> given = tensorsOf(stack, compares);
  try {
    handle.callBoxed(stack);
  } catch (const std::exception &) {
    throw;
  } catch (...) {
    TORCH_CHECK(false, "operator '", schema.name(), "' threw what is no std::exception");
  }
  for (const Given &each : given)
    TORCH_CHECK(!compares || at::equal(bytesOf(each.tensor), each.before), "operator '",
                schema.name(), "' changed its argument '", schema.arguments()[each.argument].name(),
                "', which its schema does not say: ", c10::toString(schema));
  forEachResult(stack, [&](size_t i, at::Tensor result) {
    const c10::Argument &declared = schema.returns()[std::min(i, schema.returns().size() - 1)];
    if (declared.alias_info() || result.layout() != at::kStrided)
      return result;
    for (const Given &each : given)
      TORCH_CHECK(!result.numel() || !result.is_alias_of(each.tensor), "operator '", schema.name(),
                  "' returned memory of its argument '", schema.arguments()[each.argument].name(),
                  "', which its schema does not say: ", c10::toString(schema));
    return result.is_non_overlapping_and_dense() ? result : result.contiguous();
  });
}
