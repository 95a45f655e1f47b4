//===- PartedTensors.h - tensors whose parts are in several files --*- C++ -*-===//
//
// The form in which the ranks of a sharded program write a checkpoint, each what it holds:
// safetensors files with parts of tensors under the tensors' names,
// `model-00001-of-00004.safetensors`, and `parts.json`, which says where the parts belong:
//   {"format": 1,
//    "model": {"h.0.weight": {"dtype": "F32", "shape": [8, 8], "parts": [
//                 {"file": "model-00001-of-00004.safetensors", "begin": [0, 0], "shape": [4, 8]},
//                 ...]},
//              "tied.weight": {"alias_of": "h.0.weight"}},
//    "loss": {...}, "optimizer": {...}}
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_PARTEDTENSORS_H
#define CLEAVE_RUNTIME_IO_PARTEDTENSORS_H

#include "runtime/io/Safetensors.h"
#include "llvm/Support/JSON.h"

namespace cleave::runtime {

inline constexpr llvm::StringLiteral kPartsIndex = "parts.json";

/// Where the parts of a tensor are, as the index says.
struct PartedTensor {
  struct Part {
    std::string file;
    Box box;
  };
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<Part> parts;
  /// The name of the tensor that it is, under another name, in the same group; else empty.
  std::string aliasOf;
};

/// An error unless the boxes cover a tensor of that shape, each element once.
llvm::Error checkCover(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Box> boxes);

/// The text of `parts.json`; a group is "model", "loss" or "optimizer".
std::string
printPartsIndex(llvm::ArrayRef<std::pair<llvm::StringRef, std::vector<PartedTensor>>> groups);

class PartedTensors final : public TensorSet {
public:
  /// Reads the index and the headers of the group's files. Files are those of the index's own
  /// folder; each part must be in its file with the type and shape that the index says, the parts
  /// of a tensor must cover it once, and a file must have nothing else.
  static llvm::Expected<std::unique_ptr<PartedTensors>> open(llvm::StringRef folder,
                                                             llvm::StringRef group);

  llvm::StringRef path() const override { return name; }

private:
  struct Part {
    Box box;
    const TensorView *view = nullptr;
  };

  llvm::Error readGroup(const llvm::json::Object &group);
  llvm::Error readTensor(llvm::StringRef tensor, const llvm::json::Object &entry);
  llvm::Error readParts(llvm::StringRef tensor, const llvm::json::Array &list);
  llvm::Expected<const SafetensorsFile *> openFile(llvm::StringRef file);
  llvm::Error addAliases(llvm::ArrayRef<std::pair<std::string, std::string>> aliases);
  llvm::Error checkFiles() const;
  llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const override;
  bool isSame(size_t a, size_t b) const override { return sources[a] == sources[b]; }

  std::string name;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files;
  std::vector<std::vector<Part>> parts;
  /// Which of `parts` an entry is.
  std::vector<size_t> sources;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_PARTEDTENSORS_H
