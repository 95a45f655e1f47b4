//===- GlooCommunicator.h - Ranks over c10d's Gloo backend ------*- C++ -*-===//
//
// Private to GlooCommunicator.cpp (groups and failures) and GlooOperations.cpp (operations).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_GLOOCOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_GLOOCOMMUNICATOR_H

#include "GlooWorld.h"

#include "runtime/comm/Diagnosis.h"

#include "llvm/ADT/DenseSet.h"

#include <map>

namespace cleave::runtime {

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(std::shared_ptr<World> world, int rank, std::vector<int> members,
                   std::string name, std::string path,
                   c10::intrusive_ptr<c10d::ProcessGroupGloo> group)
      : Communicator(rank, std::move(members), std::move(name), world->timeout),
        world(std::move(world)), path(std::move(path)), group(std::move(group)) {}
  ~GlooCommunicator() override;

  bool supports(const ReductionOp &reduction, c10::ScalarType type) const override;
  llvm::Expected<std::unique_ptr<Work>>
  startAllReduce(at::Tensor &tensor, const ReductionOp &reduction, llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startReduce(at::Tensor &tensor,
                                                    const ReductionOp &reduction, int root,
                                                    llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startAllGather(at::Tensor &output, const at::Tensor &input,
                                                       llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startGather(at::Tensor &output, const at::Tensor &input,
                                                    int root, llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startScatter(at::Tensor &output, const at::Tensor &input,
                                                     int root, llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startAllToAll(at::Tensor &output, const at::Tensor &input,
                                                      llvm::ArrayRef<int64_t> outputSizes,
                                                      llvm::ArrayRef<int64_t> inputSizes,
                                                      llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startBroadcast(at::Tensor &tensor, int root,
                                                       llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startSend(const at::Tensor &tensor, int peer, int tag,
                                                  llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Work>> startReceive(at::Tensor &tensor, int peer, int tag,
                                                     llvm::StringRef what) override;
  llvm::Expected<std::vector<std::string>> allGatherBytes(llvm::StringRef bytes,
                                                          llvm::StringRef what) override;
  llvm::Error barrier(llvm::StringRef what) override;
  llvm::Expected<std::unique_ptr<Communicator>> subgroup(llvm::ArrayRef<int> ranks,
                                                         llvm::StringRef name) override;
  llvm::Error checkPeers() override;
  std::vector<RankPosition> askPositions(std::chrono::milliseconds patience) override;
  void abort(llvm::StringRef reason) override;
  void *groupStore() override;
  uint64_t enterOperation(llvm::StringRef what) override;
  llvm::Error explainFailure(llvm::StringRef operation, uint64_t number,
                             llvm::StringRef cause) override;
  llvm::Error finish() override;

  /// The error of `operation`, which Gloo ended with `cause` (empty: it did not end in time).
  llvm::Error diagnose(const Operation &operation, llvm::StringRef cause,
                       std::chrono::milliseconds limit);
  /// The error of `operation`, which could not even start.
  llvm::Error diagnoseStart(const Operation &operation, llvm::StringRef cause);
  World &shared() { return *world; }

private:
  bool isWorld() const { return path == kWorldName; }
  Operation begin(llvm::StringRef kind, llvm::StringRef what);
  /// What all ranks have to give an operation alike.
  struct Terms {
    llvm::StringRef kind;
    int64_t elements;
    c10::ScalarType type;
  };
  static Terms termsOf(llvm::StringRef kind, const at::Tensor &tensor);
  /// Compares them with the other ranks' the first time that they are used for this value: Gloo
  /// ends the process where they differ. Throws.
  llvm::Error agree(const Operation &operation, const Terms &terms);
  /// Starts an operation and hands out its work; `start` returns c10d's and may throw.
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> launch(Operation operation, std::optional<Terms> terms,
                                               Start start);
  /// The same for one that works in place, on a copy where `tensor` is not contiguous.
  template <typename Start>
  llvm::Expected<std::unique_ptr<Work>> launchInPlace(Operation operation, llvm::StringRef kind,
                                                      at::Tensor &tensor, Start start);
  llvm::Error checkExchange(llvm::StringRef operation, const at::Tensor &tensor, int peer, int tag,
                            llvm::StringRef what) const;
  llvm::Expected<std::unique_ptr<Work>> startExchange(bool sends, const at::Tensor &tensor,
                                                      int peer, int tag, llvm::StringRef what);

  std::shared_ptr<World> world;
  /// The group's key: the world's name, or the path of the parent and then its own.
  std::string path;
  std::map<std::string, int> subgroups;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  uint64_t started = 0;
  /// Hashes of the operations whose terms have been compared.
  llvm::DenseSet<uint64_t> agreed;
  /// For a communicator that complements this one.
  c10::intrusive_ptr<c10d::Store> storeOfGroup;
  /// An operation failed, or the ranks left in good order.
  bool broken = false, finished = false;
  /// The ranks that this one found missing.
  std::vector<int> blamed;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_GLOOCOMMUNICATOR_H
