//===- Source.h - a global program, and what is seen in it ----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H

#include "lib/plan/Search.h"
#include "lib/support/Error.h"

#include "dialects/train/Program.h"

#include "llvm/Support/JSON.h"

#include <map>
#include <optional>

namespace cleave::plan {

/// A module that tensor-parallel ranks divide, or whose ops they run on shards of the sequence.
struct TensorRule {
  std::string modules; ///< a pattern of docs/plans.md; of `parameter` that of a parameter
  std::string style;   ///< colwise, rowwise, sequence; parameter: it is sharded along `dim`
  /// What divides all dimensions that it shards; 0 if it shards none.
  int64_t size = 0;
  unsigned dim = 0;
};

/// Modules whose experts ranks may share: their parameters are stacked by expert, or each expert's
/// are its own and the program stacks them.
struct ExpertRule {
  std::string modules; ///< a pattern of docs/plans.md
  int64_t experts = 0;
  /// Rows of tokens are sorted by expert and multiplied by group, so that ranks can exchange them.
  bool hasRows = false;
  /// Experts are modules of their own: "h.*.experts", not "h.*.experts.0.up".
  bool areModules = false;
  /// Rows are multiplied by their scores before they go to experts.
  bool weighsRows = false;
};

/// Parameters with the same shape whose names differ in the number of their layer only, or one.
struct ParameterGroup {
  std::string pattern; ///< of docs/plans.md
  llvm::SmallVector<int64_t> shape;
  bool isOfExperts = false;
  /// Where ranks share experts, along which dimension they divide it.
  unsigned expertDim(int64_t ranks) const;
};

/// An export: one microbatch on one device.
struct Source {
  ProgramFacts facts;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  train::ProgramFunctions functions;
  /// The path of the layers, without their numbers: "h", "model.layers".
  std::string layers;
  std::vector<TensorRule> rules;
  /// Rules of a user's plan, as its file has them; `rules` has none of what they are for.
  llvm::json::Array partial;
  std::vector<ExpertRule> experts;
  /// Whether ranks that share experts divide a parameter of this shape.
  bool isOfExperts(llvm::StringRef parameter, llvm::ArrayRef<int64_t> shape) const;
  /// Rows that ranks have room for, as a multiple of their even share; otherwise for all.
  std::optional<double> expertCapacity;
  std::vector<ParameterGroup> parameters;
  ProgramBytes bytes;
  /// Parameters of layers by shape, but for experts, and experts: the bytes of all of them.
  std::map<llvm::SmallVector<int64_t>, double> layerParameters, layerExperts;
  /// Bytes of the largest one that is none of an expert's.
  double largestParameter = 0;
};

/// Reads a program, and finds its layers and the modules that tensor parallelism divides. Experts
/// that are modules of their own count only with a capacity, without which ranks cannot share them.
/// Errors say what it is instead of a global program.
llvm::Expected<Source> readSource(mlir::MLIRContext &context, llvm::StringRef path,
                                  std::optional<double> expertCapacity);

/// Whether a pass after placement may leave the op out: what a checkpoint tag asks to be
/// recomputed.
bool mayBeLeftOut(mlir::Operation *op);

/// "h.3.mlp.weight" as "h.*.mlp.weight".
std::string withoutNumber(llvm::StringRef name, llvm::StringRef layers);

/// Products in the order of the forward: those of the residual stream are divided by columns, those
/// of what they make by rows, and so is each expert within. What says which experts a token goes
/// to, and latents that a norm and another product follow, are whole. Embeddings of inputs are
/// divided by rows.
std::vector<TensorRule> deriveTensorRules(mlir::func::FuncOp microbatch, llvm::StringRef layers,
                                          llvm::ArrayRef<ExpertRule> experts);

/// Modules with parameters of three dimensions, by the first of which a product multiplies rows in
/// groups or in batches, and such with experts whose matrices are stacked for a product by group.
std::vector<ExpertRule> findExperts(mlir::func::FuncOp microbatch, llvm::StringRef layers);

/// "h.3.mlp.c_fc.weight" is of "h.*.mlp.c_fc".
std::string getModules(llvm::StringRef parameter, llvm::StringRef layers);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_SOURCE_H
