//===- Rows.h - a table of layouts in, one with predictions out -----*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_ROWS_H
#define CLEAVE_LIB_PREDICT_ROWS_H

#include "lib/predict/LayerClass.h"
#include "lib/predict/Table.h"

namespace cleave::predict {

/// What predictions of a table need.
struct RowsRequest {
  std::string rows;     // the table; of `predictLayout` the file of one run
  std::string devices;  // the folder of devices, links and clusters
  std::string defaults; // the file of what rows leave open
  std::string plans;    // plans by op, {"plans": {NAME: {...}}}; empty if none
  Terms terms;
  /// Further columns: where the seconds go, and what a device computes, sends and holds.
  bool details = false;
};

/// Reads the table and adds the columns predicted_step_time_s, predicted_peak_memory_gib,
/// predicted_error (the typical relative error of predictions for the cluster) and note. A row that
/// cannot be predicted has a note that says why, with the column. So has one that needs far more
/// memory than there is, whose predicted memory stands. A table without a column that all
/// rows need is an error.
llvm::Expected<Table> predictRows(const RowsRequest &request);

/// The same for one run, which a file describes (LayoutFile.h): a table of its added columns alone.
/// A run that cannot be predicted is an error.
llvm::Expected<Table> predictLayout(const RowsRequest &request);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_ROWS_H
