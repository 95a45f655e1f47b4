//===- GraphFile.h - what a budget counts, for others to check ------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_GRAPHFILE_H
#define CLEAVE_LIB_BACKWARD_GRAPHFILE_H

#include "lib/backward/PartitionCosts.h"

namespace cleave::backward {

/// Writes the ops and values of a graph as a search of partitions sees them, with their bytes and
/// times, as JSON: what an oracle needs that is to judge the search.
llvm::LogicalResult writeGraph(llvm::StringRef path, mlir::Operation *op,
                               const PartitionCosts &costs, const StepForm &form);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_GRAPHFILE_H
