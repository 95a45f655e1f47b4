//===- Replication.cpp - whether equal values are equal ----------------------===//

#include "runtime/exec/Replication.h"
#include "dialects/dist/Verify.h"
#include "runtime/comm/Collectives.h"
#include "runtime/comm/Failure.h"
#include "runtime/exec/Compare.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

using namespace cleave::runtime;
namespace dist = cleave::dist;

/// Bytes of a hash: wide enough that values that differ have the same one in no run.
static constexpr int64_t kHashBytes = sizeof(llvm::XXH128_hash_t);
/// What is compared at once at most, and kept until then. Numbers that are equal on all ranks
/// decide: all compare at the same ops.
static constexpr size_t kMaxValues = 32;
static constexpr int64_t kMaxBytes = 64 << 20;

ReplicatedValue cleave::runtime::describeReplication(mlir::Value value, uint32_t slot,
                                                     std::string name, const RankGrid &grid) {
  ReplicatedValue result{slot, std::move(name), {}};
  auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
  if (!type)
    return result;
  if (dist::isTensor(type))
    result.bytes = dist::bytesOf(type);
  dist::PlacementAttr placement = dist::getPlacement(value.getType());
  if (!placement)
    return result;
  for (const std::string &axis : grid.axisNames())
    if (auto entry = placement.get(axis); entry && entry->isSameOnAllRanks() && grid.size(axis) > 1)
      result.axes.push_back({axis, entry->isInvariant() ? 'I' : 'R'});
  return result;
}

static llvm::ArrayRef<uint8_t> bytesOf(const at::Tensor &contiguous) {
  return {static_cast<const uint8_t *>(contiguous.const_data_ptr()), size_t(contiguous.nbytes())};
}

static llvm::Error waitFor(llvm::Expected<std::unique_ptr<Work>> work) {
  return work ? (*work)->wait() : work.takeError();
}

static llvm::XXH128_hash_t hashOf(const at::Tensor &contiguous) {
  return llvm::xxh3_128bits(bytesOf(contiguous));
}

void ReplicationChecker::check(llvm::ArrayRef<ReplicatedValue> values, const Frame &frame,
                               const std::string &where) {
  for (const ReplicatedValue &value : values) {
    const c10::IValue &slot = frame.slots[value.slot];
    // An accumulator is empty on all ranks or on none.
    // On the host, wherever the program runs.
    at::Tensor tensor =
        slot.isTensor() ? slot.toTensor().to(at::kCPU).contiguous() : at::empty({0}, at::kByte);
    llvm::XXH128_hash_t hash = hashOf(tensor);
    pending.push_back({&value, where, std::move(tensor), hash});
    pendingBytes += value.bytes;
  }
  if (pending.size() >= kMaxValues || pendingBytes >= kMaxBytes)
    compare();
}

void ReplicationChecker::compare() {
  if (pending.empty())
    return;
  at::Tensor mine = at::empty({int64_t(pending.size()) * kHashBytes}, at::kByte);
  uint8_t *to = mine.mutable_data_ptr<uint8_t>();
  for (const Noted &noted : pending) {
    std::memcpy(to, &noted.hash, kHashBytes);
    to += kHashBytes;
  }
  Communicator &world = *grid.communicator();
  at::Tensor all = at::empty({world.size(), mine.numel()}, at::kByte);
  if (llvm::Error error =
          waitFor(world.startAllGather(all, mine, "hashes of values that should be equal")))
    throw CommunicationFailure{std::move(error)};
  std::optional<Mismatch> mismatch = findMismatch(all);
  if (!mismatch)
    return begin();
  llvm::Expected<std::string> difference = describe(*mismatch);
  if (!difference)
    throw CommunicationFailure{difference.takeError()};
  const Noted &noted = pending[mismatch->value];
  const ReplicatedValue::Axis &axis = noted.value->axes[mismatch->axis];
  throw CommunicationFailure{llvm::make_error<CollectiveRefusal>(
      llvm::formatv("--check replicated: {0}: {1} is {2} along \"{3}\", but ranks {4} and {5} "
                    "differ: {6}",
                    noted.where, noted.value->name, axis.placement, axis.name, mismatch->left,
                    mismatch->right, *difference)
          .str())};
}

std::optional<ReplicationChecker::Mismatch>
ReplicationChecker::findMismatch(const at::Tensor &hashes) const {
  const uint8_t *data = hashes.const_data_ptr<uint8_t>();
  auto hashOf = [&](int rank, size_t value) {
    return llvm::ArrayRef<uint8_t>(data + (rank * pending.size() + value) * kHashBytes, kHashBytes);
  };
  for (size_t value = 0; value < pending.size(); ++value)
    for (auto [index, axis] : llvm::enumerate(pending[value].value->axes))
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        // Where all neighbours are equal, all ranks along the axes are.
        if (grid.coordinate(axis.name, rank) == 0)
          continue;
        int before = rank - int(grid.stride(axis.name));
        if (hashOf(rank, value) != hashOf(before, value))
          return Mismatch{value, index, before, rank};
      }
  return std::nullopt;
}

/// `[3, 2]`
static std::string describeIndex(int64_t flat, at::IntArrayRef shape) {
  std::vector<std::string> parts(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    parts[dim] = std::to_string(flat % shape[dim]);
    flat /= shape[dim];
  }
  return "[" + llvm::join(parts, ", ") + "]";
}

static std::string describeElement(const at::Tensor &tensor, int64_t index) {
  int64_t width = tensor.element_size();
  ConstTensorRef element({*toDType(tensor.scalar_type()), {}},
                         reinterpret_cast<const char *>(bytesOf(tensor).data()) + index * width);
  return llvm::formatv("{0} (0x{1})", llvm::format("%.17g", toNumber(element)),
                       llvm::toHex(std::string(std::make_reverse_iterator(element.data + width),
                                               std::make_reverse_iterator(element.data))))
      .str();
}

static std::string describeDifference(const at::Tensor &left, int leftRank, const at::Tensor &right,
                                      int rightRank) {
  int64_t width = left.element_size(), first = -1, count = 0;
  for (int64_t i = 0; i < left.numel(); ++i)
    if (std::memcmp(bytesOf(left).data() + i * width, bytesOf(right).data() + i * width, width)) {
      first = first < 0 ? i : first;
      ++count;
    }
  if (first < 0)
    return "in their shapes";
  std::string what = left.dim() ? "element " + describeIndex(first, left.sizes()) : "it";
  return llvm::formatv("{0} is {1} on rank {2} and {3} on rank {4} ({5} of {6} elements "
                       "differ)",
                       what, describeElement(left, first), leftRank, describeElement(right, first),
                       rightRank, count, left.numel())
      .str();
}

llvm::Expected<std::string> ReplicationChecker::describe(const Mismatch &mismatch) {
  const Noted &noted = pending[mismatch.value];
  Communicator &world = *grid.communicator();
  // An op that came after may have written to the same memory.
  std::string text;
  if (llvm::XXH128_hash_t hash = hashOf(noted.tensor);
      hash.low64 != noted.hash.low64 || hash.high64 != noted.hash.high64)
    text = "in elements overwritten since";
  // One of the two tells the other its data, and that one everybody the difference.
  at::Tensor left = world.rank() == mismatch.left ? noted.tensor : at::empty_like(noted.tensor);
  if (llvm::Error error =
          waitFor(world.startBroadcast(left, mismatch.left, "the value that differs")))
    return error;
  if (world.rank() == mismatch.right && text.empty())
    text = describeDifference(left, mismatch.left, noted.tensor, mismatch.right);
  auto all = world.allGatherBytes(text, "the difference");
  if (!all)
    return all.takeError();
  const std::string &overwritten = (*all)[mismatch.left];
  return overwritten.empty() ? (*all)[mismatch.right] : overwritten;
}
