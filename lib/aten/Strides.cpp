//===- Strides.cpp - the strides that kernels will give a value ---------------===//

#include "lib/aten/Strides.h"
#include "dialects/aten/Shapes.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Cumulative.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Pooling.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/Softmax.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Dist.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::aten;
using aten::rankOf;
using aten::shapeOf;
using MaybeStrides = std::optional<Strides>;

static Strides contiguous(ArrayRef<int64_t> shape) {
  Strides strides(shape.size());
  int64_t next = 1;
  for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

/// Strides of size-1 dimensions mean nothing.
static bool isContiguous(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  Strides expected = contiguous(shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && strides[d] != expected[d])
      return false;
  return true;
}

/// Whether the elements fill their memory, in some order of dimensions.
static bool isDense(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  SmallVector<std::pair<int64_t, int64_t>> dims;
  for (auto [size, stride] : llvm::zip(shape, strides))
    if (size != 1)
      dims.emplace_back(stride, size);
  llvm::sort(dims);
  int64_t next = 1;
  for (auto [stride, size] : dims) {
    if (stride != next)
      return false;
    next *= size;
  }
  return true;
}

/// Strides of a view in another shape, as `computeStride` of ATen finds them; nothing if the
/// elements would have to move.
static MaybeStrides viewStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
                                ArrayRef<int64_t> to) {
  if (llvm::is_contained(from, 0))
    return contiguous(to);
  Strides result(to.size(), 1);
  int64_t view = int64_t(to.size()) - 1;
  int64_t base = from.empty() ? 1 : strides.back();
  int64_t elements = 1, viewElements = 1;
  for (int64_t d = int64_t(from.size()) - 1; d >= 0; --d) {
    elements *= from[d];
    bool ends = d == 0 || (from[d - 1] != 1 && strides[d - 1] != elements * base);
    if (!ends)
      continue;
    while (view >= 0 && (viewElements < elements || to[view] == 1)) {
      result[view] = viewElements * base;
      viewElements *= to[view--];
    }
    if (viewElements != elements)
      return std::nullopt;
    if (d > 0) {
      base = strides[d - 1];
      elements = viewElements = 1;
    }
  }
  for (; view >= 0; --view) {
    if (to[view] != 1)
      return std::nullopt;
    result[view] = 1;
  }
  return result;
}

/// Strides of a pointwise kernel's result: the first operand that tells two dimensions apart
/// decides their order (`TensorIteratorBase::reorder_dimensions`).
static MaybeStrides pointwiseStrides(ArrayRef<int64_t> shape,
                                     ArrayRef<std::pair<Value, Strides>> operands) {
  int64_t rank = shape.size();
  SmallVector<Strides> broadcast;
  for (const auto &[value, strides] : operands) {
    ArrayRef<int64_t> own = shapeOf(value);
    Strides full(rank, 0);
    for (size_t d = 0; d < own.size(); ++d) {
      size_t to = rank - own.size() + d;
      full[to] = own[d] == 1 && shape[to] != 1 ? 0 : strides[d];
    }
    broadcast.push_back(std::move(full));
  }
  auto swaps = [&](int64_t a, int64_t b) {
    for (const Strides &strides : broadcast) {
      if (strides[a] == 0 || strides[b] == 0)
        continue;
      if (strides[a] != strides[b])
        return strides[a] < strides[b] ? -1 : 1;
      if (shape[a] > shape[b])
        return 1;
    }
    return 0;
  };
  SmallVector<int64_t> order; // fastest first
  for (int64_t d = rank - 1; d >= 0; --d)
    order.push_back(d);
  for (int64_t i = 1; i < rank; ++i) {
    int64_t at = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      int comparison = swaps(order[j], order[at]);
      if (comparison < 0)
        break;
      if (comparison > 0) {
        std::swap(order[j], order[at]);
        at = j;
      }
    }
  }
  Strides result(rank);
  int64_t next = 1;
  for (int64_t d : order) {
    result[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return result;
}

/// Whether an operand with these strides alone decides a pointwise kernel's order: it tells all
/// dimensions of the result apart.
static bool decidesOrder(ArrayRef<int64_t> shape, Value operand, ArrayRef<int64_t> strides) {
  return shapeOf(operand) == shape && isContiguous(shape, strides) &&
         llvm::all_of(shape, [](int64_t size) { return size > 1; });
}

/// The gradient of dropout is two such kernels.
static bool isPointwise(Operation *op) {
  return op->hasTrait<aten::Pointwise>() || isa<NativeDropoutBackwardOp>(op);
}

bool StrideInference::isAlwaysContiguous(Operation *op) {
  auto isContiguousCopy = [](auto copy) {
    return copy && copy.getMemoryFormat() == StringRef("contiguous_format");
  };
  if (isContiguousCopy(dyn_cast<CloneOp>(op)) || isContiguousCopy(dyn_cast<ToCopyOp>(op)))
    return true;
  // Rows start at multiples of 16 bytes, so others are padded.
  if (auto product = dyn_cast<GroupedMmOp>(op))
    return shapeOf(product).back() * dtypeOf(product).getIntOrFloatBitWidth() % 128 == 0;
  return isa<MmOp, AddmmOp, BmmOp, BaddbmmOp, MvOp, DotOp, EmbeddingOp, EmbeddingDenseBackwardOp,
             NativeLayerNormOp, NativeLayerNormBackwardOp, NllLossForwardOp, NllLossBackwardOp,
             SumOp, MeanOp, SumDimIntListOp, MeanDimOp, VarCorrectionOp, LogsumexpOp, AmaxOp,
             MaxDimOp, ArgmaxOp, TopkOp, CumsumOp, CumprodOp, SoftmaxOp, LogSoftmaxOp,
             SafeSoftmaxOp, SoftmaxBackwardDataOp, LogSoftmaxBackwardDataOp, MaskedFillOp,
             MaskedFillScalarOp, GatherOp, ScatterAddOp, ScatterSrcOp, ScatterValueOp, IndexAddOp,
             IndexSelectOp, SliceBackwardOp, SelectBackwardOp, RepeatOp, HistcOp, BincountOp,
             TrilOp, TriuOp>(op);
}

bool StrideInference::isReceived(Operation *op) {
  if (auto wait = dyn_cast<dist::WaitOp>(op))
    op = wait.getFuture().getDefiningOp();
  return isa_and_nonnull<dist::ShiftOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::AllToAllOp,
                         dist::RaggedAllToAllOp>(op);
}

/// Kernels whose results are contiguous if the tensors they read are.
static bool keepsContiguity(Operation *op) {
  // Of images; oneDNN and the kernels of ATen follow the channels' place in what they read.
  if (auto convolution = dyn_cast<ConvolutionOp>(op))
    return rankOf(convolution) == 4 && !convolution.getTransposed();
  return isa<CatOp, StackOp, RngNativeDropoutOp, NativeBatchNormLegitFunctionalOp,
             MaxPool2dWithIndicesOp, AvgPool2dOp, AdaptiveAvgPool2dOp, dist::AllReduceOp>(op);
}

MaybeStrides StrideInference::get(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  // Straight-line code: walk up without recursion through what is not known yet.
  SmallVector<Value> stack = {value};
  while (!stack.empty()) {
    Value top = stack.back();
    if (known.contains(top)) {
      stack.pop_back();
      continue;
    }
    size_t before = stack.size();
    if (Operation *op = top.getDefiningOp())
      for (Value operand : op->getOperands())
        if (!known.contains(operand))
          stack.push_back(operand);
    if (stack.size() == before) {
      known[top] = infer(top);
      stack.pop_back();
    }
  }
  return known[value];
}

MaybeStrides StrideInference::infer(Value value) {
  Operation *op = value.getDefiningOp();
  // A copy has the strides of what it copies, on either side, and what is awaited those that it has
  // once it is there.
  bool isHeld = isa<dist::HostType, dist::FutureType>(value.getType());
  auto type =
      dyn_cast<RankedTensorType>(isHeld ? dist::valueTypeOf(value.getType()) : value.getType());
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  ArrayRef<int64_t> shape = type.getShape();
  if (isa_and_nonnull<dist::OffloadOp, dist::ReloadOp>(op)) {
    MaybeStrides strides = known.lookup(op->getOperand(0));
    return !strides || isDense(shape, *strides) ? strides : MaybeStrides(contiguous(shape));
  }
  if (auto empty = dyn_cast_or_null<EmptyMemoryFormatOp>(op);
      empty && empty.getMemoryFormat().value_or("contiguous_format") != "contiguous_format")
    return std::nullopt;
  if (!op || op->getNumOperands() == 0 || isAlwaysContiguous(op) || isReceived(op))
    return contiguous(shape);
  if (isa<dist::WaitOp>(op))
    return known.lookup(op->getOperand(0));
  if (isa<FlashAttentionForCpuOp, FlashAttentionForCpuBackwardOp>(op) && shape.size() == 4) {
    // Made as B x L x H x E and transposed.
    Strides strides = contiguous({shape[0], shape[2], shape[1], shape[3]});
    return Strides{strides[0], strides[2], strides[1], strides[3]};
  }

  SmallVector<std::pair<Value, Strides>> operands;
  for (Value operand : op->getOperands()) {
    MaybeStrides strides = known.lookup(operand);
    if (!strides)
      return std::nullopt;
    operands.emplace_back(operand, *strides);
    if (isPointwise(op) && operands.size() == 1 && decidesOrder(shape, operand, *strides))
      return contiguous(shape);
  }
  if (isPointwise(op))
    return pointwiseStrides(shape, operands);
  if (keepsContiguity(op)) {
    bool all = llvm::all_of(operands, [](const auto &operand) {
      return isContiguous(shapeOf(operand.first), operand.second);
    });
    return all ? MaybeStrides(contiguous(shape)) : std::nullopt;
  }

  Value self = operands[0].first;
  Strides strides = operands[0].second;
  ArrayRef<int64_t> from = shapeOf(self);
  int64_t rank = from.size();
  auto wrap = [&](int64_t dim, int64_t of) { return dim < 0 ? dim + of : dim; };
  return TypeSwitch<Operation *, MaybeStrides>(op)
      .Case<AliasOp, DetachOp, dist::ReinterpretOp>([&](auto) { return strides; })
      .Case([&](dist::ConvertOp op) -> MaybeStrides {
        if (!op.getDestination().isPartial())
          return strides;
        // Zeros around a part, or on the ranks that do not keep the value, are contiguous.
        bool pads = op.getSlicedDim().has_value();
        return pads || isContiguous(from, strides) ? MaybeStrides(contiguous(shape)) : std::nullopt;
      })
      .Case<ViewOp, UnsafeViewOp>([&](auto) { return viewStrides(from, strides, shape); })
      .Case([&](TOp) { return Strides(strides.rbegin(), strides.rend()); })
      .Case([&](TransposeOp op) {
        std::swap(strides[wrap(op.getDim0(), rank)], strides[wrap(op.getDim1(), rank)]);
        return strides;
      })
      .Case([&](PermuteOp op) {
        Strides permuted;
        for (int64_t dim : op.getDims())
          permuted.push_back(strides[wrap(dim, rank)]);
        return permuted;
      })
      .Case([&](ExpandOp) {
        Strides expanded(shape.size(), 0);
        for (int64_t d = 0; d < rank; ++d) {
          size_t to = shape.size() - rank + d;
          expanded[to] = from[d] == shape[to] ? strides[d] : 0;
        }
        return expanded;
      })
      .Case([&](UnsqueezeOp op) {
        int64_t dim = wrap(op.getDim(), rank + 1);
        strides.insert(strides.begin() + dim, dim < rank ? strides[dim] * from[dim] : 1);
        return strides;
      })
      .Case<SqueezeOp, SqueezeDimOp, SqueezeDimsOp>(
          [&](auto) { return viewStrides(from, strides, shape); })
      .Case([&](SliceOp op) {
        strides[wrap(op.getDim().value_or(0), rank)] *= op.getStep().value_or(1);
        return strides;
      })
      .Case([&](SelectOp op) {
        strides.erase(strides.begin() + wrap(op.getDim(), rank));
        return strides;
      })
      .Case([&](ViewAsRealOp) {
        for (int64_t &stride : strides)
          stride *= 2;
        strides.push_back(1);
        return strides;
      })
      .Case([&](ViewAsComplexOp) -> MaybeStrides {
        // Of pairs; else the numbers are copied.
        bool arePairs = strides.pop_back_val() == 1 &&
                        llvm::all_of(strides, [](int64_t stride) { return stride % 2 == 0; });
        for (int64_t &stride : strides)
          stride /= 2;
        return arePairs ? strides : contiguous(shape);
      })
      .Case([&](UnbindOp op) {
        strides.erase(strides.begin() + wrap(op.getDim().value_or(0), rank));
        return strides;
      })
      .Case<SplitOp, SplitWithSizesOp>([&](auto) { return strides; })
      .Case<EmptyLikeOp, ZerosLikeOp, OnesLikeOp, FullLikeOp>([&](auto op) -> MaybeStrides {
        StringRef format = op.getMemoryFormat().value_or("preserve_format");
        if (format == "contiguous_format")
          return contiguous(shape);
        return format == "preserve_format" ? pointwiseStrides(shape, operands) : MaybeStrides();
      })
      .Case<RngUniformOp, RngNormalOp, RngExponentialOp, RngRandintOp>(
          [&](auto) { return pointwiseStrides(shape, operands.front()); })
      .Case<NewZerosOp, NewOnesOp, NewFullOp>([&](auto) { return contiguous(shape); })
      .Case([&](NewEmptyStridedOp op) { return Strides(op.getStride()); })
      .Case<CloneOp, ToCopyOp>([&](auto op) -> MaybeStrides {
        bool isPreserved = op.getMemoryFormat().value_or("preserve_format") == "preserve_format";
        return isPreserved && isDense(from, strides) ? MaybeStrides(strides) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

MaybeStrides StrideInference::getDense(Value value) {
  MaybeStrides strides = get(value);
  return strides ? pointwiseStrides(shapeOf(value), {{value, *strides}}) : strides;
}

bool StrideInference::isViewable(Value value, ArrayRef<int64_t> shape) {
  MaybeStrides strides = get(value);
  return strides && viewStrides(shapeOf(value), *strides, shape);
}

bool StrideInference::isColumnMajor(Value matrix) {
  MaybeStrides strides = get(matrix);
  size_t rank = rankOf(matrix);
  return strides && rank >= 2 && (*strides)[rank - 2] == 1 &&
         (*strides)[rank - 1] == shapeOf(matrix)[rank - 2];
}
