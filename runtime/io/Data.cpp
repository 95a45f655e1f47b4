//===- Data.cpp - opening a data source, the order of examples ------------===//

#include "runtime/io/Data.h"
#include "runtime/io/DataDocuments.h"
#include "runtime/io/DataSources.h"
#include "llvm/Support/MathExtras.h"

using namespace cleave::runtime;

llvm::Expected<std::unique_ptr<DataSource>> DataSource::open(const DataOptions &options,
                                                             llvm::ArrayRef<InputSpec> inputs) {
  // The upper limit keeps products with batch sizes in 64 bits.
  constexpr int64_t kLimit = 1 << 24;
  if (options.microbatches < 1 || options.ranks < 1 || options.microbatches > kLimit ||
      options.ranks > kLimit)
    return makeError("expected 1 to {0} microbatches and ranks, found {1} and {2}", kLimit,
                     options.microbatches, options.ranks);
  llvm::Expected<std::vector<SourceTerm>> terms = parseSource(options.source);
  if (!terms)
    return terms.takeError();
  if (inputs.empty())
    return makeError("the program takes no inputs, so there is nothing to read from {0}",
                     options.source);
  auto open = [&](llvm::ArrayRef<InputSpec> specs) {
    return isMixture(options.source) ? openMixture(options, specs, *terms)
                                     : openTerm(options, specs, terms->front());
  };
  return options.documents.empty() ? open(inputs) : openDocuments(options, inputs, open);
}

llvm::Expected<std::unique_ptr<DataSource>>
cleave::runtime::openTerm(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
                          const SourceTerm &term) {
  llvm::Expected<std::vector<std::string>> files = listFiles(term);
  if (!files)
    return files.takeError();
  if (term.kind == "text")
    return openText(options, inputs, *files);
  if (term.kind == "safetensors")
    return openTensors(options, inputs, *files);
  return openTokens(options, inputs, *files, term.kind == "u16" ? 2 : 4);
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
