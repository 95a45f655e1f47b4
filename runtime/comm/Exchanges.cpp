//===- Exchanges.cpp - Collectives that move tensors ------------------------===//

#include "CollectiveParts.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace cleave::runtime;
using llvm::StringRef;
using Tensors = Pending::Tensors;

/// A tensor's bytes as a message; its own memory where that is contiguous.
static at::Tensor bytesOf(const at::Tensor &tensor) {
  // A tensor of one element counts as contiguous whatever its strides are, and a view keeps them.
  return tensor.contiguous().as_strided({tensor.numel()}, {1}).view(at::kByte);
}

/// A tensor as backends send it; they do not know complex numbers.
static at::Tensor partsOf(const at::Tensor &tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

//===----------------------------------------------------------------------===//
// Gathering and scattering
//===----------------------------------------------------------------------===//

namespace {
/// The messages of an all_gather: each rank's parts of tensors that are joined along `dim`.
struct GatheredParts {
  /// By place.
  std::vector<MessageLayout> layouts;
  /// The longest message's; backends gather equal sizes.
  int64_t bytes = 0;
  int64_t dim;

  GatheredParts(const RankGroup &group, const Tensors &tensors, int64_t dim,
                llvm::ArrayRef<int64_t> wholes)
      : layouts(group.size()), dim(dim) {
    for (int place = 0; place < group.size(); ++place) {
      for (auto [tensor, whole] : llvm::zip_equal(tensors, wholes))
        layouts[place].add(tensor.scalar_type(),
                           partShape(group, tensor.sizes(), dim, whole, place));
      bytes = std::max(bytes, layouts[place].numBytes());
    }
  }

  at::Tensor write(const RankGroup &group, const Tensors &tensors) const {
    at::Tensor message = emptyMessage(bytes, tensors.front());
    layouts[group.place].write(message, tensors);
    return message;
  }

  Tensors join(const RankGroup &group, const at::Tensor &all) const {
    if (std::optional<at::Tensor> whole = viewWhole(group, all))
      return {*whole};
    std::vector<Tensors> parts;
    for (int place = 0; place < group.size(); ++place)
      for (auto [i, part] :
           llvm::enumerate(layouts[place].read(messageAt(all, bytes, group.rankAt[place])))) {
        if (place == 0)
          parts.emplace_back();
        parts[i].push_back(part);
      }
    Tensors results;
    for (const Tensors &each : parts)
      results.push_back(at::cat(each, dim));
    return results;
  }

private:
  /// The gathered messages themselves, where they lie as the parts do in the whole.
  std::optional<at::Tensor> viewWhole(const RankGroup &group, const at::Tensor &all) const {
    Tensors first = layouts.front().read(messageAt(all, bytes, 0));
    std::vector<int64_t> shape = first.front().sizes().vec();
    if (first.size() != 1 ||
        llvm::any_of(llvm::ArrayRef(shape).take_front(dim), [](int64_t n) { return n != 1; }))
      return std::nullopt;
    for (int place = 0; place < group.size(); ++place)
      if (group.rankAt[place] != place ||
          layouts[place].read(messageAt(all, bytes, place)).front().nbytes() != size_t(bytes))
        return std::nullopt;
    shape[dim] *= group.size();
    return all.view(first.front().scalar_type()).view(shape);
  }
};
} // namespace

/// A rank's tensor must be the part that its place says, or messages would not fit each other.
static llvm::Error checkParts(const RankGroup &group, const Tensors &tensors, int64_t dim,
                              llvm::ArrayRef<int64_t> wholes, StringRef operation, StringRef what) {
  for (auto [tensor, whole] : llvm::zip_equal(tensors, wholes)) {
    int64_t expected = group.partAt(whole, group.place).size;
    if (tensor.size(dim) != expected)
      return llvm::createStringError(
          "%s of %s: of %lld elements of dimension %lld, place %d of %d holds %lld, found %lld",
          operation.str().c_str(), what.str().c_str(), (long long)whole, (long long)dim,
          group.place, group.size(), (long long)expected, (long long)tensor.size(dim));
  }
  return llvm::Error::success();
}

PendingOr cleave::runtime::startAllGather(const RankGroup &group, const Tensors &tensors,
                                          int64_t dim, llvm::ArrayRef<int64_t> wholes,
                                          StringRef what) {
  if (llvm::Error error = checkParts(group, tensors, dim, wholes, "all_gather", what))
    return error;
  GatheredParts parts(group, tensors, dim, wholes);
  at::Tensor mine = parts.write(group, tensors);
  at::Tensor all = emptyMessage(group.size() * parts.bytes, tensors.front());
  return pending(group.communicator->startAllGather(all, mine, what),
                 [=] { return parts.join(group, all); });
}

PendingOr cleave::runtime::startGather(const RankGroup &group, const at::Tensor &tensor,
                                       int64_t dim, int64_t whole, int root, StringRef what) {
  if (llvm::Error error = checkPlace(group, root, "gather"))
    return error;
  if (llvm::Error error = checkParts(group, {tensor}, dim, {whole}, "gather", what))
    return error;
  GatheredParts parts(group, {tensor}, dim, {whole});
  at::Tensor mine = parts.write(group, {tensor});
  at::Tensor all;
  if (group.place == root)
    all = emptyMessage(group.size() * parts.bytes, tensor);
  std::vector<int64_t> shape = tensor.sizes().vec();
  shape[dim] = whole;
  return pending(group.communicator->startGather(all, mine, group.rankAt[root], what),
                 [=]() -> Tensors {
                   if (all.defined())
                     return parts.join(group, all);
                   return {at::zeros(shape, tensor.options())};
                 });
}

PendingOr cleave::runtime::startScatter(const RankGroup &group, const at::Tensor &tensor,
                                        int64_t dim, int root, StringRef what) {
  if (llvm::Error error = checkPlace(group, root, "scatter"))
    return error;
  GatheredParts parts(group, {tensor}, dim, {tensor.size(dim)});
  at::Tensor all, mine = emptyMessage(parts.bytes, tensor);
  if (group.place == root) {
    all = emptyMessage(group.size() * parts.bytes, tensor);
    for (int place = 0; place < group.size(); ++place) {
      Part part = group.partAt(tensor.size(dim), place);
      parts.layouts[place].write(messageAt(all, parts.bytes, group.rankAt[place]),
                                 tensor.narrow(dim, part.begin, part.size));
    }
  }
  return pending(group.communicator->startScatter(mine, all, group.rankAt[root], what),
                 [=] { return parts.layouts[group.place].read(mine); });
}

PendingOr cleave::runtime::startAllToAll(const RankGroup &group, const at::Tensor &tensor,
                                         int64_t splitDim, int64_t concatDim, int64_t whole,
                                         StringRef what) {
  // Where one dimension is split and joined, each rank's part of it is what the others receive.
  if (llvm::Error error = checkParts(group, {tensor}, concatDim, {whole}, "all_to_all", what))
    return error;
  const int size = group.size();
  const int64_t splitWhole = tensor.size(splitDim);
  std::vector<int64_t> sends(size), receives(size);
  Tensors outgoing(size);
  std::vector<std::vector<int64_t>> shapes(size);
  for (int place = 0; place < size; ++place) {
    int rank = group.rankAt[place];
    Part part = group.partAt(splitWhole, place);
    outgoing[rank] = bytesOf(tensor.narrow(splitDim, part.begin, part.size));
    sends[rank] = outgoing[rank].numel();
    shapes[place] = partShape(group, tensor.sizes(), concatDim, whole, place);
    shapes[place][splitDim] = splitDim == concatDim
                                  ? group.partAt(shapes[place][splitDim], group.place).size
                                  : group.partAt(splitWhole, group.place).size;
    receives[rank] = std::accumulate(shapes[place].begin(), shapes[place].end(),
                                     int64_t(tensor.element_size()), std::multiplies<>());
  }
  at::Tensor out = at::cat(outgoing), in = emptyMessage(llvm::sum_of(receives), tensor);
  at::ScalarType type = tensor.scalar_type();
  return pending(group.communicator->startAllToAll(in, out, receives, sends, what),
                 [=]() -> Tensors {
                   std::vector<int64_t> begins(size);
                   for (int rank = 1; rank < size; ++rank)
                     begins[rank] = begins[rank - 1] + receives[rank - 1];
                   Tensors parts;
                   for (int place = 0; place < size; ++place) {
                     int rank = group.rankAt[place];
                     parts.push_back(
                         in.narrow(0, begins[rank], receives[rank]).view(type).view(shapes[place]));
                   }
                   return {at::cat(parts, concatDim)};
                 });
}

/// Numbers of rows on the host, by place; their sum, or an error where one is negative.
static llvm::Expected<int64_t> readNumbers(const at::Tensor &tensor, std::vector<int64_t> &numbers,
                                           StringRef name, StringRef what) {
  at::Tensor onHost = tensor.cpu().contiguous();
  numbers.assign(onHost.const_data_ptr<int64_t>(),
                 onHost.const_data_ptr<int64_t>() + onHost.numel());
  for (int64_t number : numbers)
    if (number < 0)
      return llvm::createStringError("ragged_all_to_all of %s: expected numbers of rows in "
                                     "'%s', found %lld",
                                     what.str().c_str(), name.str().c_str(), (long long)number);
  return std::accumulate(numbers.begin(), numbers.end(), int64_t(0));
}

PendingOr cleave::runtime::startRaggedAllToAll(const RankGroup &group, const at::Tensor &rows,
                                               const at::Tensor &sends, const at::Tensor &receives,
                                               int64_t room, StringRef what) {
  const int size = group.size();
  std::vector<int64_t> leaving, coming;
  llvm::Expected<int64_t> left = readNumbers(sends, leaving, "sends", what);
  if (!left)
    return left.takeError();
  llvm::Expected<int64_t> came = readNumbers(receives, coming, "receives", what);
  if (!came)
    return came.takeError();
  const int rank = group.communicator->members()[group.communicator->rank()];
  if (*left > rows.size(0))
    return llvm::createStringError("ragged_all_to_all of %s: rank %d sends %lld rows, but has %lld",
                                   what.str().c_str(), rank, (long long)*left,
                                   (long long)rows.size(0));
  if (*came > room)
    return llvm::createStringError(
        "ragged_all_to_all of %s: rank %d receives %lld rows, but has room for %lld: raise the "
        "capacity of its experts",
        what.str().c_str(), rank, (long long)*came, (long long)room);

  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = room;
  at::Tensor result = at::empty(shape, rows.options());
  result.narrow(0, *came, room - *came).zero_();
  const int64_t rowBytes = std::accumulate(shape.begin() + 1, shape.end(),
                                           int64_t(rows.element_size()), std::multiplies<>());
  at::Tensor out = bytesOf(rows.narrow(0, 0, *left));
  at::Tensor in = bytesOf(result.narrow(0, 0, *came));
  // By place, as rows lie here, and by the communicator's rank, as messages do.
  std::vector<int64_t> sendBytes(size), receiveBytes(size);
  bool isInOrder = true;
  for (int place = 0; place < size; ++place) {
    int member = group.rankAt[place];
    isInOrder &= member == place;
    sendBytes[member] = leaving[place] * rowBytes;
    receiveBytes[member] = coming[place] * rowBytes;
  }
  if (isInOrder)
    return pending(group.communicator->startAllToAll(in, out, receiveBytes, sendBytes, what),
                   [=]() -> Tensors { return {result}; });
  Tensors parts(size);
  for (int64_t place = 0, begin = 0; place < size; begin += leaving[place++] * rowBytes)
    parts[group.rankAt[place]] = out.narrow(0, begin, leaving[place] * rowBytes);
  out = at::cat(parts);
  at::Tensor arrived = at::empty_like(in);
  return pending(group.communicator->startAllToAll(arrived, out, receiveBytes, sendBytes, what),
                 [=]() -> Tensors {
                   std::vector<int64_t> begins(size);
                   for (int member = 1; member < size; ++member)
                     begins[member] = begins[member - 1] + receiveBytes[member - 1];
                   for (int64_t place = 0, begin = 0; place < size; ++place) {
                     int member = group.rankAt[place];
                     in.narrow(0, begin, receiveBytes[member])
                         .copy_(arrived.narrow(0, begins[member], receiveBytes[member]));
                     begin += receiveBytes[member];
                   }
                   return {result};
                 });
}

//===----------------------------------------------------------------------===//
// From one rank to others
//===----------------------------------------------------------------------===//

PendingOr cleave::runtime::startBroadcast(const RankGroup &group, at::Tensor tensor, int root,
                                          StringRef what) {
  if (llvm::Error error = checkPlace(group, root, "broadcast"))
    return error;
  // The others' operands stay unchanged: there may be other references.
  at::Tensor buffer = group.place == root ? tensor.contiguous()
                                          : at::empty_like(tensor, at::MemoryFormat::Contiguous);
  at::Tensor bytes = bytesOf(buffer);
  return pending(group.communicator->startBroadcast(bytes, group.rankAt[root], what),
                 [=]() -> Tensors { return {buffer}; });
}

PendingOr cleave::runtime::startPermute(const RankGroup &group, const at::Tensor &tensor,
                                        llvm::ArrayRef<std::pair<int, int>> pairs, StringRef what) {
  std::vector<int64_t> sends(group.size()), receives(group.size());
  std::vector<bool> isSource(group.size()), isTarget(group.size());
  for (auto [from, to] : pairs) {
    for (int place : {from, to})
      if (llvm::Error error = checkPlace(group, place, "permute"))
        return error;
    if (isSource[from] || isTarget[to])
      return llvm::createStringError("permute: place %d is %s twice", isTarget[to] ? to : from,
                                     isTarget[to] ? "sent to" : "sent from");
    isSource[from] = isTarget[to] = true;
    if (from == group.place)
      sends[group.rankAt[to]] = tensor.nbytes();
    if (to == group.place)
      receives[group.rankAt[from]] = tensor.nbytes();
  }
  at::Tensor out = isSource[group.place] ? bytesOf(tensor) : emptyMessage(0, tensor);
  at::Tensor result = at::zeros(tensor.sizes(), tensor.options());
  at::Tensor in = isTarget[group.place] ? bytesOf(result) : emptyMessage(0, tensor);
  return pending(group.communicator->startAllToAll(in, out, receives, sends, what),
                 [=]() -> Tensors { return {result}; });
}

std::vector<std::pair<int, int>> cleave::runtime::shiftPairs(int size, int64_t offset, bool wrap) {
  std::vector<std::pair<int, int>> pairs;
  for (int from = 0; from < size; ++from) {
    int64_t to = from + offset;
    if (wrap)
      to = ((to % size) + size) % size;
    if (to >= 0 && to < size)
      pairs.emplace_back(from, int(to));
  }
  return pairs;
}

PendingOr cleave::runtime::startSend(const RankGroup &group, const at::Tensor &tensor, int from,
                                     int to, int tag, StringRef what) {
  for (int place : {from, to})
    if (llvm::Error error = checkPlace(group, place, "send"))
      return error;
  if (group.place != from)
    return Pending(Tensors{});
  at::Tensor contiguous = partsOf(tensor.contiguous());
  return pending(group.communicator->startSend(contiguous, group.rankAt[to], tag, what),
                 [=] { return Tensors{}; });
}

PendingOr cleave::runtime::startReceive(const RankGroup &group, at::Tensor tensor, int from, int to,
                                        int tag, StringRef what) {
  for (int place : {from, to})
    if (llvm::Error error = checkPlace(group, place, "receive"))
      return error;
  if (group.place != to)
    return Pending(Tensors{tensor});
  at::Tensor parts = partsOf(tensor);
  return pending(group.communicator->startReceive(parts, group.rankAt[from], tag, what),
                 [=]() -> Tensors { return {tensor}; });
}
