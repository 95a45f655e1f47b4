//===- Collectives.cpp - Collectives that reduce ---------------------------===//

#include "runtime/comm/Collectives.h"
#include "CollectiveParts.h"
#include "runtime/comm/Reduction.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/ATen.h>

using namespace cleave::runtime;
using llvm::StringRef;
using Tensors = Pending::Tensors;

bool Pending::isDone() const {
  return llvm::all_of(works, [](const std::unique_ptr<Work> &work) { return work->isDone(); });
}

llvm::Expected<Tensors> Pending::wait() {
  for (std::unique_ptr<Work> &work : works) {
    if (llvm::Error error = work->wait())
      return error;
    completed = std::max(completed, work->completedNs());
  }
  works.clear();
  return finish ? finish() : std::move(results);
}

Pending Pending::join(std::vector<Pending> parts,
                      std::function<Tensors(llvm::ArrayRef<Tensors>)> combine) {
  std::vector<std::unique_ptr<Work>> works;
  std::vector<std::function<Tensors()>> finishes;
  for (Pending &part : parts) {
    llvm::move(part.works, std::back_inserter(works));
    finishes.push_back(std::move(part.finish));
  }
  return Pending(std::move(works), [=] {
    std::vector<Tensors> results;
    for (const auto &finish : finishes)
      results.push_back(finish());
    return combine(results);
  });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// One work for all of `tensors`, which have one element type.
static PendingOr startAllReduceOfOneType(const RankGroup &group, const Tensors &tensors,
                                         const ReductionOp &reduction, StringRef what) {
  Communicator &communicator = *group.communicator;
  at::ScalarType type = tensors.front().scalar_type();
  if (llvm::Error error = checkReduction(reduction, type))
    return error;
  at::Tensor flat = tensors.front();
  if (tensors.size() > 1) {
    Tensors pieces;
    for (const at::Tensor &tensor : tensors)
      pieces.push_back(tensor.reshape({tensor.numel()}));
    flat = at::cat(pieces);
  }
  auto separate = [tensors](const at::Tensor &result) -> Tensors {
    if (tensors.size() == 1)
      return {result};
    Tensors results;
    int64_t begin = 0;
    for (const at::Tensor &tensor : tensors) {
      results.push_back(result.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
    return results;
  };
  if (communicator.supports(reduction, type))
    return pending(communicator.startAllReduce(flat, reduction, what),
                   [=] { return separate(flat); });
  LoweredReduction lowered(reduction, type, group.size());
  if (communicator.supports(lowered.op(), lowered.type())) {
    at::Tensor buffer = lowered.before(flat);
    return pending(communicator.startAllReduce(buffer, lowered.op(), what),
                   [=] { return separate(lowered.after(buffer)); });
  }
  MessageLayout layout;
  layout.add(type, flat.sizes());
  at::Tensor mine = emptyMessage(layout.numBytes(), flat);
  layout.write(mine, flat);
  at::Tensor all = emptyMessage(group.size() * layout.numBytes(), flat);
  return pending(
      communicator.startAllGather(all, mine, partOfOperation(what, "all_reduce", reduction)), [=] {
        Tensors operands;
        for (int rank : group.rankAt)
          operands.push_back(layout.read(messageAt(all, layout.numBytes(), rank)).front());
        return separate(lowered.fold(operands));
      });
}

PendingOr cleave::runtime::startAllReduce(const RankGroup &group, Tensors tensors,
                                          const ReductionOp &reduction, StringRef what) {
  // A message holds one element type, since the backend computes on it.
  std::vector<at::ScalarType> types;
  for (const at::Tensor &tensor : tensors)
    if (!llvm::is_contained(types, tensor.scalar_type()))
      types.push_back(tensor.scalar_type());
  if (types.size() == 1)
    return startAllReduceOfOneType(group, tensors, reduction, what);
  std::vector<Pending> parts;
  for (at::ScalarType type : types) {
    Tensors ofType;
    for (const at::Tensor &tensor : tensors)
      if (tensor.scalar_type() == type)
        ofType.push_back(tensor);
    PendingOr part = startAllReduceOfOneType(group, ofType, reduction, what);
    if (!part)
      return part.takeError();
    parts.push_back(std::move(*part));
  }
  return Pending::join(std::move(parts), [tensors, types](llvm::ArrayRef<Tensors> byType) {
    std::vector<size_t> next(types.size());
    Tensors results;
    for (const at::Tensor &tensor : tensors) {
      size_t index = llvm::find(types, tensor.scalar_type()) - types.begin();
      results.push_back(byType[index][next[index]++]);
    }
    return results;
  });
}

PendingOr cleave::runtime::startReduce(const RankGroup &group, at::Tensor tensor,
                                       const ReductionOp &reduction, int root, StringRef what) {
  if (llvm::Error error = checkPlace(group, root, "reduce"))
    return error;
  if (llvm::Error error = checkReduction(reduction, tensor.scalar_type()))
    return error;
  Communicator &communicator = *group.communicator;
  const int rootRank = group.rankAt[root];
  const bool isRoot = group.place == root;
  LoweredReduction lowered(reduction, tensor.scalar_type(), group.size());
  if (communicator.supports(lowered.op(), lowered.type())) {
    at::Tensor buffer = lowered.before(tensor);
    return pending(
        communicator.startReduce(buffer, lowered.op(), rootRank, what),
        [=]() -> Tensors { return {isRoot ? lowered.after(buffer) : at::zeros_like(tensor)}; });
  }
  MessageLayout layout;
  layout.add(tensor.scalar_type(), tensor.sizes());
  at::Tensor mine = emptyMessage(layout.numBytes(), tensor);
  layout.write(mine, tensor);
  at::Tensor all;
  if (isRoot)
    all = emptyMessage(group.size() * layout.numBytes(), tensor);
  return pending(
      communicator.startGather(all, mine, rootRank, partOfOperation(what, "reduce", reduction)),
      [=]() -> Tensors {
        if (!isRoot)
          return {at::zeros_like(tensor)};
        Tensors operands;
        for (int rank : group.rankAt)
          operands.push_back(layout.read(messageAt(all, layout.numBytes(), rank)).front());
        return {lowered.fold(operands)};
      });
}

/// Whether the backend can reduce and scatter all tensors at once: they have one element type, in
/// which it computes, and all ranks get equal parts.
static bool canReduceScatter(const RankGroup &group, const Tensors &tensors,
                             const ReductionOp &reduction, int64_t dim) {
  at::ScalarType type = tensors.front().scalar_type();
  LoweredReduction lowered(reduction, type, group.size());
  return lowered.type() == type && llvm::all_of(tensors, [&](const at::Tensor &tensor) {
           return tensor.scalar_type() == type && tensor.size(dim) % group.size() == 0 &&
                  group.communicator->canReduceScatter(lowered.op(), tensor);
         });
}

static PendingOr reduceScatterByBackend(const RankGroup &group, const Tensors &tensors,
                                        const ReductionOp &reduction, int64_t dim, StringRef what) {
  const int size = group.size();
  LoweredReduction lowered(reduction, tensors.front().scalar_type(), size);
  // By the communicator's ranks, what each of them gets.
  std::vector<int> placeOf(size);
  for (int place = 0; place < size; ++place)
    placeOf[group.rankAt[place]] = place;
  Tensors pieces;
  for (int rank = 0; rank < size; ++rank)
    for (const at::Tensor &tensor : tensors) {
      Part part = group.partAt(tensor.size(dim), placeOf[rank]);
      pieces.push_back(lowered.before(tensor.narrow(dim, part.begin, part.size)).reshape({-1}));
    }
  at::Tensor in = at::cat(pieces), out = at::empty({in.numel() / size}, in.options());
  std::vector<std::vector<int64_t>> shapes;
  for (const at::Tensor &tensor : tensors)
    shapes.push_back(partShape(group, tensor.sizes(), dim, tensor.size(dim), group.place));
  return pending(group.communicator->startReduceScatter(out, in, lowered.op(), what), [=] {
    Tensors results;
    int64_t begin = 0;
    for (const std::vector<int64_t> &shape : shapes) {
      int64_t elements = c10::multiply_integers(shape);
      results.push_back(lowered.after(out.narrow(0, begin, elements).view(shape)));
      begin += elements;
    }
    return results;
  });
}

PendingOr cleave::runtime::startReduceScatter(const RankGroup &group, const Tensors &tensors,
                                              const ReductionOp &reduction, int64_t dim,
                                              StringRef what) {
  for (const at::Tensor &tensor : tensors)
    if (llvm::Error error = checkReduction(reduction, tensor.scalar_type()))
      return error;
  if (canReduceScatter(group, tensors, reduction, dim))
    return reduceScatterByBackend(group, tensors, reduction, dim, what);
  const int size = group.size();
  // By the communicator's ranks: what they get, and what each of them sends to this one.
  std::vector<int64_t> sends(size), receives(size);
  std::vector<MessageLayout> layouts(size);
  for (int place = 0; place < size; ++place) {
    int rank = group.rankAt[place];
    for (const at::Tensor &tensor : tensors)
      layouts[rank].add(tensor.scalar_type(),
                        partShape(group, tensor.sizes(), dim, tensor.size(dim), place));
    sends[rank] = layouts[rank].numBytes();
  }
  MessageLayout mine = layouts[group.rankAt[group.place]];
  llvm::fill(receives, mine.numBytes());
  at::Tensor out = emptyMessage(llvm::sum_of(sends), tensors.front());
  at::Tensor in = emptyMessage(size * mine.numBytes(), tensors.front());
  std::vector<int64_t> begins(size);
  for (int rank = 1; rank < size; ++rank)
    begins[rank] = begins[rank - 1] + sends[rank - 1];
  for (int place = 0; place < size; ++place) {
    int rank = group.rankAt[place];
    Tensors parts;
    for (const at::Tensor &tensor : tensors) {
      Part part = group.partAt(tensor.size(dim), place);
      parts.push_back(tensor.narrow(dim, part.begin, part.size));
    }
    layouts[rank].write(out.narrow(0, begins[rank], sends[rank]), parts);
  }
  std::vector<at::ScalarType> types;
  for (const at::Tensor &tensor : tensors)
    types.push_back(tensor.scalar_type());
  return pending(
      group.communicator->startAllToAll(in, out, receives, sends,
                                        partOfOperation(what, "reduce_scatter", reduction)),
      [=] {
        std::vector<Tensors> operands(types.size());
        for (int rank : group.rankAt)
          for (auto [i, part] : llvm::enumerate(mine.read(messageAt(in, mine.numBytes(), rank))))
            operands[i].push_back(part);
        Tensors results;
        for (auto [type, terms] : llvm::zip_equal(types, operands))
          results.push_back(LoweredReduction(reduction, type, size).fold(terms));
        return results;
      });
}
