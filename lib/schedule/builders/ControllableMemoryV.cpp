// V-Half and V-Min: Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv 2405.15362).
//
// A building block says when the four passes of one microbatch start on each rank, in units of one
// pass; repeated every six units it fills a rank's steady state, as each microbatch costs a rank
// two forwards, two input gradients and two weight gradients. How far a block reaches decides the
// memory: a half of 1F1B's, or a third of it. Weight gradients run in the units left idle.
#include "lib/schedule/builders/Builders.h"

#include <deque>

using namespace cleave::schedule;

namespace {
constexpr unsigned interval = 6;

/// The starts, in units, of one microbatch's passes on one rank: forward and input gradient of
/// the first and the second chunk, in the order in which the data meets them.
struct Block {
  unsigned forward0, forward1, input1, input0;
};

/// The paper's building blocks. Two passes of a rank must not start at the same time modulo six;
/// where the plain offsets would, the turn to the backward waits a little longer.
Block halfMemory(unsigned ranks, unsigned rank) {
  unsigned wait = ranks % 2 ? 0 : 3;
  return {2 * rank, 3 * ranks - rank - 2, 3 * ranks + wait + 2 * rank - 1,
          6 * ranks + wait - rank - 2};
}
Block minimalMemory(unsigned ranks, unsigned rank) {
  unsigned wait = ranks % 3 ? 0 : 2;
  return {rank, 2 * ranks - rank - 1, 2 * ranks + wait + rank, 4 * ranks + wait - rank - 1};
}

class ControllableMemoryV : public ScheduleBuilder {
public:
  explicit ControllableMemoryV(bool half) : half(half) {}
  llvm::StringRef name() const override { return half ? "v-half" : "v-min"; }
  llvm::StringRef description() const override {
    return half ? "V of two chunks at half the memory of 1F1B (arXiv 2405.15362)"
                : "V of two chunks at a third of the memory of 1F1B (arXiv 2405.15362)";
  }
  unsigned defaultChunks() const override { return 2; }
  TopologyStyle defaultTopology() const override { return TopologyStyle::V; }

  llvm::Expected<Program> build(const BuildRequest &request) const override {
    auto program = startProgram(*this, request, {.chunks = 2, .topology = TopologyStyle::V});
    if (!program)
      return program.takeError();
    for (unsigned rank = 0; rank < request.ranks; ++rank)
      fill(*program, rank,
           half ? halfMemory(request.ranks, rank) : minimalMemory(request.ranks, rank));
    return program;
  }

private:
  static void fill(Program &program, unsigned rank, Block block) {
    llvm::ArrayRef<unsigned> stages = program.topology.stagesOf(rank);
    unsigned microbatches = program.numMicrobatches;
    std::vector<Action> &list = program.ranks[rank];
    list.reserve(6 * size_t(microbatches));
    struct Pass {
      unsigned next; // the unit at which its next microbatch starts
      ActionKind kind;
      unsigned stage;
      unsigned microbatch = 0;
    } passes[] = {{block.forward0, ActionKind::Forward, stages[0]},
                  {block.forward1, ActionKind::Forward, stages[1]},
                  {block.input1, ActionKind::BackwardInput, stages[1]},
                  {block.input0, ActionKind::BackwardInput, stages[0]}};
    std::deque<Action> weights;
    unsigned end = block.input0 + (microbatches - 1) * interval + 1;
    for (unsigned unit = 0; unit < end; ++unit) {
      bool idle = true;
      for (Pass &pass : passes) {
        if (pass.next != unit || pass.microbatch == microbatches)
          continue;
        idle = false;
        list.emplace_back(pass.kind, pass.stage, pass.microbatch);
        if (pass.kind == ActionKind::BackwardInput)
          weights.emplace_back(ActionKind::BackwardWeight, pass.stage, pass.microbatch);
        pass.next += interval;
        ++pass.microbatch;
      }
      if (idle && !weights.empty()) {
        list.push_back(weights.front());
        weights.pop_front();
      }
    }
    list.insert(list.end(), weights.begin(), weights.end());
  }

  bool half;
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createVHalf() {
  return std::make_unique<ControllableMemoryV>(true);
}
std::unique_ptr<ScheduleBuilder> cleave::schedule::createVMin() {
  return std::make_unique<ControllableMemoryV>(false);
}
