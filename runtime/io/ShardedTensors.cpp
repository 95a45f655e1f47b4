//===- ShardedTensors.cpp - safetensors files and their index -------------===//

#include "runtime/io/ShardedTensors.h"
#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace cleave::runtime;
namespace json = llvm::json;

llvm::Expected<std::unique_ptr<ShardedTensors>> ShardedTensors::open(llvm::StringRef indexPath) {
  auto tensors = std::make_unique<ShardedTensors>();
  tensors->name = indexPath.str();
  json::Object weightMap;
  if (llvm::Error error = tensors->readIndex(weightMap))
    return error;
  if (llvm::Error error = tensors->openShards(weightMap))
    return error;
  return tensors;
}

llvm::Error ShardedTensors::readIndex(json::Object &weightMap) const {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(name);
  if (!file)
    return file.takeError();
  llvm::Expected<json::Value> value =
      parseJsonStrictly(llvm::toStringRef((*file)->bytes()), /*maxDepth=*/16);
  if (!value)
    return makeError("{0}: {1}", name, llvm::toString(value.takeError()));
  json::Object *object = value->getAsObject();
  json::Object *map = object ? object->getObject("weight_map") : nullptr;
  if (!map)
    return makeError("{0}: expected an object \"weight_map\" from tensors to files", name);
  weightMap = std::move(*map);
  return llvm::Error::success();
}

llvm::Error ShardedTensors::openShards(const json::Object &weightMap) {
  // By name, so that messages do not depend on the order of a hash table.
  std::map<std::string, std::vector<std::string>> tensorsOfShard;
  std::map<std::string, std::string> shardOfTensor;
  for (const auto &[tensor, value] : weightMap) {
    std::optional<llvm::StringRef> shard = value.getAsString();
    if (!shard)
      return makeError("{0}: expected a file name for \"{1}\", found {2}", name, tensor.str(),
                       value);
    if (shard->empty() || *shard == "." || *shard == ".." || shard->contains('/') ||
        shard->contains('\0'))
      return makeError("{0}: \"{1}\" is said to be in \"{2}\": expected the name of a file in the "
                       "same folder",
                       name, tensor.str(), *shard);
    tensorsOfShard[shard->str()].push_back(tensor.str());
    shardOfTensor[tensor.str()] = shard->str();
  }

  llvm::SmallString<128> folder(name);
  llvm::sys::path::remove_filename(folder);
  for (auto &[shard, tensors] : tensorsOfShard) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, shard);
    llvm::sort(tensors);
    if (!llvm::sys::fs::exists(path))
      return makeError(
          "{0}: the shard \"{1}\", which has \"{2}\"{3}, is missing", name, shard, tensors.front(),
          tensors.size() > 1 ? llvm::formatv(" and {0} more tensors", tensors.size() - 1).str()
                             : "");
    llvm::Expected<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::open(path);
    if (!file)
      return file.takeError();
    for (const std::string &tensor : tensors)
      if (!(*file)->findEntry(tensor))
        return makeError("{0}: \"{1}\" is said to be in {2}, which does not have it", name, tensor,
                         shard);
    shards.push_back(std::move(*file));
  }

  // Each tensor is where the index says; nothing else may be anywhere.
  for (auto [shard, file] : llvm::zip_equal(llvm::make_first_range(tensorsOfShard), shards))
    for (const TensorEntry &entry : file->entries()) {
      auto place = shardOfTensor.find(entry.name);
      if (place == shardOfTensor.end())
        return makeError("{0}: {1} has \"{2}\", which the index does not list", name, shard,
                         entry.name);
      if (place->second != shard)
        return makeError("{0}: \"{1}\" is in two shards: {2}, as the index says, and {3}", name,
                         entry.name, place->second, shard);
      add(entry);
      sources.push_back({file.get(), &entry});
    }
  return llvm::Error::success();
}

llvm::Error ShardedTensors::readBox(size_t index, llvm::ArrayRef<IndexRange> box,
                                    uint8_t *to) const {
  auto [file, entry] = sources[index];
  return file->read(*entry, box, to);
}
