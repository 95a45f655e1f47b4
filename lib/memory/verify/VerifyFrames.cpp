//===- VerifyFrames.cpp - that saved values are there until their last use ----===//
//
// The functions of a microbatch, one after the other, are one span of time: what one of them saves
// for another in the frame is needed from when it is made to its last use in any of them.
//
//===----------------------------------------------------------------------===//

#include "lib/memory/verify/Verify.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

FramedArguments cleave::exec::findFramedArguments(const FunctionGroup &group) {
  FramedArguments framed;
  if (!group.hasFrame)
    return framed;
  llvm::DenseMap<StringAttr, MemoryRange> saved;
  for (func::FuncOp function : group.functions) {
    for (BlockArgument argument : function.getArguments())
      if (StringAttr name = getSavedArgument(function, argument.getArgNumber()))
        if (auto found = saved.find(name); found != saved.end())
          framed[argument] = found->second;
    Places places(function, framed);
    for (OpOperand &returned : function.front().getTerminator()->getOpOperands())
      if (StringAttr name = getSavedResult(function, returned.getOperandNumber()))
        if (MemoryRange range = places.of(returned.get()); range.region == ResultMemory::Frame)
          saved[name] = range;
  }
  return framed;
}

/// A function that has no frame uses none; those of a microbatch have one of one size.
static LogicalResult verifySizes(const FunctionGroup &group) {
  func::FuncOp first = group.functions.front();
  for (func::FuncOp function : group.functions) {
    int64_t found = getLowered(function).getFrame();
    if (!group.hasFrame && found != 0)
      return function.emitOpError()
             << "expects no frame, found one of " << found << " bytes: "
             << (group.functions.size() > 1 ? "two functions of the microbatch have the same "
                                              "phase, so their order is unknown"
                                            : "the function is not part of a microbatch");
    if (int64_t expected = getLowered(first).getFrame(); found != expected) {
      InFlightDiagnostic diagnostic = function.emitOpError()
                                      << "expects a frame of " << expected << " bytes, as '"
                                      << first.getName() << "' of the same microbatch has, found "
                                      << found;
      diagnostic.attachNote(first.getLoc()) << "'" << first.getName() << "' is here";
      return diagnostic;
    }
  }
  return success();
}

namespace {
/// The functions of a microbatch, one after the other, and what lies in their frame.
class FrameSweep {
public:
  FrameSweep(const FunctionGroup &group, ArrayRef<std::unique_ptr<ExecutionOrder>> orders,
             ArrayRef<std::unique_ptr<Places>> places) {
    for (size_t index = 0; index < group.functions.size(); ++index)
      add(group.functions[index], *orders[index], *places[index]);
  }

  std::vector<Piece> pieces;
  /// The first of those that run at a time.
  Operation *at(unsigned time) const {
    auto after = llvm::upper_bound(
        begins, std::pair(time, static_cast<const ExecutionOrder *>(nullptr)), llvm::less_first());
    auto [start, order] = *std::prev(after);
    return order->at(std::max(time - start, 1u)).front();
  }

private:
  void add(func::FuncOp function, const ExecutionOrder &order, const Places &places) {
    llvm::DenseMap<Value, size_t> indices; // of pieces, by what has their memory here
    for (auto &[root, piece] : listPieces(function, order, places, ResultMemory::Frame)) {
      auto argument = dyn_cast<BlockArgument>(root);
      size_t number = pieces.size();
      if (argument) {
        number = saved.lookup(getSavedArgument(function, argument.getArgNumber()));
        pieces[number].end = std::max(pieces[number].end, begin + piece.end);
      } else {
        pieces.push_back({root, piece.range, begin + piece.begin, begin + piece.end});
      }
      indices[root] = number;
    }
    for (OpOperand &returned : function.front().getTerminator()->getOpOperands())
      if (StringAttr name = getSavedResult(function, returned.getOperandNumber()))
        if (auto found = indices.find(places.rootOf(returned.get())); found != indices.end())
          saved[name] = found->second;
    begins.emplace_back(begin, &order);
    begin += order.end() + 1;
  }

  /// The piece that has a saved value's memory.
  llvm::DenseMap<StringAttr, size_t> saved;
  std::vector<std::pair<unsigned, const ExecutionOrder *>> begins;
  unsigned begin = 0;
};
} // namespace

LogicalResult cleave::exec::verifyFrame(const FunctionGroup &group,
                                        ArrayRef<std::unique_ptr<ExecutionOrder>> orders,
                                        ArrayRef<std::unique_ptr<Places>> places) {
  if (failed(verifySizes(group)))
    return failure();
  if (!group.hasFrame)
    return success();
  FrameSweep sweep(group, orders, places);
  return checkOverlaps(sweep.pieces, [&](unsigned time) { return sweep.at(time); });
}

llvm::DenseMap<Operation *, SmallVector<MemoryRange, 1>>
cleave::exec::findFrameEnds(ModuleOp module) {
  llvm::DenseMap<Operation *, SmallVector<MemoryRange, 1>> ends;
  for (const FunctionGroup &group : findFunctionGroups(module)) {
    if (!group.hasFrame || !getLowered(group.functions.front()))
      continue;
    FramedArguments framed = findFramedArguments(group);
    std::vector<std::unique_ptr<ExecutionOrder>> orders;
    std::vector<std::unique_ptr<Places>> places;
    for (func::FuncOp function : group.functions) {
      orders.push_back(std::make_unique<ExecutionOrder>(function));
      places.push_back(std::make_unique<Places>(function, framed));
    }
    FrameSweep sweep(group, orders, places);
    for (const Piece &piece : sweep.pieces)
      if (Operation *last = sweep.at(piece.end); !last->hasTrait<OpTrait::IsTerminator>())
        ends[last].push_back(piece.range);
  }
  return ends;
}
