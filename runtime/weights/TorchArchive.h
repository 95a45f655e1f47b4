//===- TorchArchive.h - what torch.save wrote --------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_WEIGHTS_TORCHARCHIVE_H
#define CLEAVE_RUNTIME_WEIGHTS_TORCHARCHIVE_H

#include "runtime/io/Pickle.h"
#include "runtime/io/TensorSet.h"

namespace cleave::runtime {

/// A tensor where a file has it.
struct SavedTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> byteStrides;
  /// From the tensor's first element on.
  llvm::ArrayRef<uint8_t> bytes;
};

/// The tensor that `torch.save(tensor, file)` wrote as `archive`, which must outlive it: a zip
/// archive of a pickle, of which nothing is executed, and the bytes of the tensor's storage, which
/// are not read. Messages do not name the file.
llvm::Expected<SavedTensor> openSavedTensor(llvm::ArrayRef<uint8_t> archive);

/// The dtype that pickles call "torch.float32"; nullopt for those that no program uses.
std::optional<DType> parseTorchDType(llvm::StringRef name);
/// The integers of a tuple or torch.Size; nullopt where one is negative or something else.
std::optional<std::vector<int64_t>> readSizes(const PickleNode &node);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WEIGHTS_TORCHARCHIVE_H
