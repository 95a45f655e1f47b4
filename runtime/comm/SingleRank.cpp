//===- SingleRank.cpp - The world of one rank -----------------------------===//
//
// Every collective over one rank is the identity or a copy, so that callers need no special case.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Communicator.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace cleave::runtime;

namespace {
class CompletedWork final : public Work {
public:
  llvm::Error wait(std::optional<std::chrono::milliseconds>) override {
    return llvm::Error::success();
  }
  bool isDone() override { return true; }
};

class SingleRankCommunicator final : public Communicator {
public:
  SingleRankCommunicator(int worldRank, std::string name)
      : Communicator(0, {worldRank}, std::move(name), std::chrono::milliseconds::max()) {}

  bool supports(const ReductionOp &reduction, c10::ScalarType) const override {
    return reduction.kind != ReductionKind::PremultipliedSum;
  }
  llvm::Expected<std::unique_ptr<Work>> startAllReduce(at::Tensor &, const ReductionOp &,
                                                       llvm::StringRef) override {
    return std::make_unique<CompletedWork>();
  }
  llvm::Expected<std::unique_ptr<Work>> startReduce(at::Tensor &, const ReductionOp &, int root,
                                                    llvm::StringRef) override {
    return keep("reduce", root);
  }
  llvm::Expected<std::unique_ptr<Work>> startBroadcast(at::Tensor &, int root,
                                                       llvm::StringRef) override {
    return keep("broadcast", root);
  }
  llvm::Expected<std::unique_ptr<Work>> startAllGather(at::Tensor &output, const at::Tensor &input,
                                                       llvm::StringRef) override {
    return copy("all_gather", output, input, 0);
  }
  llvm::Expected<std::unique_ptr<Work>> startGather(at::Tensor &output, const at::Tensor &input,
                                                    int root, llvm::StringRef) override {
    return copy("gather", output, input, root);
  }
  llvm::Expected<std::unique_ptr<Work>> startScatter(at::Tensor &output, const at::Tensor &input,
                                                     int root, llvm::StringRef) override {
    return copy("scatter", output, input, root);
  }
  llvm::Expected<std::unique_ptr<Work>> startAllToAll(at::Tensor &output, const at::Tensor &input,
                                                      llvm::ArrayRef<int64_t>,
                                                      llvm::ArrayRef<int64_t>,
                                                      llvm::StringRef) override {
    return copy("all_to_all", output, input, 0);
  }
  llvm::Expected<std::unique_ptr<Work>> startSend(const at::Tensor &, int peer, int,
                                                  llvm::StringRef what) override {
    return refuseSelf("send", peer, what);
  }
  llvm::Expected<std::unique_ptr<Work>> startReceive(at::Tensor &, int peer, int,
                                                     llvm::StringRef what) override {
    return refuseSelf("receive", peer, what);
  }
  llvm::Expected<std::vector<std::string>> allGatherBytes(llvm::StringRef bytes,
                                                          llvm::StringRef) override {
    return std::vector<std::string>{bytes.str()};
  }
  llvm::Error barrier(llvm::StringRef) override { return llvm::Error::success(); }
  llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                         llvm::StringRef name) override {
    if (llvm::Error error = checkSubgroup(ranks, name))
      return error;
    return std::make_unique<SingleRankCommunicator>(members()[0], name.str());
  }
  bool isRecordable() const override { return true; }
  void *groupStore() override {
    if (!store)
      store = c10::make_intrusive<c10d::HashStore>();
    return store.get();
  }
  llvm::Error checkPeers() override { return llvm::Error::success(); }
  void abort(llvm::StringRef) override {}
  llvm::Error finish() override { return llvm::Error::success(); }

private:
  /// For a communicator that complements this one.
  c10::intrusive_ptr<c10d::Store> store;

  llvm::Expected<std::unique_ptr<Work>> keep(llvm::StringRef operation, int root) {
    if (llvm::Error error = checkPeer(operation, root))
      return error;
    return std::make_unique<CompletedWork>();
  }
  llvm::Expected<std::unique_ptr<Work>> copy(llvm::StringRef operation, at::Tensor &to,
                                             const at::Tensor &from, int root) {
    to.view({to.numel()}).copy_(from.view({from.numel()}));
    return keep(operation, root);
  }
  llvm::Error refuseSelf(llvm::StringRef operation, int peer, llvm::StringRef what) {
    if (llvm::Error error = checkPeer(operation, peer))
      return error;
    return llvm::createStringError("%s of %s: a rank cannot exchange with itself",
                                   operation.str().c_str(), what.str().c_str());
  }
};
} // namespace

std::unique_ptr<Communicator> cleave::runtime::makeSingleRankCommunicator() {
  return std::make_unique<SingleRankCommunicator>(0, "world");
}
