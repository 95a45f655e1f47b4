//===- TensorSet.h - named tensors of which parts are read -------*- C++ -*-===//
//
// Weights come in several forms: a safetensors file, a folder of them with an index, a distributed
// checkpoint. Each is a set of named tensors; a rank reads its part of a tensor, and nothing else
// of the files is touched.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_TENSORSET_H
#define CLEAVE_RUNTIME_IO_TENSORSET_H

#include "runtime/io/DType.h"
#include "runtime/io/Error.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace cleave::runtime {

/// `size` indices of a dimension, from `begin` on.
struct IndexRange {
  int64_t begin = 0, size = 0;
};
/// A range of each dimension.
using Box = std::vector<IndexRange>;

/// All of a tensor.
Box wholeBox(llvm::ArrayRef<int64_t> shape);
std::vector<int64_t> shapeOf(llvm::ArrayRef<IndexRange> box);
/// The elements that both boxes have; none of a dimension has size 0.
Box intersect(llvm::ArrayRef<IndexRange> a, llvm::ArrayRef<IndexRange> b);

/// Distances in bytes between neighbours along each dimension of a dense row-major tensor.
std::vector<int64_t> byteStrides(llvm::ArrayRef<int64_t> shape, int64_t width);
/// Copies `sizes` elements of `width` bytes; strides are in bytes.
void copyStrided(const uint8_t *from, llvm::ArrayRef<int64_t> fromStrides, uint8_t *to,
                 llvm::ArrayRef<int64_t> toStrides, llvm::ArrayRef<int64_t> sizes, int64_t width);
/// Copies the elements of a dense row-major tensor that lie in `box` to `to`, row-major.
void copyBox(const uint8_t *from, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<IndexRange> box,
             int64_t width, uint8_t *to);

struct TensorEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
};

class TensorSet {
public:
  virtual ~TensorSet() = default;

  /// The file or folder, for messages.
  virtual llvm::StringRef path() const = 0;
  llvm::ArrayRef<TensorEntry> entries() const { return list; }
  /// Null if there is no tensor with this name.
  const TensorEntry *findEntry(llvm::StringRef name) const;
  /// The name under which the files have, or should have, what the set has as `name`.
  virtual std::string nameInFiles(llvm::StringRef name) const { return name.str(); }

  /// Copies the elements of one of the entries that lie in `box`, which lies in it, to `to`,
  /// row-major.
  llvm::Error read(const TensorEntry &entry, llvm::ArrayRef<IndexRange> box, uint8_t *to) const;
  /// Whether two entries with the same dtype and shape hold the same bytes there.
  llvm::Expected<bool> areEqual(const TensorEntry &a, const TensorEntry &b,
                                llvm::ArrayRef<IndexRange> box) const;

protected:
  /// Appends an entry; false if there is one of this name.
  bool add(TensorEntry entry);

private:
  virtual llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const = 0;
  /// Whether two entries are one and the same bytes of a file.
  virtual bool isSame(size_t a, size_t b) const { return a == b; }
  size_t indexOf(const TensorEntry &entry) const;

  std::vector<TensorEntry> list;
  llvm::StringMap<size_t> places;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_TENSORSET_H
