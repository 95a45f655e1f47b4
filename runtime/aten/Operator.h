//===- Operator.h - operators of the dispatcher and their arguments -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_ATEN_OPERATOR_H
#define CLEAVE_RUNTIME_ATEN_OPERATOR_H

#include "runtime/aten/Facade.h"

#include "mlir/IR/Attributes.h"

namespace cleave::runtime {

/// The overload `name` ("aten::add.Tensor"). Fails if this LibTorch has no such operator, or no
/// kernel for it on the device of `key`.
llvm::Expected<c10::OperatorHandle> findOperator(llvm::StringRef name,
                                                 c10::DispatchKey key = c10::DispatchKey::CPU);

/// The constant `value` as the dispatcher takes it for `argument`: numbers by the schema's type,
/// one number for a list of fixed length, MLIR types as dtypes, strings as memory formats.
llvm::Expected<c10::IValue> toIValue(mlir::Attribute value, const c10::Argument &argument);

/// What a call passes for an argument that the program leaves out.
llvm::Expected<c10::IValue> defaultIValue(const c10::Argument &argument);

/// An empty list of tensors of the kind that `argument` takes (`Tensor[]` or `Tensor?[]`).
c10::IValue makeTensorList(const c10::Argument &argument, size_t size);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_OPERATOR_H
