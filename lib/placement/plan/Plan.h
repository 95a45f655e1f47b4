//===- Plan.h - what a user says about placements, as a file --------*- C++ -*-===//
//
// The JSON file of docs/plans.md, which `cleave.export(plan=...)` writes and
// `--annotate-placements` reads: a mesh, and rules that name parameters, modules or ops by pattern.
// Here it is data; applying it to a program is Apply.h's.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PLAN_PLAN_H
#define CLEAVE_LIB_PLACEMENT_PLAN_PLAN_H

#include "dialects/dist/Placement.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::placement {

struct AxisSize {
  std::string axis;
  int64_t size;
};

/// What a rule says about one tensor: placements by axis, in the order of the file's text ordered
/// by axis name. A shard's dimension may be negative: it then counts from the end.
using PlannedPlacement = std::vector<std::pair<std::string, dist::AxisPlacement>>;

/// A way to run a module, or the program, along an axis.
enum class Style {
  Colwise,  ///< the module's weights cut along their output dimension
  Rowwise,  ///< along their input dimension: the result is a partial sum
  Sequence, ///< the module's ops run on parts of the sequence
  Expert,   ///< stacked experts: the module's weights cut along dimension 0
  Data,     ///< the batch is divided
  Context,  ///< the sequence of the inputs is divided, attention included
  FSDP,     ///< the batch is divided, parameters are cut and gathered for each use
  HSDP,     ///< the same on one axis, the batch divided and parameters replicated on another
};
llvm::StringRef toString(Style style);

struct PlanRule {
  enum class Kind {
    Arguments, ///< values of a role, by name
    Module,    ///< a style
    Op,        ///< operands and results of single ops
  } kind = Kind::Arguments;
  /// `rules[3] (train.py:14)`, and where in the plan's file it is.
  std::string name;
  std::string file;
  unsigned line = 1;
  /// For messages at an op: `tp.json:7: rules[3] (train.py:14)`.
  std::string where() const { return file + ":" + std::to_string(line) + ": " + name; }
  /// A pattern of names or module paths; empty for a style of the whole program.
  std::string pattern;

  /// For Arguments: "parameters", "inputs", ... (Apply.cpp), and their placements.
  std::string role;
  PlannedPlacement placement;

  /// Of Module.
  Style style = Style::Data;
  std::string axis;
  /// For HSDP: the axis on which parameters are replicated.
  std::string replicateAxis;
  /// For Sequence and Context the sequence dimension; for FSDP and HSDP the sharded one.
  std::optional<int64_t> dim;
  /// For Context: parameters are sharded over the axis too, and gathered for each use.
  bool shardsParameters = false;

  /// For Expert: rows that a rank has room for, as a multiple of its even share; room for all where
  /// absent.
  std::optional<double> capacity;

  /// For Op: a glob for the op's name without its dialect.
  std::string opName;
  /// "forward", "backward", or empty for either.
  std::string part;
  /// Which of the module's ops that the rest of the rule matches, from 0; all where absent.
  std::optional<int64_t> index;
  /// None leaves a value open.
  std::vector<std::optional<PlannedPlacement>> operands, results;
};

struct Plan {
  /// Empty if the program is to have its mesh already.
  std::vector<AxisSize> mesh;
  std::vector<PlanRule> rules;
};

/// What is wrong with a plan's file, and the line where; 0 if it is not read at all.
class PlanError : public llvm::ErrorInfo<PlanError> {
public:
  static char ID;
  PlanError(unsigned line, std::string text) : line(line), text(std::move(text)) {}
  void log(llvm::raw_ostream &os) const override { os << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  unsigned line;
  std::string text;
};

/// Reads a plan. All errors are PlanErrors.
llvm::Expected<Plan> readPlan(llvm::StringRef path);

/// Whether `path` ("h.0.mlp.c_fc") matches a pattern of components between dots: in one, `*`, `?`,
/// `[a-z]` and `{a,b}` are as in a shell; the component `**` stands for any number of them.
bool matchesPath(llvm::StringRef pattern, llvm::StringRef path);
/// What is wrong with a pattern; empty if nothing is.
std::string checkPattern(llvm::StringRef pattern);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PLAN_PLAN_H
