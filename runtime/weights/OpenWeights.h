//===- OpenWeights.h - weights in any form -----------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_WEIGHTS_OPENWEIGHTS_H
#define CLEAVE_RUNTIME_WEIGHTS_OPENWEIGHTS_H

#include "runtime/io/TensorSet.h"

namespace cleave::runtime {

/// The weights at `path`: a safetensors file, an index of several, or a folder with one of these
/// (a checkpoint of cleave-run, a Hugging Face model) or a checkpoint of
/// torch.distributed.checkpoint. Pickled weights are refused: reading them would run them.
llvm::Expected<std::unique_ptr<TensorSet>> openWeights(llvm::StringRef path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WEIGHTS_OPENWEIGHTS_H
