//===- Data.cpp - opening a data source, the order of examples ------------===//

#include "runtime/io/Data.h"
#include "runtime/io/DataSources.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <filesystem>

using namespace cleave::runtime;

static constexpr llvm::StringLiteral kKinds[] = {"text", "u16", "u32", "safetensors"};

std::vector<std::string> cleave::runtime::listDataPaths(llvm::StringRef source) {
  auto [kind, rest] = source.split(':');
  std::vector<std::string> paths;
  if (llvm::is_contained(kKinds, kind))
    for (llvm::StringRef path : llvm::split(rest, ','))
      if (!path.empty())
        paths.push_back(path.str());
  return paths;
}

llvm::Expected<std::vector<std::string>> cleave::runtime::listDirectory(llvm::StringRef path,
                                                                        llvm::StringRef extension) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(path.str(), error), end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_symlink(ignored) && it->is_regular_file(ignored) &&
        llvm::StringRef(it->path().native()).ends_with(extension))
      files.push_back(it->path().string());
  }
  if (error)
    return makeError("{0}: cannot read the directory: {1}", path, error.message());
  llvm::sort(files);
  return files;
}

llvm::Expected<std::unique_ptr<DataSource>> DataSource::open(const DataOptions &options,
                                                             llvm::ArrayRef<InputSpec> inputs) {
  // The upper limit keeps products with batch sizes in 64 bits.
  constexpr int64_t kLimit = 1 << 24;
  if (options.microbatches < 1 || options.ranks < 1 || options.microbatches > kLimit ||
      options.ranks > kLimit)
    return makeError("expected 1 to {0} microbatches and ranks, found {1} and {2}", kLimit,
                     options.microbatches, options.ranks);
  llvm::StringRef kind = llvm::StringRef(options.source).split(':').first;
  std::vector<std::string> paths = listDataPaths(options.source);
  if (paths.empty())
    return makeError("expected data as text:PATH, u16:PATH, u32:PATH or safetensors:PATH, "
                     "several paths separated by commas, found \"{0}\"",
                     options.source);
  if (inputs.empty())
    return makeError("the program takes no inputs, so there is nothing to read from {0}",
                     options.source);
  if (kind == "text")
    return openText(options, inputs, paths);
  if (kind == "safetensors")
    return openTensors(options, inputs, paths);
  return openTokens(options, inputs, paths, kind == "u16" ? 2 : 4);
}

llvm::Expected<int64_t> cleave::runtime::countMicrobatches(int64_t batch, int64_t ranks,
                                                           int64_t microbatchSize) {
  int64_t unit;
  if (llvm::MulOverflow(ranks, microbatchSize, unit) || unit < 1 || batch < 1 || batch % unit != 0)
    return makeError(
        "a batch of {0} examples is not divisible by {1} ranks with microbatches of {2}: "
        "expected a multiple of {1} x {2}",
        batch, ranks, microbatchSize);
  return batch / unit;
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t cleave::runtime::permute(uint64_t index, uint64_t size, uint64_t seed, uint64_t epoch) {
  if (size < 2)
    return index;
  unsigned half = (llvm::Log2_64_Ceil(size) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t key = mix(mix(seed) ^ epoch);
  // Each network is a bijection of [0, 4^half), which is less than four times `size`: walking its
  // cycle back into [0, size) takes fewer than four turns on average.
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (mix(key + (round << 56) + right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}
