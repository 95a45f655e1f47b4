//===- DistributedCheckpoint.cpp - folders of torch.distributed.checkpoint ===//

#include "runtime/weights/DistributedCheckpoint.h"
#include "runtime/io/PartedTensors.h"
#include "runtime/weights/TorchArchive.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace cleave::runtime;
using Kind = PickleNode::Kind;

static constexpr llvm::StringLiteral kModule = "torch.distributed.checkpoint.metadata.";

static bool isClass(const PickleNode *node, llvm::StringRef name) {
  return node && node->is(Kind::Object) && node->text == (kModule + name).str();
}

/// What the metadata of a checkpoint is made of.
static bool isMetadataName(llvm::StringRef name) {
  if (parseTorchDType(name))
    return true;
  if (name.consume_front(kModule))
    return llvm::is_contained({"Metadata", "TensorStorageMetadata", "BytesStorageMetadata",
                               "ChunkStorageMetadata", "TensorProperties", "MetadataIndex",
                               "StorageMeta", "_MEM_FORMAT_ENCODING"},
                              name);
  // Dtypes that no program uses are refused where a tensor of them is wanted.
  if (name.starts_with("torch.float8_") || name.starts_with("torch.complex") ||
      name.starts_with("torch.uint"))
    return !name.drop_front(llvm::StringRef("torch.").size()).contains('.');
  return llvm::is_contained({"torch.distributed.checkpoint.filesystem._StorageInfo", "torch.Size",
                             "torch.serialization._get_layout", "torch.device",
                             "collections.OrderedDict", "pathlib.PosixPath",
                             "pathlib._local.PosixPath", "pathlib.WindowsPath"},
                            name);
}

llvm::Expected<std::unique_ptr<DistributedCheckpoint>>
DistributedCheckpoint::open(llvm::StringRef folder) {
  auto checkpoint = std::make_unique<DistributedCheckpoint>();
  checkpoint->folder = folder.str();
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, kMetadata);
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  auto pickle = Pickle::parse((*file)->bytes(), isMetadataName);
  if (!pickle)
    return makeError("{0}: {1}", path, llvm::toString(pickle.takeError()));
  if (llvm::Error error = checkpoint->readMetadata((*pickle)->root()))
    return makeError("{0}: {1}", path, llvm::toString(std::move(error)));
  return checkpoint;
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

/// A message could not show such a name in one line.
static bool hasControlCharacters(llvm::StringRef name) {
  return llvm::any_of(name, [](char c) { return llvm::isASCII(c) && !llvm::isPrint(c); });
}

static std::string escape(llvm::StringRef name) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::printEscapedString(name, os);
  return text;
}

llvm::Error DistributedCheckpoint::readMetadata(const PickleNode &metadata) {
  const PickleNode *tensors = metadata.get("state_dict_metadata");
  const PickleNode *storage = metadata.get("storage_data");
  if (!isClass(&metadata, "Metadata") || !tensors || !tensors->is(Kind::Dict) || !storage ||
      !storage->is(Kind::Dict))
    return makeError("expected the metadata of a checkpoint, with state_dict_metadata and "
                     "storage_data");
  for (size_t i = 0; i < tensors->items.size(); i += 2) {
    std::optional<llvm::StringRef> name = tensors->items[i]->asString();
    if (!name)
      return makeError("expected names as keys of state_dict_metadata");
    if (hasControlCharacters(*name))
      return makeError("expected names without control characters as keys of state_dict_metadata, "
                       "found \"{0}\"",
                       escape(*name));
    if (isClass(tensors->items[i + 1], "BytesStorageMetadata"))
      continue;
    if (llvm::Error error = readTensor(*name, *tensors->items[i + 1]))
      return makeError("tensor \"{0}\": {1}", *name, llvm::toString(std::move(error)));
  }
  return locateChunks(*storage);
}

llvm::Error DistributedCheckpoint::readTensor(llvm::StringRef name, const PickleNode &metadata) {
  const PickleNode *properties = metadata.get("properties");
  const PickleNode *size = metadata.get("size"), *pieces = metadata.get("chunks");
  if (!isClass(&metadata, "TensorStorageMetadata") || !isClass(properties, "TensorProperties") ||
      !size || !pieces || !pieces->is(Kind::List))
    return makeError("expected TensorStorageMetadata with properties, size and chunks");
  // TensorProperties gives its fields as a tuple, the dtype first.
  const PickleNode *state = properties->state;
  if (!state || !state->is(Kind::Tuple) || state->items.empty() ||
      !state->items.front()->is(Kind::Name))
    return makeError("expected TensorProperties with a dtype");
  std::optional<DType> dtype = parseTorchDType(state->items.front()->text);
  // It may be nothing that the program wants: then its name is missing, if it is.
  if (!dtype)
    return llvm::Error::success();
  std::optional<std::vector<int64_t>> shape = readSizes(*size);
  if (!shape || !countBytes(*dtype, *shape))
    return makeError("expected a size of integers whose product does not overflow");

  std::vector<Box> boxes;
  for (const PickleNode *piece : pieces->items) {
    const PickleNode *offsets = piece->get("offsets"), *sizes = piece->get("sizes");
    if (!isClass(piece, "ChunkStorageMetadata") || !offsets || !sizes)
      return makeError("expected ChunkStorageMetadata with offsets and sizes");
    auto begins = readSizes(*offsets), lengths = readSizes(*sizes);
    if (!begins || !lengths || begins->size() != shape->size() || lengths->size() != shape->size())
      return makeError("expected offsets and sizes of {0} dimensions", shape->size());
    Box &box = boxes.emplace_back();
    for (auto [begin, length] : llvm::zip_equal(*begins, *lengths))
      box.push_back({begin, length});
  }
  if (llvm::Error error = checkCover(*shape, boxes))
    return error;
  if (!add({name.str(), *dtype, std::move(*shape)}))
    return makeError("the checkpoint has it twice");
  std::vector<Chunk> &list = chunks.emplace_back();
  for (Box &box : boxes)
    list.push_back({std::move(box)});
  return llvm::Error::success();
}

llvm::Expected<const MappedFile *> DistributedCheckpoint::openFile(llvm::StringRef name) {
  if (name.empty() || name == "." || name == ".." || name.contains('/') ||
      hasControlCharacters(name))
    return makeError("expected the name of a file in the same folder, found \"{0}\"", escape(name));
  std::unique_ptr<MappedFile> &file = files[name];
  if (!file) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    if (llvm::Error error = MappedFile::open(path).moveInto(file))
      return error;
  }
  return file.get();
}

llvm::Error DistributedCheckpoint::locateChunks(const PickleNode &storage) {
  // Chunks by tensor and offsets, as the keys of the storage's dictionary name them.
  std::map<std::pair<llvm::StringRef, std::vector<int64_t>>, Chunk *> wanted;
  for (auto [entry, list] : llvm::zip_equal(entries(), chunks))
    for (Chunk &chunk : list) {
      std::vector<int64_t> offsets;
      for (const IndexRange &range : chunk.box)
        offsets.push_back(range.begin);
      wanted[{entry.name, std::move(offsets)}] = &chunk;
    }

  for (size_t i = 0; i < storage.items.size(); i += 2) {
    const PickleNode &key = *storage.items[i], &info = *storage.items[i + 1];
    const PickleNode *name = key.get("fqn"), *offset = key.get("offset");
    if (!isClass(&key, "MetadataIndex") || !name || !name->asString())
      return makeError("expected keys of storage_data with names");
    auto offsets = offset ? readSizes(*offset) : std::nullopt; // none where it is not a tensor
    auto found = offsets ? wanted.find({name->text, *offsets}) : wanted.end();
    if (found == wanted.end())
      continue; // not one of these tensors
    const PickleNode *path = info.get("relative_path"), *begin = info.get("offset"),
                     *length = info.get("length"), *transforms = info.get("transform_descriptors");
    if (!path || !path->asString() || !begin || begin->asInt().value_or(-1) < 0 || !length ||
        length->asInt().value_or(-1) < 0)
      return makeError("tensor \"{0}\": expected a file, an offset and a length", name->text);
    if (transforms && !transforms->is(Kind::None) && !transforms->items.empty())
      return makeError("tensor \"{0}\": its chunks are transformed (compressed): expected a "
                       "checkpoint saved without extensions",
                       name->text);
    llvm::Expected<const MappedFile *> file = openFile(path->text);
    if (!file)
      return makeError("tensor \"{0}\": {1}", name->text, llvm::toString(file.takeError()));
    Chunk &chunk = *found->second;
    chunk.file = *file;
    chunk.offset = *begin->asInt();
    chunk.length = *length->asInt();
    int64_t size = (*file)->bytes().size();
    if (chunk.offset > size || chunk.length > size - chunk.offset)
      return makeError("tensor \"{0}\": expected {1} bytes from byte {2} on in {3}, which has {4}: "
                       "the file is truncated",
                       name->text, chunk.length, chunk.offset, (*file)->path(), size);
  }
  for (auto [entry, list] : llvm::zip_equal(entries(), chunks))
    for (const Chunk &chunk : list)
      if (!chunk.file && *countElements(shapeOf(chunk.box)) > 0)
        return makeError("tensor \"{0}\": storage_data does not say where a chunk is", entry.name);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Error DistributedCheckpoint::readBox(size_t index, llvm::ArrayRef<IndexRange> box,
                                           uint8_t *to) const {
  const TensorEntry &entry = entries()[index];
  for (const Chunk &chunk : chunks[index])
    if (*countElements(shapeOf(intersect(chunk.box, box))) > 0)
      if (llvm::Error error = readChunk(entry, chunk, box, to))
        return makeError("{0}: tensor \"{1}\", at byte {2}: {3}", chunk.file->path(), entry.name,
                         chunk.offset, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

llvm::Error DistributedCheckpoint::readChunk(const TensorEntry &entry, const Chunk &chunk,
                                             llvm::ArrayRef<IndexRange> box, uint8_t *to) const {
  llvm::Expected<SavedTensor> saved =
      openSavedTensor(chunk.file->bytes().slice(chunk.offset, chunk.length));
  if (!saved)
    return saved.takeError();
  std::vector<int64_t> expected = shapeOf(chunk.box);
  if (saved->dtype != entry.dtype || saved->shape != expected)
    return makeError("the metadata says {0}, the file has {1}", describe(entry.dtype, expected),
                     describe(saved->dtype, saved->shape));
  int64_t width = byteSize(entry.dtype);
  std::vector<int64_t> toStrides = byteStrides(shapeOf(box), width);
  Box common = intersect(chunk.box, box);
  const uint8_t *from = saved->bytes.data();
  for (size_t dim = 0; dim < common.size(); ++dim) {
    from += (common[dim].begin - chunk.box[dim].begin) * saved->byteStrides[dim];
    to += (common[dim].begin - box[dim].begin) * toStrides[dim];
  }
  copyStrided(from, saved->byteStrides, to, toStrides, shapeOf(common), width);
  return llvm::Error::success();
}
