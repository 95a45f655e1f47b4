//===- Options.h - what the pipeline passes' options mean ------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_PIPELINE_OPTIONS_H
#define CLEAVE_PASSES_PIPELINE_OPTIONS_H

#include "lib/schedule/model/CommModel.h"

#include "mlir/IR/BuiltinOps.h"

namespace cleave::pipeline {

/// Checks that an option is within [least, most]; emits an error on the module otherwise.
mlir::LogicalResult expectCount(mlir::ModuleOp module, llvm::StringRef option, int64_t value,
                                int64_t minimum, int64_t maximum);

/// The communication model with these slots. Emits an error on the module where a number is none.
mlir::FailureOr<schedule::CommModel> readModel(mlir::ModuleOp module, schedule::Matching matching,
                                               schedule::StreamSharing streams,
                                               int64_t receiveSlots, int64_t sendSlots);

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_OPTIONS_H
