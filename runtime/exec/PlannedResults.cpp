//===- PlannedResults.cpp - results where a lowered function wants them ------===//

#include "runtime/exec/PlannedResults.h"
#include "runtime/aten/Allocator.h"

using namespace cleave::runtime;

/// The bytes between a tensor's first element and its last, including both.
static std::pair<const char *, const char *> rangeOf(const at::Tensor &tensor) {
  const char *begin = static_cast<const char *>(tensor.const_data_ptr());
  if (tensor.numel() == 0)
    return {begin, begin};
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {begin, begin + (last + 1) * int64_t(tensor.element_size())};
}

static bool overlap(const at::Tensor &a, const at::Tensor &b) {
  auto [aBegin, aEnd] = rangeOf(a);
  auto [bBegin, bEnd] = rangeOf(b);
  return aBegin < bEnd && bBegin < aEnd;
}

static bool isSameLayout(const at::Tensor &a, const at::Tensor &b) {
  return a.element_size() == b.element_size() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

/// Where a result is to lie; null if that is not known before it is made.
char *PlannedResults::findMemory(size_t index, const Frame &frame, const at::Tensor &value) const {
  const PlannedResult &result = plan[index];
  if (!value.is_non_overlapping_and_dense())
    return nullptr;
  if (result.kind == PlannedResult::Arena)
    return int64_t(value.nbytes()) == result.bytes ? result.address : nullptr;
  if (result.kind != PlannedResult::InPlace || !frame.isFixed(result.operandSlot))
    return nullptr;
  at::Tensor operand = frame.slots[result.operandSlot].toTensor();
  if (!operand.is_non_overlapping_and_dense() || operand.nbytes() != value.nbytes())
    return nullptr;
  return static_cast<char *>(operand.mutable_data_ptr());
}

/// Whether kernels may write the result while they read the operands.
bool PlannedResults::isWritable(size_t index, const Fixed &fixed,
                                llvm::ArrayRef<at::Tensor> operands) const {
  for (const at::Tensor &operand : operands) {
    if (!overlap(fixed.tensor, operand))
      continue;
    TORCH_CHECK(plan[index].kind == PlannedResult::InPlace, "the plan places result ", index,
                " over an operand");
    // Element by element, each is read before it is written.
    if (operand.const_data_ptr() != fixed.tensor.const_data_ptr() ||
        !isSameLayout(operand, fixed.tensor))
      return false;
  }
  return true;
}

/// A result in memory of its own is not a workspace.
void PlannedResults::allocateApart(const at::Tensor &value) {
  const at::Storage &storage = value.storage();
  if (std::optional<uint32_t> request = requests.find(storage.data())) {
    requests.expect(*request, storage.nbytes(), nullptr);
    countAsTensor(storage);
  }
}

/// A result that has no place in the arena, but shows an operand's, which the plan does not know to
/// be in use: a copy of it.
at::Tensor PlannedResults::leaveArena(size_t index, const at::Tensor &value) const {
  bool hasOwnMemory =
      plan[index].kind == PlannedResult::Apart || plan[index].kind == PlannedResult::Arena;
  return hasOwnMemory && arena.contains(value.const_data_ptr())
             ? value.clone(at::MemoryFormat::Contiguous)
             : value;
}

/// A result that the operator leaves undefined, or that is not a tensor and in its slot already.
static void storeAbsent(Frame &frame, const PlannedResult &result) {
  if (result.destination.slot != Destination::kUnused &&
      frame.slots[result.destination.slot].isNone())
    result.destination.write(frame, at::Tensor());
}

void PlannedResults::settle(Frame &frame, llvm::ArrayRef<at::Tensor> values,
                            llvm::ArrayRef<at::Tensor> operands) {
  requests.expectNothing();
  for (size_t i = 0; i < plan.size(); ++i) {
    const PlannedResult &result = plan[i];
    const at::Tensor &value = values[i];
    if (!value.defined()) {
      storeAbsent(frame, result);
      continue;
    }
    Fixed fixed;
    bool isAlias = llvm::any_of(
        operands, [&](const at::Tensor &operand) { return value.is_alias_of(operand); });
    if (isAlias && result.kind == PlannedResult::View) {
      if (frame.isFixed(result.operandSlot))
        fixed = {value, /*isView=*/true};
    } else if (char *address = findMemory(i, frame, value)) {
      fixed.tensor = arena.tensorAt(address, value.sizes(), value.strides(), value.scalar_type());
      fixed.isWritable = isWritable(i, fixed, operands);
      // An operand is overwritten only by kernels that are made for it.
      if (result.kind == PlannedResult::Arena && !isAlias && value.storage_offset() == 0)
        if (std::optional<uint32_t> request = requests.find(value.storage().data()))
          requests.expect(*request, result.bytes, address);
      if (value.const_data_ptr() != address)
        fixed.tensor.copy_(value);
    } else if (!isAlias) {
      allocateApart(value);
    }
    result.destination.write(frame, fixed.tensor.defined() ? fixed.tensor : leaveArena(i, value));
    if (fixed.tensor.defined())
      frame.fix(result.destination.slot);
    tensors[i] = std::move(fixed);
  }
  settled = true;
}

void PlannedResults::place(Frame &frame, llvm::ArrayRef<at::Tensor> values) {
  llvm::SmallVector<std::pair<size_t, at::Tensor>, 2> elsewhere;
  for (size_t i = 0; i < plan.size(); ++i) {
    const Fixed &fixed = tensors[i];
    if (!values[i].defined()) {
      storeAbsent(frame, plan[i]);
      continue;
    }
    plan[i].destination.write(frame,
                              fixed.tensor.defined() ? fixed.tensor : leaveArena(i, values[i]));
    if (!fixed.tensor.defined() || fixed.isView)
      continue;
    TORCH_CHECK(isSameLayout(values[i], fixed.tensor), "result ", i,
                " has a different layout than in the first run");
    if (values[i].const_data_ptr() == fixed.tensor.const_data_ptr())
      continue;
    // Where the results of one op lie at each other's places, none may be overwritten too early.
    bool isInArena = arena.contains(values[i].const_data_ptr());
    elsewhere.push_back({i, isInArena ? values[i].clone() : values[i]});
  }
  for (auto &[index, value] : elsewhere)
    tensors[index].tensor.copy_(value);
}

void PlannedResults::reset() {
  requests.watch();
  for (Fixed &fixed : tensors)
    fixed = {};
  settled = false;
}

bool PlannedResults::areAllViews() const {
  return !tensors.empty() && llvm::all_of(tensors, [](const Fixed &fixed) { return fixed.isView; });
}

bool PlannedResults::areAllWritable() const {
  return !tensors.empty() &&
         llvm::all_of(tensors, [](const Fixed &fixed) { return fixed.isWritable; });
}
