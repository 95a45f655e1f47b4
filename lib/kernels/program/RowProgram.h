//===- RowProgram.h - what a kernel computes, in primitive steps ----*- C++ -*-===//
//
// A row program is a graph of primitive steps over a matrix of rows and columns (see
// lib/kernels/fusion/RowOp.h): loads, scalar functions, reductions along rows and down the columns,
// stores. Composite ops (softmax, layer norm, gelu and their gradients) are decomposed when it is
// made. It says nothing of loops, vectors or threads; those come with a plan (KernelPlan.h) and a
// target.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_PROGRAM_ROWPROGRAM_H
#define CLEAVE_LIB_KERNELS_PROGRAM_ROWPROGRAM_H

#include "dialects/exec/Exec.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::kernels {

using NodeId = uint32_t;

/// What is computed in. bf16 and f16 are computed in F32, i8, ui8 and i16 in I32; I1 is a truth
/// value.
enum class ComputeType : uint8_t { F32, F64, I64, I32, I1 };

inline bool isFloat(ComputeType type) {
  return type == ComputeType::F32 || type == ComputeType::F64;
}

/// What is computed in for tensors of element type `dtype`; none for one that kernels do not have.
std::optional<ComputeType> getComputeType(mlir::Type dtype);

/// Functions of numbers. Operands have one type, which is the result's too unless said otherwise.
enum class Function : uint8_t {
  Add,
  Sub,
  Mul,
  Div, ///< of floating-point numbers
  Neg,
  Abs,
  Sqrt,
  Exp,
  Log,
  Log1p,
  Sin,
  Cos,
  Tanh,
  Erf,
  Pow,
  Maximum, ///< NaN if one is
  Minimum, ///< NaN if one is
  // To I1. All but NotEqual are false if a number is NaN.
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  // On integers and booleans.
  And,
  Or,
  Xor,
  Select,    ///< (I1, x, y)
  Convert,   ///< to the node's type; to I1: whether it is not zero
  RoundBF16, ///< F32 to the nearest bf16, as F32
  RoundF16,  ///< F32 to the nearest f16, as F32
};

enum class RowReduction : uint8_t {
  Sum,
  Max,        ///< NaN if one is
  MaxNumbers, ///< the largest number; NaNs are ignored
};

/// Where the elements of a tensor lie, in elements: at `offset` plus the row's coordinates times
/// `rowStrides` plus the column times `columnStride` (0 or 1).
struct Access {
  unsigned tensor = 0;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> rowStrides;
  int64_t columnStride = 0;
  bool operator==(const Access &) const = default;
};

/// A primitive step. Its value has an element for each row that differs in one of `rowDims`, and,
/// if `columns` is not 0, for each of that many columns; where users have more of either, it is
/// repeated.
struct Node {
  enum class Kind : uint8_t {
    Load,
    Constant,
    ColumnIndex,   ///< the column, from 0
    Map,           ///< `function` of the operands
    ReduceColumns, ///< over the columns of each row
    ReduceRows,    ///< over all rows; the result is whole only when the last row is done
    Slice,         ///< the operand's columns from `start`
    Concat,        ///< the operands' columns side by side
    Gather,        ///< the first operand at the column that the second one says for each row
  };
  Kind kind = Kind::Constant;
  ComputeType type = ComputeType::F32;
  Function function = Function::Add;
  RowReduction reduction = RowReduction::Sum;
  /// Bit i: the value depends on coordinate i of the row.
  uint32_t rowDims = 0;
  int64_t columns = 0;
  llvm::SmallVector<NodeId, 3> operands;
  Access access;                        ///< of Load
  double number = 0;                    ///< of Constant, where the type is a float
  int64_t integer = 0;                  ///< of Constant, where it is not
  int64_t start = 0;                    ///< of Slice
  llvm::SmallVector<int64_t, 2> widths; ///< of Concat: how many columns each operand gives
  /// How many ReduceRows it needs one after the other. Above 0: known only after the last row.
  unsigned stage = 0;
};

/// Writes a value, converted to the tensor's element type.
struct Store {
  NodeId value;
  Access access;
  int64_t columns = 0; ///< 0: one number for each row
  uint32_t rowDims = 0;
};

struct RowProgram {
  std::string name;
  /// The rows are all combinations of coordinates, major first.
  llvm::SmallVector<int64_t, 4> rowShape;
  int64_t columns = 1;
  /// Element types of the kernel's arguments, then of its results.
  llvm::SmallVector<mlir::Type> tensors;
  unsigned numArguments = 0;
  /// Operands before their users; equal ones occur once.
  std::vector<Node> nodes;
  std::vector<Store> stores;

  int64_t rows() const;
  uint32_t allRowDims() const { return (1u << rowShape.size()) - 1; }
  /// Whether it reads or computes anything that is one number for each row or each column, so that
  /// rows matter. If not, it is a program over one long row: see `flatten`.
  bool isFlat() const;
  /// Text with a line for each node and store, for tests and debugging.
  void print(llvm::raw_ostream &os) const;
};

/// Whether there is a formula for the op, without which no kernel may contain it.
bool hasFormula(mlir::Operation *op);

/// Why a kernel has no row program.
struct Unsupported {
  mlir::Operation *op = nullptr;
  std::string reason;
};

/// What `kernel` computes; none for a kernel with an op, an element type or a combination that row
/// programs do not have, which `why` then tells.
std::optional<RowProgram> buildRowProgram(exec::KernelOp kernel, Unsupported &why);

/// A flat program over one row with all elements; others as they are.
RowProgram flatten(RowProgram program);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_PROGRAM_ROWPROGRAM_H
