//===- RankChecks.cpp - What any set of ranks must be able to do ----------===//

#include "test/unit/runtime/comm/RankChecks.h"

#include "test/unit/runtime/comm/TensorChecks.h"

#include <ATen/ATen.h>

#include <sstream>

using namespace cleave::runtime;
using llvm::Error;
using llvm::StringRef;

static Error expectEqual(const at::Tensor &found, const at::Tensor &expected, StringRef what,
                         const Communicator &world) {
  if (found.scalar_type() == expected.scalar_type() && at::equal(found, expected))
    return Error::success();
  std::ostringstream text;
  text << what.str() << " on rank " << world.rank() << ": expected " << expected << ", found "
       << found;
  return llvm::createStringError(text.str());
}

/// What rank `rank` contributes: small whole numbers, exact in every element type.
static at::Tensor contribution(int rank, at::ScalarType type) {
  return (at::arange(6, at::kLong).reshape({2, 3}).remainder(4) + rank + 1).to(type);
}

static Error checkReduction(Communicator &world, ReductionKind reduction, at::ScalarType type) {
  at::Tensor expected = contribution(0, type);
  for (int rank = 1; rank < world.size(); ++rank) {
    at::Tensor next = contribution(rank, type);
    expected = reduction == ReductionKind::Sum   ? expected + next
               : reduction == ReductionKind::Max ? at::maximum(expected, next)
               : reduction == ReductionKind::Min ? at::minimum(expected, next)
                                                 : expected * next;
  }
  at::Tensor mine = contribution(world.rank(), type);
  // Different strides on different ranks must not matter.
  if (world.rank() % 2)
    mine = mine.t().contiguous().t();
  auto work = world.startAllReduce(mine, reduction, "numbers");
  if (!work)
    return work.takeError();
  if (Error error = (*work)->wait())
    return error;
  return expectEqual(mine, expected, "reduction of " + std::string(at::toString(type)), world);
}

Error test::checkReductions(Communicator &world) {
  for (at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt})
    for (ReductionKind reduction :
         {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min, ReductionKind::Product})
      if (Error error = checkReduction(world, reduction, type))
        return error;
  at::Tensor nothing = at::empty({0, 4});
  if (Error error = world.allReduceSum(nothing, "an empty tensor"))
    return error;
  // More than a network buffer holds.
  at::Tensor large = at::full({1 << 20}, world.rank() + 1.0f);
  if (Error error = world.allReduceSum(large, "a large tensor"))
    return error;
  float sum = world.size() * (world.size() + 1) / 2;
  return expectEqual(large, at::full({1 << 20}, sum), "large sum", world);
}

Error test::checkOverlap(Communicator &world) {
  constexpr int kOperations = 8;
  std::vector<at::Tensor> tensors;
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < kOperations; ++i) {
    tensors.push_back(at::full({1000}, int64_t(i + world.rank()), at::kLong));
    auto work =
        world.startAllReduce(tensors.back(), ReductionKind::Sum, "number " + std::to_string(i));
    if (!work)
      return work.takeError();
    works.push_back(std::move(*work));
  }
  int64_t ranks = world.size(), rankSum = ranks * (ranks - 1) / 2;
  for (int i = kOperations; i-- > 0;) {
    if (Error error = works[i]->wait())
      return error;
    if (!works[i]->isDone())
      return llvm::createStringError("an operation that was waited for is not done");
    if (Error error = expectEqual(tensors[i], at::full({1000}, i * ranks + rankSum, at::kLong),
                                  "overlapping sum", world))
      return error;
  }
  return Error::success();
}

Error test::checkBroadcasts(Communicator &world) {
  for (int root = 0; root < world.size(); ++root) {
    at::Tensor tensor = contribution(world.rank(), at::kFloat).t();
    if (Error error = world.broadcast(tensor, root, "numbers"))
      return error;
    if (Error error = expectEqual(tensor, contribution(root, at::kFloat).t(), "broadcast", world))
      return error;
  }
  return Error::success();
}

Error test::checkByteGather(Communicator &world) {
  auto bytesOf = [](int rank) { return std::string(size_t(rank) * 100, char('a' + rank)); };
  auto gathered = world.allGatherBytes(bytesOf(world.rank()), "letters");
  if (!gathered)
    return gathered.takeError();
  if (gathered->size() != size_t(world.size()))
    return llvm::createStringError("gathered from %d ranks", int(gathered->size()));
  for (int rank = 0; rank < world.size(); ++rank)
    if ((*gathered)[rank] != bytesOf(rank))
      return llvm::createStringError("rank %d gathered other bytes than rank %d gave", world.rank(),
                                     rank);
  return Error::success();
}

Error test::checkExchange(Communicator &world) {
  int size = world.size();
  int next = (world.rank() + 1) % size, previous = (world.rank() + size - 1) % size;
  at::Tensor first = at::full({5}, world.rank() * 10.0f), second = first + 1;
  at::Tensor receivedFirst = at::zeros({5}), receivedSecond = at::zeros({5});
  std::vector<std::unique_ptr<Work>> works;
  auto keep = [&](llvm::Expected<std::unique_ptr<Work>> work) -> Error {
    if (!work)
      return work.takeError();
    works.push_back(std::move(*work));
    return Error::success();
  };
  if (Error error = keep(world.startReceive(receivedSecond, previous, 2, "the second")))
    return error;
  if (Error error = keep(world.startReceive(receivedFirst, previous, 1, "the first")))
    return error;
  if (Error error = keep(world.startSend(first, next, 1, "the first")))
    return error;
  if (Error error = keep(world.startSend(second, next, 2, "the second")))
    return error;
  for (auto &work : works)
    if (Error error = work->wait())
      return error;
  if (Error error = expectEqual(receivedFirst, at::full({5}, previous * 10.0f), "tag 1", world))
    return error;
  return expectEqual(receivedSecond, at::full({5}, previous * 10.0f + 1), "tag 2", world);
}

Error test::checkSubgroups(Communicator &world) {
  std::vector<int> ranks;
  int64_t sum = 0;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) {
    ranks.push_back(rank);
    sum += rank;
  }
  auto half = world.subgroup(ranks, "half");
  if (!half)
    return half.takeError();
  at::Tensor tensor = at::full({3}, int64_t(world.rank()), at::kLong);
  if (Error error = (*half)->allReduceSum(tensor, "ranks"))
    return error;
  if (Error error = expectEqual(tensor, at::full({3}, sum, at::kLong), "sum over half", world))
    return error;
  auto alone = (*half)->subgroup({(*half)->rank()}, "alone");
  if (!alone)
    return alone.takeError();
  if ((*alone)->members() != llvm::ArrayRef<int>{world.rank()})
    return llvm::createStringError("a group of one has other members");
  if (Error error = (*alone)->allReduceSum(tensor, "sum"))
    return error;
  return expectEqual(tensor, at::full({3}, sum, at::kLong), "sum over one", world);
}

Error test::checkEverything(Communicator &world) {
  for (auto check : {checkReductions, checkOverlap, checkBroadcasts, checkByteGather, checkExchange,
                     checkSubgroups, checkSameBits, checkSpecialReductions, checkParts, checkMoves,
                     checkPending})
    if (Error error = check(world))
      return error;
  return world.barrier("the end of the checks");
}

Error test::reduceOnce(Communicator &world, StringRef what, int64_t elements) {
  at::Tensor tensor = at::ones({elements});
  return world.allReduceSum(tensor, what);
}

Error test::gatherOnce(Communicator &world, StringRef what, int64_t elements) {
  at::Tensor mine = at::ones({elements}), all = at::empty({world.size() * elements});
  auto work = world.startAllGather(all, mine, what);
  return work ? (*work)->wait() : work.takeError();
}

Error test::receiveOnce(Communicator &world, int peer, StringRef what) {
  at::Tensor tensor = at::ones({100});
  return world.receive(tensor, peer, 7, what);
}

Error test::broadcastOnce(Communicator &world, StringRef what) {
  at::Tensor tensor = at::ones({100});
  return world.broadcast(tensor, 0, what);
}
