//===- ShardedTensors.h - safetensors files and their index ------*- C++ -*-===//
//
// The form in which Hugging Face's `save_pretrained` writes large models: shards, and
// `model.safetensors.index.json`, {"metadata": {...}, "weight_map": {"name": "shard file"}}.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_SHARDEDTENSORS_H
#define CLEAVE_RUNTIME_IO_SHARDEDTENSORS_H

#include "runtime/io/Safetensors.h"
#include "llvm/Support/JSON.h"

namespace cleave::runtime {

class ShardedTensors final : public TensorSet {
public:
  /// Reads the index and the headers of its shards: each tensor must be in the shard that the index
  /// names, and in no other. Shards are files of the index's own folder.
  static llvm::Expected<std::unique_ptr<ShardedTensors>> open(llvm::StringRef indexPath);

  llvm::StringRef path() const override { return name; }

private:
  llvm::Error readIndex(llvm::json::Object &weightMap) const;
  llvm::Error openShards(const llvm::json::Object &weightMap);
  llvm::Error readBox(size_t index, llvm::ArrayRef<IndexRange> box, uint8_t *to) const override;

  std::string name;
  std::vector<std::unique_ptr<SafetensorsFile>> shards;
  /// By entry.
  std::vector<std::pair<const SafetensorsFile *, const TensorEntry *>> sources;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_SHARDEDTENSORS_H
