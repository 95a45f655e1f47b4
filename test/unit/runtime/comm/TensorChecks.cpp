//===- TensorChecks.cpp - Collectives of tensors against lists ------------===//

#include "test/unit/runtime/comm/TensorChecks.h"

#include "runtime/comm/Collectives.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/ATen.h>

#include <limits>
#include <sstream>

using namespace cleave::runtime;
using llvm::Error;
using llvm::StringRef;
using Tensors = Pending::Tensors;

static const at::ScalarType kTypes[] = {
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,         at::kInt,
    at::kShort, at::kChar,   at::kByte, at::kBool,     at::kComplexFloat, at::kComplexDouble};
static const ReductionKind kReductions[] = {
    ReductionKind::Sum,    ReductionKind::Average, ReductionKind::PremultipliedSum,
    ReductionKind::Max,    ReductionKind::Min,     ReductionKind::Product,
    ReductionKind::BitAnd, ReductionKind::BitOr,   ReductionKind::BitXor};

static Error expectEqual(const at::Tensor &found, const at::Tensor &expected, StringRef what,
                         const RankGroup &group) {
  if (found.scalar_type() == expected.scalar_type() && found.sizes() == expected.sizes() &&
      at::equal(found, expected))
    return Error::success();
  std::ostringstream text;
  text << what.str() << " at place " << group.place << " of " << group.size() << ": expected "
       << expected << ", found " << found;
  return llvm::createStringError(text.str());
}

static Error expectAll(PendingOr pending, const Tensors &expected, const llvm::Twine &what,
                       const RankGroup &group) {
  if (!pending)
    return pending.takeError();
  llvm::Expected<Tensors> found = pending->wait();
  if (!found)
    return found.takeError();
  if (found->size() != expected.size())
    return llvm::createStringError(what.str() + ": other number of results");
  for (auto [a, b] : llvm::zip(*found, expected))
    if (Error error = expectEqual(a, b, what.str(), group))
      return error;
  return Error::success();
}

/// The world's ranks in their order, and in the reverse one.
static std::vector<RankGroup> groups(Communicator &world) {
  RankGroup forward = RankGroup::of(world), backward = forward;
  std::reverse(backward.rankAt.begin(), backward.rankAt.end());
  backward.place = world.size() - 1 - world.rank();
  return {forward, backward};
}

/// What the rank at `place` contributes: small whole numbers, exact in every element type.
static at::Tensor contribution(int place, at::ScalarType type, at::IntArrayRef shape) {
  int64_t count = c10::multiply_integers(shape);
  at::Tensor numbers = (at::arange(count, at::kLong) * 7 + place * 3).remainder(4).reshape(shape);
  if (at::isComplexType(type))
    return at::complex(numbers.to(at::kDouble), numbers.flip(0).to(at::kDouble)).to(type);
  return type == at::kBool ? numbers.remainder(2).to(type) : numbers.to(type);
}

static Tensors contributions(const RankGroup &group, at::ScalarType type, at::IntArrayRef shape) {
  Tensors all;
  for (int place = 0; place < group.size(); ++place)
    all.push_back(contribution(place, type, shape));
  return all;
}

/// The specification of a reduction.
static at::Tensor reduceList(const Tensors &all, const ReductionOp &op) {
  at::ScalarType type = all.front().scalar_type();
  if (at::isComplexType(type)) {
    Tensors parts;
    for (const at::Tensor &each : all)
      parts.push_back(at::view_as_real(each.contiguous()));
    return at::view_as_complex(reduceList(parts, op));
  }
  bool isHalf = type == at::kHalf || type == at::kBFloat16;
  Tensors terms;
  for (const at::Tensor &each : all)
    terms.push_back(isHalf ? each.to(at::kFloat) : each.clone());
  at::Tensor result;
  for (const at::Tensor &term : terms) {
    at::Tensor value = op.kind == ReductionKind::PremultipliedSum ? term * op.factor : term;
    if (!result.defined()) {
      result = value;
      continue;
    }
    switch (op.kind) {
    case ReductionKind::Sum:
    case ReductionKind::Average:
    case ReductionKind::PremultipliedSum:
      result = result + value;
      break;
    case ReductionKind::Max:
      result = at::maximum(result, value);
      break;
    case ReductionKind::Min:
      result = at::minimum(result, value);
      break;
    case ReductionKind::Product:
      result = result * value;
      break;
    case ReductionKind::BitAnd:
      result = result.bitwise_and(value);
      break;
    case ReductionKind::BitOr:
      result = result.bitwise_or(value);
      break;
    case ReductionKind::BitXor:
      result = result.bitwise_xor(value);
      break;
    }
  }
  if (op.kind == ReductionKind::Average)
    result = result / double(all.size());
  return result.to(type);
}

static Tensors splitList(const RankGroup &group, const at::Tensor &whole, int64_t dim) {
  Tensors parts;
  for (int place = 0; place < group.size(); ++place) {
    Part part = group.partAt(whole.size(dim), place);
    parts.push_back(whole.narrow(dim, part.begin, part.size));
  }
  return parts;
}

static Error checkReductionOf(const RankGroup &group, const ReductionOp &op, at::ScalarType type) {
  std::string what = (reductionName(op.kind) + " of " + llvm::StringRef(at::toString(type))).str();
  Tensors all = contributions(group, type, {2, 5}), more = contributions(group, at::kInt, {3});
  at::Tensor expected = reduceList(all, op);
  auto mine = [&] { return all[group.place].clone(); };
  // Strides that differ between ranks must not matter.
  at::Tensor strided = mine();
  if (group.place % 2)
    strided = strided.t().contiguous().t();
  if (Error error = expectAll(startAllReduce(group, {strided}, op, "numbers"), {expected},
                              "all_reduce " + what, group))
    return error;
  if (Error error = expectAll(startAllReduce(group, {mine(), mine()}, op, "numbers"),
                              {expected, expected}, "coalesced all_reduce " + what, group))
    return error;
  for (int root : {0, group.size() - 1})
    if (Error error = expectAll(startReduce(group, mine(), op, root, "numbers"),
                                {group.place == root ? expected : at::zeros_like(expected)},
                                "reduce " + what, group))
      return error;
  Tensors other = contributions(group, type, {4, 2, 1});
  for (int64_t dim : {0, 1})
    if (Error error =
            expectAll(startReduceScatter(group, {mine(), other[group.place]}, op, dim, "numbers"),
                      {splitList(group, expected, dim)[group.place],
                       splitList(group, reduceList(other, op), dim)[group.place]},
                      "reduce_scatter " + what, group))
      return error;
  return Error::success();
}

Error test::checkTensorReductions(Communicator &world) {
  for (const RankGroup &group : groups(world))
    for (at::ScalarType type : kTypes)
      for (ReductionKind kind : kReductions) {
        ReductionOp op(kind, 0.5);
        if (Error error = cleave::runtime::checkReduction(op, type)) {
          llvm::consumeError(std::move(error));
          continue;
        }
        if (Error error = checkReductionOf(group, op, type))
          return error;
      }
  // Element types mixed in one coalesced operation.
  RankGroup group = RankGroup::of(world);
  Tensors floats = contributions(group, at::kFloat, {3}),
          ints = contributions(group, at::kInt, {2});
  return expectAll(startAllReduce(group,
                                  {floats[group.place].clone(), ints[group.place].clone(),
                                   floats[group.place].clone()},
                                  ReductionKind::Sum, "numbers"),
                   {reduceList(floats, ReductionKind::Sum), reduceList(ints, ReductionKind::Sum),
                    reduceList(floats, ReductionKind::Sum)},
                   "all_reduce of two types", group);
}

Error test::checkSameBits(Communicator &world) {
  RankGroup group = RankGroup::of(world);
  at::Generator generator = at::detail::createCPUGenerator(world.rank());
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (ReductionKind kind :
         {ReductionKind::Sum, ReductionKind::Average, ReductionKind::Product, ReductionKind::Max}) {
      at::Tensor mine = at::randn({1003}, generator).to(type);
      PendingOr pending = startAllReduce(group, {mine}, kind, "numbers");
      if (!pending)
        return pending.takeError();
      llvm::Expected<Tensors> result = pending->wait();
      if (!result)
        return result.takeError();
      at::Tensor bytes = result->front().contiguous().view(at::kByte);
      auto all = world.allGatherBytes(
          StringRef(static_cast<const char *>(bytes.const_data_ptr()), bytes.numel()), "bits");
      if (!all)
        return all.takeError();
      if (!llvm::all_equal(*all))
        return llvm::createStringError("ranks have other bits of %s",
                                       reductionName(kind).str().c_str());
    }
  return Error::success();
}

Error test::checkSpecialReductions(Communicator &world) {
  RankGroup group = RankGroup::of(world);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int holder = 0; holder < group.size(); ++holder) {
    at::Tensor mine = at::full({2}, float(group.place));
    if (group.place == holder)
      mine[0] = nan;
    for (ReductionKind kind : {ReductionKind::Max, ReductionKind::Min}) {
      PendingOr pending = startAllReduce(group, {mine.clone()}, kind, "numbers");
      if (!pending)
        return pending.takeError();
      llvm::Expected<Tensors> result = pending->wait();
      if (!result)
        return result.takeError();
      at::Tensor found = result->front();
      float expected = kind == ReductionKind::Max ? group.size() - 1 : 0;
      if (!found[0].isnan().item<bool>() || found[1].item<float>() != expected)
        return llvm::createStringError("a NaN on place %d is lost in %s", holder,
                                       reductionName(kind).str().c_str());
    }
  }
  auto refused = [&](ReductionKind kind, at::ScalarType type) {
    PendingOr pending = startAllReduce(group, {at::ones({2}, type)}, kind, "numbers");
    return pending ? std::string() : llvm::toString(pending.takeError());
  };
  if (refused(ReductionKind::Average, at::kInt) !=
          "reduction avg expects a floating-point or complex type, found Int" ||
      refused(ReductionKind::Max, at::kComplexFloat) !=
          "reduction max expects a real type, found ComplexFloat" ||
      refused(ReductionKind::BitXor, at::kFloat) !=
          "reduction bxor expects an integer type or booleans, found Float")
    return llvm::createStringError("a reduction without meaning is not refused");
  return Error::success();
}

static Error checkPartsOf(const RankGroup &group, at::ScalarType type, int64_t whole) {
  for (int64_t dim : {0, 1}) {
    std::vector<int64_t> shape{2, 2}, otherShape{3, 1, 2};
    shape[dim] = otherShape[dim] = whole;
    at::Tensor all = contribution(1, type, shape), other = contribution(2, at::kDouble, otherShape);
    at::Tensor mine = splitList(group, all, dim)[group.place];
    at::Tensor otherPart = splitList(group, other, dim)[group.place];
    if (Error error = expectAll(startAllGather(group, {mine}, dim, {whole}, "numbers"), {all},
                                "all_gather", group))
      return error;
    if (Error error =
            expectAll(startAllGather(group, {mine, otherPart}, dim, {whole, whole}, "numbers"),
                      {all, other}, "coalesced all_gather", group))
      return error;
    for (int root = 0; root < group.size(); ++root) {
      bool isRoot = group.place == root;
      if (Error error = expectAll(startGather(group, mine, dim, whole, root, "numbers"),
                                  {isRoot ? all : at::zeros_like(all)}, "gather", group))
        return error;
      if (Error error = expectAll(
              startScatter(group, isRoot ? all : at::zeros_like(all), dim, root, "numbers"), {mine},
              "scatter", group))
        return error;
    }
    // From parts along one dimension to parts along the other.
    int64_t splitDim = 1 - dim;
    if (Error error =
            expectAll(startAllToAll(group, mine, splitDim, dim, whole, "numbers"),
                      {splitList(group, all, splitDim)[group.place]}, "all_to_all", group))
      return error;
    // Along one dimension it transposes the parts of the parts.
    Tensors expected;
    for (const at::Tensor &part : splitList(group, all, dim))
      expected.push_back(splitList(group, part, dim)[group.place]);
    if (Error error = expectAll(startAllToAll(group, mine, dim, dim, whole, "numbers"),
                                {at::cat(expected, dim)}, "all_to_all of one dimension", group))
      return error;
  }
  return Error::success();
}

Error test::checkParts(Communicator &world) {
  for (const RankGroup &group : groups(world)) {
    for (at::ScalarType type : kTypes)
      if (Error error = checkPartsOf(group, type, 2 * group.size()))
        return error;
    // Parts that differ in size, ranks with nothing, nothing at all.
    for (int64_t whole : {2 * group.size() + 1, 1, 0})
      if (Error error = checkPartsOf(group, at::kFloat, whole))
        return error;
  }
  if (world.size() == 4) {
    // Two axes, the first of which divides five elements into three and two.
    RankGroup grid = RankGroup::of(world);
    grid.sizes = {2, 2};
    if (Error error = checkPartsOf(grid, at::kFloat, 5))
      return error;
  }
  RankGroup group = RankGroup::of(world);
  PendingOr wrong = startAllGather(group, {at::ones({3})}, 0, {world.size()}, "numbers");
  std::string message = wrong ? "" : llvm::toString(wrong.takeError());
  if (world.size() > 1 && !StringRef(message).contains("holds 1, found 3"))
    return llvm::createStringError("a part of another size is not refused: " + message);
  return Error::success();
}

static Error checkMovesOf(const RankGroup &group, at::ScalarType type) {
  const int size = group.size(), place = group.place;
  Tensors all = contributions(group, type, {2, 3});
  at::Tensor mine = all[place], nothing = at::zeros_like(mine);
  for (int root = 0; root < size; ++root) {
    if (Error error = expectAll(startBroadcast(group, mine, root, "numbers"), {all[root]},
                                "broadcast", group))
      return error;
    if (Error error = expectEqual(mine, contribution(place, type, {2, 3}), "operand", group))
      return error;
  }
  for (int64_t offset : {1, -1, 2, 5})
    for (bool wrap : {true, false}) {
      int64_t from = place - offset;
      if (wrap)
        from = ((from % size) + size) % size;
      if (Error error =
              expectAll(startPermute(group, mine, shiftPairs(size, offset, wrap), "numbers"),
                        {from >= 0 && from < size ? all[from] : nothing}, "shift", group))
        return error;
    }
  if (size == 1)
    return Error::success();
  if (Error error = expectAll(startPermute(group, mine, {{0, 1}}, "numbers"),
                              {place == 1 ? all[0] : nothing}, "permute", group))
    return error;
  int last = size - 1;
  PendingOr send = startSend(group, mine.t(), 0, last, 9, "numbers");
  if (!send)
    return send.takeError();
  at::Tensor buffer = nothing.t().contiguous();
  if (Error error = expectAll(startReceive(group, buffer, 0, last, 9, "numbers"),
                              {place == last ? all[0].t() : nothing.t()}, "receive", group))
    return error;
  return send->wait().takeError();
}

Error test::checkMoves(Communicator &world) {
  for (const RankGroup &group : groups(world)) {
    for (at::ScalarType type : kTypes)
      if (Error error = checkMovesOf(group, type))
        return error;
  }
  RankGroup group = RankGroup::of(world);
  auto refused = [&](std::vector<std::pair<int, int>> pairs) {
    PendingOr pending = startPermute(group, at::ones({2}), pairs, "numbers");
    return pending ? std::string() : llvm::toString(pending.takeError());
  };
  if (world.size() > 1 && (refused({{0, 1}, {0, 0}}) != "permute: place 0 is sent from twice" ||
                           refused({{0, 1}, {1, 1}}) != "permute: place 1 is sent to twice"))
    return llvm::createStringError("a permutation with a place twice is not refused");
  return Error::success();
}

Error test::checkPending(Communicator &world) {
  RankGroup group = RankGroup::of(world);
  Tensors all = contributions(group, at::kFloat, {6});
  at::Tensor sum = reduceList(all, ReductionKind::Sum),
             largest = reduceList(all, ReductionKind::Max);
  auto mine = [&] { return all[group.place].clone(); };
  int64_t whole = 6 * group.size();
  PendingOr first = startAllReduce(group, {mine()}, ReductionKind::Sum, "first"),
            second = startAllReduce(group, {mine()}, ReductionKind::Max, "second"),
            third = startReduceScatter(group, {mine()}, ReductionKind::Sum, 0, "third"),
            fourth = startAllGather(group, {mine()}, 0, {whole}, "fourth"),
            fifth = startBroadcast(group, mine(), 0, "fifth");
  if (Error error = expectAll(std::move(fifth), {all[0]}, "fifth", group))
    return error;
  if (Error error = expectAll(std::move(fourth), {at::cat(all)}, "fourth", group))
    return error;
  if (Error error =
          expectAll(std::move(third), {splitList(group, sum, 0)[group.place]}, "third", group))
    return error;
  if (Error error = expectAll(std::move(second), {largest}, "second", group))
    return error;
  return expectAll(std::move(first), {sum}, "first", group);
}
