//===- Shapes.cpp - shapes that ATen's operators infer ------------------------===//

#include "dialects/aten/Shapes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave::aten;

FailureOr<Shape> cleave::aten::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape shape(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &size = shape[lead + i];
    if (size == 1)
      size = b[i];
    else if (b[i] != 1 && b[i] != size)
      return failure();
  }
  return shape;
}

FailureOr<Shape> cleave::aten::broadcastShapes(Operation *op, ValueRange operands) {
  Shape shape;
  for (Value operand : operands) {
    FailureOr<Shape> joined = broadcastShapes(shape, shapeOf(operand));
    if (failed(joined)) {
      InFlightDiagnostic diagnostic =
          op->emitOpError("expects operands whose shapes broadcast, found ");
      llvm::interleave(
          operands, [&](Value v) { diagnostic << v.getType(); }, [&] { diagnostic << " and "; });
      return diagnostic;
    }
    shape = *joined;
  }
  return shape;
}

bool cleave::aten::broadcastsTo(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  FailureOr<Shape> joined = broadcastShapes(from, to);
  return succeeded(joined) && ArrayRef<int64_t>(*joined) == to;
}

FailureOr<int64_t> cleave::aten::wrapDim(Operation *op, int64_t dim, int64_t rank, StringRef name) {
  int64_t count = std::max<int64_t>(rank, 1);
  if (dim < -count || dim >= count)
    return op->emitOpError("expects `")
           << name << "` in [" << -count << ", " << count - 1 << "], found " << dim;
  return dim < 0 ? dim + count : dim;
}

FailureOr<Shape> cleave::aten::wrapDims(Operation *op, ArrayRef<int64_t> dims, int64_t rank,
                                        StringRef name) {
  Shape wrapped;
  for (int64_t dim : dims) {
    FailureOr<int64_t> at = wrapDim(op, dim, rank, name);
    if (failed(at))
      return failure();
    if (llvm::is_contained(wrapped, *at))
      return op->emitOpError("lists dimension ") << *at << " twice in `" << name << "`";
    wrapped.push_back(*at);
  }
  return wrapped;
}

Shape cleave::aten::reduceShape(ArrayRef<int64_t> shape, ArrayRef<int64_t> dims, bool keepDims) {
  Shape reduced;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (!dims.empty() && !llvm::is_contained(dims, int64_t(i)))
      reduced.push_back(size);
    else if (keepDims)
      reduced.push_back(1);
  }
  return reduced;
}

FailureOr<Shape> cleave::aten::resolveSize(Operation *op, ArrayRef<int64_t> size,
                                           int64_t elements) {
  Shape shape(size);
  int64_t product = 1, open = -1;
  for (auto [i, extent] : llvm::enumerate(shape)) {
    if (extent < -1 || (extent == -1 && open >= 0))
      return op->emitOpError("expects non-negative sizes in `size` and at most one -1, found [")
             << size << "]";
    if (extent == -1)
      open = i;
    else if (llvm::MulOverflow(product, extent, product))
      return op->emitOpError("expects sizes in `size` whose product does not overflow, found [")
             << size << "]";
  }
  if (open >= 0 && product != 0 && elements % product == 0) {
    shape[open] = elements / product;
    product = elements;
  }
  if (product != elements || (open >= 0 && shape[open] < 0))
    return op->emitOpError("expects `size` to have the ")
           << elements << " elements of `self`, found [" << size << "]";
  return shape;
}

int64_t cleave::aten::sliceLength(int64_t size, std::optional<int64_t> start,
                                  std::optional<int64_t> end, int64_t step) {
  auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, int64_t(0), size); };
  int64_t first = place(start.value_or(0)), last = place(end.value_or(size));
  return last <= first ? 0 : 1 + (last - first - 1) / step;
}

FailureOr<Shape> cleave::aten::spreadList(Operation *op, ArrayRef<int64_t> list, int64_t count,
                                          StringRef name) {
  // Far above all that a kernel takes, and far below what overflows a size.
  for (int64_t element : list)
    if (element > INT32_MAX || element < -INT32_MAX)
      return op->emitOpError("expects 32-bit integers in `") << name << "`, found " << element;
  if (int64_t(list.size()) == count)
    return Shape(list);
  if (list.size() == 1)
    return Shape(count, list.front());
  return op->emitOpError("expects 1 or ")
         << count << " elements in `" << name << "`, found " << list.size();
}
