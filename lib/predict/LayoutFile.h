//===- LayoutFile.h - one run, and the software that trains it -----*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_LAYOUTFILE_H
#define CLEAVE_LIB_PREDICT_LAYOUTFILE_H

#include "lib/predict/Defaults.h"
#include "lib/predict/Table.h"

namespace cleave::predict {

/// Reads a JSON object whose fields are columns of a table of runs, and its parts "dimensions" (of
/// the model) and "software". Returns a table of that one run. Its source is the file: what that
/// says of software and model is added to `defaults`.
llvm::Expected<Table> readLayoutFile(llvm::StringRef path, Defaults &defaults);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_LAYOUTFILE_H
