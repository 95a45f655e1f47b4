// ZBV: Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241, section 6). Two chunks a
// rank on a V, the backward split in two; no bubble where forward, input gradient and weight
// gradient take the same time, at the memory of 1F1B.
#include "lib/schedule/builders/VScheduleBuilder.h"

using namespace cleave::schedule;

namespace {
/// Appends one rank's actions, counting microbatches by stage and kind.
class ZBVRank {
public:
  ZBVRank(Schedule &program, unsigned rank)
      : list(program.ranks[rank]), microbatches(program.numMicrobatches),
        stages(program.topology.stagesOf(rank)) {
    list.reserve(6 * size_t(microbatches));
  }

  /// The schedule is made for at least 2 x ranks - 1 microbatches; those that the program does not
  /// have are left out.
  void add(ActionKind kind, unsigned chunk) {
    unsigned microbatch = counts[unsigned(kind)][chunk]++;
    if (microbatch < microbatches)
      list.emplace_back(kind, stages[chunk], microbatch);
  }
  void forward(unsigned chunk) { add(ActionKind::Forward, chunk); }
  void input(unsigned chunk) { add(ActionKind::BackwardInput, chunk); }
  void weight(unsigned chunk) { add(ActionKind::BackwardWeight, chunk); }
  void backward(unsigned chunk) {
    input(chunk);
    weight(chunk);
  }
  unsigned count(ActionKind kind, unsigned chunk) const { return counts[unsigned(kind)][chunk]; }

private:
  std::vector<Action> &list;
  unsigned microbatches;
  llvm::ArrayRef<unsigned> stages;
  unsigned counts[4][2] = {};
};

class ZeroBubbleV : public VScheduleBuilder {
public:
  ZeroBubbleV()
      : VScheduleBuilder("zbv", "zero bubble on a V of two chunks, at the memory of 1F1B "
                                "(arXiv 2401.10241)") {}

private:
  void fill(Schedule &program) const override {
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      fill(program, rank);
  }

  static void fill(Schedule &program, unsigned rank) {
    unsigned ranks = program.numRanks();
    unsigned total = std::max(2 * ranks - 1, program.numMicrobatches);
    ZBVRank out(program, rank);
    // Warm-up: the first chunk down the V, then both, then the second chunk with its backward.
    for (unsigned i = 0; i < 2 * (ranks - rank) - 1; ++i)
      out.forward(0);
    for (unsigned i = 0; i < rank; ++i) {
      out.forward(1);
      out.forward(0);
    }
    for (unsigned i = 0; i < ranks - rank; ++i) {
      out.forward(1);
      out.backward(1);
    }
    // Stable: forward and backward of each chunk in turn.
    auto forwards = [&](unsigned chunk) { return out.count(ActionKind::Forward, chunk); };
    while (forwards(1) < forwards(0) || forwards(0) < total) {
      if (forwards(0) < total)
        out.forward(0);
      out.backward(0);
      out.forward(1);
      out.backward(1);
    }
    // Cool-down: input gradients first, weight gradients fill the gaps.
    for (unsigned i = 0; i < rank; ++i) {
      out.input(0);
      out.input(1);
    }
    for (unsigned i = 0; i < ranks - rank; ++i)
      out.backward(0);
    for (unsigned chunk : {1u, 0u})
      while (out.count(ActionKind::BackwardWeight, chunk) <
             out.count(ActionKind::BackwardInput, chunk))
        out.weight(chunk);
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createZBV() {
  return std::make_unique<ZeroBubbleV>();
}
