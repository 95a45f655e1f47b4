//===- Data.h - the examples a training run reads ----------------*- C++ -*-===//
//
// A data source gives each microbatch of each step its inputs and targets. What it gives depends
// on the source, the seed and the position alone, never on what was read before: a run resumed at
// step s reads what the uninterrupted run would have read. docs/run.md describes the formats.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_DATA_H
#define CLEAVE_RUNTIME_IO_DATA_H

#include "runtime/io/DType.h"
#include "runtime/io/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// One input or target of the program.
struct InputSpec {
  std::string name;
  DType dtype = DType::F32;
  /// The shape in one microbatch.
  std::vector<int64_t> shape;
  /// The dimension that counts examples; nullopt: every microbatch gets the same tensor.
  std::optional<unsigned> batchDim;
  bool isTarget = false;
  /// Values must be in [0, vocabulary); 0 where any value will do.
  int64_t vocabulary = 0;
  /// Besides, values may be this: a target's that the loss leaves out.
  std::optional<int64_t> ignored;
};

/// A dense row-major tensor in host memory.
struct HostTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

struct DataOptions {
  /// `KIND:PATH[,PATH...]` with KIND one of text, u16, u32, safetensors, where a path may be a
  /// directory or a pattern; or a mixture of such sources, `mix:WEIGHT=SOURCE;WEIGHT=SOURCE...`, or
  /// `mix:@FILE` with a line `WEIGHT SOURCE` for each. docs/run.md has the details.
  std::string source;
  uint64_t seed = 0;
  int64_t microbatches = 1;
  /// Data-parallel ranks.
  int64_t ranks = 1;
  /// Read windows of tokens in an order drawn from the seed, another one each epoch. Batches from
  /// safetensors files are always read in the order of the file.
  bool shuffle = true;
  /// Which token ends a document, and what inputs are made of documents (DataDocuments.h); empty
  /// where windows are not divided.
  std::string documents;
};

/// Where in a run a microbatch stands. A step's batch is divided as docs/ir.md says: rank r has the
/// examples [r*M*b, (r+1)*M*b), its microbatch m the m-th b of them.
struct BatchPosition {
  /// Steps completed before this one.
  int64_t step = 0;
  int64_t rank = 0;
  int64_t microbatch = 0;
};

class DataSource {
public:
  /// Opens the source and checks that it can fill `inputs`; every later step will find its data.
  static llvm::Expected<std::unique_ptr<DataSource>> open(const DataOptions &options,
                                                          llvm::ArrayRef<InputSpec> inputs);
  virtual ~DataSource() = default;

  /// Whole steps in one pass over the data.
  virtual uint64_t countSteps() const = 0;
  /// The microbatch's tensors, in the order of the specifications `open` was given. Const and
  /// without shared state: several threads may read.
  virtual llvm::Expected<std::vector<HostTensor>> read(BatchPosition position) const = 0;
  /// Copies example `example`, counted from 0 over all passes in the source's order, to row `row`
  /// of tensors like those that `read` gives.
  virtual llvm::Error readExample(uint64_t example, int64_t row,
                                  llvm::MutableArrayRef<HostTensor> to) const = 0;
  /// Size and kind, for the first line a run prints: `1,234,567 byte tokens from 3 files`.
  virtual std::string describe() const = 0;
  /// A hash of the data and of what decides its order; a resumed run compares it.
  virtual uint64_t fingerprint() const = 0;
};

/// The paths of a source, of patterns those that match; none if it has another form.
std::vector<std::string> listDataPaths(llvm::StringRef source);

/// The number of microbatches of one rank's share of `batch` examples; an error if the batch does
/// not divide into `ranks` times microbatches of `microbatchSize` examples.
llvm::Expected<int64_t> countMicrobatches(int64_t batch, int64_t ranks, int64_t microbatchSize);

/// The image of `index` under a permutation of [0, size) that `seed` and `epoch` choose: a Feistel
/// network over the smallest power of four that holds `size`, walked until the image is below it.
uint64_t permute(uint64_t index, uint64_t size, uint64_t seed, uint64_t epoch);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_DATA_H
