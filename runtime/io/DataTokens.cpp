//===- DataTokens.cpp - windows of a stream of tokens ---------------------===//
//
// The files, one after another, are one stream. An example is a window of T tokens, windows do not
// overlap; with a target, it is the window one token later. An epoch is every window once.
//
//===----------------------------------------------------------------------===//

#include "runtime/io/DataSources.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>
#include <numeric>

using namespace cleave::runtime;

namespace {

/// Streams up to this length are checked against the vocabulary before the run starts.
constexpr uint64_t kCheckedTokens = uint64_t(1) << 28;

class TokenSource final : public DataSource {
public:
  TokenSource(const DataOptions &options, unsigned width) : options(options), width(width) {}

  llvm::Error addFile(llvm::StringRef path);
  llvm::Error finish(llvm::ArrayRef<InputSpec> inputs);
  uint64_t countSteps() const override {
    return windows / (uint64_t(options.ranks) * options.microbatches * rows);
  }
  llvm::Expected<std::vector<HostTensor>> read(BatchPosition position) const override;
  llvm::Error readExample(uint64_t example, int64_t row,
                          llvm::MutableArrayRef<HostTensor> to) const override;
  std::string describe() const override;
  uint64_t fingerprint() const override;

private:
  struct Segment {
    std::unique_ptr<MappedFile> file;
    /// Position of the first token in the stream.
    uint64_t begin;
  };
  uint64_t tokenAt(const Segment &segment, uint64_t position) const;
  llvm::Error selectInputs(llvm::ArrayRef<InputSpec> inputs);
  llvm::Error checkToken(const Segment &segment, uint64_t position) const;
  /// The file with the token at `position`.
  const Segment *segmentOf(uint64_t position) const;
  /// Copies [begin, begin + count) as elements of `dtype`.
  llvm::Error copyTokens(uint64_t begin, uint64_t count, DType dtype, uint8_t *to) const;

  DataOptions options;
  unsigned width;
  std::vector<Segment> segments;
  uint64_t tokens = 0, windows = 0;
  std::vector<InputSpec> specs;
  int64_t rows = 0, length = 0, vocabulary = 0;
  bool hasTarget = false;
};

} // namespace

llvm::Error TokenSource::addFile(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  size_t bytes = (*file)->bytes().size();
  if (bytes % width != 0)
    return makeError("{0}: expected tokens of {1} bytes, found {2} bytes, which is not a multiple",
                     path, width, bytes);
  // Empty files would make two segments begin at one position.
  if (bytes == 0)
    return llvm::Error::success();
  segments.push_back({std::move(*file), tokens});
  tokens += bytes / width;
  return llvm::Error::success();
}

/// What fills a second input of integers, as Hugging Face's models take them beside the tokens.
static std::string hintAt(const InputSpec &first, const InputSpec &second) {
  for (const InputSpec *spec : {&first, &second}) {
    llvm::StringRef name = spec->name;
    if (name.contains("label"))
      return llvm::formatv("--documents \"{0}=tokens\" for labels that the model shifts, or ", name)
          .str();
    if (name.contains("mask"))
      return llvm::formatv("--documents \"{0}=ones\" for a mask without padding, or ", name).str();
  }
  return "";
}

llvm::Error TokenSource::selectInputs(llvm::ArrayRef<InputSpec> inputs) {
  const InputSpec *input = nullptr, *target = nullptr;
  for (const InputSpec &spec : inputs) {
    const InputSpec *&slot = spec.isTarget ? target : input;
    bool fits = spec.dtype == DType::I64 || spec.dtype == DType::I32;
    if (slot || !fits || spec.shape.size() != 2 || spec.batchDim != 0u)
      return makeError("token data fills one integer input [batch, time] and one such target; "
                       "the program's {0} \"{1}\", {2}{3}, does not match: use {4}safetensors:PATH",
                       spec.isTarget ? "target" : "input", spec.name,
                       ::describe(spec.dtype, spec.shape), slot ? " (a second one)" : "",
                       slot && fits && !spec.isTarget ? hintAt(*slot, spec) : "");
    slot = &spec;
  }
  if (!input)
    return makeError("token data requires an integer input [batch, time]; the program has none");
  if (target && target->shape != input->shape)
    return makeError(
        "token data requires a target with the input's shape; \"{0}\" is {1}, \"{2}\" is {3}",
        input->name, ::describe(input->dtype, input->shape), target->name,
        ::describe(target->dtype, target->shape));
  if (input->shape[0] < 1 || input->shape[1] < 1)
    return makeError("the program's input \"{0}\" is empty: {1}", input->name,
                     ::describe(input->dtype, input->shape));
  rows = input->shape[0];
  length = input->shape[1];
  hasTarget = target != nullptr;
  vocabulary = input->vocabulary;
  if (target && target->vocabulary > 0)
    vocabulary = vocabulary > 0 ? std::min(vocabulary, target->vocabulary) : target->vocabulary;
  specs = inputs.vec();
  return llvm::Error::success();
}

llvm::Error TokenSource::finish(llvm::ArrayRef<InputSpec> inputs) {
  if (llvm::Error error = selectInputs(inputs))
    return error;
  if (tokens == 0)
    return makeError("{0}: the data is empty", options.source);
  windows = (tokens - (hasTarget ? 1 : 0)) / length;
  if (windows == 0)
    return makeError("{0}: expected at least {1} tokens, a window of {2}{3}, found {4}",
                     options.source, length + hasTarget, length,
                     hasTarget ? " and the token after it" : "", tokens);
  if (vocabulary > 0 && tokens <= kCheckedTokens)
    for (const Segment &segment : segments)
      for (uint64_t i = 0, n = segment.file->bytes().size() / width; i < n; ++i)
        if (llvm::Error error = checkToken(segment, segment.begin + i))
          return error;
  return llvm::Error::success();
}

uint64_t TokenSource::tokenAt(const Segment &segment, uint64_t position) const {
  const uint8_t *from = segment.file->bytes().data() + (position - segment.begin) * width;
  switch (width) {
  case 1:
    return *from;
  case 2:
    return llvm::support::endian::read16le(from);
  default:
    return llvm::support::endian::read32le(from);
  }
}

llvm::Error TokenSource::checkToken(const Segment &segment, uint64_t position) const {
  uint64_t token = tokenAt(segment, position);
  if (vocabulary <= 0 || token < uint64_t(vocabulary))
    return llvm::Error::success();
  return makeError("{0}: token {1} at position {2} is outside the vocabulary of {3} (0 to {4})",
                   segment.file->path(), token, position - segment.begin, vocabulary,
                   vocabulary - 1);
}

const TokenSource::Segment *TokenSource::segmentOf(uint64_t position) const {
  return &*std::prev(
      llvm::upper_bound(segments, position, [](uint64_t value, const Segment &segment) {
        return value < segment.begin;
      }));
}

llvm::Error TokenSource::copyTokens(uint64_t begin, uint64_t count, DType dtype,
                                    uint8_t *to) const {
  const Segment *segment = segmentOf(begin);
  const Segment *last = &segments.back();
  bool wide = dtype == DType::I64;
  for (uint64_t position = begin; position < begin + count; ++position) {
    if (segment != last && position == segment[1].begin)
      ++segment;
    if (llvm::Error error = checkToken(*segment, position))
      return error;
    uint64_t token = tokenAt(*segment, position);
    if (wide)
      llvm::support::endian::write64le(to, token);
    else
      llvm::support::endian::write32le(to, uint32_t(token));
    to += wide ? 8 : 4;
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<HostTensor>> TokenSource::read(BatchPosition position) const {
  std::vector<HostTensor> result;
  for (const InputSpec &spec : specs)
    result.push_back(
        {spec.dtype, spec.shape, std::vector<uint8_t>(*countBytes(spec.dtype, spec.shape))});
  uint64_t share = uint64_t(options.microbatches) * rows;
  uint64_t first = (position.step * options.ranks + position.rank) * share +
                   uint64_t(position.microbatch) * rows;
  for (int64_t row = 0; row < rows; ++row)
    if (llvm::Error error = readExample(first + row, row, result))
      return error;
  return result;
}

llvm::Error TokenSource::readExample(uint64_t example, int64_t row,
                                     llvm::MutableArrayRef<HostTensor> to) const {
  uint64_t epoch = example / windows, window = example % windows;
  if (options.shuffle)
    window = permute(window, windows, options.seed, epoch);
  for (auto [spec, tensor] : llvm::zip_equal(specs, to)) {
    size_t bytesPerRow = tensor.bytes.size() / rows;
    if (llvm::Error error = copyTokens(window * length + (spec.isTarget ? 1 : 0), length,
                                       spec.dtype, tensor.bytes.data() + row * bytesPerRow))
      return error;
  }
  return llvm::Error::success();
}

std::string TokenSource::describe() const {
  return llvm::formatv("{0:N} {1} from {2} file{3}, {4:N} windows of {5}", tokens,
                       width == 1 ? "byte tokens" : "tokens", segments.size(),
                       segments.size() == 1 ? "" : "s", windows, length)
      .str();
}

uint64_t TokenSource::fingerprint() const {
  uint64_t hash = llvm::xxh3_64bits(
      llvm::formatv("{0} {1} {2} {3}", width, tokens, options.shuffle, options.seed).str());
  for (const Segment &segment : segments) {
    // The whole of a large file would take longer to hash than a run to start.
    llvm::ArrayRef<uint8_t> bytes = segment.file->bytes();
    constexpr size_t kHashed = size_t(1) << 26;
    hash = hash * 31 + llvm::xxh3_64bits(bytes.take_front(kHashed));
    hash = hash * 31 + llvm::xxh3_64bits(bytes.take_back(kHashed));
  }
  return hash;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<DataSource>>
cleave::runtime::openText(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
                          llvm::ArrayRef<std::string> paths) {
  auto source = std::make_unique<TokenSource>(options, /*width=*/1);
  for (const std::string &path : paths)
    if (llvm::Error error = source->addFile(path))
      return error;
  if (llvm::Error error = source->finish(inputs))
    return error;
  return source;
}

llvm::Expected<std::unique_ptr<DataSource>>
cleave::runtime::openTokens(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
                            llvm::ArrayRef<std::string> paths, unsigned width) {
  auto source = std::make_unique<TokenSource>(options, width);
  for (const std::string &path : paths)
    if (llvm::Error error = source->addFile(path))
      return error;
  if (llvm::Error error = source->finish(inputs))
    return error;
  return source;
}
