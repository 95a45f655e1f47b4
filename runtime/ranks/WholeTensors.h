//===- WholeTensors.h - between files' tensors and ranks' parts ----*- C++ -*-===//
//
// Files hold whole (global) tensors. A value of a typed function is this rank's part of one, as its
// placements say: R and I are the whole, S(d) a range of dimension d, P(sum) the whole on one rank
// and zeros on the others. Untyped values are whole.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_RANKS_WHOLETENSORS_H
#define CLEAVE_RUNTIME_RANKS_WHOLETENSORS_H

#include "cleave/Program.h"
#include "runtime/io/TensorSet.h"
#include "runtime/ranks/RankGrid.h"

namespace cleave::runtime {

/// A whole tensor of its own.
struct WholeTensor {
  std::string name;
  TensorType type;
  std::vector<char> bytes;

  ConstTensorRef ref() const { return {type, bytes.data()}; }
};

/// The axes that shard a dimension of the value, major first.
std::vector<std::string> shardingAxes(const ValueInfo &value, int64_t dim);

/// Type of the whole tensor.
TensorType wholeType(const ValueInfo &value, const RankGrid &grid);
/// The values with the types of the whole tensors, and without placements.
std::vector<ValueInfo> wholeValues(llvm::ArrayRef<ValueInfo> values, const RankGrid &grid);
/// Whether this rank's part of a tensor of that type has the value's type.
bool isWholeOf(const ValueInfo &value, const TensorType &whole, const RankGrid &grid);
/// "F32 [4, 8]"; of a sharded value "F32 [4, 8], 2 x 1 parts of F32 [2, 8]".
std::string describeWhole(const ValueInfo &value, const RankGrid &grid);

/// An error for placements that cannot be read from a whole tensor: V, and other pending reductions
/// than sums.
llvm::Error checkReadable(const ValueInfo &value);
/// This rank's part of a tensor of that shape, for which `isWholeOf` holds.
Box boxOf(const ValueInfo &value, llvm::ArrayRef<int64_t> whole, const RankGrid &grid);
/// That of any rank.
Box boxOf(const ValueInfo &value, llvm::ArrayRef<int64_t> whole, const RankGrid &grid, int rank);
/// Whether this rank's part is zeros: another rank's is the tensor, in a pending sum.
bool isZeroHere(const ValueInfo &value, const RankGrid &grid);
/// Copies this rank's part of `whole`, for which `isWholeOf` holds, to `part`.
void readPart(const ValueInfo &value, const ConstTensorRef &whole, const RankGrid &grid,
              const TensorRef &part);

/// The whole tensor of which every rank holds `part`: pending reductions are done, shards joined.
/// All ranks call it together. Fails for a value that varies with no known reassembly.
llvm::Expected<WholeTensor> assemble(const ValueInfo &value, const ConstTensorRef &part,
                                     RankGrid &grid);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANKS_WHOLETENSORS_H
