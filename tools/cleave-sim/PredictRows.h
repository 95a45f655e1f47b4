//===- PredictRows.h - --rows, --layout, --kernels ------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_PREDICTROWS_H
#define CLEAVE_TOOLS_CLEAVE_SIM_PREDICTROWS_H

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

namespace cleave::sim {

/// The options of tables, for --help.
llvm::cl::OptionCategory &getRowsCategory();
/// The folder of --devices, or where descriptions of clusters lie beside the tool; empty if
/// nowhere.
std::string findDevices();
/// True if the command line has --rows, --layout or --kernels.
bool wantsRows();
/// Refuses several of them, one beside a program, and options of theirs without any.
llvm::Error checkRowsOptions(bool hasProgram);

/// Predicts the rows of a table or the run of a layout, as the options --rows, --layout or
/// --kernels, --output, --devices, --defaults, --plans and --without say. Nothing is written unless
/// all of it can be.
llvm::Error predictRowsOfOptions();

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_PREDICTROWS_H
