//===- Graph.h - a program's ops, values and what is tied ----------*- C++ -*-===//
//
// The functions of a module as numbered ops, values and uses. Arguments and results of program
// functions that must be placed alike, whatever the op in between, form a *group*: a parameter in
// all functions that take or give it, with its gradient, accumulator and optimizer states, whose
// placements follow from the parameter's.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_GRAPH_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_GRAPH_H

#include "dialects/dist/Placed.h"
#include "dialects/train/Program.h"
#include "lib/placement/Strategy.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace cleave::placement::propagate {

/// Stands for "no op", "no port", "no value" (what is not a tensor).
constexpr unsigned kNone = ~0u;

struct Use {
  unsigned value;
  /// The op that uses it, or the port that returns it.
  unsigned op = kNone, port = kNone;
  /// The operand number at the op or the return.
  unsigned operand;
};

struct ValueNode {
  mlir::Value value;
  /// The type of the whole tensor.
  double bytes;
  /// The op that makes it, or the port that takes it.
  unsigned op = kNone, port = kNone;
  unsigned result = 0;
  llvm::SmallVector<unsigned, 2> uses;
  /// How often a step computes it, relative to the update.
  double weight = 1;

  mlir::RankedTensorType type() const {
    return mlir::cast<mlir::RankedTensorType>(value.getType());
  }
};

struct OpNode {
  mlir::Operation *op;
  /// Uses by operand, values by result; kNone for what is not a tensor.
  llvm::SmallVector<unsigned, 4> operands;
  llvm::SmallVector<unsigned, 2> results;
  double weight = 1;
  /// Whether its function runs once per step.
  bool isOnce = false;
};

/// What a port is to its group.
enum class Slot : uint8_t { Self, Gradient, State };

/// An argument or result of a function.
struct Port {
  mlir::func::FuncOp function;
  unsigned number;
  bool isResult;
  /// Null in functions that are no part of a program.
  train::RoleAttr role;
  unsigned group = kNone;
  Slot slot = Slot::Self;
  /// The argument, or the value that is returned.
  unsigned value;
  /// For results.
  unsigned use = kNone;

  dist::PlacementAttr getAnnotation() const;
  mlir::Location getLoc() const;
  /// "argument 'wte.weight' of 'microbatch'"
  std::string describe() const;
};

struct Group {
  llvm::SmallVector<unsigned, 4> ports;
  /// Parameter, Buffer, Input, ...; none outside of programs.
  std::optional<train::RoleKind> kind;
  bool hasGradient = false;
};

class Graph {
public:
  /// Functions without a body are passed over. Emits an error if an op is not part of a global
  /// program (communication, tensors with placements in their types).
  static mlir::FailureOr<Graph> build(mlir::ModuleOp module, double microbatches);

  std::vector<OpNode> ops;
  std::vector<ValueNode> values;
  std::vector<Use> uses;
  std::vector<Port> ports;
  std::vector<Group> groups;
  llvm::DenseMap<mlir::Value, unsigned> valueOf;

  /// What an annotation says of how a value is made, or taken by a use, on an axis; orders are 0.
  std::optional<dist::AxisPlacement> getAnnotation(const ValueNode &value,
                                                   mlir::StringAttr axis) const;
  std::optional<dist::AxisPlacement> getAnnotation(const Use &use, mlir::StringAttr axis) const;
  /// The placement attribute behind it, null if there is none.
  dist::PlacementAttr getAttribute(const ValueNode &value) const;
  dist::PlacementAttr getAttribute(const Use &use) const;
  mlir::OpOperand &getOperand(const Use &use) const;

private:
  void addFunction(mlir::func::FuncOp function, double weight, bool isOnce);
  mlir::LogicalResult checkFunction(mlir::func::FuncOp function) const;
  void tie();
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_GRAPH_H
