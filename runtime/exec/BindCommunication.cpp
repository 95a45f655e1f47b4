//===- BindCommunication.cpp - communication ops become instructions ---------===//
//
// Each op's group of ranks is found when the op is bound; the session has connected it before.
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "dialects/train/Train.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Communication.h"
#include "runtime/exec/DistOps.h"
#include "runtime/exec/Kernels.h"
#include "runtime/ranks/RankGrid.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <ATen/ops/zeros.h>

using namespace mlir;
using namespace cleave::runtime;
namespace dist = cleave::dist;
namespace exec = cleave::exec;
namespace train = cleave::train;
using Tensors = Pending::Tensors;

std::vector<std::string> cleave::runtime::axisNames(ArrayAttr axes) {
  std::vector<std::string> names;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    names.push_back(axis.str());
  return names;
}

ReductionOp cleave::runtime::toReduction(dist::ReductionAttr reduction) {
  switch (reduction.getKind()) {
  case dist::Reduction::Sum:
    return ReductionKind::Sum;
  case dist::Reduction::Avg:
    return ReductionKind::Average;
  case dist::Reduction::PremulSum:
    return {ReductionKind::PremultipliedSum, reduction.getFactor().getValueAsDouble()};
  case dist::Reduction::Max:
    return ReductionKind::Max;
  case dist::Reduction::Min:
    return ReductionKind::Min;
  case dist::Reduction::Product:
    return ReductionKind::Product;
  case dist::Reduction::BitAnd:
    return ReductionKind::BitAnd;
  case dist::Reduction::BitOr:
    return ReductionKind::BitOr;
  case dist::Reduction::BitXor:
    return ReductionKind::BitXor;
  }
  llvm_unreachable("unknown reduction");
}

/// What is moved, for messages: the role of the function's argument, else the op's place.
static std::string describeMoved(Operation *op) {
  auto argument = op->getNumOperands() ? dyn_cast<BlockArgument>(op->getOperand(0)) : nullptr;
  if (argument)
    if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
      if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber()))
        return (train::stringifyRoleKind(role.getKind()) + " \"" + role.getNameOrEmpty() + "\"")
            .str();
  return describeLocation(op->getLoc());
}

int64_t cleave::runtime::localSize(Value value, int64_t dim) {
  return cast<RankedTensorType>(dist::valueTypeOf(value.getType())).getDimSize(dim);
}

llvm::Error cleave::runtime::checkPart(const RankGrid &grid, llvm::ArrayRef<std::string> axes,
                                       int64_t whole, int64_t local, int64_t dim) {
  int64_t held = grid.part(whole, axes).size;
  if (held == local)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("of the {0} elements of dimension {1}, rank {2} holds {3}; the function is for "
                    "ranks that hold {4}",
                    whole, dim, grid.rank(), held, local)
          .str());
}

/// The operands' and results' parts of dimension `dim` are this rank's.
template <typename Range>
static llvm::Error checkParts(const RankGrid &grid, llvm::ArrayRef<std::string> axes,
                              const Range &wholes, const Range &parts, int64_t dim) {
  for (auto [whole, part] : llvm::zip_equal(wholes, parts))
    if (llvm::Error error = checkPart(grid, axes, localSize(whole, dim), localSize(part, dim), dim))
      return error;
  return llvm::Error::success();
}

namespace {
/// Gives an instruction its `start`, by the kind of op. Group, mesh and messages are the same for
/// all of them.
struct StartBinder {
  const RankGrid &grid;
  std::vector<std::string> axes;
  RankGroup group;
  std::string what;
  Communicate &instruction;
  const Device &device;

  llvm::Error bindReduce(ReductionOp reduction) {
    instruction.overwrites = true;
    instruction.start = [=, group = group, what = what](Tensors operands) {
      return startAllReduce(group, std::move(operands), reduction, what);
    };
    return llvm::Error::success();
  }

  llvm::Error bindGather(ValueRange inputs, ValueRange results, int64_t dim) {
    std::vector<int64_t> wholes;
    for (Value result : results)
      wholes.push_back(localSize(result, dim));
    instruction.start = [=, group = group, what = what](Tensors operands) {
      return startAllGather(group, operands, dim, wholes, what);
    };
    return checkParts(grid, axes, results, inputs, dim);
  }

  llvm::Error bind(dist::AllReduceOp op) { return bindReduce(toReduction(op.getReduction())); }
  llvm::Error bind(dist::FakeReduceOp) { return bindReduce(ReductionKind::Sum); }
  llvm::Error bind(dist::AllGatherOp op) {
    return bindGather(op.getInputs(), op.getResults(), op.getDim());
  }
  llvm::Error bind(dist::FakeGatherOp op) {
    return bindGather(op.getInput(), op.getResult(), op.getDim());
  }

  llvm::Error bind(dist::ReduceScatterOp op) {
    instruction.start = [group = group, what = what, reduction = toReduction(op.getReduction()),
                         dim = int64_t(op.getDim())](Tensors operands) {
      return startReduceScatter(group, operands, reduction, dim, what);
    };
    return checkParts(grid, axes, ValueRange(op.getInputs()), ValueRange(op.getResults()),
                      op.getDim());
  }

  llvm::Error bind(dist::AllToAllOp op) {
    int64_t split = op.getSplit(), concat = op.getConcat();
    int64_t whole = localSize(op.getResult(), concat);
    if (split == concat) {
      // The type says the local size alone, which is every rank's.
      whole *= group.size();
    } else {
      if (llvm::Error error =
              checkPart(grid, axes, whole, localSize(op.getInput(), concat), concat))
        return error;
      if (llvm::Error error = checkPart(grid, axes, localSize(op.getInput(), split),
                                        localSize(op.getResult(), split), split))
        return error;
    }
    instruction.start = [=, group = group, what = what](Tensors operands) {
      return startAllToAll(group, operands.front(), split, concat, whole, what);
    };
    return llvm::Error::success();
  }

  llvm::Error bind(dist::RaggedAllToAllOp op) {
    for (Value numbers : {op.getSends(), op.getReceives()})
      if (localSize(numbers, 0) != group.size())
        return llvm::createStringError(
            llvm::formatv("expected a number of rows for each of {0} ranks, found {1}",
                          group.size(), localSize(numbers, 0))
                .str());
    int64_t room = localSize(op.getResult(), 0);
    instruction.start = [=, group = group, what = what](Tensors operands) {
      return startRaggedAllToAll(group, operands[0], operands[1], operands[2], room, what);
    };
    return llvm::Error::success();
  }

  llvm::Error bind(dist::BroadcastOp op) {
    instruction.start = [group = group, what = what, root = int(op.getRoot())](Tensors operands) {
      return startBroadcast(group, std::move(operands.front()), root, what);
    };
    return llvm::Error::success();
  }

  llvm::Error bind(dist::ReduceOp op) {
    instruction.overwrites = true;
    instruction.start = [group = group, what = what, reduction = toReduction(op.getReduction()),
                         root = int(op.getRoot())](Tensors operands) {
      return startReduce(group, std::move(operands.front()), reduction, root, what);
    };
    return llvm::Error::success();
  }

  llvm::Error bind(dist::GatherOp op) {
    int64_t dim = op.getDim(), whole = localSize(op.getResult(), dim);
    instruction.start = [=, group = group, what = what,
                         root = int(op.getRoot())](Tensors operands) {
      return startGather(group, operands.front(), dim, whole, root, what);
    };
    return checkPart(grid, axes, whole, localSize(op.getInput(), dim), dim);
  }

  llvm::Error bind(dist::ScatterOp op) {
    int64_t dim = op.getDim();
    instruction.start = [=, group = group, what = what,
                         root = int(op.getRoot())](Tensors operands) {
      return startScatter(group, operands.front(), dim, root, what);
    };
    return checkPart(grid, axes, localSize(op.getInput(), dim), localSize(op.getResult(), dim),
                     dim);
  }

  llvm::Error bindPairs(std::vector<std::pair<int, int>> pairs) {
    instruction.start = [group = group, what = what, pairs = std::move(pairs)](Tensors operands) {
      return startPermute(group, operands.front(), pairs, what);
    };
    return llvm::Error::success();
  }
  llvm::Error bind(dist::PermuteOp op) {
    std::vector<std::pair<int, int>> pairs;
    for (auto [from, to] : llvm::zip_equal(op.getSources(), op.getDestinations()))
      pairs.emplace_back(from, to);
    return bindPairs(std::move(pairs));
  }
  llvm::Error bind(dist::ShiftOp op) {
    return bindPairs(shiftPairs(group.size(), op.getBy(), op.getWrap()));
  }

  llvm::Error checkTag(int64_t tag) {
    if (tag <= std::numeric_limits<int>::max())
      return llvm::Error::success();
    return llvm::createStringError(
        llvm::formatv("expected a tag below 2^31, found {0}", tag).str());
  }
  llvm::Error bind(dist::SendOp op) {
    instruction.start = [group = group, what = what, from = int(op.getFrom()), to = int(op.getTo()),
                         tag = int(op.getTag())](Tensors operands) {
      return startSend(group, operands.front(), from, to, tag, what);
    };
    return checkTag(op.getTag());
  }
  llvm::Error bind(dist::ReceiveOp op) {
    cleave::runtime::TensorType type = toTensorType(dist::valueTypeOf(op.getResult().getType()));
    instruction.start = [group = group, what = what, type, from = int(op.getFrom()),
                         to = int(op.getTo()), tag = int(op.getTag()), &device = device](Tensors) {
      at::Tensor buffer = device.allocate(type);
      return startReceive(group, buffer.zero_(), from, to, tag, what);
    };
    return checkTag(op.getTag());
  }

  llvm::Error bind(dist::BarrierOp) {
    instruction.start = [group = group, what = what](Tensors) -> PendingOr {
      if (llvm::Error error = group.communicator->barrier(what))
        return error;
      return Pending(Tensors{});
    };
    return llvm::Error::success();
  }
};
} // namespace

/// Where the results of an op of a lowered function are to lie.
static void planResults(const Binder &binder, Operation *op, Communicate &instruction) {
  instruction.arena = binder.services().arena;
  std::vector<PlannedResult> plan = binder.planResults(op);
  for (auto [result, planned] : llvm::zip_equal(op->getResults(), plan)) {
    at::Tensor &target = instruction.targets.emplace_back();
    instruction.isInPlace.push_back(planned.kind == PlannedResult::InPlace);
    if (planned.kind != PlannedResult::Arena)
      continue;
    cleave::runtime::TensorType type = toTensorType(dist::valueTypeOf(result.getType()));
    target = instruction.arena->tensorAt(planned.address, type.shape, toScalarType(type.dtype));
  }
}

BindResult cleave::runtime::bindCommunication(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::CommunicationOpInterface>(ops.front());
  RankGrid &grid = *binder.services().ranks;
  std::vector<std::string> axes = axisNames(op.getAxesAttr());
  llvm::Expected<RankGroup> group = grid.group(axes);
  if (!group)
    return group.takeError();
  auto instruction = std::make_unique<Communicate>();
  instruction->device = binder.services().device;
  StartBinder start{grid, axes, *group, describeMoved(op), *instruction, *binder.services().device};
  llvm::Error error =
      llvm::TypeSwitch<Operation *, llvm::Error>(op)
          .Case<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
                dist::RaggedAllToAllOp, dist::BroadcastOp, dist::ReduceOp, dist::GatherOp,
                dist::ScatterOp, dist::PermuteOp, dist::ShiftOp, dist::SendOp, dist::ReceiveOp,
                dist::BarrierOp, dist::FakeReduceOp, dist::FakeGatherOp>(
              [&](auto each) { return start.bind(each); })
          .Default(
              [](Operation *) { return llvm::createStringError("the runtime cannot execute it"); });
  if (error)
    return error;
  for (Value operand : op->getOperands())
    instruction->inputs.push_back(binder.use(operand));
  for (Value result : op->getResults())
    instruction->results.push_back(binder.define(result));
  if (binder.isLowered())
    planResults(binder, op, *instruction);
  // A future that is never awaited would outlive the function: such an op is waited for here.
  instruction->isStartOnly = op.isStarted() && !op->use_empty();
  return instruction;
}

BindResult cleave::runtime::bindWait(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<dist::WaitOp>(ops.front());
  auto instruction = std::make_unique<Wait>();
  instruction->future = binder.use(op.getFuture());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

BindResult cleave::runtime::bindRecord(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<exec::RecordOp>(ops.front());
  auto instruction = std::make_unique<Record>();
  instruction->event = binder.define(op.getEvent());
  instruction->isCommunication = op.getStream() == exec::Stream::Communication;
  return instruction;
}

BindResult cleave::runtime::bindWaitEvent(Binder &binder, ArrayRef<Operation *> ops) {
  auto instruction = std::make_unique<WaitEvent>();
  instruction->event = binder.use(cast<exec::WaitOp>(ops.front()).getEvent());
  return instruction;
}
