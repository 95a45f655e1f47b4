//===- Buffers.h - what memory a function needs, and when ----------*- C++ -*-===//
//
// Decides for each result whether it has memory of its own or shares an operand's, and how long
// that memory is needed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_BUFFERS_H
#define CLEAVE_LIB_MEMORY_PLAN_BUFFERS_H

#include "lib/memory/ExecutionOrder.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave::exec {

/// A piece of memory: an argument's, or made by an op for a result and shared by others.
struct Buffer {
  enum Kind {
    Argument, ///< belongs to the caller
    Apart,    ///< has memory of its own
    Planned   ///< gets a place in the arena or the frame
  };
  /// Why a buffer is apart.
  enum Reason {
    NotApart,
    Outlives, ///< a result of the function, or shared with one
    Host,     ///< in the host's memory: a copy there, or a number that it reads
    Empty     ///< has no bytes
  };
  mlir::Value root;
  Kind kind = Argument;
  Reason reason = NotApart;
  int64_t bytes = 0;
  /// The first and the last time at which it is needed.
  unsigned begin = 0, end = 0;
  /// Where it lies, once that is planned. Of an argument: in the frame, where its producer put it
  /// there.
  ResultMemory memory;
};

/// What a function needs; made of a function that is not lowered.
class Buffers {
public:
  /// `spread`: communication overlaps computation, so what it uses is kept until the function
  /// waits for it anyway, and memory is not used again in a way that one would have to wait for the
  /// other.
  Buffers(mlir::func::FuncOp function, const ExecutionOrder &order, bool spread);

  std::vector<Buffer> &all() { return buffers; }
  llvm::ArrayRef<Buffer> all() const { return buffers; }
  /// The buffer whose memory `value` has; null for an event.
  const Buffer *of(mlir::Value value) const;
  Buffer *of(mlir::Value value) {
    return const_cast<Buffer *>(static_cast<const Buffers &>(*this).of(value));
  }
  /// The operand whose memory a result has, if it has one's.
  std::optional<unsigned> sharedOperand(mlir::OpResult result) const;
  /// Results that were written over an operand of a pointwise op or kernel.
  unsigned numInPlace() const { return inPlace; }

private:
  void share();
  void shareResult(mlir::OpResult result);
  bool mayTakeOver(mlir::Operation *op, unsigned operand, mlir::OpResult result, bool isPointwise);
  void findUses();
  void useLast(mlir::Value root, unsigned time, llvm::ArrayRef<mlir::OpOperand *> users);
  void makeBuffers();
  void spreadCommunication();
  mlir::Value rootOf(mlir::Value value) const;

  mlir::func::FuncOp function;
  const ExecutionOrder &order;
  bool spread;
  llvm::BitVector owned;
  std::vector<Buffer> buffers;
  /// By value: the result or argument whose memory it has.
  llvm::DenseMap<mlir::Value, mlir::Value> roots;
  llvm::DenseMap<mlir::OpResult, unsigned> shared;
  /// By root: its last use, who that is, and ops that are started and use it until later.
  llvm::DenseMap<mlir::Value, unsigned> lastUse;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::OpOperand *, 1>> lastUsers;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Operation *, 1>> started;
  /// Roots that communication reads.
  llvm::DenseSet<mlir::Value> communicated;
  llvm::DenseMap<mlir::Value, unsigned> indices;
  unsigned inPlace = 0;
};

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_BUFFERS_H
