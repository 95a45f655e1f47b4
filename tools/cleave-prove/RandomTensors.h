//===- RandomTensors.h - inputs and states of a run ----------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_RANDOMTENSORS_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_RANDOMTENSORS_H

#include "runtime/io/DType.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave::prove {

struct RandomTensor {
  std::string name;
  runtime::TensorType type;
  std::vector<char> bytes;
};

/// Random values for the inputs and targets of `microbatches`, where axes have `sizes`; a reason if
/// one cannot be made.
llvm::Expected<std::vector<RandomTensor>> makeInputs(mlir::ModuleOp global,
                                                     llvm::ArrayRef<int64_t> sizes,
                                                     int64_t microbatches, uint64_t seed);
/// Optimizer states of the program's updates, under their names in dumps; none if there are any of
/// other types than floating-point numbers.
std::vector<RandomTensor> makeStates(mlir::ModuleOp global, uint64_t seed);

/// Writes the weights of file `from` to `to`, but each parameter or buffer of floating-point
/// elements that are all equal with other elements, near to these. Whether there is one: else
/// nothing is written.
llvm::Expected<bool> varyEqualWeights(mlir::ModuleOp global, llvm::StringRef from,
                                      llvm::StringRef to, uint64_t seed);

llvm::Error writeTensors(llvm::StringRef path, llvm::ArrayRef<RandomTensor> tensors);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_RANDOMTENSORS_H
