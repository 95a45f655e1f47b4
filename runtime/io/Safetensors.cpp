//===- Safetensors.cpp - reading and writing .safetensors files -----------===//

#include "runtime/io/Safetensors.h"
#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include <algorithm>
#include <limits>

using namespace cleave::runtime;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kMetadata = "__metadata__";
static constexpr llvm::StringLiteral kComplex = "complex";
static constexpr size_t kLengthBytes = 8;
static constexpr size_t kMaxRank = 64;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A JSON array of integers from 0 to 2^63 - 1. (Numbers like 1.0 are not integers here.)
static llvm::Expected<std::vector<int64_t>> parseSizes(const json::Value *value, const char *what) {
  const json::Array *array = value ? value->getAsArray() : nullptr;
  if (!array)
    return makeError("expected \"{0}\" to be an array", what);
  // Bounds the length of messages that show a shape.
  if (array->size() > kMaxRank)
    return makeError("expected \"{0}\" to have at most {1} elements, found {2}", what, kMaxRank,
                     array->size());
  std::vector<int64_t> sizes;
  for (const json::Value &element : *array) {
    std::optional<uint64_t> size = element.getAsUINT64();
    if (!size || *size > uint64_t(std::numeric_limits<int64_t>::max()))
      return makeError("expected \"{0}\" to hold integers from 0 to 2^63 - 1, found {1}", what,
                       element);
    sizes.push_back(int64_t(*size));
  }
  return sizes;
}

/// Reads one entry of the header; `data` is everything after the header.
static llvm::Error parseTensor(const json::Value &value, llvm::ArrayRef<uint8_t> data,
                               TensorView &view) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return makeError("expected an object, found {0}", value);
  for (const auto &field : *object)
    if (!llvm::is_contained({"dtype", "shape", "data_offsets"}, field.first.str()))
      return makeError("expected the fields dtype, shape and data_offsets, found \"{0}\"",
                       field.first.str());

  std::optional<llvm::StringRef> name = object->getString("dtype");
  if (!name)
    return makeError("expected a string as \"dtype\"");
  std::optional<DType> dtype = parseDType(*name);
  if (!dtype)
    return makeError(
        "expected one of the dtypes BOOL U8 I8 I16 I32 I64 F16 BF16 F32 F64, found {0}", *name);
  view.dtype = *dtype;

  llvm::Expected<std::vector<int64_t>> shape = parseSizes(object->get("shape"), "shape");
  if (!shape)
    return shape.takeError();
  view.shape = std::move(*shape);
  std::optional<int64_t> bytes = countBytes(view.dtype, view.shape);
  if (!bytes)
    return makeError("the size of {0} overflows 63 bits", describe(view.dtype, view.shape));

  llvm::Expected<std::vector<int64_t>> offsets =
      parseSizes(object->get("data_offsets"), "data_offsets");
  if (!offsets)
    return offsets.takeError();
  if (offsets->size() != 2)
    return makeError("expected 2 data_offsets, found {0}", offsets->size());
  int64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || uint64_t(end) > data.size())
    return makeError("expected data_offsets inside the {0} bytes of data, found [{1}, {2}]",
                     data.size(), begin, end);
  if (end - begin != *bytes)
    return makeError("{0} takes {1} bytes, found data_offsets [{2}, {3}], which are {4} bytes",
                     describe(view.dtype, view.shape), *bytes, begin, end, end - begin);
  view.bytes = data.slice(begin, end - begin);
  return llvm::Error::success();
}

/// The ranges, sorted, must follow on each other from the first byte of `data` to its last.
static llvm::Error checkCoverage(llvm::ArrayRef<TensorView> views, llvm::ArrayRef<uint8_t> data) {
  const uint8_t *expected = data.data();
  for (const TensorView &view : views) {
    if (view.bytes.data() < expected)
      return makeError("tensor \"{0}\": its data overlaps that of another tensor", view.name);
    if (view.bytes.data() > expected)
      return makeError("tensor \"{0}\": {1} bytes before its data belong to no tensor", view.name,
                       view.bytes.data() - expected);
    expected = view.bytes.end();
  }
  if (expected != data.end())
    return makeError("{0} bytes at the end belong to no tensor", data.end() - expected);
  return llvm::Error::success();
}

llvm::Error SafetensorsFile::parse() {
  llvm::ArrayRef<uint8_t> bytes = file->bytes();
  if (bytes.size() < kLengthBytes)
    return makeError("expected a safetensors file, which has at least 8 bytes, found {0}",
                     bytes.size());
  uint64_t length = llvm::support::endian::read64le(bytes.data());
  if (length > kMaxHeaderBytes)
    return makeError("expected a header of at most {0} bytes, found a length of {1} "
                     "(is this a safetensors file?)",
                     kMaxHeaderBytes, length);
  if (length > bytes.size() - kLengthBytes)
    return makeError("the header should have {0} bytes, but only {1} follow: the file is truncated",
                     length, bytes.size() - kLengthBytes);
  llvm::StringRef text = llvm::toStringRef(bytes.slice(kLengthBytes, length));
  llvm::ArrayRef<uint8_t> data = bytes.drop_front(kLengthBytes + length);
  if (!text.starts_with("{"))
    return makeError("expected the header to start with {{");

  // The header's object, a tensor's object, its arrays.
  llvm::Expected<json::Value> value = parseJsonStrictly(text.rtrim(' '), /*maxDepth=*/3);
  if (!value)
    return makeError("the header is not valid: {0}", llvm::toString(value.takeError()));
  const json::Object *header = value->getAsObject();
  if (!header)
    return makeError("expected the header to be a JSON object");

  for (const auto &entry : *header) {
    if (entry.first.str() == kMetadata) {
      const json::Object *object = entry.second.getAsObject();
      if (!object)
        return makeError("expected {0} to be an object of strings", kMetadata);
      for (const auto &pair : *object) {
        std::optional<llvm::StringRef> string = pair.second.getAsString();
        if (!string)
          return makeError("expected a string under \"{0}\" in {1}, found {2}", pair.first.str(),
                           kMetadata, pair.second);
        strings[pair.first.str()] = string->str();
      }
      continue;
    }
    TensorView view;
    view.name = entry.first.str();
    if (llvm::Error error = parseTensor(entry.second, data, view))
      return makeError("tensor \"{0}\": {1}", view.name, llvm::toString(std::move(error)));
    views.push_back(std::move(view));
  }
  llvm::sort(views, [](const TensorView &a, const TensorView &b) {
    return std::make_tuple(a.bytes.begin(), a.bytes.end(), a.name) <
           std::make_tuple(b.bytes.begin(), b.bytes.end(), b.name);
  });
  if (llvm::Error error = checkCoverage(views, data))
    return error;
  if (llvm::Error error = readComplex())
    return error;
  for (const TensorView &view : views)
    add({view.name, view.dtype, view.shape});
  return llvm::Error::success();
}

/// Gives the tensors that the metadata lists the complex type of their pairs.
llvm::Error SafetensorsFile::readComplex() {
  auto list = strings.find(kComplex.str());
  if (list == strings.end())
    return llvm::Error::success();
  llvm::Expected<json::Value> value = parseJsonStrictly(list->second, /*maxDepth=*/1);
  if (!value)
    return makeError("\"{0}\" in {1} is not valid: {2}", kComplex, kMetadata,
                     llvm::toString(value.takeError()));
  const json::Array *names = value->getAsArray();
  if (!names)
    return makeError("expected \"{0}\" in {1} to be a list of names, found {2}", kComplex,
                     kMetadata, *value);
  for (const json::Value &name : *names) {
    std::optional<llvm::StringRef> text = name.getAsString();
    auto found = llvm::find_if(views, [&](const TensorView &view) { return view.name == text; });
    if (found == views.end())
      return makeError("\"{0}\" in {1} lists {2}; expected the name of a tensor", kComplex,
                       kMetadata, name);
    TensorView &view = *found;
    std::optional<DType> dtype = complexOf(view.dtype);
    if (!dtype || view.shape.empty() || view.shape.back() != 2)
      return makeError(
          "tensor \"{0}\": expected pairs of F32 or F64 along the last dimension, since "
          "\"{1}\" in {2} lists it, found {3}",
          view.name, kComplex, kMetadata, describe(view.dtype, view.shape));
    view.dtype = *dtype;
    view.shape.pop_back();
  }
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.takeError();
  auto result = std::make_unique<SafetensorsFile>();
  result->file = std::move(*mapped);
  if (llvm::Error error = result->parse())
    return makeError("{0}: {1}", path, llvm::toString(std::move(error)));
  return result;
}

const TensorView *SafetensorsFile::find(llvm::StringRef name) const {
  const TensorEntry *entry = findEntry(name);
  return entry ? &views[entry - entries().data()] : nullptr;
}

llvm::Error SafetensorsFile::readBox(size_t index, llvm::ArrayRef<IndexRange> box,
                                     uint8_t *to) const {
  const TensorView &view = views[index];
  copyBox(view.bytes.data(), view.shape, box, byteSize(view.dtype), to);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// The type under which the file has the elements.
static DType storedType(const TensorView &tensor) {
  return partOf(tensor.dtype).value_or(tensor.dtype);
}

/// The metadata with the list of complex tensors, if there are any.
static std::map<std::string, std::string>
withComplex(llvm::ArrayRef<const TensorView *> tensors,
            const std::map<std::string, std::string> &metadata) {
  json::Array names;
  for (const TensorView *tensor : tensors)
    if (partOf(tensor->dtype))
      names.push_back(tensor->name);
  std::map<std::string, std::string> result = metadata;
  if (!names.empty())
    result[kComplex.str()] = llvm::formatv("{0}", json::Value(std::move(names)));
  return result;
}

static std::string writeHeader(llvm::ArrayRef<const TensorView *> tensors,
                               const std::map<std::string, std::string> &metadata) {
  std::string header;
  llvm::raw_string_ostream stream(header);
  json::OStream writer(stream);
  writer.object([&] {
    if (!metadata.empty())
      writer.attributeObject(kMetadata, [&] {
        for (const auto &[key, value] : metadata)
          writer.attribute(key, value);
      });
    int64_t offset = 0;
    for (const TensorView *tensor : tensors)
      writer.attributeObject(tensor->name, [&] {
        writer.attribute("dtype", getName(storedType(*tensor)));
        writer.attributeArray("shape", [&] {
          for (int64_t size : tensor->shape)
            writer.value(size);
          if (partOf(tensor->dtype))
            writer.value(2);
        });
        writer.attributeArray("data_offsets", [&] {
          writer.value(offset);
          writer.value(offset += int64_t(tensor->bytes.size()));
        });
      });
  });
  // Keeps the data 8-byte aligned in the file.
  header.resize(llvm::alignTo(header.size(), 8), ' ');
  return header;
}

llvm::Error cleave::runtime::writeSafetensors(OutputFile &file, llvm::ArrayRef<TensorView> tensors,
                                              const std::map<std::string, std::string> &metadata) {
  llvm::StringRef path = file.path();
  std::vector<const TensorView *> sorted;
  llvm::StringSet<> names;
  for (const TensorView &tensor : tensors) {
    if (tensor.name == kMetadata || !names.insert(tensor.name).second)
      return makeError("{0}: two tensors named \"{1}\", or a reserved name", path, tensor.name);
    if (!json::isUTF8(tensor.name))
      return makeError("{0}: a tensor's name is not valid UTF-8", path);
    if (countBytes(tensor.dtype, tensor.shape) != std::optional<int64_t>(tensor.bytes.size()))
      return makeError("{0}: tensor \"{1}\" is {2}, but has {3} bytes", path, tensor.name,
                       describe(tensor.dtype, tensor.shape), tensor.bytes.size());
    sorted.push_back(&tensor);
  }
  llvm::sort(sorted, [](const TensorView *a, const TensorView *b) {
    return std::make_tuple(storedType(*b), llvm::StringRef(a->name)) <
           std::make_tuple(storedType(*a), llvm::StringRef(b->name));
  });

  std::string header = writeHeader(sorted, withComplex(sorted, metadata));
  uint8_t length[kLengthBytes];
  llvm::support::endian::write64le(length, header.size());
  if (llvm::Error error = file.write(llvm::ArrayRef<uint8_t>(length)))
    return error;
  if (llvm::Error error = file.write(llvm::StringRef(header)))
    return error;
  for (const TensorView *tensor : sorted)
    if (llvm::Error error = file.write(tensor->bytes))
      return error;
  return file.commit();
}

llvm::Error cleave::runtime::writeSafetensors(llvm::StringRef path,
                                              llvm::ArrayRef<TensorView> tensors,
                                              const std::map<std::string, std::string> &metadata) {
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  return file ? writeSafetensors(**file, tensors, metadata) : file.takeError();
}
