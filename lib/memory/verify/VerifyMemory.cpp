//===- VerifyMemory.cpp - that values are there until their last use ----------===//
//
// Two sweeps over time. The first follows what each piece of memory holds: an op that overwrites it
// ends the values before. The second looks for pieces of memory that are needed at the same time
// and share bytes.
//
//===----------------------------------------------------------------------===//

#include "lib/memory/InPlace.h"
#include "lib/memory/verify/Verify.h"

#include "dialects/train/Program.h"
#include "lib/memory/Storage.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

static constexpr unsigned kMaxErrors = 20;

namespace {

class MemoryVerifier {
public:
  MemoryVerifier(func::FuncOp function, const ExecutionOrder &order, const Places &places)
      : function(function), order(order), places(places), owned(findOwnedArguments(function)) {}

  LogicalResult run();

private:
  LogicalResult checkShared(OpResult result);
  LogicalResult checkOverwritten(OpResult result, unsigned operand);
  LogicalResult checkReturned();

  func::FuncOp function;
  const ExecutionOrder &order;
  const Places &places;
  llvm::BitVector owned;
  /// By root: the values that what is there now is known by.
  llvm::DenseMap<Value, SmallVector<Value>> current;
};

} // namespace

static std::string describe(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    return role ? "argument '" + role.getFileName() + "'"
                : "argument " + std::to_string(argument.getArgNumber());
  }
  return ("result " + Twine(cast<OpResult>(value).getResultNumber()) + " of '" +
          value.getDefiningOp()->getName().getStringRef() + "'")
      .str();
}

static void noteProducer(InFlightDiagnostic &diagnostic, Value value) {
  diagnostic.attachNote(value.getLoc()) << describe(value) << " is from here";
}

/// `same` has to be what really happens.
LogicalResult MemoryVerifier::checkShared(OpResult result) {
  Operation *op = result.getOwner();
  unsigned index = result.getResultNumber();
  ResultMemory memory = getResultMemory(result);
  bool isSame = memory.kind == ResultMemory::Same;
  if (std::optional<unsigned> operand = memory::getSharedOperand(op, index)) {
    if (isSame && memory.operand == *operand)
      return success();
    return op->emitOpError() << "expects result " << index << " to have the memory of operand "
                             << *operand << ", of which it is a view";
  }
  if (!isSame)
    return success();
  std::optional<unsigned> overwritten = memory::getOverwrittenOperand(op, index);
  if (overwritten ? memory.operand == *overwritten : mayOverwrite(op, memory.operand))
    return checkOverwritten(result, memory.operand);
  return op->emitOpError() << "expects result " << index
                           << " in memory of its own: the op cannot overwrite operand "
                           << memory.operand;
}

LogicalResult MemoryVerifier::checkOverwritten(OpResult result, unsigned index) {
  Operation *op = result.getOwner();
  Value operand = op->getOperand(index), root = places.rootOf(operand);
  if (auto argument = dyn_cast<BlockArgument>(root); argument && !owned[argument.getArgNumber()])
    return op->emitOpError() << "overwrites " << describe(root)
                             << ", which other functions expect unchanged";
  // All reads of the old value must come before; operands of the op in its place may be read
  // while it runs, where it goes element by element.
  unsigned time = order.of(op);
  bool isPointwise = !memory::getOverwrittenOperand(op, result.getResultNumber());
  for (Value value : current[root]) {
    Operation *reader = nullptr;
    for (OpOperand &use : value.getUses()) {
      bool isItself = use.getOwner() == op &&
                      (use.getOperandNumber() == index || (isPointwise && value == operand));
      bool isOver = order.of(use.getOwner()) < time && order.completionOf(use.getOwner()) <= time;
      if (!isItself && !isOver)
        reader = use.getOwner();
    }
    if (!reader)
      continue;
    InFlightDiagnostic diagnostic = op->emitOpError()
                                    << "overwrites " << describe(value) << " ("
                                    << places.of(value).str() << ") before its last use";
    diagnostic.attachNote(reader->getLoc()) << "'" << reader->getName() << "' still reads it";
    noteProducer(diagnostic, value);
    return diagnostic;
  }
  current[root].clear();
  return success();
}

LogicalResult MemoryVerifier::checkReturned() {
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &returned : terminator->getOpOperands()) {
    MemoryRange range = places.of(returned.get());
    train::RoleAttr role = train::getResultRole(function, returned.getOperandNumber());
    bool isSaved = role && role.getKind() == train::RoleKind::Saved;
    if (range.region == ResultMemory::Apart || (range.region == ResultMemory::Frame && isSaved))
      continue;
    InFlightDiagnostic diagnostic = terminator->emitOpError()
                                    << "returns result " << returned.getOperandNumber() << " in "
                                    << range.str() << ", which does not outlive the function";
    noteProducer(diagnostic, returned.get());
    return diagnostic;
  }
  return success();
}

llvm::MapVector<Value, Piece> cleave::exec::listPieces(func::FuncOp function,
                                                       const ExecutionOrder &order,
                                                       const Places &places,
                                                       ResultMemory::Kind region) {
  llvm::MapVector<Value, Piece> pieces;
  auto extend = [&](Value value, unsigned begin, unsigned end) {
    MemoryRange range = places.of(value);
    if (range.region != region || range.begin == range.end)
      return;
    Value root = places.rootOf(value);
    Piece &piece = pieces.try_emplace(root, Piece{root, range, begin, begin}).first->second;
    piece.end = std::max(piece.end, end);
  };
  for (BlockArgument argument : function.getArguments())
    extend(argument, 0, 0);
  for (Operation &op : function.front()) {
    for (Value operand : op.getOperands())
      extend(operand, order.of(&op), order.completionOf(&op));
    for (OpResult result : op.getResults())
      extend(result, order.of(&op), order.completionOf(result));
  }
  return pieces;
}

/// "result 0 of 'aten.mm'", with its function where that is not `function`.
static std::string describe(Value value, func::FuncOp function) {
  auto own = value.getDefiningOp()->getParentOfType<func::FuncOp>();
  return describe(value) + (own == function ? "" : " of function '" + own.getName().str() + "'");
}

LogicalResult cleave::exec::checkOverlaps(ArrayRef<Piece> pieces,
                                          function_ref<Operation *(unsigned)> at) {
  // At each time, first what begins, then what ends: a piece is needed while its last reader runs.
  std::vector<std::pair<unsigned, size_t>> begins, ends;
  for (auto [index, piece] : llvm::enumerate(pieces)) {
    begins.emplace_back(piece.begin, index);
    ends.emplace_back(piece.end, index);
  }
  llvm::sort(begins);
  llvm::sort(ends);
  std::map<int64_t, size_t> living; // by first byte
  unsigned errors = 0;
  auto nextEnd = ends.begin();
  for (auto [time, index] : begins) {
    for (; nextEnd != ends.end() && nextEnd->first < time; ++nextEnd)
      if (auto found = living.find(pieces[nextEnd->second].range.begin);
          found != living.end() && found->second == nextEnd->second)
        living.erase(found);
    const Piece &piece = pieces[index];
    auto after = living.lower_bound(piece.range.end);
    if (after != living.begin())
      if (const Piece &other = pieces[std::prev(after)->second];
          other.range.end > piece.range.begin) {
        Operation *op = piece.root.getDefiningOp();
        auto function = op->getParentOfType<func::FuncOp>();
        InFlightDiagnostic diagnostic =
            op->emitOpError() << "writes its result "
                              << cast<OpResult>(piece.root).getResultNumber() << " to "
                              << piece.range.str() << ", where " << describe(other.root, function)
                              << " still lies, in " << other.range.str();
        noteProducer(diagnostic, other.root);
        Operation *last = at(other.end);
        auto reader = last->getParentOfType<func::FuncOp>();
        diagnostic.attachNote(last->getLoc())
            << "it is needed until '" << last->getName() << "' here"
            << (reader == function ? "" : ", in function '" + reader.getName().str() + "'");
        if (++errors == kMaxErrors)
          return failure();
      }
    living[piece.range.begin] = index;
  }
  return success(errors == 0);
}

LogicalResult MemoryVerifier::run() {
  for (BlockArgument argument : function.getArguments())
    current[argument].push_back(argument);
  for (Operation &op : function.front())
    for (OpResult result : op.getResults()) {
      if (!isa<EventType>(result.getType()) && failed(checkShared(result)))
        return failure();
      current[places.rootOf(result)].push_back(result);
    }
  if (failed(checkReturned()))
    return failure();
  std::vector<Piece> pieces;
  for (auto &[root, piece] : listPieces(function, order, places, ResultMemory::Arena))
    pieces.push_back(piece);
  return checkOverlaps(pieces, [&](unsigned time) { return order.at(time).front(); });
}

LogicalResult cleave::exec::verifyMemory(func::FuncOp function, const ExecutionOrder &order,
                                         const Places &places) {
  return MemoryVerifier(function, order, places).run();
}
