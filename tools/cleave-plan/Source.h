//===- Source.h - a global program, and what is seen in it ----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H

#include "lib/plan/Search.h"
#include "lib/support/Error.h"

#include "dialects/train/Program.h"

#include <map>

namespace cleave::plan {

/// A module that tensor-parallel ranks divide, or whose ops they run on shards of the sequence.
struct TensorRule {
  std::string modules; ///< a pattern of docs/plans.md
  std::string style;   ///< colwise, rowwise, sequence
};

/// Parameters with the same shape whose names differ in the number of their layer only.
struct ParameterGroup {
  std::string pattern; ///< of docs/plans.md
  llvm::SmallVector<int64_t> shape;
  /// Optimizer states of their shape, which can be sharded as they are.
  bool hasStates = false;
};

/// An export: one microbatch on one device.
struct Source {
  ProgramFacts facts;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  train::ProgramFunctions functions;
  /// The path of the layers, without their numbers: "h", "model.layers".
  std::string layers;
  std::vector<TensorRule> rules;
  std::vector<ParameterGroup> parameters;
  ProgramBytes bytes;
  /// Parameters of layers, by shape: the bytes of all of them.
  std::map<llvm::SmallVector<int64_t>, double> layerParameters;
};

/// Reads a program, and finds its layers and the modules that tensor parallelism divides. Errors
/// say what it is instead of a global program.
llvm::Expected<Source> readSource(mlir::MLIRContext &context, llvm::StringRef path);

/// Whether a pass after placement may leave the op out: what a checkpoint tag asks to be
/// recomputed.
bool mayBeLeftOut(mlir::Operation *op);

/// "h.3.mlp.weight" as "h.*.mlp.weight".
std::string withoutNumber(llvm::StringRef name, llvm::StringRef layers);

/// Products in the order of the forward: those of the residual stream are divided by columns, those
/// of what they make by rows. Embeddings of inputs are divided by rows.
std::vector<TensorRule> deriveTensorRules(mlir::func::FuncOp microbatch, llvm::StringRef layers);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H
