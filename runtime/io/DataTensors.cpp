//===- DataTensors.cpp - batches from safetensors files -------------------===//
//
// Each file holds one or more whole steps: the inputs under their names, all examples along the
// input's batch dimension. The files are read in the order given, then from the first again.
//
//===----------------------------------------------------------------------===//

#include "runtime/io/DataSources.h"
#include "runtime/io/Safetensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/xxhash.h"

using namespace cleave::runtime;

namespace {

class TensorSource final : public DataSource {
public:
  TensorSource(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs)
      : options(options), specs(inputs.vec()) {}

  llvm::Error addFile(llvm::StringRef path);
  uint64_t countSteps() const override { return steps; }
  llvm::Expected<std::vector<HostTensor>> read(BatchPosition position) const override;
  llvm::Error readExample(uint64_t example, int64_t row,
                          llvm::MutableArrayRef<HostTensor> to) const override;
  std::string describe() const override;
  uint64_t fingerprint() const override;

private:
  struct Part {
    std::unique_ptr<SafetensorsFile> file;
    /// First step that the file serves, and number of steps.
    int64_t begin, steps;
  };
  llvm::Expected<const TensorView *> findInput(const SafetensorsFile &file,
                                               const InputSpec &spec) const;
  const Part &partOf(int64_t step) const;
  static void copyExamples(const TensorView &tensor, const InputSpec &spec, int64_t begin,
                           int64_t count, int64_t row, HostTensor &to);

  DataOptions options;
  std::vector<InputSpec> specs;
  std::vector<Part> parts;
  int64_t steps = 0;
};

} // namespace

/// Refuses integers outside [0, spec.vocabulary), but for the one that the loss ignores.
static llvm::Error checkVocabulary(const SafetensorsFile &file, const TensorView &tensor,
                                   const InputSpec &spec) {
  if (spec.vocabulary <= 0 || (spec.dtype != DType::I64 && spec.dtype != DType::I32))
    return llvm::Error::success();
  unsigned width = byteSize(spec.dtype);
  for (size_t i = 0; i < tensor.bytes.size() / width; ++i) {
    const uint8_t *from = tensor.bytes.data() + i * width;
    int64_t value = width == 8 ? int64_t(llvm::support::endian::read64le(from))
                               : int64_t(int32_t(llvm::support::endian::read32le(from)));
    if ((value < 0 || value >= spec.vocabulary) && value != spec.ignored)
      return makeError(
          "{0}: {1} \"{2}\": token {3} at position {4} is outside the vocabulary of {5} (0 to "
          "{6}{7})",
          file.path(), spec.isTarget ? "target" : "input", spec.name, value, i, spec.vocabulary,
          spec.vocabulary - 1,
          spec.ignored ? llvm::formatv(", or {0}, which the loss ignores", *spec.ignored).str()
                       : "");
  }
  return llvm::Error::success();
}

llvm::Expected<const TensorView *> TensorSource::findInput(const SafetensorsFile &file,
                                                           const InputSpec &spec) const {
  const TensorView *tensor = file.find(spec.name);
  if (!tensor)
    return makeError("{0}: the program's {1} \"{2}\", {3}, is missing", file.path(),
                     spec.isTarget ? "target" : "input", spec.name,
                     ::describe(spec.dtype, spec.shape));
  bool fits = tensor->dtype == spec.dtype && tensor->shape.size() == spec.shape.size();
  for (size_t d = 0; fits && d < spec.shape.size(); ++d)
    fits = (spec.batchDim && *spec.batchDim == d) || tensor->shape[d] == spec.shape[d];
  if (!fits)
    return makeError(
        "{0}: \"{1}\": expected {2}{3}, found {4}", file.path(), spec.name,
        ::describe(spec.dtype, spec.shape),
        spec.batchDim ? llvm::formatv(" or more along dimension {0}", *spec.batchDim).str() : "",
        ::describe(tensor->dtype, tensor->shape));
  if (llvm::Error error = checkVocabulary(file, *tensor, spec))
    return error;
  return tensor;
}

llvm::Error TensorSource::addFile(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<SafetensorsFile>> opened = SafetensorsFile::open(path);
  if (!opened)
    return opened.takeError();
  const SafetensorsFile &file = **opened;
  for (const TensorView &tensor : file.tensors())
    if (llvm::none_of(specs, [&](const InputSpec &spec) { return spec.name == tensor.name; }))
      return makeError("{0}: the program has no input named \"{1}\"", path, tensor.name);

  int64_t stepsHere = -1;
  std::string first;
  for (const InputSpec &spec : specs) {
    llvm::Expected<const TensorView *> tensor = findInput(file, spec);
    if (!tensor)
      return tensor.takeError();
    if (!spec.batchDim)
      continue;
    int64_t examples = (*tensor)->shape[*spec.batchDim], size = spec.shape[*spec.batchDim];
    int64_t batch = options.ranks * options.microbatches * size;
    if (batch == 0 || examples == 0)
      return makeError("{0}: \"{1}\" is empty", path, spec.name);
    if (examples % batch != 0)
      return makeError(
          "{0}: \"{1}\" has {2} examples along dimension {3}, which do not divide into "
          "batches of {4} ({5} ranks x {6} microbatches x {7})",
          path, spec.name, examples, *spec.batchDim, batch, options.ranks, options.microbatches,
          size);
    if (stepsHere >= 0 && examples / batch != stepsHere)
      return makeError("{0}: \"{1}\" has examples for {2} steps, \"{3}\" for {4}", path, spec.name,
                       examples / batch, first, stepsHere);
    stepsHere = examples / batch;
    first = spec.name;
  }
  stepsHere = std::max<int64_t>(stepsHere, 1); // all inputs the same in every step
  parts.push_back({std::move(*opened), steps, stepsHere});
  steps += stepsHere;
  return llvm::Error::success();
}

/// The file with the batch of a step of the first pass.
const TensorSource::Part &TensorSource::partOf(int64_t step) const {
  return *std::prev(llvm::upper_bound(
      parts, step, [](int64_t value, const Part &candidate) { return value < candidate.begin; }));
}

llvm::Expected<std::vector<HostTensor>> TensorSource::read(BatchPosition position) const {
  int64_t step = position.step % steps;
  const Part &part = partOf(step);
  std::vector<HostTensor> result;
  for (const InputSpec &spec : specs) {
    const TensorView &tensor = *part.file->find(spec.name);
    HostTensor host{spec.dtype, spec.shape, {}};
    if (!spec.batchDim) {
      host.bytes = tensor.bytes.vec();
      result.push_back(std::move(host));
      continue;
    }
    int64_t size = spec.shape[*spec.batchDim];
    int64_t begin = (((step - part.begin) * options.ranks + position.rank) * options.microbatches +
                     position.microbatch) *
                    size;
    host.bytes.resize(*countBytes(spec.dtype, spec.shape));
    copyExamples(tensor, spec, begin, size, 0, host);
    result.push_back(std::move(host));
  }
  return result;
}

/// Copies `count` examples of the tensor from `begin` on to rows of `to` from `row` on.
void TensorSource::copyExamples(const TensorView &tensor, const InputSpec &spec, int64_t begin,
                                int64_t count, int64_t row, HostTensor &to) {
  int64_t width = byteSize(spec.dtype);
  Box box = wholeBox(tensor.shape);
  box[*spec.batchDim] = {begin, count};
  std::vector<int64_t> from = byteStrides(tensor.shape, width);
  std::vector<int64_t> strides = byteStrides(to.shape, width);
  copyStrided(tensor.bytes.data() + begin * from[*spec.batchDim], from,
              to.bytes.data() + row * strides[*spec.batchDim], strides, shapeOf(box), width);
}

llvm::Error TensorSource::readExample(uint64_t example, int64_t row,
                                      llvm::MutableArrayRef<HostTensor> to) const {
  auto batched = llvm::find_if(specs, [](const InputSpec &spec) { return spec.batchDim; });
  uint64_t perStep =
      uint64_t(options.ranks) * options.microbatches * batched->shape[*batched->batchDim];
  uint64_t total = perStep * steps, index = example % total;
  if (options.shuffle)
    index = permute(index, total, options.seed, example / total);
  const Part &part = partOf(index / perStep);
  for (auto [spec, tensor] : llvm::zip_equal(specs, to))
    copyExamples(*part.file->find(spec.name), spec, index - part.begin * perStep, 1, row, tensor);
  return llvm::Error::success();
}

std::string TensorSource::describe() const {
  return llvm::formatv("batches for {0} step{1} from {2} file{3}", steps, steps == 1 ? "" : "s",
                       parts.size(), parts.size() == 1 ? "" : "s")
      .str();
}

uint64_t TensorSource::fingerprint() const {
  uint64_t hash = uint64_t(steps);
  for (const Part &part : parts)
    for (const TensorView &tensor : part.file->tensors())
      hash = hash * 31 + llvm::xxh3_64bits(tensor.bytes.take_front(size_t(1) << 26));
  return hash;
}

llvm::Expected<std::unique_ptr<DataSource>>
cleave::runtime::openTensors(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
                             llvm::ArrayRef<std::string> paths) {
  auto source = std::make_unique<TensorSource>(options, inputs);
  for (const std::string &path : paths)
    if (llvm::Error error = source->addFile(path))
      return error;
  return source;
}
