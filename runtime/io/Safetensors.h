//===- Safetensors.h - reading and writing .safetensors files ----*- C++ -*-===//
//
// The format of weights, inputs, dumps and checkpoints:
//   u64 little-endian N | N bytes of JSON header | tensor data
// with a header {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
// "__metadata__": {"key": "value"}}. Reading executes nothing and trusts nothing: every number in
// the header is checked before it is used.
//
// Complex numbers are pairs of reals, F32 or F64 with a last dimension of size 2, which any reader
// of the format knows. "__metadata__" lists the names of such tensors, as JSON: {"complex":
// "[\"z\"]"}.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_SAFETENSORS_H
#define CLEAVE_RUNTIME_IO_SAFETENSORS_H

#include "runtime/io/Files.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/TensorSet.h"
#include <map>
#include <vector>

namespace cleave::runtime {

/// One named dense tensor, row-major. `bytes` is owned elsewhere (a mapped file, a tensor)
/// and may be unaligned for its type when it comes from a file.
struct TensorView {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  llvm::ArrayRef<uint8_t> bytes;
};

/// A checked .safetensors file; the views live as long as it does.
class SafetensorsFile final : public TensorSet {
public:
  /// Headers above this size are refused, as the reference implementation does.
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

  /// Maps and checks the file: header length, JSON without duplicate keys, known dtypes, shapes
  /// that do not overflow and match their byte ranges, ranges that cover the data without overlap
  /// or hole, metadata of strings.
  static llvm::Expected<std::unique_ptr<SafetensorsFile>> open(llvm::StringRef path);

  /// In the order of their data.
  llvm::ArrayRef<TensorView> tensors() const { return views; }
  /// Null if there is no tensor with this name.
  const TensorView *find(llvm::StringRef name) const;
  const std::map<std::string, std::string> &metadata() const { return strings; }
  llvm::StringRef path() const override { return file->path(); }

private:
  llvm::Error parse();
  llvm::Error readComplex();
  llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const override;
  std::unique_ptr<MappedFile> file;
  /// As the entries of the set.
  std::vector<TensorView> views;
  std::map<std::string, std::string> strings;
};

/// Writes the tensors, in the order and with the header that the `safetensors` Python package
/// writes, and commits the file. Duplicate names and sizes that do not match a shape are errors.
llvm::Error writeSafetensors(OutputFile &file, llvm::ArrayRef<TensorView> tensors,
                             const std::map<std::string, std::string> &metadata = {});
llvm::Error writeSafetensors(llvm::StringRef path, llvm::ArrayRef<TensorView> tensors,
                             const std::map<std::string, std::string> &metadata = {});

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_SAFETENSORS_H
