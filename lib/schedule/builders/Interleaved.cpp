// Interleaved schedules on a loop of several chunks per rank.
//
// Interleaved 1F1B: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters" (arXiv 2104.04473). Interleaved zero bubble: Qi et al., "Zero Bubble Pipeline
// Parallelism" (arXiv 2401.10241), ZB1P, which splits the backward and delays weight gradients.
// Microbatches run through the chunks in rounds of about as many as there are ranks; the paper
// needs a multiple of the ranks, here only the rounds need to be equal.
#include "lib/schedule/builders/Builders.h"
#include "lib/support/Error.h"

using namespace cleave::schedule;
using cleave::makeError;

namespace {
/// The k-th forward (or backward) of a rank, as rounds give it.
struct Rounds {
  unsigned chunks;
  unsigned perRound;

  /// The microbatch of step `k` and the chunk, counted in the direction of travel.
  std::pair<unsigned, unsigned> at(unsigned k) const {
    unsigned inRound = k % (chunks * perRound);
    unsigned round = k / (chunks * perRound);
    return {inRound / perRound, round * perRound + inRound % perRound};
  }
};

class Interleaved : public ScheduleBuilder {
public:
  explicit Interleaved(bool zeroBubble) : zeroBubble(zeroBubble) {}
  llvm::StringRef name() const override {
    return zeroBubble ? "interleaved-zero-bubble" : "interleaved-1f1b";
  }
  llvm::StringRef description() const override {
    return zeroBubble ? "interleaved 1F1B with delayed weight gradients (ZB1P, arXiv 2401.10241)"
                      : "1F1B over several chunks per rank (arXiv 2104.04473)";
  }
  unsigned defaultChunks() const override { return 2; }

  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(*this, request, {.topology = TopologyStyle::Loop});
    if (!program)
      return program.takeError();
    unsigned numRounds = std::max(1u, request.microbatches / request.ranks);
    if (request.microbatches % numRounds)
      return makeError(
          "schedule '{0}' needs a multiple of {1} microbatches ({1} = {2} microbatches "
          "/ {3} ranks, rounded down, is its number of rounds), found {2}",
          name(), numRounds, request.microbatches, request.ranks);
    Rounds rounds{program->numStages() / request.ranks, request.microbatches / numRounds};
    for (unsigned rank = 0; rank < request.ranks; ++rank)
      fill(*program, rank, rounds);
    return program;
  }

private:
  void fill(Schedule &program, unsigned rank, Rounds rounds) const {
    unsigned ranks = program.numRanks();
    unsigned total = rounds.chunks * program.numMicrobatches;
    unsigned warmup =
        (rounds.chunks - 1) * rounds.perRound + (zeroBubble ? 1 : 2) * (ranks - 1 - rank);
    warmup = std::min(warmup, total);
    std::vector<Action> &list = program.ranks[rank];
    list.reserve(size_t(total) * (zeroBubble ? 3 : 2));
    auto forward = [&](unsigned k) {
      auto [chunk, microbatch] = rounds.at(k);
      list.emplace_back(ActionKind::Forward, chunk * ranks + rank, microbatch);
    };
    auto backward = [&](ActionKind kind, unsigned k) {
      auto [chunk, microbatch] = rounds.at(k);
      list.emplace_back(kind, (rounds.chunks - 1 - chunk) * ranks + rank, microbatch);
    };
    for (unsigned k = 0; k < warmup; ++k)
      forward(k);
    unsigned weights = 0;
    for (unsigned k = 0; k < total; ++k) {
      if (warmup + k < total)
        forward(warmup + k);
      backward(zeroBubble ? ActionKind::BackwardInput : ActionKind::Backward, k);
      if (zeroBubble && k >= rank)
        backward(ActionKind::BackwardWeight, weights++);
    }
    while (zeroBubble && weights < total)
      backward(ActionKind::BackwardWeight, weights++);
  }

  bool zeroBubble;
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createInterleaved1F1B() {
  return std::make_unique<Interleaved>(false);
}
std::unique_ptr<ScheduleBuilder> cleave::schedule::createInterleavedZeroBubble() {
  return std::make_unique<Interleaved>(true);
}
