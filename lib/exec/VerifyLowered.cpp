//===- VerifyLowered.cpp - that a lowered function computes what its ops say --===//

#include "dialects/train/Program.h"
#include "lib/exec/Verify.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

Places::Places(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    roots[argument] = argument;
  for (Operation &op : function.front())
    for (OpResult result : op.getResults()) {
      ResultMemory memory = getResultMemory(result);
      roots[result] = memory.kind == ResultMemory::Same
                          ? roots.lookup(op.getOperand(memory.operand))
                          : Value(result);
    }
}

Range Places::of(Value value) const {
  Value root = rootOf(value);
  ResultMemory memory;
  if (auto result = dyn_cast<OpResult>(root))
    memory = getResultMemory(result);
  int64_t bytes = memory::getByteSize(root.getType());
  if (memory.kind == ResultMemory::Apart)
    return {root, ResultMemory::Apart, 0, bytes};
  return {{}, memory.kind, memory.offset, memory.offset + bytes};
}

std::string Range::str() const {
  StringRef where = region == ResultMemory::Arena   ? "the arena"
                    : region == ResultMemory::Frame ? "the frame"
                                                    : "memory of its own";
  if (region == ResultMemory::Apart)
    return isa<BlockArgument>(root) ? "an argument's memory" : where.str();
  return llvm::formatv("bytes {0} to {1} of {2}", begin, end - 1, where).str();
}

LogicalResult cleave::exec::verifyLowered(ModuleOp module) {
  func::FuncOp first;
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(train::kPhaseAttrName)) {
      functions.push_back(function);
      if (!first && getLowered(function))
        first = function;
    }
  if (!first)
    return success();
  LoweredAttr expected = getLowered(first);
  for (func::FuncOp function : functions) {
    LoweredAttr found = getLowered(function);
    if (found && found.getTarget() == expected.getTarget() &&
        found.getChip() == expected.getChip() && found.getAlignment() == expected.getAlignment())
      continue;
    InFlightDiagnostic diagnostic =
        function.emitOpError()
        << "expects to be lowered as all functions of the program are, found "
        << (found ? llvm::formatv("{0}", Attribute(found)).str() : "it not lowered");
    diagnostic.attachNote(first.getLoc()) << "lowered: " << expected;
    return diagnostic;
  }
  bool isRight = true;
  for (func::FuncOp function : functions) {
    Timeline timeline(function);
    Places places(function);
    isRight &= succeeded(verifyMemory(function, timeline, places)) &&
               succeeded(verifyEvents(function, timeline, places));
  }
  return success(isRight);
}
