//===- CheapOps.cpp - ops that are cheaper to repeat than to remember --------===//

#include "lib/backward/CheapOps.h"

#include "dialects/aten/Aten.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;

bool backward::isCheap(Operation *op) {
  auto aten = dyn_cast<aten::AtenOpInterface>(op);
  if (!aten || op->getNumResults() != 1)
    return false;
  if (aten.getViewSource(0))
    return true;
  static const llvm::StringSet<> cheap = {
      // arithmetic
      "abs", "add", "addcdiv", "addcmul", "div", "mul", "neg", "reciprocal", "rsub", "sgn", "sign",
      "sqrt", "rsqrt", "square", "sub", "pow", "remainder",
      // functions and activations, and their gradients
      "cos", "elu", "elu_backward", "erf", "exp", "expm1", "gelu", "gelu_backward", "hardsigmoid",
      "hardsigmoid_backward", "hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward",
      "leaky_relu", "leaky_relu_backward", "log", "log1p", "log2", "mish", "mish_backward", "relu",
      "sigmoid", "sigmoid_backward", "silu", "silu_backward", "sin", "softplus",
      "softplus_backward", "tanh", "tanh_backward", "threshold", "threshold_backward",
      "native_dropout_backward",
      // comparison and choice
      "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clamp", "clamp_max", "clamp_min",
      "eq", "ge", "gt", "isinf", "isnan", "le", "logical_and", "logical_not", "logical_or", "lt",
      "masked_fill", "maximum", "minimum", "ne", "where", "tril", "triu",
      // copies and fills
      "_to_copy", "_unsafe_view", "arange", "clone", "full", "full_like", "new_full", "new_ones",
      "new_zeros", "ones", "ones_like", "repeat", "scalar_tensor", "zeros", "zeros_like",
      "lift_fresh_copy"};
  StringRef name = aten.getSchemaName();
  return name.consume_front("aten::") && cheap.contains(name.split('.').first);
}
