//===- VerifyLowered.cpp - that a lowered function computes what its ops say --===//

#include "dialects/train/EachFunction.h"
#include "dialects/train/Program.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/verify/Verify.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

Places::Places(func::FuncOp function, const FramedArguments &framed) : framed(framed) {
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

MemoryRange Places::of(Value value) const {
  Value root = rootOf(value);
  if (auto found = framed.find(root); found != framed.end())
    return found->second;
  ResultMemory memory;
  if (auto result = dyn_cast<OpResult>(root))
    memory = getResultMemory(result);
  int64_t bytes = memory::getByteSize(root.getType());
  if (memory.kind == ResultMemory::Apart)
    return {root, ResultMemory::Apart, 0, bytes};
  return {{}, memory.kind, memory.offset, memory.offset + bytes};
}

std::string MemoryRange::str() const {
  StringRef where = region == ResultMemory::Arena   ? "the arena"
                    : region == ResultMemory::Frame ? "the frame"
                                                    : "memory of its own";
  if (region == ResultMemory::Apart)
    return isa<BlockArgument>(root) ? "an argument's memory" : where.str();
  return llvm::formatv("bytes {0} to {1} of {2}", begin, end - 1, where).str();
}

/// What lies in a frame is there only for functions of its microbatch that run later.
static LogicalResult verifyConsumers(ModuleOp module) {
  llvm::DenseMap<std::pair<Attribute, StringAttr>, func::FuncOp> producers; // by ranks and name
  FramedArguments framed;
  for (const FunctionGroup &group : findFunctionGroups(module)) {
    FramedArguments own = findFramedArguments(group);
    for (func::FuncOp function : group.functions) {
      Places places(function, own);
      for (OpOperand &returned : function.front().getTerminator()->getOpOperands())
        if (StringAttr name = getSavedResult(function, returned.getOperandNumber());
            name && places.of(returned.get()).region == ResultMemory::Frame)
          producers[{function->getAttr(train::kRanksAttrName), name}] = function;
    }
    framed.insert(own.begin(), own.end());
  }
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      StringAttr name = getSavedArgument(function, argument.getArgNumber());
      if (!name || framed.contains(argument))
        continue;
      func::FuncOp producer = producers.lookup({function->getAttr(train::kRanksAttrName), name});
      if (!producer)
        continue;
      InFlightDiagnostic diagnostic =
          function.emitOpError() << "takes saved value " << name << ", which lies in the frame of '"
                                 << producer.getName()
                                 << "': expects a later function of the same microbatch and stage";
      diagnostic.attachNote(producer.getLoc()) << "'" << producer.getName() << "' is here";
      return diagnostic;
    }
  return success();
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
  for (const FunctionGroup &group : findFunctionGroups(module)) {
    FramedArguments framed = findFramedArguments(group);
    std::vector<std::unique_ptr<ExecutionOrder>> orders;
    std::vector<std::unique_ptr<Places>> places;
    llvm::DenseMap<Operation *, size_t> positions;
    for (func::FuncOp function : group.functions) {
      positions[function] = orders.size();
      orders.push_back(std::make_unique<ExecutionOrder>(function));
      places.push_back(std::make_unique<Places>(function, framed));
    }
    LogicalResult checked = train::checkEach(group.functions, [&](func::FuncOp function) {
      size_t i = positions.lookup(function);
      return success(succeeded(verifyMemory(function, *orders[i], *places[i])) &&
                     succeeded(verifyEvents(function, *orders[i], *places[i])));
    });
    isRight &= succeeded(checked);
    isRight = isRight && succeeded(verifyFrame(group, orders, places));
  }
  return success(isRight && succeeded(verifyConsumers(module)));
}
