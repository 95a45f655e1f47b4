//===- PartedTensors.cpp - tensors whose parts are in several files -------===//

#include "runtime/io/PartedTensors.h"
#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace cleave::runtime;
namespace json = llvm::json;

static constexpr int64_t kFormatVersion = 1;

llvm::Error cleave::runtime::checkCover(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Box> boxes) {
  int64_t covered = 0;
  for (const Box &box : boxes) {
    for (auto [range, size] : llvm::zip_equal(box, shape))
      if (range.size > size || range.begin > size - range.size)
        return makeError("a chunk lies outside of the tensor");
    // Not above the tensor's size each; many of them may still be too many.
    if (llvm::AddOverflow(covered, *countElements(shapeOf(box)), covered))
      return makeError("two chunks hold the same elements");
  }
  if (covered != *countElements(shape))
    return makeError("its chunks hold {0} elements, expected {1}", covered, *countElements(shape));
  if (shape.empty() || covered == 0)
    return llvm::Error::success();

  // As many elements as the tensor has: they are all there unless two chunks overlap. A sweep along
  // the dimension with the most cuts compares few pairs.
  size_t dim = 0, most = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::set<int64_t> cuts;
    for (const Box &box : boxes)
      cuts.insert(box[d].begin);
    if (cuts.size() > most)
      std::tie(dim, most) = std::pair(d, cuts.size());
  }
  std::vector<const Box *> sorted, open;
  for (const Box &box : boxes)
    if (*countElements(shapeOf(box)) > 0)
      sorted.push_back(&box);
  llvm::sort(sorted, [&](const Box *a, const Box *b) { return (*a)[dim].begin < (*b)[dim].begin; });
  for (const Box *box : sorted) {
    llvm::erase_if(open, [&](const Box *other) {
      return (*other)[dim].begin + (*other)[dim].size <= (*box)[dim].begin;
    });
    for (const Box *other : open)
      if (*countElements(shapeOf(intersect(*box, *other))) > 0)
        return makeError("two chunks hold the same elements");
    open.push_back(box);
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//

static json::Object toJson(const PartedTensor &tensor) {
  if (!tensor.aliasOf.empty())
    return json::Object{{"alias_of", tensor.aliasOf}};
  json::Array list;
  for (const PartedTensor::Part &part : tensor.parts) {
    std::vector<int64_t> begin;
    for (const IndexRange &range : part.box)
      begin.push_back(range.begin);
    list.push_back(json::Object{{"file", part.file},
                                {"begin", json::Array(begin)},
                                {"shape", json::Array(shapeOf(part.box))}});
  }
  return json::Object{{"dtype", getName(tensor.dtype)},
                      {"shape", json::Array(tensor.shape)},
                      {"parts", std::move(list)}};
}

std::string cleave::runtime::printPartsIndex(
    llvm::ArrayRef<std::pair<llvm::StringRef, std::vector<PartedTensor>>> groups) {
  json::Object index{{"format", kFormatVersion}};
  for (const auto &[name, tensors] : groups) {
    json::Object group;
    for (const PartedTensor &tensor : tensors)
      group[tensor.name] = toJson(tensor);
    index[name] = std::move(group);
  }
  return llvm::formatv("{0:2}\n", json::Value(std::move(index))).str();
}

/// The dtype of a name in the index, which has names for complex numbers too.
static std::optional<DType> parsePartDType(llvm::StringRef name) {
  for (DType part : {DType::F32, DType::F64})
    if (std::optional<DType> complex = complexOf(part); complex && getName(*complex) == name)
      return complex;
  return parseDType(name);
}

/// A list of integers from 0; nullopt if it is something else.
static std::optional<std::vector<int64_t>> readIntegers(const json::Array *list) {
  if (!list)
    return std::nullopt;
  std::vector<int64_t> integers;
  for (const json::Value &value : *list) {
    std::optional<int64_t> integer = value.getAsInteger();
    if (!integer || *integer < 0)
      return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<PartedTensors>> PartedTensors::open(llvm::StringRef folder,
                                                                   llvm::StringRef group) {
  auto tensors = std::make_unique<PartedTensors>();
  tensors->name = (folder + "/" + kPartsIndex).str();
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(tensors->name);
  if (!file)
    return file.takeError();
  llvm::Expected<json::Value> value =
      parseJsonStrictly(llvm::toStringRef((*file)->bytes()), /*maxDepth=*/16);
  if (!value)
    return makeError("{0}: {1}", tensors->name, llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  std::optional<int64_t> format = object ? object->getInteger("format") : std::nullopt;
  const json::Object *entries = object ? object->getObject(group) : nullptr;
  if (format != kFormatVersion || !entries)
    return makeError("{0}: expected an index of parts of format {1} with an object \"{2}\"",
                     tensors->name, kFormatVersion, group);
  if (llvm::Error error = tensors->readGroup(*entries))
    return makeError("{0}: {1}", tensors->name, llvm::toString(std::move(error)));
  return tensors;
}

llvm::Error PartedTensors::readGroup(const json::Object &group) {
  // By name, so that messages do not depend on the order of a hash table.
  std::map<std::string, const json::Value *> sorted;
  for (const auto &[tensor, value] : group)
    sorted[tensor.str()] = &value;
  std::vector<std::pair<std::string, std::string>> aliases;
  for (const auto &[tensor, value] : sorted) {
    const json::Object *entry = value->getAsObject();
    if (!entry)
      return makeError("expected an object for \"{0}\"", tensor);
    if (std::optional<llvm::StringRef> other = entry->getString("alias_of"))
      aliases.push_back({tensor, other->str()});
    else if (llvm::Error error = readTensor(tensor, *entry))
      return makeError("tensor \"{0}\": {1}", tensor, llvm::toString(std::move(error)));
  }
  if (llvm::Error error = addAliases(aliases))
    return error;
  return checkFiles();
}

llvm::Error PartedTensors::readTensor(llvm::StringRef tensor, const json::Object &entry) {
  std::optional<llvm::StringRef> typeName = entry.getString("dtype");
  std::optional<DType> dtype = typeName ? parsePartDType(*typeName) : std::nullopt;
  auto shape = readIntegers(entry.getArray("shape"));
  const json::Array *list = entry.getArray("parts");
  if (!dtype || !shape || !list || !countBytes(*dtype, *shape))
    return makeError("expected a dtype, a shape whose product does not overflow, and parts");
  sources.push_back(parts.size());
  add({tensor.str(), *dtype, std::move(*shape)});
  parts.emplace_back();
  return readParts(tensor, *list);
}

llvm::Error PartedTensors::readParts(llvm::StringRef tensor, const json::Array &list) {
  TensorEntry entry = entries().back();
  std::vector<Box> boxes;
  for (const json::Value &value : list) {
    const json::Object *object = value.getAsObject();
    std::optional<llvm::StringRef> file = object ? object->getString("file") : std::nullopt;
    auto begin = readIntegers(object ? object->getArray("begin") : nullptr);
    auto shape = readIntegers(object ? object->getArray("shape") : nullptr);
    if (!file || !begin || !shape || begin->size() != entry.shape.size() ||
        shape->size() != entry.shape.size())
      return makeError("expected parts with a file, and begin and shape of {0} dimensions",
                       entry.shape.size());
    Box &box = boxes.emplace_back();
    for (auto [from, size] : llvm::zip_equal(*begin, *shape))
      box.push_back({from, size});
    llvm::Expected<const SafetensorsFile *> opened = openFile(*file);
    if (!opened)
      return opened.takeError();
    const TensorView *view = (*opened)->find(tensor);
    if (!view)
      return makeError("is said to have a part in {0}, which does not have it", *file);
    if (view->dtype != entry.dtype || view->shape != *shape)
      return makeError("the index says {0} in {1}, which has {2}", describe(entry.dtype, *shape),
                       *file, describe(view->dtype, view->shape));
    parts.back().push_back({box, view});
  }
  return checkCover(entry.shape, boxes);
}

llvm::Expected<const SafetensorsFile *> PartedTensors::openFile(llvm::StringRef file) {
  if (file.empty() || file == "." || file == ".." || file.contains('/') || file.contains('\0'))
    return makeError("expected the name of a file in the same folder, found \"{0}\"", file);
  std::unique_ptr<SafetensorsFile> &opened = files[file.str()];
  if (!opened) {
    llvm::SmallString<128> path(name);
    llvm::sys::path::remove_filename(path);
    llvm::sys::path::append(path, file);
    if (!llvm::sys::fs::exists(path))
      return makeError("the file {0}, which has a part of it, is missing", file);
    if (llvm::Error error = SafetensorsFile::open(path).moveInto(opened))
      return error;
  }
  return opened.get();
}

llvm::Error PartedTensors::addAliases(llvm::ArrayRef<std::pair<std::string, std::string>> aliases) {
  for (const auto &[alias, of] : aliases) {
    const TensorEntry *entry = findEntry(of);
    size_t source = entry ? entry - entries().data() : 0;
    if (!entry || source >= parts.size())
      return makeError("\"{0}\" is said to be \"{1}\", which has no parts", alias, of);
    TensorEntry copy = *entry;
    copy.name = alias;
    sources.push_back(source);
    add(std::move(copy));
  }
  return llvm::Error::success();
}

llvm::Error PartedTensors::checkFiles() const {
  llvm::DenseSet<const TensorView *> listed;
  for (const std::vector<Part> &list : parts)
    for (const Part &part : list)
      listed.insert(part.view);
  for (const auto &[file, opened] : files)
    for (const TensorView &view : opened->tensors())
      if (!listed.contains(&view))
        return makeError("{0} has \"{1}\", which the index does not list", file, view.name);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Error PartedTensors::readBox(size_t index, llvm::ArrayRef<IndexRange> box,
                                   uint8_t *to) const {
  int64_t width = byteSize(entries()[index].dtype);
  std::vector<int64_t> toStrides = byteStrides(shapeOf(box), width);
  for (const Part &part : parts[sources[index]]) {
    Box common = intersect(part.box, box);
    std::vector<int64_t> fromStrides = byteStrides(shapeOf(part.box), width);
    const uint8_t *source = part.view->bytes.data();
    uint8_t *target = to;
    for (size_t dim = 0; dim < common.size(); ++dim) {
      source += (common[dim].begin - part.box[dim].begin) * fromStrides[dim];
      target += (common[dim].begin - box[dim].begin) * toStrides[dim];
    }
    copyStrided(source, fromStrides, target, toStrides, shapeOf(common), width);
  }
  return llvm::Error::success();
}
