//===- OverlapCommunication.cpp - start early, wait late --------------------===//

#include "passes/communication/Passes.h"

#include "dialects/train/Train.h"
#include "lib/memory/MemoryPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <queue>

namespace cleave::communication {
#define GEN_PASS_DEF_OVERLAPCOMMUNICATION
#include "passes/communication/Passes.h.inc"
} // namespace cleave::communication

using namespace mlir;
using namespace cleave;

namespace {
struct OverlapCommunication : communication::impl::OverlapCommunicationBase<OverlapCommunication> {
  using OverlapCommunicationBase::OverlapCommunicationBase;

  /// A communication as it will be: started before the op at position `start`, awaited in
  /// front of the one at `wait`.
  struct Split {
    Operation *op;
    size_t start, wait;
  };

  /// What is in flight from its start to its wait.
  struct Flight {
    size_t start, wait;
    int64_t bytes;
  };

  LogicalResult initialize(MLIRContext *context) override {
    if (maxInFlightMb > 0 && maxInFlightMb < 1e9)
      return success();
    return emitError(UnknownLoc::get(context))
           << "expects a positive max-in-flight-mb, found " << double(maxInFlightMb);
  }

  void runOnOperation() override {
    if (llvm::hasSingleElement(getOperation().getBody()))
      overlap(getOperation());
  }

  /// Puts off to the end the sums over microbatches of what communication brings.
  static void sinkSums(Block &block) {
    for (auto sum : llvm::to_vector(block.getOps<train::AccumulateOp>())) {
      SmallVector<Operation *> moved = memory::getPrivateViews(sum.getGradient());
      Value brought = moved.empty() ? Value(sum.getGradient()) : moved.front()->getOperand(0);
      if (!brought.getDefiningOp() || !isSplittable(brought.getDefiningOp()))
        continue;
      moved.push_back(sum);
      for (Operation *op : moved)
        op->moveBefore(block.getTerminator());
    }
  }

  void overlap(func::FuncOp function) {
    sinkSums(function.front());
    SmallVector<Operation *> ops;
    DenseMap<Operation *, size_t> positions;
    for (Operation &op : function.front()) {
      positions[&op] = ops.size();
      ops.push_back(&op);
    }
    SmallVector<Split> splits = plan(ops, positions);
    moveStarts(splits, ops);
    for (const Split &split : splits)
      makeWaits(split, ops);
    numOverlapped += splits.size();
  }

  SmallVector<Split> plan(ArrayRef<Operation *> ops, DenseMap<Operation *, size_t> &positions) {
    const auto limit = static_cast<int64_t>(maxInFlightMb * 1024 * 1024);
    SmallVector<Split> splits;
    // Results in flight, by the position at which they are awaited.
    using Awaited = std::pair<size_t, int64_t>;
    std::priority_queue<Awaited, std::vector<Awaited>, std::greater<>> inFlight;
    int64_t bytesInFlight = 0;
    SmallVector<Flight> flights;
    // No start moves before this position; of what communicates arguments alone, before this one.
    size_t barrier = 0, ahead = 0;
    for (Operation *op : ops) {
      size_t here = positions[op];
      if (!isSplittable(op)) {
        if (!isMemoryEffectFree(op) && !train::affectsOnlyBuckets(op))
          barrier = ahead = here + 1;
        continue;
      }
      size_t start = std::max(barrier, earliestStart(op, positions));
      size_t wait = firstUse(op, positions);
      int64_t bytes = 0;
      for (Type type : op->getResultTypes())
        bytes += memory::getByteSize(type);
      const bool isAhead =
          argumentsAhead && llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>);
      if (isAhead) {
        // Nothing starts so early any more.
        llvm::erase_if(flights, [&](const Flight &flight) { return flight.wait <= ahead; });
        start = ahead = startAhead(flights, ahead, here, limit - bytes);
      }
      // What is awaited before the start is no longer in flight.
      auto retire = [&] {
        while (!inFlight.empty() && inFlight.top().first <= start) {
          bytesInFlight -= inFlight.top().second;
          inFlight.pop();
        }
      };
      retire();
      while (!isAhead && start < here && !inFlight.empty() && bytesInFlight + bytes > limit) {
        start = std::min(here, inFlight.top().first);
        retire();
      }
      barrier = std::max(barrier, isAhead ? 0 : start);
      if (start == here && wait == here + 1)
        continue;
      inFlight.push({wait, bytes});
      bytesInFlight += bytes;
      if (argumentsAhead)
        flights.push_back({start, wait, bytes});
      splits.push_back({op, start, wait});
    }
    return splits;
  }

  /// The earliest start from `first` on, of a communication at `here`, with which no more than
  /// `room` other bytes are in flight, as long as there are any.
  static size_t startAhead(ArrayRef<Flight> flights, size_t first, size_t here, int64_t room) {
    // Backwards: what is awaited at a position is in flight before it.
    SmallVector<std::pair<size_t, int64_t>> changes;
    for (const Flight &flight : flights)
      if (flight.wait > first && flight.start < here) {
        changes.push_back({std::min(flight.wait, here), flight.bytes});
        changes.push_back({std::max(flight.start, first), -flight.bytes});
      }
    llvm::sort(changes, [](auto &a, auto &b) { return a.first > b.first; });
    int64_t bytes = 0;
    size_t end = here;
    for (auto [position, change] : changes) {
      if (position < end && bytes > std::max<int64_t>(room, 0))
        return end;
      end = position;
      bytes += change;
    }
    return first;
  }

  static bool isSplittable(Operation *op) {
    auto communication = dyn_cast<dist::CommunicationOpInterface>(op);
    return communication && !communication.isStarted() && isMemoryEffectFree(op) &&
           !op->use_empty() && llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  }

  /// Where the last operand is there. A communication's result is there only when it is awaited,
  /// so what communicates it again stays in its place.
  static size_t earliestStart(Operation *op, DenseMap<Operation *, size_t> &positions) {
    size_t start = 0;
    for (Value operand : op->getOperands())
      if (Operation *made = operand.getDefiningOp())
        start = std::max(start, isSplittable(made) ? positions[op] : positions[made] + 1);
    return start;
  }

  static size_t firstUse(Operation *op, DenseMap<Operation *, size_t> &positions) {
    size_t use = std::numeric_limits<size_t>::max();
    for (Operation *user : op->getUsers())
      use = std::min(use, positions[user]);
    return use;
  }

  /// Puts each start before the first op at its position or after it that stays in its place.
  static void moveStarts(ArrayRef<Split> splits, ArrayRef<Operation *> ops) {
    DenseSet<Operation *> moved;
    for (const Split &split : splits)
      if (ops[split.start] != split.op)
        moved.insert(split.op);
    SmallVector<Operation *> anchors(ops);
    for (size_t i = ops.size(); i-- > 0;)
      if (moved.contains(ops[i]))
        anchors[i] = anchors[i + 1]; // the terminator never moves
    for (const Split &split : splits)
      if (moved.contains(split.op))
        split.op->moveBefore(anchors[split.start]);
  }

  static void makeWaits(const Split &split, ArrayRef<Operation *> ops) {
    OpBuilder b(ops[split.wait]);
    for (OpResult result : split.op->getResults()) {
      Type type = result.getType();
      result.setType(dist::FutureType::get(type));
      auto wait = dist::WaitOp::create(b, split.op->getLoc(), type, result);
      result.replaceAllUsesExcept(wait.getResult(), wait);
    }
  }
};
} // namespace
