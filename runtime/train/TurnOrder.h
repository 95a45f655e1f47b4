//===- TurnOrder.h - which of a run's programs a step is of ------*- C++ -*-===//
//
// A run may have several programs for one model, such as one for each length of sequences: each
// step is one's. Which one depends on the step's number, the seed and the sizes of the data alone,
// so a resumed run goes on as it would have.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRAIN_TURNORDER_H
#define CLEAVE_RUNTIME_TRAIN_TURNORDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// A program besides the run's first: `FILE [from=STEP | share=X] [data=SOURCE] [microbatches=M |
/// batch=B]`.
struct OtherProgram {
  std::string path;
  /// It takes all steps from this one on, until another program does.
  std::optional<int64_t> from;
  /// It takes this part of the steps.
  std::optional<double> share;
  /// What it reads, and how much in a step, if not what the first one does.
  std::string data;
  std::optional<int64_t> microbatches, batch;
};
llvm::Expected<OtherProgram> parseOtherProgram(llvm::StringRef text);

class TurnOrder {
public:
  /// One program, which takes all steps.
  TurnOrder() = default;
  /// The first program and the others. Where these say neither `from` nor `share`, each takes as
  /// many steps of an epoch as there are in its data, `dataSteps` by program.
  static llvm::Expected<TurnOrder> create(llvm::ArrayRef<OtherProgram> others,
                                          llvm::ArrayRef<uint64_t> dataSteps, bool shuffle,
                                          uint64_t seed);

  /// Which program a step is of, from 1; 0 is the first program.
  size_t programOf(int64_t step) const;
  /// How many of the steps before this one are of each program.
  std::vector<int64_t> turnsBefore(int64_t step) const;
  /// What programs do, for the fingerprint of a run and its first line: "shares 900, 100 of 1000".
  std::string describe() const;

private:
  /// The first step of each program, where they follow one another.
  std::vector<int64_t> begins = {1};
  /// Where they take turns instead: the steps of each in a block of so many.
  std::vector<uint64_t> counts;
  uint64_t block = 0, seed = 0;
  bool shuffle = true;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TURNORDER_H
