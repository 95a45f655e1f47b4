//===- Buffers.cpp - what memory a function needs, and when -------------------===//

#include "lib/memory/plan/Buffers.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/memory/InPlace.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

Buffers::Buffers(func::FuncOp function, const ExecutionOrder &order, bool spread)
    : function(function), order(order), spread(spread), owned(findOwnedArguments(function)) {
  findUses();
  share();
  makeBuffers();
  if (spread)
    spreadCommunication();
}

Value Buffers::rootOf(Value value) const {
  for (auto found = roots.find(value); found != roots.end() && found->second != value;
       found = roots.find(value))
    value = found->second;
  return value;
}

const Buffer *Buffers::of(Value value) const {
  auto found = indices.find(rootOf(value));
  return found == indices.end() ? nullptr : &buffers[found->second];
}

std::optional<unsigned> Buffers::sharedOperand(OpResult result) const {
  auto found = shared.find(result);
  return found == shared.end() ? std::nullopt : std::optional<unsigned>(found->second);
}

//===----------------------------------------------------------------------===//
// Who shares memory
//===----------------------------------------------------------------------===//

/// Views first, so that the last use of a piece of memory is known before it is overwritten.
void Buffers::findUses() {
  for (Operation &op : function.front())
    for (OpResult result : op.getResults())
      if (std::optional<unsigned> operand =
              memory::getSharedOperand(&op, result.getResultNumber())) {
        shared[result] = *operand;
        roots[result] = rootOf(op.getOperand(*operand));
      }
  for (Operation &op : function.front())
    for (OpOperand &operand : op.getOpOperands()) {
      Value root = rootOf(operand.get());
      useLast(root, order.of(&op), &operand);
      if (order.completionOf(&op) > order.of(&op))
        started[root].push_back(&op);
      if (runsOnCommunication(&op))
        communicated.insert(root);
    }
}

void Buffers::useLast(Value root, unsigned time, ArrayRef<OpOperand *> users) {
  if (time > lastUse.lookup(root))
    lastUsers[root].clear();
  if (time < lastUse.lookup(root))
    return;
  lastUse[root] = time;
  llvm::append_range(lastUsers[root], users);
}

/// Whether `result` may be written over `operand`: nothing reads what is there once `op` has run.
bool Buffers::mayTakeOver(Operation *op, unsigned operand, OpResult result, bool isPointwise) {
  Value value = op->getOperand(operand), root = rootOf(value);
  unsigned time = order.of(op);
  if (memory::getByteSize(value.getType()) != memory::getByteSize(result.getType()) ||
      lastUse.lookup(root) > time)
    return false;
  // An op that is started uses it until it is waited for.
  for (Operation *other : started.lookup(root))
    if (other != op && order.completionOf(other) > time)
      return false;
  if (auto argument = dyn_cast<BlockArgument>(root);
      argument && (isPointwise || !owned[argument.getArgNumber()]))
    return false;
  // Computation would have to wait for the communication.
  if (isPointwise && spread && communicated.contains(root))
    return false;
  // The arena does not hold what the function returns.
  if (isPointwise && (lastUse.lookup(result) == order.end() ||
                      memory::getByteSize(root.getType()) != memory::getByteSize(value.getType())))
    return false;
  if (lastUse.lookup(root) == time)
    for (OpOperand *other : lastUsers.lookup(root)) {
      bool isItself = other->getOwner() == op && other->getOperandNumber() == operand;
      bool isReadInPlace = isPointwise && other->get() == value;
      if (!isItself && !isReadInPlace)
        return false;
    }
  return true;
}

void Buffers::shareResult(OpResult result) {
  Operation *op = result.getOwner();
  auto takeOver = [&](unsigned operand) {
    Value root = rootOf(op->getOperand(operand));
    shared[result] = operand;
    roots[result] = root;
    useLast(root, lastUse.lookup(result), SmallVector<OpOperand *, 1>(lastUsers.lookup(result)));
    llvm::append_range(started[root], SmallVector<Operation *, 1>(started.lookup(result)));
  };
  if (std::optional<unsigned> operand =
          memory::getOverwrittenOperand(op, result.getResultNumber())) {
    if (mayTakeOver(op, *operand, result, /*isPointwise=*/false))
      takeOver(*operand);
    return;
  }
  for (unsigned operand = 0; operand < op->getNumOperands(); ++operand)
    if (mayOverwrite(op, operand) && mayTakeOver(op, operand, result, /*isPointwise=*/true)) {
      takeOver(operand);
      ++inPlace;
      return;
    }
}

void Buffers::share() {
  for (Operation &op : function.front())
    for (OpResult result : op.getResults())
      if (!shared.contains(result))
        shareResult(result);
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

void Buffers::makeBuffers() {
  auto add = [&](Value root, Buffer::Kind kind, unsigned begin) -> Buffer & {
    Buffer buffer;
    buffer.root = root;
    buffer.kind = kind;
    buffer.bytes = memory::getByteSize(root.getType());
    buffer.begin = begin;
    buffer.end = std::max(begin, lastUse.lookup(root));
    for (Operation *op : started.lookup(root))
      buffer.end = std::max(buffer.end, order.completionOf(op));
    indices[root] = unsigned(buffers.size());
    return buffers.emplace_back(buffer);
  };
  for (BlockArgument argument : function.getArguments())
    add(argument, Buffer::Argument, 0);
  for (Operation &op : function.front())
    for (OpResult result : op.getResults()) {
      if (shared.contains(result))
        continue;
      Buffer &buffer = add(result, Buffer::Planned, order.of(&op));
      buffer.end = std::max(buffer.end, order.completionOf(result));
      bool isHost = isa<dist::HostType>(result.getType()) ||
                    isa<train::LearningRateOp, train::HyperparameterOp>(&op);
      buffer.reason = buffer.end == order.end() && !isa<dist::HostType>(result.getType())
                          ? Buffer::Outlives
                      : isHost            ? Buffer::Host
                      : buffer.bytes == 0 ? Buffer::Empty
                                          : Buffer::NotApart;
      if (buffer.reason != Buffer::NotApart)
        buffer.kind = Buffer::Apart;
    }
}

/// What a communication reads stays until computation waits for it: for its first result that is
/// used. What it writes is kept free from when the last operand is made.
void Buffers::spreadCommunication() {
  // From the end: when computation is after the communications from here on.
  llvm::DenseMap<Operation *, unsigned> joined;
  unsigned next = order.end();
  for (Operation &op : llvm::reverse(function.front())) {
    if (!runsOnCommunication(&op))
      continue;
    for (OpResult result : op.getResults()) {
      SmallVector<Value> values = {result};
      while (!values.empty())
        for (Operation *user : values.pop_back_val().getUsers()) {
          if (isOnlyView(user))
            llvm::append_range(values, user->getResults());
          else if (!runsOnCommunication(user))
            next = std::min(next, order.of(user));
        }
    }
    joined[&op] = next;
  }
  for (Operation &op : function.front()) {
    if (!runsOnCommunication(&op))
      continue;
    unsigned made = 0;
    for (Value operand : op.getOperands()) {
      auto found = indices.find(rootOf(operand));
      if (found == indices.end())
        continue;
      Buffer &buffer = buffers[found->second];
      made = std::max(made, buffer.begin);
      buffer.end = std::max(buffer.end, std::min(joined.lookup(&op), order.end() - 1));
    }
    for (OpResult result : op.getResults())
      if (auto found = indices.find(result); found != indices.end()) {
        Buffer &buffer = buffers[found->second];
        buffer.begin = std::min(buffer.begin, made + 1);
      }
  }
}
