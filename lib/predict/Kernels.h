//===- Kernels.h - a table of kernels in, with predicted seconds out -*- C++ -*-===//
//
// What one kernel takes by itself, from the constants of its device: a profile of kernels can so be
// compared with predictions, and constants fitted to it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PREDICT_KERNELS_H
#define CLEAVE_LIB_PREDICT_KERNELS_H

#include "lib/cost/Cluster.h"
#include "lib/predict/Table.h"

namespace cleave::predict {

/// Seconds of the kernel that a row describes, with the device's time between kernels, without the
/// host's. Columns: `device` (the name in a device's file), `kind` and what that reads:
///   product    `batch` (1 if empty) products of `m` x `k` by `k` x `n` of operands of `bits` bits
///              (32, 16, 8 or 4; 16 if empty)
///   bytes      `bytes`, which it reads and writes, and computes next to nothing
llvm::Expected<double> predictKernel(const Row &row, const cost::Library &library);

/// Reads the table and adds the columns predicted_seconds and note. A row that cannot be predicted
/// has a note that says why, with the column. A table without `device` and `kind` is an error.
llvm::Expected<Table> predictKernels(llvm::StringRef table, llvm::StringRef devices);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_KERNELS_H
