//===- VerifyEvents.cpp - that streams run in an order that is right ----------===//
//
// Runs the function on its streams with vector clocks (Mattern 1988): each stream knows how far the
// others have come, which it learns from events only. Beside it a shadow of the memory says who
// has read and written each byte last. What touches a byte must know that those are done.
//
//===----------------------------------------------------------------------===//

#include "lib/memory/verify/Verify.h"

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/memory/Storage.h"

#include <array>
#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

static constexpr unsigned kMaxErrors = 20;

namespace {

/// How far each stream has come, in ops.
using Clock = std::array<int64_t, kNumStreams>;

struct Access {
  /// Null: before the function.
  Operation *op = nullptr;
  Stream stream = Stream::Compute;
  MemoryRange range;
  bool isWrite = false;
  /// Place of the op on its stream when it begins, and of the op at which the access is over: of
  /// what is only started, its wait.
  int64_t begin = 0, end = 0;
};

/// Bytes that have been touched in one way.
struct Cell {
  int64_t end = 0;
  Access write;
  std::array<std::optional<Access>, kNumStreams> reads; // by stream
};

class EventVerifier {
public:
  EventVerifier(func::FuncOp function, const ExecutionOrder &order, const Places &places)
      : function(function), order(order), places(places) {}

  LogicalResult run();

private:
  using Cells = std::map<int64_t, Cell>;

  LogicalResult checkStreams();
  void visit(Operation *op);
  void touch(const Access &access);
  void checkOrder(const Access &before, const Access &after);
  void checkEnd();
  Cells &cellsOf(const MemoryRange &range);
  Operation *endOf(Operation *op, unsigned time) const;
  void keepForEnd(const Access &access);

  func::FuncOp function;
  const ExecutionOrder &order;
  const Places &places;
  /// By op: its place on its stream, from 1; 0 is what was before the function.
  llvm::DenseMap<Operation *, int64_t> position;
  std::array<Clock, kNumStreams> clocks;
  llvm::DenseMap<Value, Clock> events;
  llvm::DenseMap<Value, Cells> ownMemory;
  Cells arena, frame;
  llvm::DenseSet<Value> returned;
  /// The last access of each stream that the function's end has to be after.
  std::array<std::optional<Access>, kNumStreams> lastToEnd;
  unsigned errors = 0;
};

} // namespace

LogicalResult EventVerifier::checkStreams() {
  int64_t calls = 0;
  Operation *previous = nullptr;
  for (Operation &op : function.front()) {
    bool isOurs = isa<RecordOp, exec::WaitOp>(op);
    Stream expected = findStream(&op);
    if (!isOurs && getStream(&op) != expected)
      return op.emitOpError() << "expects to run on stream " << stringifyStream(expected)
                              << ", found " << stringifyStream(getStream(&op));
    if (!isCommunicatorCall(&op)) {
      if (op.hasAttr(kCallAttrName))
        return op.emitOpError() << "expects '" << kCallAttrName << "' only on ops that communicate";
      continue;
    }
    auto call = op.getAttrOfType<IntegerAttr>(kCallAttrName);
    if (call && call.getInt() == calls) {
      ++calls;
      previous = &op;
      continue;
    }
    InFlightDiagnostic diagnostic = op.emitOpError() << "expects to be communicator call " << calls
                                                     << " of the function, found ";
    if (call)
      diagnostic << call.getInt();
    else
      diagnostic << "no number";
    diagnostic << ": other ranks use the original order";
    if (previous)
      diagnostic.attachNote(previous->getLoc())
          << "call " << calls - 1 << ", '" << previous->getName() << "', is here";
    return diagnostic;
  }
  return success();
}

EventVerifier::Cells &EventVerifier::cellsOf(const MemoryRange &range) {
  if (range.region == ResultMemory::Arena)
    return arena;
  if (range.region == ResultMemory::Frame)
    return frame;
  return ownMemory[range.root];
}

static StringRef verbOf(const Access &access) {
  return access.isWrite ? "writes" : "reads";
}

/// `after` comes later in the function and touches bytes of `before`.
void EventVerifier::checkOrder(const Access &before, const Access &after) {
  bool isOrdered = before.stream == after.stream
                       ? before.end < after.begin || (before.op == after.op)
                       : before.end <= clocks[unsigned(after.stream)][unsigned(before.stream)];
  if (isOrdered || errors >= kMaxErrors)
    return;
  ++errors;
  InFlightDiagnostic diagnostic = after.op->emitOpError();
  diagnostic << verbOf(after) << " " << after.range.str() << " on stream "
             << stringifyStream(after.stream) << " without waiting for ";
  if (!before.op) {
    diagnostic << "stream compute, on which it was available before the function";
    diagnostic.attachNote(function.getLoc())
        << "expected an exec.record on compute from here on, and an exec.wait for it on "
        << stringifyStream(after.stream) << " before the op";
    return;
  }
  diagnostic << "'" << before.op->getName() << "', which " << verbOf(before) << " "
             << before.range.str() << " on stream " << stringifyStream(before.stream);
  Operation *end = endOf(before.op, 0);
  diagnostic.attachNote(before.op->getLoc()) << "'" << before.op->getName() << "' is here";
  if (before.stream != after.stream)
    diagnostic.attachNote(end->getLoc())
        << "expected an exec.record on " << stringifyStream(before.stream) << " after '"
        << end->getName() << "' here, and an exec.wait for it on " << stringifyStream(after.stream)
        << " before '" << after.op->getName() << "'";
  else
    diagnostic.attachNote(end->getLoc())
        << "expected '" << after.op->getName() << "' behind '" << end->getName() << "' here";
}

/// The op at which `op` is over.
Operation *EventVerifier::endOf(Operation *op, unsigned time) const {
  if (time == 0)
    time = order.completionOf(op);
  return time == order.of(op) ? op : order.at(time).front();
}

void EventVerifier::keepForEnd(const Access &access) {
  bool isOrdered =
      access.range.root && isa<train::BucketType, dist::HostType>(access.range.root.getType());
  bool stays = access.range.region != ResultMemory::Apart ||
               isa<BlockArgument>(access.range.root) || returned.contains(access.range.root);
  std::optional<Access> &last = lastToEnd[unsigned(access.stream)];
  if (access.stream != Stream::Compute && stays && !isOrdered && (!last || last->end < access.end))
    last = access;
}

void EventVerifier::touch(const Access &access) {
  Cells &cells = cellsOf(access.range);
  int64_t begin = access.range.begin, end = std::max(access.range.end, begin + 1);
  // Memory that the function is given, or takes from the arena, is ready on the compute stream;
  // what is in the host's memory, on the one that touches it alone.
  bool isNew =
      access.range.region == ResultMemory::Apart &&
      (!isa<BlockArgument>(access.range.root) ||
       (isa<dist::HostType>(access.range.root.getType()) && access.stream == Stream::Host));
  Cell untouched;
  untouched.write.isWrite = true;
  untouched.write.range = access.range;
  auto splitAt = [&](int64_t byte) {
    auto next = cells.upper_bound(byte);
    if (next == cells.begin())
      return;
    auto cell = std::prev(next);
    if (cell->first == byte || cell->second.end <= byte)
      return;
    Cell rest = cell->second;
    cell->second.end = byte;
    cells[byte] = rest;
  };
  splitAt(begin);
  splitAt(end);
  int64_t covered = begin;
  auto cell = cells.lower_bound(begin);
  auto visitGap = [&](int64_t until) {
    if (covered < until && !isNew)
      checkOrder(untouched.write, access);
    if (covered < until && !access.isWrite) {
      Cell gap = untouched;
      gap.end = until;
      gap.reads[unsigned(access.stream)] = access;
      cells[covered] = gap;
    }
  };
  for (; cell != cells.end() && cell->first < end; ++cell) {
    visitGap(cell->first);
    covered = cell->second.end;
    checkOrder(cell->second.write, access);
    if (access.isWrite) {
      for (const std::optional<Access> &read : cell->second.reads)
        if (read)
          checkOrder(*read, access);
      continue;
    }
    std::optional<Access> &read = cell->second.reads[unsigned(access.stream)];
    if (!read || read->end < access.end)
      read = access;
  }
  visitGap(end);
  if (!access.isWrite)
    return;
  cells.erase(cells.lower_bound(begin), cells.lower_bound(end));
  Cell written;
  written.end = end;
  written.write = access;
  cells[begin] = written;
}

void EventVerifier::visit(Operation *op) {
  unsigned stream = unsigned(getStream(op));
  clocks[stream][stream] = position.lookup(op);
  if (auto record = dyn_cast<RecordOp>(op)) {
    events[record.getEvent()] = clocks[stream];
    return;
  }
  if (auto wait = dyn_cast<exec::WaitOp>(op)) {
    Clock event = events.lookup(wait.getEvent());
    for (unsigned each = 0; each < kNumStreams; ++each)
      clocks[stream][each] = std::max(clocks[stream][each], event[each]);
    return;
  }
  // What is waited for has been touched when it was started.
  if (isOnlyView(op) || isa<dist::WaitOp>(op))
    return;
  auto access = [&](Value value, bool isWrite, unsigned completion) {
    Access access{op,      getStream(op),       places.of(value),
                  isWrite, position.lookup(op), position.lookup(endOf(op, completion))};
    touch(access);
    keepForEnd(access);
  };
  for (Value operand : op->getOperands())
    access(operand, /*isWrite=*/false, order.completionOf(op));
  for (OpResult result : op->getResults())
    access(result, /*isWrite=*/true, order.completionOf(result));
}

/// Who runs next may use the arena again, and what the function was given and gives.
void EventVerifier::checkEnd() {
  Operation *terminator = function.front().getTerminator();
  for (auto [stream, last] : llvm::enumerate(lastToEnd)) {
    if (!last || last->end <= clocks[unsigned(Stream::Compute)][stream])
      continue;
    InFlightDiagnostic diagnostic = terminator->emitOpError();
    StringRef name = stringifyStream(last->stream);
    diagnostic << "ends the function on stream compute without waiting for '" << last->op->getName()
               << "', which " << verbOf(*last) << " " << last->range.str() << " on stream " << name;
    diagnostic.attachNote(last->op->getLoc()) << "'" << last->op->getName() << "' is here";
    Operation *end = endOf(last->op, 0);
    diagnostic.attachNote(end->getLoc())
        << "expected an exec.record on " << name << " after '" << end->getName()
        << "' here, and an exec.wait for it on compute before '" << terminator->getName() << "'";
    ++errors;
  }
}

LogicalResult EventVerifier::run() {
  if (failed(checkStreams()))
    return failure();
  for (auto [stream, clock] : llvm::enumerate(clocks)) {
    clock.fill(-1);
    clock[stream] = 0;
  }
  std::array<int64_t, kNumStreams> count = {};
  for (Operation &op : function.front())
    position[&op] = ++count[unsigned(getStream(&op))];
  for (Value value : function.front().getTerminator()->getOperands())
    returned.insert(places.rootOf(value));
  for (Operation &op : function.front().without_terminator())
    visit(&op);
  checkEnd();
  return success(errors == 0);
}

LogicalResult cleave::exec::verifyEvents(func::FuncOp function, const ExecutionOrder &order,
                                         const Places &places) {
  return EventVerifier(function, order, places).run();
}
