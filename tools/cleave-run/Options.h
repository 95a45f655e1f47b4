//===- Options.h - the command line of cleave-run ------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_OPTIONS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_OPTIONS_H

#include "cleave/Session.h"
#include "runtime/io/OutputFile.h"
#include "runtime/session/TensorFiles.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cleave::run {

struct Options {
  std::string program;
  /// Where not given, and for what state dicts leave out, NAME.safetensors beside NAME.mlir.
  runtime::WeightSource weights;
  std::string init;                   ///< FILE:FACTORY; its module's initialisation makes `weights`
  std::vector<std::string> libraries; ///< of operators
  std::string inputs, dump;
  std::string against;
  int64_t wholeStep = 0;    ///< its number, where a step with its update is compared; else 0
  std::string states;       ///< optimizer states before that step
  int64_t microbatches = 1; ///< of each rank in it
  double tolerance = 0;
  std::string json; ///< of a comparison
  uint64_t seed = 0;
  int threads = 0;                   ///< 0: LibTorch's choice
  bool nameRanges = false;           ///< ops by name in a profiler of the device
  runtime::Device *device = nullptr; ///< the rank's, once it is open; null: the processor
  bool dryRun = false;
  bool printEnvironment = false;      ///< and nothing else
  std::optional<int64_t> memoryLimit; ///< bytes
  runtime::WeightGradients weightGradients = runtime::WeightGradients::Immediate;
  std::string kernels; ///< runtime::SessionOptions::kernels
  runtime::ReplicationCheck check;
  bool poisonsDeadMemory = false;
};

/// The options for the other program of a comparison, `program`: without what it has no weight
/// part, no kernels or no plan of memory for.
Options adapt(Options options, const runtime::Program &program);

/// What a run reads and writes, whatever its mode, for `checkOutputs`.
std::vector<runtime::NamedPath> listInputs(const Options &options);
std::vector<runtime::NamedPath> listOutputs(const Options &options);

/// Reads the command line; on a mistake, or after --help, it does not return.
Options parseOptions(int argc, char **argv);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_OPTIONS_H
