//===- OpenWeights.cpp - weights in any form ------------------------------===//

#include "runtime/weights/OpenWeights.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/io/ShardedTensors.h"
#include "runtime/weights/DistributedCheckpoint.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace cleave::runtime;
namespace fs = llvm::sys::fs;

static constexpr llvm::StringLiteral kIndexEnding = ".safetensors.index.json";

static llvm::Error refusePickle(llvm::StringRef path) {
  return makeError("{0}: expected safetensors, found pickled weights, which run code when they are "
                   "read: convert them first, with python -m cleave.convert",
                   path);
}

/// What torch.save writes: a zip archive, formerly a bare pickle.
static bool looksPickled(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  llvm::StringRef text = llvm::toStringRef((*file)->bytes());
  return text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02");
}

/// Some name in a folder that says what else it may be; empty for none.
static llvm::Expected<std::string> findName(llvm::StringRef folder,
                                            llvm::function_ref<bool(llvm::StringRef)> isWanted) {
  std::error_code error;
  std::string found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    llvm::StringRef name = llvm::sys::path::filename(it->path());
    if (isWanted(name) && (found.empty() || name < found))
      found = name.str();
  }
  if (error)
    return makeError("{0}: cannot read the directory: {1}", folder, error.message());
  return found;
}

template <typename Set>
static llvm::Expected<std::unique_ptr<TensorSet>>
widen(llvm::Expected<std::unique_ptr<Set>> tensors) {
  if (!tensors)
    return tensors.takeError();
  return std::move(*tensors);
}

static llvm::Expected<std::unique_ptr<TensorSet>> openFolder(llvm::StringRef folder) {
  std::string model = getCheckpointModel(folder);
  std::string metadata = (folder + "/" + DistributedCheckpoint::kMetadata).str();
  std::string index = (folder + "/model" + kIndexEnding).str();
  bool hasModel = fs::exists(model), hasIndex = fs::exists(index);
  if (fs::exists(metadata)) {
    if (hasModel || hasIndex)
      return makeError("{0}: expected one set of weights, found .metadata and {1}: name the latter "
                       "to read it",
                       folder, llvm::sys::path::filename(hasModel ? model : index));
    return widen(DistributedCheckpoint::open(folder));
  }
  if (fs::exists(folder + "/" + kPartsIndex))
    return widen(PartedTensors::open(folder, getGroupName(CheckpointGroup::Model)));
  // As from_pretrained does where both are there.
  if (hasModel)
    return widen(SafetensorsFile::open(model));
  if (hasIndex)
    return widen(ShardedTensors::open(index));

  auto pickled = findName(folder, [](llvm::StringRef name) {
    return name.ends_with(".bin") || name.ends_with(".bin.index.json") || name.ends_with(".pt") ||
           name.ends_with(".pth");
  });
  if (!pickled)
    return pickled.takeError();
  if (!pickled->empty())
    return refusePickle((folder + "/" + *pickled).str());
  auto step = findName(folder, [](llvm::StringRef name) { return name.starts_with("step-"); });
  if (!step)
    return step.takeError();
  if (!step->empty())
    return makeError("{0}: the directory has checkpoints: name one of them, as {0}/{1}", folder,
                     *step);
  auto chunks = findName(folder, [](llvm::StringRef name) { return name.ends_with(".distcp"); });
  if (!chunks)
    return chunks.takeError();
  if (!chunks->empty())
    return makeError("{0}: expected .metadata beside {1}, found none: the checkpoint was not "
                     "finished",
                     folder, *chunks);
  return makeError("{0}: expected model.safetensors, model{1} or .metadata in the directory, found "
                   "none of them",
                   folder, kIndexEnding);
}

llvm::Expected<std::unique_ptr<TensorSet>> cleave::runtime::openWeights(llvm::StringRef path) {
  if (fs::is_directory(path))
    return openFolder(path);
  if (path.ends_with(kIndexEnding))
    return widen(ShardedTensors::open(path));
  if (looksPickled(path))
    return refusePickle(path);
  return widen(SafetensorsFile::open(path));
}
