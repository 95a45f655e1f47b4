//===- DataMixture.cpp - several sources in given shares ------------------===//
//
// Examples come in blocks of kBlock, of which each source has its share, rounded. A permutation
// that the seed and the block's number choose says which of a block's examples is whose; a source
// gives its examples in its own order. So what an example is depends on its number alone.
//
//===----------------------------------------------------------------------===//

#include "runtime/io/DataSources.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

using namespace cleave::runtime;

namespace {

constexpr uint64_t kBlock = 1 << 16;

class Mixture final : public DataSource {
public:
  Mixture(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs)
      : options(options), specs(inputs.vec()) {}

  llvm::Error addSources(llvm::ArrayRef<SourceTerm> terms);
  uint64_t countSteps() const override;
  llvm::Expected<std::vector<HostTensor>> read(BatchPosition position) const override;
  llvm::Error readExample(uint64_t example, int64_t row,
                          llvm::MutableArrayRef<HostTensor> to) const override;
  std::string describe() const override;
  uint64_t fingerprint() const override;

private:
  struct Part {
    std::unique_ptr<DataSource> source;
    /// Its examples in a block are [begin, begin + count) before the permutation.
    uint64_t begin, count;
    double share;
  };
  int64_t rows() const { return specs.front().shape[*specs.front().batchDim]; }
  uint64_t examplesPerStep() const {
    return uint64_t(options.ranks) * options.microbatches * rows();
  }

  DataOptions options;
  std::vector<InputSpec> specs;
  std::vector<Part> parts;
};

} // namespace

llvm::Error Mixture::addSources(llvm::ArrayRef<SourceTerm> terms) {
  for (const InputSpec &spec : specs)
    if (!spec.batchDim || spec.shape[*spec.batchDim] != rows())
      return makeError("a mixture draws examples, but the program's input \"{0}\", {1}, {2}",
                       spec.name, ::describe(spec.dtype, spec.shape),
                       spec.batchDim
                           ? "has another number of them than \"" + specs.front().name + "\""
                           : "has no batch dimension");
  double sum = 0;
  for (const SourceTerm &term : terms)
    sum += term.weight;
  double before = 0;
  uint64_t begin = 0;
  // Each source is asked for examples one by one.
  DataOptions single = options;
  single.ranks = single.microbatches = 1;
  for (const SourceTerm &term : terms) {
    std::string place = term.place.empty() ? "" : term.place + ": ";
    // Rounded sums, not shares: these add up to a block.
    before += term.weight;
    uint64_t end = &term == &terms.back() ? kBlock : std::llround(before / sum * kBlock);
    if (end <= begin)
      return makeError("{0}the share of \"{1}\", {2} of {3}, is below one example in {4}", place,
                       term.text, term.weight, sum, kBlock);
    llvm::Expected<std::unique_ptr<DataSource>> source = openTerm(single, specs, term);
    if (!source)
      return makeError("{0}{1}", place, llvm::toString(source.takeError()));
    parts.push_back({std::move(*source), begin, end - begin, term.weight / sum});
    begin = end;
  }
  return llvm::Error::success();
}

/// Until the source that lasts longest has been read once.
uint64_t Mixture::countSteps() const {
  uint64_t examples = 0;
  for (const Part &part : parts)
    examples = std::max(examples, uint64_t(double(part.source->countSteps() * rows()) * kBlock /
                                           double(part.count)));
  return examples / examplesPerStep();
}

llvm::Expected<std::vector<HostTensor>> Mixture::read(BatchPosition position) const {
  std::vector<HostTensor> result;
  for (const InputSpec &spec : specs)
    result.push_back(
        {spec.dtype, spec.shape, std::vector<uint8_t>(*countBytes(spec.dtype, spec.shape))});
  uint64_t first =
      ((uint64_t(position.step) * options.ranks + position.rank) * options.microbatches +
       position.microbatch) *
      rows();
  for (int64_t row = 0; row < rows(); ++row)
    if (llvm::Error error = readExample(first + row, row, result))
      return error;
  return result;
}

llvm::Error Mixture::readExample(uint64_t example, int64_t row,
                                 llvm::MutableArrayRef<HostTensor> to) const {
  uint64_t block = example / kBlock;
  // Without --shuffle too: otherwise each source would be read in one piece.
  uint64_t place = permute(example % kBlock, kBlock, options.seed, block);
  const Part &part = *std::prev(llvm::upper_bound(
      parts, place, [](uint64_t value, const Part &candidate) { return value < candidate.begin; }));
  return part.source->readExample(block * part.count + (place - part.begin), row, to);
}

std::string Mixture::describe() const {
  std::string text = "a mixture of ";
  for (auto [i, part] : llvm::enumerate(parts))
    text += llvm::formatv("{0}{1:P1} {2}", i == 0 ? "" : "; ", part.share, part.source->describe());
  return text;
}

uint64_t Mixture::fingerprint() const {
  uint64_t hash = llvm::xxh3_64bits(
      llvm::formatv("mix {0} {1} {2}", parts.size(), options.shuffle, options.seed).str());
  for (const Part &part : parts)
    hash = (hash * 31 + part.count) * 31 + part.source->fingerprint();
  return hash;
}

llvm::Expected<std::unique_ptr<DataSource>>
cleave::runtime::openMixture(const DataOptions &options, llvm::ArrayRef<InputSpec> inputs,
                             llvm::ArrayRef<SourceTerm> terms) {
  auto source = std::make_unique<Mixture>(options, inputs);
  if (llvm::Error error = source->addSources(terms))
    return error;
  return source;
}
