//===- TensorSet.cpp - named tensors of which parts are read --------------===//

#include "runtime/io/TensorSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <cstring>

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

Box cleave::runtime::wholeBox(llvm::ArrayRef<int64_t> shape) {
  Box box;
  for (int64_t size : shape)
    box.push_back({0, size});
  return box;
}

std::vector<int64_t> cleave::runtime::shapeOf(llvm::ArrayRef<IndexRange> box) {
  std::vector<int64_t> shape;
  for (const IndexRange &range : box)
    shape.push_back(range.size);
  return shape;
}

Box cleave::runtime::intersect(llvm::ArrayRef<IndexRange> a, llvm::ArrayRef<IndexRange> b) {
  Box common;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    int64_t begin = std::max(x.begin, y.begin);
    int64_t end = std::min(x.begin + x.size, y.begin + y.size);
    common.push_back({begin, std::max<int64_t>(end - begin, 0)});
  }
  return common;
}

std::vector<int64_t> cleave::runtime::byteStrides(llvm::ArrayRef<int64_t> shape, int64_t width) {
  std::vector<int64_t> strides(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; width *= shape[dim])
    strides[dim] = width;
  return strides;
}

void cleave::runtime::copyStrided(const uint8_t *from, llvm::ArrayRef<int64_t> fromStrides,
                                  uint8_t *to, llvm::ArrayRef<int64_t> toStrides,
                                  llvm::ArrayRef<int64_t> sizes, int64_t width) {
  if (llvm::is_contained(sizes, 0))
    return;
  // What is dense on both sides is one piece.
  while (!sizes.empty() &&
         (sizes.back() == 1 || (fromStrides.back() == width && toStrides.back() == width))) {
    width *= sizes.back();
    fromStrides = fromStrides.drop_back();
    toStrides = toStrides.drop_back();
    sizes = sizes.drop_back();
  }
  if (sizes.empty()) {
    std::memcpy(to, from, width);
    return;
  }
  for (int64_t i = 0; i < sizes.front(); ++i)
    copyStrided(from + i * fromStrides.front(), fromStrides.drop_front(),
                to + i * toStrides.front(), toStrides.drop_front(), sizes.drop_front(), width);
}

void cleave::runtime::copyBox(const uint8_t *from, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<IndexRange> box, int64_t width, uint8_t *to) {
  std::vector<int64_t> strides = byteStrides(shape, width), sizes = shapeOf(box);
  for (auto [range, stride] : llvm::zip_equal(box, strides))
    from += range.begin * stride;
  copyStrided(from, strides, to, byteStrides(sizes, width), sizes, width);
}

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

bool TensorSet::add(TensorEntry entry) {
  if (!places.try_emplace(entry.name, list.size()).second)
    return false;
  list.push_back(std::move(entry));
  return true;
}

const TensorEntry *TensorSet::findEntry(llvm::StringRef name) const {
  auto it = places.find(name);
  return it == places.end() ? nullptr : &list[it->second];
}

size_t TensorSet::indexOf(const TensorEntry &entry) const {
  assert(&entry >= list.data() && &entry < list.data() + list.size() && "an entry of this set");
  return &entry - list.data();
}

llvm::Error TensorSet::read(const TensorEntry &entry, llvm::ArrayRef<IndexRange> box,
                            uint8_t *to) const {
  return readBox(indexOf(entry), box, to);
}

llvm::Expected<bool> TensorSet::areEqual(const TensorEntry &a, const TensorEntry &b,
                                         llvm::ArrayRef<IndexRange> box) const {
  size_t first = indexOf(a), second = indexOf(b);
  if (isSame(first, second))
    return true;
  std::vector<int64_t> shape = shapeOf(box);
  int64_t bytes = countBytes(a.dtype, shape).value_or(0);
  // In pieces: two copies of a large tensor need not fit beside the weights.
  constexpr int64_t kPieceBytes = 16 << 20;
  int64_t rows = shape.empty() ? 1 : shape.front();
  int64_t rowBytes = rows > 0 ? bytes / rows : 0;
  int64_t rowsPerPiece = std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(rowBytes, 1), 1,
                                             std::max<int64_t>(rows, 1));
  std::vector<uint8_t> left(rowsPerPiece * rowBytes), right(left.size());
  Box piece(box);
  for (int64_t row = 0; row < rows && rowBytes > 0; row += rowsPerPiece) {
    int64_t count = std::min(rowsPerPiece, rows - row);
    if (!piece.empty())
      piece.front() = {box.front().begin + row, count};
    if (llvm::Error error = readBox(first, piece, left.data()))
      return error;
    if (llvm::Error error = readBox(second, piece, right.data()))
      return error;
    if (std::memcmp(left.data(), right.data(), count * rowBytes) != 0)
      return false;
  }
  return true;
}
