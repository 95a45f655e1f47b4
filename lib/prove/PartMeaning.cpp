//===- PartMeaning.cpp - views, and what takes parts ------------------------===//
//
// A part is a change of index, and so is another shape.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Part.h"
#include "lib/prove/Evaluator.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::prove;

std::optional<Tensor> Evaluator::slice(const Tensor &whole, unsigned dim, int64_t start,
                                       int64_t step, int64_t length) {
  Tensor value = whole;
  SmallVector<Digit, 2> digits = digitsOf(value.dims[dim], terms.variables);
  int64_t size = digits.empty() ? 1 : digits.front().size * digits.front().stride;
  if (start == 0 && step == 1 && length == size)
    return value;
  // Along the major digit: the part begins and ends at multiples of its stride.
  int64_t stride = digits.empty() ? 1 : digits.front().stride;
  if (digits.size() > 1 && (step != 1 || start % stride || length % stride))
    return std::nullopt;
  if (digits.empty())
    return std::nullopt;
  Index place(terms.breaks(Lemma::Slice) ? 0 : start / stride);
  SmallVector<Var, 2> rest(value.dims[dim].begin() + 1, value.dims[dim].end());
  if (length / stride != 1) {
    Var var = terms.variables.make(length / stride);
    rest.insert(rest.begin(), var);
    place = place + Index::of(var, step);
  }
  Substitution change;
  change[digits.front().var] = place;
  substitute(value.meaning, change);
  value.dims[dim] = rest;
  value.meaning = terms.normalize(std::move(value.meaning));
  return value;
}

Tensor cleave::prove::relaid(Terms &terms, Tensor value, unsigned dim, unsigned first,
                             unsigned last) {
  auto &digits = value.dims[dim];
  SmallVector<Var, 2> read(digits.begin() + first, digits.begin() + last);
  int64_t size = sizeOf(read, terms.variables);
  Core core;
  core.key = "relaid";
  core.linear = {{0}};
  Var digit = terms.variables.make(size);
  Index place = terms.breaks(Lemma::RelaidDigits) ? Index() : Index::of(digit);
  value.meaning = terms.apply(core, value.meaning, read, place, size);
  digits.erase(digits.begin() + first, digits.begin() + last);
  digits.insert(digits.begin() + first, digit);
  value.rows.reset();
  return value;
}

/// The value with one digit in each dimension that cannot be cut at these strides of its elements.
static Tensor relay(Terms &terms, Tensor value, ArrayRef<int64_t> strides) {
  int64_t next = 1;
  for (unsigned dim = value.dims.size(); dim-- > 0;) {
    int64_t size = sizeOf(value.dims[dim], terms.variables);
    SmallVector<int64_t> within;
    for (int64_t stride : strides)
      if (stride > next && stride < next * size && stride % next == 0)
        within.push_back(stride / next);
    next *= size;
    Tensor tried = value;
    unsigned digits = value.dims[dim].size();
    if (digits > 1 && !cut(terms, tried, dim, within))
      value = relaid(terms, std::move(value), dim, 0, digits);
  }
  return value;
}

std::optional<Tensor> Evaluator::reshape(const Tensor &given, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(shape)) {
    strides.push_back(stride);
    stride *= size;
  }
  if (std::optional<Tensor> result = reshapeCut(given, shape, strides))
    return result;
  return reshapeCut(relay(terms, given, strides), shape, strides);
}

std::optional<Tensor> Evaluator::reshapeCut(const Tensor &value, ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> strides) {
  // In row-major order all dimensions are one.
  Tensor flat{{}, value.meaning};
  auto &digits = flat.dims.emplace_back();
  for (const auto &dim : value.dims)
    digits.insert(terms.breaks(Lemma::Reshape) ? digits.begin() : digits.end(), dim.begin(),
                  dim.end());
  if (!cut(terms, flat, 0, strides))
    return std::nullopt;
  Tensor result{{}, std::move(flat.meaning)};
  ArrayRef<Var> rest = flat.dims[0];
  for (int64_t size : shape) {
    auto &dim = result.dims.emplace_back();
    for (int64_t product = 1; product < size; rest = rest.drop_front()) {
      // A value that is tried in the place of another may have fewer elements.
      if (rest.empty())
        return std::nullopt;
      dim.push_back(rest.front());
      product *= terms.variables.getSize(rest.front());
    }
  }
  coarsen(terms, result);
  return result;
}

Tensor Evaluator::select(Tensor value, unsigned dim, int64_t place) {
  SmallVector<Index, 2> places;
  for (const Digit &digit : digitsOf(value.dims[dim], terms.variables))
    places.emplace_back(terms.breaks(Lemma::Select) ? 0 : place / digit.stride % digit.size);
  Tensor taken = takeAt(terms, std::move(value), dim, places, {});
  taken.dims.erase(taken.dims.begin() + dim);
  return taken;
}

bool Evaluator::evaluateParts(Operation *op, ArrayRef<const Tensor *> operands,
                              std::vector<Tensor> &results) {
  auto integer = [&](StringRef name, int64_t fallback) {
    auto attribute = op->getAttrOfType<IntegerAttr>(name);
    return attribute ? attribute.getInt() : fallback;
  };
  if (!isa<aten::SliceOp, aten::SelectOp, aten::SplitOp, aten::SplitWithSizesOp, aten::UnbindOp>(
          op))
    return false;
  RankedTensorType type = tensorOf(op->getOperand(0).getType());
  int64_t dim = integer("dim", 0);
  dim += dim < 0 ? type.getRank() : 0;
  int64_t size = type.getDimSize(dim);
  if (isa<aten::SliceOp>(op)) {
    int64_t start = integer("start", 0);
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    int64_t length = tensorOf(op->getResult(0).getType()).getDimSize(dim);
    std::optional<Tensor> part = slice(*operands[0], dim, start, integer("step", 1), length);
    if (!part || length == 0)
      return false;
    results.push_back(std::move(*part));
  } else if (isa<aten::SelectOp>(op)) {
    int64_t place = integer("index", 0);
    results.push_back(select(*operands[0], dim, place < 0 ? place + size : place));
  } else if (isa<aten::UnbindOp>(op)) {
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      results.push_back(select(*operands[0], dim, i));
  } else {
    int64_t start = 0;
    for (Type result : op->getResultTypes()) {
      int64_t length = tensorOf(result).getDimSize(dim);
      std::optional<Tensor> part =
          length ? slice(*operands[0], dim, start, 1, length) : std::nullopt;
      if (!part) {
        results.clear();
        return false;
      }
      results.push_back(std::move(*part));
      start += length;
    }
  }
  for (Tensor &result : results)
    coarsen(terms, result);
  return true;
}
