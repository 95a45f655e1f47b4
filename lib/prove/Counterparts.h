//===- Counterparts.h - ops of LOCAL that GLOBAL has, too ----------*- C++ -*-===//
//
// Most programs of ranks are those of one device op for op, with communication between them. So an
// op has a counterpart where GLOBAL has one of its name and attributes on the values that stand for
// its operands, whatever they mean; communication stands for what it communicates. This only ranks
// what may be wrong.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_COUNTERPARTS_H
#define CLEAVE_LIB_PROVE_COUNTERPARTS_H

#include "lib/prove/Prover.h"

namespace cleave::prove {

class Counterparts {
public:
  /// Of the functions of both programs. `equal` is the value of GLOBAL that one of LOCAL is known
  /// to be, or null.
  Counterparts(llvm::ArrayRef<Part> global, llvm::ArrayRef<Part> local,
               const llvm::DenseMap<mlir::Value, mlir::Value> &passed, llvm::ArrayRef<Axis> axes,
               llvm::function_ref<mlir::Value(mlir::Value)> equal);

  /// A number for each value of GLOBAL that is made in another way, and that of the value for which
  /// one of LOCAL stands. 0 is none.
  unsigned numberOf(mlir::Value value) const { return numbers.lookup(value); }
  unsigned numberOfOperand(mlir::Operation *op, unsigned operand) const;
  /// That of what an op like this one makes in GLOBAL of values with these numbers.
  unsigned find(mlir::Operation *op, llvm::ArrayRef<unsigned> operands) const;
  /// Whether an op of LOCAL has a counterpart.
  bool has(mlir::Operation *op) const { return !without.contains(op); }
  /// Whether it is one but for its number, which is divided by numbers of ranks: it may be meant.
  bool isDivided(mlir::Operation *op) const { return divided.contains(op); }
  /// Whether users of an op's result have counterparts if it has this number.
  bool haveUsers(mlir::Operation *op, unsigned number, unsigned steps = 0) const;
  /// Of these ops, in order, those that have none though all operands stand for values, and with
  /// another result all ops that take it have; or that take what its only user makes, and so on.
  llvm::SmallVector<mlir::Operation *> findBroken(llvm::ArrayRef<mlir::Operation *> ops,
                                                  unsigned steps) const;

  /// Whether all else has a counterpart, but for what is made of what the op makes: then it is what
  /// is changed, if it is none that was added.
  bool isOnlyChange(mlir::Operation *op) const;

private:
  /// How closely attributes agree: in all; but for sizes; but for sizes and numbers.
  enum class Detail : uint8_t { All, NoSizes, NoNumbers };
  static std::string spell(mlir::Operation *op, llvm::ArrayRef<unsigned> operands, Detail detail);
  mlir::Value sourceOf(mlir::Value value) const;
  void addArguments(Part part, bool isGlobal);
  unsigned findIn(mlir::Operation *op, llvm::ArrayRef<unsigned> operands, Detail detail) const;
  unsigned findInOrder(mlir::Operation *op, llvm::ArrayRef<unsigned> operands);
  llvm::SmallVector<unsigned> numbersOfOperands(mlir::Operation *op, mlir::Value value = {},
                                                unsigned number = 0) const;
  bool collectUsers(mlir::Value value,
                    llvm::SmallVectorImpl<std::pair<mlir::OpOperand *, mlir::Value>> &users) const;
  bool isBrokenAt(mlir::Value value, unsigned steps) const;
  bool communicatesAnother(mlir::Operation *op) const;

  const llvm::DenseMap<mlir::Value, mlir::Value> &passed;
  llvm::ArrayRef<Axis> axes;
  /// Ops of GLOBAL by how they are spelled: several may be where sizes are left out, in order.
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> known;
  /// Ops of LOCAL that are spelled alike without sizes, in order.
  llvm::StringMap<llvm::SmallVector<std::string, 1>> taken;
  /// What GLOBAL's ops take in the place of an operand that is left out, and what it returns.
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> takenBy;
  llvm::DenseMap<unsigned, mlir::Operation *> makers;
  unsigned last = 0;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  llvm::DenseSet<mlir::Operation *> without, divided;
  /// Values of LOCAL that nothing takes, by their numbers.
  llvm::SmallVector<std::pair<unsigned, mlir::Value>> unused;
};

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_COUNTERPARTS_H
