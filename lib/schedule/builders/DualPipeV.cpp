// DualPipeV: the V-shaped half of DualPipe (DeepSeek-AI, arXiv 2412.19437), as published at
// github.com/deepseek-ai/DualPipe. Two chunks a rank on a V; in steady state the forward of one
// chunk runs overlapped with the backward of the other.
#include "lib/schedule/builders/VScheduleBuilder.h"
#include "lib/support/Error.h"

#include <deque>

using namespace cleave::schedule;
using cleave::makeError;

namespace {
class DualPipeVRank {
public:
  DualPipeVRank(Schedule &program, unsigned rank)
      : program(program), list(program.ranks[rank]), stages(program.topology.stagesOf(rank)) {
    list.reserve(4 * size_t(program.numMicrobatches));
  }

  Action forward(unsigned chunk) {
    return Action(ActionKind::Forward, stages[chunk], forwards[chunk]++);
  }
  Action backward(unsigned chunk) {
    return Action(ActionKind::Backward, stages[chunk], backwards[chunk]++);
  }
  void addForward(unsigned chunk) { list.push_back(forward(chunk)); }
  /// A whole backward, or its input half, whose weight half is queued.
  void addBackward(unsigned chunk, bool split) {
    Action action = backward(chunk);
    if (split) {
      action.kind = ActionKind::BackwardInput;
      weights.emplace_back(ActionKind::BackwardWeight, action.stage, action.index);
    }
    list.push_back(action);
  }
  void addWeight() {
    if (weights.empty())
      return;
    list.push_back(weights.front());
    weights.pop_front();
  }
  void addOverlapped(unsigned forwardChunk, unsigned backwardChunk) {
    Action members[] = {forward(forwardChunk), backward(backwardChunk)};
    list.push_back(program.addGroup(members));
  }

private:
  Schedule &program;
  std::vector<Action> &list;
  llvm::ArrayRef<unsigned> stages;
  unsigned forwards[2] = {}, backwards[2] = {};
  std::deque<Action> weights;
};

class DualPipeV : public VScheduleBuilder {
public:
  DualPipeV()
      : VScheduleBuilder("dualpipev", "forward of one chunk overlapped with backward of the other, "
                                      "on a V (arXiv 2412.19437)") {}

private:
  llvm::Error check(const Schedule &program) const override {
    if (program.numMicrobatches >= program.numStages())
      return llvm::Error::success();
    return makeError("schedule '{0}' needs at least as many microbatches as stages ({1}), "
                     "found {2}",
                     name(), program.numStages(), program.numMicrobatches);
  }

  void fill(Schedule &program) const override {
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      fill(program, rank);
  }

  static void fill(Schedule &program, unsigned rank) {
    unsigned ranks = program.numRanks(), behind = ranks - 1 - rank;
    DualPipeVRank out(program, rank);
    for (unsigned i = 0; i < 2 * behind; ++i)
      out.addForward(0);
    for (unsigned i = 0; i < rank + 1; ++i) {
      out.addForward(0);
      out.addForward(1);
    }
    for (unsigned i = 0; i < behind; ++i) {
      out.addBackward(1, /*split=*/true);
      out.addWeight();
      out.addForward(1);
    }
    unsigned main = program.numMicrobatches - 2 * ranks + rank + 1;
    for (unsigned i = 0; i < main; ++i) {
      if (i == 0 && behind == 0) {
        // The last rank has nothing to wait for here: overlapping would only delay its backward.
        out.addForward(0);
        out.addBackward(1, /*split=*/false);
      } else {
        out.addOverlapped(0, 1);
      }
      out.addOverlapped(1, 0);
    }
    for (unsigned i = 0; i < behind; ++i) {
      out.addBackward(1, /*split=*/false);
      out.addOverlapped(1, 0);
    }
    // From the middle of this phase on, backwards are split so that weights fill the cool-down.
    bool split = false;
    for (unsigned i = 0; i < rank + 1; ++i) {
      bool middle = i == (rank + 1) / 2;
      split |= middle && rank % 2 == 1;
      out.addBackward(1, split);
      split |= middle && rank % 2 == 0;
      out.addBackward(0, split);
    }
    for (unsigned i = 0; i < behind; ++i) {
      out.addWeight();
      out.addBackward(0, split);
    }
    for (unsigned i = 0; i < rank + 1; ++i)
      out.addWeight();
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createDualPipeV() {
  return std::make_unique<DualPipeV>();
}
