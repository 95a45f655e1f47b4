// c10d's calls as sides of the fabric, and the arithmetic of collectives.
#include "test/unit/lib/schedule/strict/StrictBackend.h"

#include <algorithm>

using namespace cleave::strict;
using c10d::OpType;
using c10d::ReduceOp;
using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

namespace {
/// The tensors of a side: what is read, and what is written (the same for in-place operations).
struct Payload {
  at::Tensor input, output;
  ReduceOp::RedOpType reduction = ReduceOp::SUM;
  unsigned root = 0;
  OpType type = OpType::UNKNOWN;
};

class StrictWork : public c10d::Work {
public:
  StrictWork(Fabric &fabric, unsigned rank, OpType type, std::shared_ptr<Entry> entry,
             std::vector<at::Tensor> results)
      : Work(int(rank), type), fabric(fabric), entry(std::move(entry)),
        results(std::move(results)) {}

  bool isCompleted() override { return fabric.isComplete(*entry); }
  bool isSuccess() const override { return fabric.isComplete(*entry) && entry->error.empty(); }
  std::vector<at::Tensor> result() override { return results; }
  void synchronize() override { wait(kNoTimeout); }
  /// The time limit has no meaning here: a wait either ends or is proved not to.
  bool wait(std::chrono::milliseconds) override {
    fabric.wait(entry->rank, {entry});
    return true;
  }

  Fabric &fabric;
  std::shared_ptr<Entry> entry;
  std::vector<at::Tensor> results;
};

const char *nameOf(ReduceOp::RedOpType reduction) {
  switch (reduction) {
  case ReduceOp::SUM:
    return "sum";
  case ReduceOp::AVG:
    return "avg";
  case ReduceOp::PRODUCT:
    return "product";
  case ReduceOp::MIN:
    return "min";
  case ReduceOp::MAX:
    return "max";
  default:
    TORCH_CHECK(false, "the strict backend reduces by sum, avg, product, min and max only");
  }
}

/// In the order of the communicator's ranks, so that results do not depend on who came first.
at::Tensor reduced(const std::vector<Side *> &sides) {
  auto payload = [](Side *side) { return static_cast<Payload *>(side->data.get()); };
  ReduceOp::RedOpType reduction = payload(sides.front())->reduction;
  at::Tensor total = payload(sides.front())->input.clone();
  for (size_t i = 1; i < sides.size(); ++i) {
    const at::Tensor &next = payload(sides[i])->input;
    if (reduction == ReduceOp::PRODUCT)
      total.mul_(next);
    else if (reduction == ReduceOp::MIN)
      total = at::minimum(total, next);
    else if (reduction == ReduceOp::MAX)
      total = at::maximum(total, next);
    else
      total.add_(next);
  }
  return reduction == ReduceOp::AVG ? total.div_(int64_t(sides.size())) : total;
}

at::Tensor only(std::vector<at::Tensor> &tensors) {
  TORCH_CHECK(tensors.size() == 1, "expected one tensor, found ", tensors.size());
  return tensors.front();
}
} // namespace

void cleave::strict::deliverTensors(const std::vector<Side *> &sides) {
  c10::InferenceMode guard;
  std::vector<Payload *> parts;
  for (Side *side : sides)
    parts.push_back(static_cast<Payload *>(side->data.get()));
  for (Payload *part : parts)
    TORCH_CHECK(!part->input.defined() ||
                    part->input.scalar_type() == parts.front()->input.scalar_type(),
                sides.front()->what, ": rank ", sides.front()->rank, " brings ",
                parts.front()->input.scalar_type(), ", another rank ", part->input.scalar_type());
  switch (parts.front()->type) {
  case OpType::SEND:
    TORCH_CHECK(parts[1]->output.sizes() == parts[0]->input.sizes(), "rank ", sides[0]->rank,
                " sends ", parts[0]->input.sizes(), ", rank ", sides[1]->rank, " receives ",
                parts[1]->output.sizes());
    parts[1]->output.copy_(parts[0]->input);
    break;
  case OpType::BROADCAST:
    for (Payload *part : parts)
      if (part != parts[parts[0]->root])
        part->output.copy_(parts[parts[0]->root]->input);
    break;
  case OpType::ALLREDUCE: {
    at::Tensor total = reduced(sides);
    for (Payload *part : parts)
      part->output.copy_(total);
    break;
  }
  case OpType::_ALLGATHER_BASE:
    for (Payload *part : parts)
      for (size_t i = 0; i < parts.size(); ++i)
        part->output.view(-1).chunk(int64_t(parts.size()))[i].copy_(parts[i]->input.view(-1));
    break;
  case OpType::_REDUCE_SCATTER_BASE: {
    std::vector<at::Tensor> pieces = reduced(sides).view(-1).chunk(int64_t(parts.size()));
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i]->output.view(-1).copy_(pieces[i]);
    break;
  }
  default: // a barrier
    break;
  }
}

StrictBackend::StrictBackend(Fabric &fabric, const std::string &name, unsigned rank,
                             const std::vector<unsigned> &members, const CommOptions &options)
    : Backend(int(std::find(members.begin(), members.end(), rank) - members.begin()),
              int(members.size())),
      fabric(fabric), comm(fabric.communicator(name, members, options)), worldRank(rank) {
  TORCH_CHECK(getRank() < getSize(), "rank ", rank, " is no member of communicator '", name, "'");
}

Side StrictBackend::newSide(Role role, std::string what) {
  Side side;
  side.role = role;
  side.comm = &comm;
  side.rank = worldRank;
  side.what = std::move(what);
  return side;
}

c10::intrusive_ptr<c10d::Work> StrictBackend::submit(Side side, OpType type) {
  auto *payload = static_cast<Payload *>(side.data.get());
  payload->type = type;
  const at::Tensor &sized = payload->input.defined() ? payload->input : payload->output;
  side.bytes = sized.defined() ? sized.nbytes() : 0;
  if (coalescing) {
    group.push_back(std::move(side));
    return nullptr;
  }
  std::vector<at::Tensor> results;
  if (payload->output.defined())
    results.push_back(payload->output);
  std::vector<Side> sides;
  sides.push_back(std::move(side));
  return c10::make_intrusive<StrictWork>(fabric, worldRank, type, fabric.start(std::move(sides)),
                                         std::move(results));
}

void StrictBackend::startCoalescing() {
  TORCH_CHECK(!coalescing, "groups do not nest");
  coalescing = true;
}

c10::intrusive_ptr<c10d::Work> StrictBackend::endCoalescing() {
  TORCH_CHECK(coalescing, "endCoalescing without startCoalescing");
  coalescing = false;
  TORCH_CHECK(!group.empty(), "a group without operations");
  std::vector<Side> sides = std::exchange(group, {});
  return c10::make_intrusive<StrictWork>(fabric, worldRank, OpType::COALESCED,
                                         fabric.start(std::move(sides)), std::vector<at::Tensor>());
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

c10::intrusive_ptr<c10d::Work> StrictBackend::send(std::vector<at::Tensor> &tensors, int to,
                                                   int tag) {
  TORCH_CHECK(to >= 0 && to < getSize() && to != getRank(), "send to rank ", to, " of ", getSize(),
              " from rank ", getRank());
  Side side = newSide(Role::Send, "send");
  side.peer = comm.members[to];
  side.tag = tag;
  side.data = std::make_shared<Payload>(Payload{only(tensors), {}});
  return submit(std::move(side), OpType::SEND);
}

c10::intrusive_ptr<c10d::Work> StrictBackend::recv(std::vector<at::Tensor> &tensors, int from,
                                                   int tag) {
  TORCH_CHECK(from >= 0 && from < getSize() && from != getRank(), "receive from rank ", from,
              " of ", getSize(), " on rank ", getRank());
  Side side = newSide(Role::Recv, "recv");
  side.peer = comm.members[from];
  side.tag = tag;
  at::Tensor tensor = only(tensors);
  side.data = std::make_shared<Payload>(Payload{tensor, tensor});
  return submit(std::move(side), OpType::RECV);
}

c10::intrusive_ptr<c10d::Work> StrictBackend::broadcast(std::vector<at::Tensor> &tensors,
                                                        const c10d::BroadcastOptions &options) {
  Side side = newSide(Role::Collective, "broadcast(from " + std::to_string(options.rootRank) + ")");
  at::Tensor tensor = only(tensors);
  Payload payload{tensor, tensor};
  payload.root = unsigned(options.rootRank);
  side.data = std::make_shared<Payload>(std::move(payload));
  return submit(std::move(side), OpType::BROADCAST);
}

c10::intrusive_ptr<c10d::Work> StrictBackend::allreduce(std::vector<at::Tensor> &tensors,
                                                        const c10d::AllreduceOptions &options) {
  ReduceOp::RedOpType reduction = options.reduceOp;
  Side side = newSide(Role::Collective, std::string("allreduce(") + nameOf(reduction) + ")");
  at::Tensor tensor = only(tensors);
  side.data = std::make_shared<Payload>(Payload{tensor, tensor, reduction});
  return submit(std::move(side), OpType::ALLREDUCE);
}

c10::intrusive_ptr<c10d::Work> StrictBackend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                                              const c10d::AllgatherOptions &) {
  TORCH_CHECK(output.numel() == input.numel() * getSize(), "an all-gather of ", input.numel(),
              " elements from each of ", getSize(), " ranks does not give ", output.numel());
  Side side = newSide(Role::Collective, "allgather");
  side.data = std::make_shared<Payload>(Payload{input, output});
  return submit(std::move(side), OpType::_ALLGATHER_BASE);
}

c10::intrusive_ptr<c10d::Work>
StrictBackend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                    const c10d::ReduceScatterOptions &options) {
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "a reduce-scatter of ", input.numel(),
              " elements over ", getSize(), " ranks does not give ", output.numel(), " on each");
  ReduceOp::RedOpType reduction = options.reduceOp;
  Side side = newSide(Role::Collective, std::string("reduce-scatter(") + nameOf(reduction) + ")");
  side.data = std::make_shared<Payload>(Payload{input, output, reduction});
  return submit(std::move(side), OpType::_REDUCE_SCATTER_BASE);
}

c10::intrusive_ptr<c10d::Work> StrictBackend::barrier(const c10d::BarrierOptions &) {
  Side side = newSide(Role::Collective, "barrier");
  side.data = std::make_shared<Payload>();
  return submit(std::move(side), OpType::BARRIER);
}

void StrictBackend::waitUntilAtMost(const Works &works, size_t allowed) {
  std::vector<std::shared_ptr<Entry>> entries;
  for (const c10::intrusive_ptr<c10d::Work> &work : works)
    entries.push_back(static_cast<StrictWork *>(work.get())->entry);
  fabric.wait(worldRank, entries, allowed);
}
