//===- OutVariant.cpp - operators that write into given tensors --------------===//

#include "runtime/aten/OutVariant.h"

#include "llvm/ADT/StringMap.h"

using namespace cleave::runtime;

/// All overloads of the dispatcher's operators, by name.
static llvm::ArrayRef<c10::OperatorName> overloadsOf(const std::string &name) {
  static const llvm::StringMap<std::vector<c10::OperatorName>> byName = [] {
    llvm::StringMap<std::vector<c10::OperatorName>> map;
    for (const c10::OperatorName &each : c10::Dispatcher::singleton().getAllOpNames())
      map[each.name].push_back(each);
    return map;
  }();
  auto found = byName.find(name);
  if (found == byName.end())
    return {};
  return found->second;
}

/// Whether `out` takes what `functional` takes and then a tensor to write for each of its results.
static bool isOutOverloadOf(const c10::FunctionSchema &out, const c10::FunctionSchema &functional) {
  const auto &inputs = functional.arguments(), &all = out.arguments();
  size_t numResults = functional.returns().size();
  if (numResults == 0 || all.size() != inputs.size() + numResults)
    return false;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= inputs.size()) {
      if (!all[i].is_out() || all[i].type()->kind() != c10::TypeKind::TensorType)
        return false;
    } else if (all[i].is_out() || all[i].name() != inputs[i].name() ||
               *all[i].real_type() != *inputs[i].real_type()) {
      return false;
    }
  }
  return true;
}

OutVariant cleave::runtime::findOutVariant(const c10::OperatorHandle &functional,
                                           c10::DispatchKey key) {
  OutVariant variant;
  for (const c10::OperatorName &name : overloadsOf(functional.operator_name().name)) {
    std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || !isOutOverloadOf(handle->schema(), functional.schema()))
      continue;
    bool isReal = handle->hasKernelForDispatchKey(key);
    variant = {isReal ? OutVariantKind::Real : OutVariantKind::Copying, handle};
    if (isReal)
      break;
  }
  return variant;
}
