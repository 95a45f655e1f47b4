//===- Batches.h - ranks with microbatches of their own ----------*- C++ -*-===//
//
// Roles divide inputs over axes of the mesh: a rank's microbatch is one of the step of one device.
// What microbatches have of their own is the same in both programs, at each rank's place; gradients
// are a rank's terms of those of one device.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_REPLAY_BATCHES_H
#define CLEAVE_LIB_REPLAY_BATCHES_H

#include "dialects/train/Program.h"
#include "lib/replay/Form.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::replay {

class Batches {
public:
  /// Why the programs are of no such form; empty if they are, or no role divides an input.
  std::string read(llvm::ArrayRef<mlir::func::FuncOp> global,
                   llvm::ArrayRef<mlir::func::FuncOp> local);
  /// The axes, or null.
  mlir::ArrayAttr getAxes() const { return over; }
  /// How an argument lies on these axes.
  enum How : uint8_t { Same, Own, Term };
  How howOf(mlir::func::FuncOp function, train::RoleAttr role) const;
  bool isUpdated(train::RoleAttr buffer) const { return updated.contains(buffer.getName()); }

private:
  mlir::ArrayAttr over;
  llvm::DenseSet<mlir::StringAttr> updated, reduced;
};

/// Whether the form is made of one of these leaves, however deep inside.
bool isMadeOf(const Forms &forms, const Form &form, const llvm::DenseSet<TermId> &leaves);

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_BATCHES_H
