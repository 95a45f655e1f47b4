//===- Events.cpp - order between the streams ---------------------------------===//
//
// Each stream runs its ops in order, so the clock of a stream is one number for each other one: the
// last time of that one which it is after. A hazard needs an event only if the clock is behind.
//
//===----------------------------------------------------------------------===//

#include "lib/memory/plan/Events.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/memory/Storage.h"

#include "mlir/IR/Builders.h"

#include <array>
#include <map>
#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

namespace {

constexpr int64_t kNever = -1;

/// A time of each stream.
struct Clock : std::array<int64_t, kNumStreams> {
  Clock() { fill(kNever); }

  void advance(const Clock &other) {
    for (unsigned stream = 0; stream < kNumStreams; ++stream)
      (*this)[stream] = std::max((*this)[stream], other[stream]);
  }
};

/// When streams have last read and written a piece of memory.
struct Accesses {
  Clock read, write;

  void add(const Accesses &other) {
    read.advance(other.read);
    write.advance(other.write);
  }
};

class EventPlanner {
public:
  EventPlanner(func::FuncOp function, const ExecutionOrder &order, const Buffers &buffers)
      : function(function), order(order), buffers(buffers), accesses(buffers.all().size()) {}

  std::vector<Event> run();

private:
  struct Access {
    const Buffer *buffer;
    bool isWrite;
    unsigned completion;
  };
  size_t indexOf(const Buffer *buffer) const { return buffer - buffers.all().data(); }
  const Buffer *bufferOf(Value value) const;
  SmallVector<Access> accessesOf(ArrayRef<Operation *> ops) const;
  void place(const Buffer &buffer);
  void visit(unsigned time, Stream stream, ArrayRef<Access> list);
  void wait(unsigned time, Stream stream, const Clock &needed);

  func::FuncOp function;
  const ExecutionOrder &order;
  const Buffers &buffers;
  /// By buffer; a planned one begins with those of what was in its place.
  std::vector<Accesses> accesses;
  /// Who is where: by kind of memory, the buffers by their first byte.
  struct Occupant {
    int64_t end;
    const Buffer *buffer; ///< null: what was there before the function
  };
  std::map<int64_t, Occupant> arena, frame;
  /// By first byte in the frame.
  llvm::DenseMap<int64_t, const Buffer *> framedArguments;
  llvm::DenseSet<const Buffer *> placed;
  /// By stream: what it is after; from which time on it has been after what, in order.
  std::array<Clock, kNumStreams> clocks;
  std::array<std::vector<std::pair<unsigned, Clock>>, kNumStreams> history;
  /// The last completions that the end of the function has to be after.
  Clock lastToEnd;
  std::vector<Event> events;
};

/// The buffer whose accesses are noted for `value`: of arguments that show the same bytes of the
/// frame, one.
const Buffer *EventPlanner::bufferOf(Value value) const {
  const Buffer *buffer = buffers.of(value);
  if (!buffer || buffer->kind != Buffer::Argument || buffer->memory.kind != ResultMemory::Frame)
    return buffer;
  return framedArguments.lookup(buffer->memory.offset);
}

/// What ops that run at the same time read and write.
SmallVector<EventPlanner::Access> EventPlanner::accessesOf(ArrayRef<Operation *> ops) const {
  SmallVector<Access> list;
  for (Operation *op : ops) {
    if (isOnlyView(op))
      continue;
    for (Value operand : op->getOperands())
      if (const Buffer *buffer = bufferOf(operand))
        list.push_back({buffer, /*isWrite=*/false, order.completionOf(op)});
    for (OpResult result : op->getResults())
      if (const Buffer *buffer = bufferOf(result))
        list.push_back({buffer, /*isWrite=*/true, order.completionOf(result)});
  }
  return list;
}

/// The first write to a planned buffer comes after all that was done in its place.
void EventPlanner::place(const Buffer &buffer) {
  if (buffer.kind != Buffer::Planned || !placed.insert(&buffer).second)
    return;
  std::map<int64_t, Occupant> &map = buffer.memory.kind == ResultMemory::Frame ? frame : arena;
  int64_t begin = buffer.memory.offset, end = begin + buffer.bytes;
  Accesses &own = accesses[indexOf(&buffer)];
  // What lies before everything is what was there at time 0.
  auto next = map.upper_bound(begin);
  if (next != map.begin() && std::prev(next)->second.end > begin)
    --next;
  int64_t covered = begin;
  while (next != map.end() && next->first < end) {
    auto [from, occupant] = *next;
    if (from > covered)
      own.write[0] = std::max<int64_t>(own.write[0], 0);
    covered = std::max(covered, occupant.end);
    own.add(accesses[indexOf(occupant.buffer)]);
    next = map.erase(next);
    if (from < begin)
      map[from] = {begin, occupant.buffer};
    if (occupant.end > end)
      next = map.insert({end, occupant}).first;
  }
  if (covered < end)
    own.write[0] = std::max<int64_t>(own.write[0], 0);
  map[begin] = {end, &buffer};
}

/// Makes a stream wait, before what runs at `time`, for what it is not after yet. What it waits for
/// has waited for others, too: most probably the latest.
void EventPlanner::wait(unsigned time, Stream stream, const Clock &needed) {
  Clock &clock = clocks[unsigned(stream)];
  bool hasWaited = false;
  std::array<unsigned, kNumStreams> others;
  std::iota(others.begin(), others.end(), 0);
  llvm::stable_sort(others, [&](unsigned a, unsigned b) { return needed[a] > needed[b]; });
  for (unsigned other : others) {
    if (other == unsigned(stream) || needed[other] <= clock[other])
      continue;
    events.push_back({unsigned(needed[other]), time, stream, Stream(other)});
    clock[other] = needed[other];
    hasWaited = true;
    auto later = llvm::partition_point(
        history[other], [&](const auto &entry) { return entry.first <= needed[other]; });
    if (later != history[other].begin())
      clock.advance(std::prev(later)->second);
  }
  if (hasWaited)
    history[unsigned(stream)].push_back({time, clock});
}

void EventPlanner::visit(unsigned time, Stream stream, ArrayRef<Access> list) {
  unsigned here = unsigned(stream);
  for (const Access &access : list)
    if (access.isWrite)
      place(*access.buffer);
  Clock needed;
  for (const Access &access : list) {
    const Accesses &before = accesses[indexOf(access.buffer)];
    needed.advance(before.write);
    if (access.isWrite)
      needed.advance(before.read);
  }
  wait(time, stream, needed);
  for (const Access &access : list) {
    Accesses &own = accesses[indexOf(access.buffer)];
    int64_t &last = access.isWrite ? own.write[here] : own.read[here];
    last = std::max<int64_t>(last, access.completion);
    bool isOrdered = isa<train::BucketType, dist::HostType>(access.buffer->root.getType());
    bool outlives =
        access.buffer->kind != Buffer::Apart || access.buffer->reason == Buffer::Outlives;
    if (stream != Stream::Compute && outlives && !isOrdered)
      lastToEnd[here] = std::max<int64_t>(lastToEnd[here], access.completion);
  }
}

std::vector<Event> EventPlanner::run() {
  for (const Buffer &buffer : buffers.all())
    if (buffer.kind == Buffer::Argument && !isa<dist::HostType>(buffer.root.getType())) {
      accesses[indexOf(&buffer)].write[unsigned(Stream::Compute)] = 0;
      int64_t begin = buffer.memory.offset;
      if (buffer.memory.kind == ResultMemory::Frame &&
          framedArguments.try_emplace(begin, &buffer).second)
        frame[begin] = {begin + buffer.bytes, &buffer};
    }
  for (unsigned time = 1; time < order.end(); ++time) {
    ArrayRef<Operation *> ops = order.at(time);
    // A wait has no memory of its own to touch: it ends what was started.
    if (!isa<dist::WaitOp>(ops.front()))
      visit(time, findStream(ops.front()), accessesOf(ops));
  }
  wait(order.end(), Stream::Compute, lastToEnd);
  return std::move(events);
}

} // namespace

std::vector<Event> cleave::exec::planEvents(func::FuncOp function, const ExecutionOrder &order,
                                            const Buffers &buffers) {
  return EventPlanner(function, order, buffers).run();
}

void cleave::exec::insertEvents(func::FuncOp function, const ExecutionOrder &order,
                                ArrayRef<Event> events) {
  OpBuilder builder(function.getContext());
  for (const Event &event : events) {
    Operation *waiter = order.at(event.before).front();
    Location loc = waiter->getLoc();
    if (event.after == 0)
      builder.setInsertionPointToStart(&function.front());
    else
      builder.setInsertionPointAfter(order.at(event.after).back());
    auto record = RecordOp::create(builder, loc, EventType::get(builder.getContext()),
                                   StreamAttr::get(builder.getContext(), event.other));
    builder.setInsertionPoint(waiter);
    exec::WaitOp::create(builder, loc, record.getEvent(),
                         StreamAttr::get(builder.getContext(), event.stream));
  }
}
