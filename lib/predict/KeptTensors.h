//===- KeptTensors.h - memory of activations, tensor by tensor ------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_KEPTTENSORS_H
#define CLEAVE_LIB_PREDICT_KEPTTENSORS_H

#include "lib/predict/Transformer.h"

namespace cleave::predict {

/// An op of a plan by op, as one rank runs it.
struct PlannedOp {
  enum Kind { Embedding, InLayer, Norm, Loss } kind = InLayer;
  int64_t layer = 0;
  Block block = Block::Norm1;
  double tensor = 1;     // ranks that share the op
  double microBatch = 1; // of each of them
  bool again = false;    // the backward runs it again instead of keeping what it needs
};

/// Bytes of one microbatch in a pipeline stage.
struct KeptBytes {
  double saved = 0; // after the forward
  double most = 0;  // during the backward
};

/// Follows the tensors of a stage. Several ops may need one tensor, which is kept once. Ops next to
/// each other that run again keep what goes into the first of them; a layer begins a new such run.
/// The backward frees a tensor after its first user; beside what is left stand the run that is
/// recomputed and the gradients of an op's results and operands. What a stage sends stays until
/// its gradient comes.
KeptBytes keptBytes(const Layout &layout, llvm::ArrayRef<PlannedOp> ops);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_KEPTTENSORS_H
