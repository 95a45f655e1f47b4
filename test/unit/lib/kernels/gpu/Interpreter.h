//===- Interpreter.h - runs GPU kernels on the CPU, one thread after another --*- C++ -*-===//
//
// Executes what the compiler hands to LLVM's NVPTX back end: optimized LLVM IR, libdevice included.
// A thread runs until it must wait for others (a barrier, a shuffle) or ends; what it does to
// memory is checked (Memory.h). Waiting that would hang, or that a GPU leaves undefined, is a
// fault.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_INTERPRETER_H
#define CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_INTERPRETER_H

#include "test/unit/lib/kernels/gpu/Memory.h"

#include "llvm/IR/Module.h"

#include <map>
#include <memory>

namespace cleave::gputest {

struct DecodedFunction;

class Interpreter {
public:
  Interpreter(const llvm::Module &module, Memory &memory);
  ~Interpreter();

  /// Runs `entry` with pointer arguments. Throws Fault. Threads of a block take turns in an order
  /// that `seed` decides: a correct kernel gives the same bits for any.
  void launch(const std::string &entry, int64_t blocks, unsigned threads,
              const std::vector<void *> &arguments, unsigned seed = 0);

  /// Instructions run so far, of all threads.
  uint64_t instructions = 0;

  struct Thread;

private:
  class Machine;
  const DecodedFunction &decode(const llvm::Function &function);

  const llvm::Module &module;
  Memory &memory;
  std::map<const llvm::Function *, std::unique_ptr<DecodedFunction>> decoded;
  /// Of constants and of one block's shared memory.
  std::map<const llvm::GlobalVariable *, std::vector<uint64_t>> globals;
};

} // namespace cleave::gputest

#endif // CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_INTERPRETER_H
