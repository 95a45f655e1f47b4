//===- CheckpointParts.cpp - checkpoints that all ranks write -------------===//

#include "runtime/io/CheckpointParts.h"
#include "runtime/io/Checkpoint.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"

using namespace cleave::runtime;
namespace json = llvm::json;
namespace fs = llvm::sys::fs;

static constexpr CheckpointGroup kGroups[] = {CheckpointGroup::Model, CheckpointGroup::Loss,
                                              CheckpointGroup::Optimizer};
/// As Hugging Face names the index of shards.
static constexpr llvm::StringLiteral kShardIndex = "model.safetensors.index.json";

llvm::StringRef cleave::runtime::getGroupName(CheckpointGroup group) {
  switch (group) {
  case CheckpointGroup::Model:
    return "model";
  case CheckpointGroup::Loss:
    return "loss";
  case CheckpointGroup::Optimizer:
    return "optimizer";
  }
  llvm_unreachable("unknown group");
}

std::string cleave::runtime::getPartFile(CheckpointGroup group, int rank, int ranks) {
  return llvm::formatv("{0}-{1}-of-{2}.safetensors", getGroupName(group),
                       llvm::format("%05d", rank + 1), llvm::format("%05d", ranks))
      .str();
}

llvm::Expected<json::Object> cleave::runtime::summarizeFile(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  uint64_t hash = llvm::xxh3_64bits((*file)->bytes());
  return json::Object{{"bytes", int64_t((*file)->bytes().size())},
                      {"xxh3", llvm::utohexstr(hash, /*LowerCase=*/true, 16)}};
}

llvm::Error cleave::runtime::writeText(llvm::StringRef path, llvm::StringRef text) {
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = (*file)->write(text))
    return error;
  return (*file)->commit();
}

llvm::Expected<std::string> cleave::runtime::writeCheckpointParts(llvm::StringRef directory,
                                                                  int64_t step, int rank, int ranks,
                                                                  const CheckpointViews &views) {
  std::string folder = getUnfinishedPath(directory, step);
  if (!fs::is_directory(folder))
    return makeError("{0}: expected a directory that all ranks share, for each to write its part "
                     "of a checkpoint: rank 0 has made it, and rank {1} does not see it",
                     folder, rank);
  json::Object files;
  for (CheckpointGroup group : kGroups) {
    const std::vector<TensorView> &tensors = views[size_t(group)];
    if (tensors.empty())
      continue;
    std::string name = getPartFile(group, rank, ranks);
    std::string path = folder + "/" + name;
    if (llvm::Error error = writeSafetensors(path, tensors, {{"format", "pt"}}))
      return error;
    llvm::Expected<json::Object> summary = summarizeFile(path);
    if (!summary)
      return summary.takeError();
    files[name] = std::move(*summary);
  }
  return llvm::formatv("{0}", json::Value(std::move(files))).str();
}

/// The index of tensors that are whole, each in one file, for others than Cleave: empty where some
/// are in parts.
static std::string printShardIndex(llvm::ArrayRef<PartedTensor> tensors) {
  json::Object map;
  int64_t bytes = 0;
  for (const PartedTensor &tensor : tensors) {
    if (!tensor.aliasOf.empty())
      continue;
    if (tensor.parts.size() != 1 || shapeOf(tensor.parts.front().box) != tensor.shape)
      return "";
    map[tensor.name] = tensor.parts.front().file;
    bytes += countBytes(tensor.dtype, tensor.shape).value_or(0);
  }
  json::Object index{{"metadata", json::Object{{"total_size", bytes}}},
                     {"weight_map", std::move(map)}};
  return llvm::formatv("{0:2}\n", json::Value(std::move(index))).str();
}

llvm::Error CheckpointDirectory::finish(const CheckpointState &state, const CheckpointParts &parts,
                                        llvm::ArrayRef<std::string> reports,
                                        int64_t keepLast) const {
  std::string folder = getUnfinishedPath(path, state.step);
  json::Object files;
  for (auto [rank, report] : llvm::enumerate(reports)) {
    llvm::Expected<json::Value> value = json::parse(report);
    if (!value || !value->getAsObject()) {
      llvm::consumeError(value.takeError());
      return makeError("{0}: rank {1} did not say what it wrote", folder, rank);
    }
    for (auto &[name, summary] : *value->getAsObject()) {
      uint64_t size = 0;
      const json::Object *object = summary.getAsObject();
      if (!object || fs::file_size(folder + "/" + llvm::StringRef(name), size) ||
          int64_t(size) != object->getInteger("bytes"))
        return makeError("{0}/{1}: written by rank {2}, and not found whole by rank 0: expected a "
                         "directory that all ranks share",
                         folder, name.str(), rank);
      files[name] = std::move(summary);
    }
  }
  std::vector<std::pair<llvm::StringRef, std::vector<PartedTensor>>> groups;
  for (CheckpointGroup group : kGroups)
    groups.push_back({getGroupName(group), parts[size_t(group)]});
  std::vector<std::pair<llvm::StringRef, std::string>> texts = {
      {kPartsIndex, printPartsIndex(groups)},
      {kShardIndex, printShardIndex(parts[size_t(CheckpointGroup::Model)])}};
  for (const auto &[name, text] : texts) {
    if (text.empty())
      continue;
    std::string file = folder + "/" + name.str();
    if (llvm::Error error = writeText(file, text))
      return error;
    llvm::Expected<json::Object> summary = summarizeFile(file);
    if (!summary)
      return summary.takeError();
    files[name] = std::move(*summary);
  }
  return publish(state, std::move(files), keepLast);
}
