//===- Communicator.cpp - Blocking forms and argument checks --------------===//

#include "runtime/comm/Communicator.h"

using namespace cleave::runtime;

Work::~Work() = default;
Communicator::~Communicator() = default;

llvm::StringRef cleave::runtime::reductionName(ReductionKind reduction) {
  switch (reduction) {
  case ReductionKind::Sum:
    return "sum";
  case ReductionKind::Average:
    return "avg";
  case ReductionKind::PremultipliedSum:
    return "premul_sum";
  case ReductionKind::Max:
    return "max";
  case ReductionKind::Min:
    return "min";
  case ReductionKind::Product:
    return "product";
  case ReductionKind::BitAnd:
    return "band";
  case ReductionKind::BitOr:
    return "bor";
  case ReductionKind::BitXor:
    return "bxor";
  }
  return "";
}

static llvm::Error waitFor(llvm::Expected<std::unique_ptr<Work>> work) {
  if (!work)
    return work.takeError();
  return (*work)->wait();
}

llvm::Error Communicator::allReduceSum(at::Tensor &tensor, llvm::StringRef what) {
  return waitFor(startAllReduce(tensor, ReductionKind::Sum, what));
}

llvm::Error Communicator::broadcast(at::Tensor &tensor, int root, llvm::StringRef what) {
  return waitFor(startBroadcast(tensor, root, what));
}

llvm::Error Communicator::send(const at::Tensor &tensor, int peer, int tag, llvm::StringRef what) {
  return waitFor(startSend(tensor, peer, tag, what));
}

llvm::Error Communicator::receive(at::Tensor &tensor, int peer, int tag, llvm::StringRef what) {
  return waitFor(startReceive(tensor, peer, tag, what));
}

llvm::Expected<std::unique_ptr<Work>> Communicator::startReduceScatter(at::Tensor &,
                                                                       const at::Tensor &,
                                                                       const ReductionOp &,
                                                                       llvm::StringRef what) {
  return llvm::createStringError(
      "reduce_scatter of %s: the communicator of group \"%s\" does not support it",
      what.str().c_str(), groupName.c_str());
}

llvm::Error Communicator::explainStuck() {
  return llvm::createStringError("work on the device did not complete within %lld ms",
                                 (long long)limit.count());
}

llvm::Error Communicator::explainFailure(llvm::StringRef operation, uint64_t,
                                         llvm::StringRef cause) {
  if (cause.empty())
    cause = "it did not complete in time";
  return llvm::createStringError("%s: %s", operation.str().c_str(), cause.str().c_str());
}

llvm::Error Communicator::checkPeer(llvm::StringRef operation, int peer) const {
  if (peer >= 0 && peer < size())
    return llvm::Error::success();
  return llvm::createStringError("%s: group \"%s\" has ranks 0 to %d, there is no rank %d",
                                 operation.str().c_str(), groupName.c_str(), size() - 1, peer);
}

llvm::Error Communicator::checkSubgroup(llvm::ArrayRef<int> ranks, llvm::StringRef name) const {
  bool member = false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (llvm::Error error = checkPeer("subgroup \"" + name.str() + "\"", ranks[i]))
      return error;
    if (i && ranks[i] <= ranks[i - 1])
      return llvm::createStringError(
          "subgroup \"%s\": ranks must ascend without repetition, but %d follows %d",
          name.str().c_str(), ranks[i], ranks[i - 1]);
    member |= ranks[i] == myRank;
  }
  if (!member)
    return llvm::createStringError("subgroup \"%s\" does not contain rank %d, which requested it",
                                   name.str().c_str(), myRank);
  return llvm::Error::success();
}
