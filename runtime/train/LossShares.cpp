//===- LossShares.cpp - how much of a step's loss each microbatch is ------===//

#include "runtime/train/LossShares.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

using namespace cleave::runtime;

int64_t cleave::runtime::countTargets(const CountedTargets &targets,
                                      llvm::ArrayRef<HostTensor> batch) {
  const HostTensor &tensor = batch[targets.input()];
  return targets.count({{tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}},
                        reinterpret_cast<const char *>(tensor.bytes.data())});
}

llvm::Expected<std::unique_ptr<LossShares>> LossShares::create(const Program &program,
                                                               const RankGrid &grid) {
  llvm::Expected<std::optional<CountedTargets>> targets = CountedTargets::find(program, grid);
  if (!targets)
    return targets.takeError();
  if (!*targets)
    return nullptr;
  return std::unique_ptr<LossShares>(new LossShares(std::move(**targets)));
}

llvm::Error LossShares::begin(int64_t step, const DataSource &data, int64_t microbatches,
                              Session &session, Communicator &world) {
  Session::BatchPart part = session.batchPart();
  batches.clear();
  std::vector<int64_t> mine;
  for (int64_t index = 0; index < microbatches; ++index) {
    if (llvm::Error error =
            data.read({step - 1, part.index, index}).moveInto(batches.emplace_back()))
      return error;
    mine.push_back(countTargets(targets, batches.back()));
  }
  llvm::Expected<std::vector<int64_t>> all = gather(mine, part, world);
  if (!all)
    return all.takeError();
  shares = computeShares(*all);
  return session.setLossSeeds(
      llvm::ArrayRef(shares).slice(part.index * microbatches, microbatches));
}

llvm::Expected<std::vector<int64_t>> LossShares::gather(llvm::ArrayRef<int64_t> mine,
                                                        Session::BatchPart part,
                                                        Communicator &world) const {
  if (part.count == 1)
    return mine.vec();
  // A message is the rank's part of the batch and its counts.
  std::vector<int64_t> message = {part.index};
  llvm::append_range(message, mine);
  size_t bytes = message.size() * sizeof(int64_t);
  auto received = world.allGatherBytes({reinterpret_cast<const char *>(message.data()), bytes},
                                       "the number of targets");
  if (!received)
    return received.takeError();
  std::vector<int64_t> all(part.count * mine.size(), -1);
  for (const std::string &theirs : *received) {
    if (theirs.size() != bytes)
      return makeError("a rank sent the targets of another number of microbatches");
    std::memcpy(message.data(), theirs.data(), bytes);
    if (message.front() < 0 || message.front() >= part.count)
      return makeError("a rank sent the targets of part {0} of {1} of the batch", message.front(),
                       part.count);
    // Ranks with the same part of the batch have the same targets.
    std::copy(message.begin() + 1, message.end(), all.begin() + message.front() * mine.size());
  }
  if (llvm::is_contained(all, -1))
    return makeError("no rank sent the targets of a part of the batch");
  return all;
}

bool LossShares::isEmpty() const {
  return llvm::all_of(shares, [](double share) { return share == 0; });
}
