//===- DistributedCheckpoint.h - folders of torch.distributed.checkpoint -*- C++ -*-===//
//
// `.metadata`, a pickle, says of which chunks each tensor consists and where in the `.distcp` files
// they are; each chunk is an archive of torch.save. Pickles are read as data, nothing of them is
// executed. Only chunks that hold something of what is read are opened.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_WEIGHTS_DISTRIBUTEDCHECKPOINT_H
#define CLEAVE_RUNTIME_WEIGHTS_DISTRIBUTEDCHECKPOINT_H

#include "runtime/io/Files.h"
#include "runtime/io/Pickle.h"
#include "runtime/io/TensorSet.h"

namespace cleave::runtime {

class DistributedCheckpoint final : public TensorSet {
public:
  static constexpr llvm::StringLiteral kMetadata = ".metadata";

  /// Reads the metadata and checks that chunks cover their tensors once, and that their files are
  /// there and long enough. The entries are the tensors alone: what else a checkpoint has (numbers,
  /// strings) is left out.
  static llvm::Expected<std::unique_ptr<DistributedCheckpoint>> open(llvm::StringRef folder);

  llvm::StringRef path() const override { return folder; }

private:
  struct Chunk {
    Box box;
    const MappedFile *file = nullptr;
    int64_t offset = 0, length = 0;
  };

  llvm::Error readMetadata(const PickleNode &metadata);
  llvm::Error readTensor(llvm::StringRef name, const PickleNode &metadata);
  llvm::Error locateChunks(const PickleNode &storage);
  llvm::Expected<const MappedFile *> openFile(llvm::StringRef name);
  llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const override;
  llvm::Error readChunk(const TensorEntry &entry, const Chunk &chunk,
                        llvm::ArrayRef<IndexRange> box, uint8_t *to) const;

  std::string folder;
  llvm::StringMap<std::unique_ptr<MappedFile>> files;
  /// By entry.
  std::vector<std::vector<Chunk>> chunks;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_WEIGHTS_DISTRIBUTEDCHECKPOINT_H
