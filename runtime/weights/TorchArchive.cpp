//===- TorchArchive.cpp - what torch.save wrote ---------------------------===//

#include "runtime/weights/TorchArchive.h"
#include "runtime/aten/Facade.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <caffe2/serialize/inline_container.h>
#include <cstring>

using namespace cleave::runtime;
using Kind = PickleNode::Kind;

std::optional<DType> cleave::runtime::parseTorchDType(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<DType>>(name)
      .Case("torch.bool", DType::Bool)
      .Case("torch.uint8", DType::U8)
      .Case("torch.int8", DType::I8)
      .Case("torch.int16", DType::I16)
      .Case("torch.int32", DType::I32)
      .Case("torch.int64", DType::I64)
      .Case("torch.float16", DType::F16)
      .Case("torch.bfloat16", DType::BF16)
      .Case("torch.float32", DType::F32)
      .Case("torch.float64", DType::F64)
      .Case("torch.complex64", DType::C64)
      .Case("torch.complex128", DType::C128)
      .Default(std::nullopt);
}

/// Storages are named after their element type.
static std::optional<DType> parseStorageType(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<DType>>(name)
      .Case("torch.BoolStorage", DType::Bool)
      .Case("torch.ByteStorage", DType::U8)
      .Case("torch.CharStorage", DType::I8)
      .Case("torch.ShortStorage", DType::I16)
      .Case("torch.IntStorage", DType::I32)
      .Case("torch.LongStorage", DType::I64)
      .Case("torch.HalfStorage", DType::F16)
      .Case("torch.BFloat16Storage", DType::BF16)
      .Case("torch.FloatStorage", DType::F32)
      .Case("torch.DoubleStorage", DType::F64)
      .Case("torch.ComplexFloatStorage", DType::C64)
      .Case("torch.ComplexDoubleStorage", DType::C128)
      .Default(std::nullopt);
}

std::optional<std::vector<int64_t>> cleave::runtime::readSizes(const PickleNode &node) {
  constexpr size_t kMaxRank = 64;
  const PickleNode *tuple = &node;
  if (node.isNamed("torch.Size"))
    tuple = node.arguments().size() == 1 ? node.arguments().front() : nullptr;
  if (!tuple || !tuple->is(Kind::Tuple) || tuple->items.size() > kMaxRank)
    return std::nullopt;
  std::vector<int64_t> sizes;
  for (const PickleNode *item : tuple->items) {
    std::optional<int64_t> size = item->asInt();
    if (!size || *size < 0)
      return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

//===----------------------------------------------------------------------===//
// The archive
//===----------------------------------------------------------------------===//

namespace {

/// A range of a mapped file.
class MappedRange final : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit MappedRange(llvm::ArrayRef<uint8_t> bytes) : bytes(bytes) {}
  size_t size() const override { return bytes.size(); }
  size_t read(uint64_t position, void *to, size_t count, const char *) const override {
    if (position >= bytes.size())
      return 0;
    count = std::min<uint64_t>(count, bytes.size() - position);
    std::memcpy(to, bytes.data() + position, count);
    return count;
  }

private:
  llvm::ArrayRef<uint8_t> bytes;
};

/// The records of an archive, in place.
class Archive {
public:
  explicit Archive(llvm::ArrayRef<uint8_t> bytes)
      : bytes(bytes), reader(std::make_shared<MappedRange>(bytes)) {}

  bool has(const std::string &name) { return reader.hasRecord(name); }

  /// Throws what the reader throws.
  llvm::Expected<llvm::ArrayRef<uint8_t>> find(const std::string &name) {
    constexpr size_t kMethod = 8, kMethodEnd = 10; // in the record's header, as zip has it
    size_t header = reader.getRecordHeaderOffset(name), begin = reader.getRecordOffset(name);
    size_t size = reader.getRecordSize(name);
    if (header + kMethodEnd > bytes.size() || begin > bytes.size() || size > bytes.size() - begin)
      return makeError("record '{0}' does not lie in the archive", name);
    if (llvm::support::endian::read16le(bytes.data() + header + kMethod) != 0)
      return makeError("record '{0}' is compressed: expected one that is stored as it is", name);
    return bytes.slice(begin, size);
  }

private:
  llvm::ArrayRef<uint8_t> bytes;
  caffe2::serialize::PyTorchStreamReader reader;
};

} // namespace

static bool isTensorName(llvm::StringRef name) {
  return name == "torch._utils._rebuild_tensor_v2" || name == "collections.OrderedDict" ||
         parseStorageType(name);
}

/// The tensor that a pickle describes, without its bytes; `storage` becomes the name of their
/// record and `offset` the place of the first one in it.
static llvm::Error readDescription(const PickleNode &root, SavedTensor &tensor,
                                   std::string &storage, int64_t &offset) {
  llvm::Error malformed = makeError("expected a dense tensor of a dtype that programs use");
  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
  llvm::ArrayRef<const PickleNode *> arguments = root.arguments();
  if (!root.isNamed("torch._utils._rebuild_tensor_v2") || arguments.size() < 6 ||
      !arguments[0]->is(Kind::External) || !arguments[0]->items.front()->is(Kind::Tuple))
    return malformed;
  // ("storage", type, name of the record, device, elements)
  llvm::ArrayRef<const PickleNode *> id = arguments[0]->items.front()->items;
  if (id.size() != 5 || id[0]->asString() != "storage" || !id[1]->is(Kind::Name) ||
      !id[2]->asString())
    return malformed;
  std::optional<DType> dtype = parseStorageType(id[1]->text);
  std::optional<int64_t> first = arguments[1]->asInt();
  auto shape = readSizes(*arguments[2]), strides = readSizes(*arguments[3]);
  if (!dtype || !first || *first < 0 || !shape || !strides || strides->size() != shape->size() ||
      !countBytes(*dtype, *shape))
    return malformed;
  int64_t width = byteSize(*dtype);
  for (int64_t &stride : *strides)
    if (llvm::MulOverflow(stride, width, stride))
      return malformed;
  if (llvm::MulOverflow(*first, width, offset))
    return malformed;
  llvm::consumeError(std::move(malformed));
  tensor.dtype = *dtype;
  tensor.shape = std::move(*shape);
  tensor.byteStrides = std::move(*strides);
  storage = "data/" + id[2]->text.str();
  return llvm::Error::success();
}

/// Bytes from the tensor's first element to the end of its last; nullopt on overflow.
static std::optional<int64_t> countExtent(const SavedTensor &tensor) {
  if (llvm::is_contained(tensor.shape, 0))
    return 0;
  int64_t extent = byteSize(tensor.dtype);
  for (auto [size, stride] : llvm::zip_equal(tensor.shape, tensor.byteStrides)) {
    int64_t span;
    if (llvm::MulOverflow(size - 1, stride, span) || llvm::AddOverflow(extent, span, extent))
      return std::nullopt;
  }
  return extent;
}

static llvm::Error openTensor(Archive &archive, SavedTensor &tensor) {
  if (archive.has("byteorder")) {
    llvm::Expected<llvm::ArrayRef<uint8_t>> order = archive.find("byteorder");
    if (!order)
      return order.takeError();
    if (llvm::toStringRef(*order) != "little")
      return makeError("expected little-endian bytes, found '{0}'",
                       llvm::toStringRef(*order).take_front(16));
  }
  llvm::Expected<llvm::ArrayRef<uint8_t>> text = archive.find("data.pkl");
  if (!text)
    return text.takeError();
  auto pickle = Pickle::parse(*text, isTensorName);
  if (!pickle)
    return pickle.takeError();
  std::string storage;
  int64_t offset = 0;
  if (llvm::Error error = readDescription((*pickle)->root(), tensor, storage, offset))
    return error;
  llvm::Expected<llvm::ArrayRef<uint8_t>> data = archive.find(storage);
  if (!data)
    return data.takeError();
  std::optional<int64_t> extent = countExtent(tensor);
  if (!extent || uint64_t(offset) > data->size() || uint64_t(*extent) > data->size() - offset)
    return makeError("{0} does not fit into the {1} bytes of its storage",
                     describe(tensor.dtype, tensor.shape), data->size());
  tensor.bytes = data->drop_front(offset).take_front(*extent);
  return llvm::Error::success();
}

llvm::Expected<SavedTensor> cleave::runtime::openSavedTensor(llvm::ArrayRef<uint8_t> bytes) {
  SavedTensor tensor;
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    Archive archive(bytes);
    failure = openTensor(archive, tensor);
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return tensor;
}
