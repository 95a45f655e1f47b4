//===- Tensor.h - what a tensor of a program is ----------------------*- C++ -*-===//
//
// The digits of each of its dimensions, and its element at them. In the program of one rank, the
// meaning also has the digits of the rank's places on the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_TENSOR_H
#define CLEAVE_LIB_PROVE_TENSOR_H

#include "lib/prove/Term.h"

#include <memory>

namespace cleave::prove {

struct Rows;

struct Tensor {
  /// Major first; a dimension of size 1 may have none.
  llvm::SmallVector<llvm::SmallVector<Var, 2>, 4> dims;
  Meaning meaning;
  /// What is known of a tensor whose rows lie in an order that depends on data (Rows.h). It says
  /// more than the meaning, never something else: a change of the tensor drops it.
  std::shared_ptr<const Rows> rows;
};

/// A digit for each dimension of `shape` that is larger than 1.
llvm::SmallVector<llvm::SmallVector<Var, 2>, 4> makeDims(Terms &terms,
                                                         llvm::ArrayRef<int64_t> shape);
/// The place in a dimension with these digits.
Index placeIn(llvm::ArrayRef<Var> digits, const Variables &variables);
/// How many places these digits have.
int64_t sizeOf(llvm::ArrayRef<Var> digits, const Variables &variables);
/// Whether it has as many places in each dimension.
bool hasShape(const Tensor &value, llvm::ArrayRef<int64_t> shape, const Variables &variables);
/// The same tensor, over digits of its own: views of one value share theirs.
Tensor withOwnDigits(Terms &terms, Tensor value);
/// The meaning over new digits in the place of these.
llvm::SmallVector<Var, 2> rename(Terms &terms, Meaning &meaning, llvm::ArrayRef<Var> digits);
/// What lies in dimension `dim` at `places`, one for each of its digits; these depend on `digits`,
/// which the dimension then has.
Tensor takeAt(Terms &terms, Tensor value, unsigned dim, llvm::ArrayRef<Index> places,
              llvm::SmallVector<Var, 2> digits);
/// Cuts dimension `dim` at these strides too. Fails, and leaves the value, if its digits do not
/// permit it.
bool cut(Terms &terms, Tensor &value, unsigned dim, llvm::ArrayRef<int64_t> strides);
/// Makes neighbours one digit wherever the meaning permits it.
void coarsen(Terms &terms, Tensor &value);
/// Cuts a dimension of each in the same digits; `digits` then says which of `right` is which of
/// `left`. Fails if they have no digits in common.
bool cutAlike(Terms &terms, Tensor &left, unsigned leftDim, Tensor &right, unsigned rightDim,
              Substitution &digits);
/// The terms of a meaning with their factors, relative to the first one's, which is `first`:
/// multiples of each other have one, wherever they are taken.
std::string signatureOf(const Meaning &meaning, Rational &first);
/// Whether the sum over these digits of a rank's place may be another value of this shape: they are
/// no part of a place along a dimension.
bool mayBeTermOf(const Tensor &value, llvm::ArrayRef<Var> places);
/// Whether both are the same tensor.
bool areEqual(Terms &terms, Tensor left, Tensor right);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_TENSOR_H
