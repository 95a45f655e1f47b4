// V-Half and V-Min: Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv 2405.15362).
//
// A building block says when the four passes of one microbatch start on each rank, in units of one
// pass; repeated every six units it fills a rank's steady state, as each microbatch costs a rank
// two forwards, two input gradients and two weight gradients. How far a block reaches decides the
// memory: a half of 1F1B's, or a third of it. Weight gradients run in the units left idle.
//
// Before and after the steady state the repeated block leaves holes. As in the paper, passes are
// reordered to fill them, within the block's memory; here every pass may move, and not only those
// of the two ends, which is shorter where there are few microbatches, and never longer.
#include "lib/schedule/builders/VScheduleBuilder.h"

#include <array>

using namespace cleave::schedule;

namespace {
constexpr unsigned interval = 6;

/// The passes of a microbatch on a rank, in the order in which the data meets them; then the
/// weight gradients of both chunks, which are told apart only when the list is written.
enum Pass : int8_t { Forward0, Forward1, Input1, Input0, numPasses, Weight = numPasses, Idle = -1 };

/// When a microbatch's passes start on one rank, in units.
using Block = std::array<unsigned, numPasses>;

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

/// What a rank does in each unit up to the last pass placed so far, and the memory that it holds.
/// Units without a pass run a weight gradient where one is due.
class RankTimetable {
public:
  unsigned start(int pass, unsigned microbatch) const { return starts[pass][microbatch]; }

  /// Places the next microbatch's pass in the first idle unit from `earliest` on with which the
  /// rank never holds more than `limit`, at the latest in `planned`. All passes that are planned
  /// before it must have been placed, so that nothing stands between the last of them and it.
  void place(int pass, unsigned earliest, unsigned planned, unsigned limit) {
    unsigned end = unsigned(passAt.size());
    // A forward adds to all that is held until then.
    if (pass <= Forward1)
      for (unsigned unit = end; unit > earliest; --unit)
        if (before[unit].memory >= limit) {
          earliest = unit;
          break;
        }
    unsigned at = earliest;
    while (at < end) {
      std::optional<unsigned> over = passAt[at] == Idle ? firstAbove(limit, pass, at) : at;
      if (!over)
        break;
      // A unit before that place would be no better: what runs there is moved up as well.
      at = *over + 1;
    }
    if (at >= end) {
      // After the last pass weight gradients run until there is room.
      auto full = [&] { return pass <= Forward1 && before.back().memory >= limit; };
      while (passAt.size() < at || (passAt.size() < planned && full()))
        append(Idle);
      at = unsigned(passAt.size());
      append(Idle);
    }
    passAt[at] = Pass(pass);
    starts[pass].push_back(at);
    for (unsigned unit = at; unit < passAt.size(); ++unit)
      before[unit + 1] = after(before[unit], passAt[unit]);
  }

  /// The passes in order, weight gradients in idle units and, what is left, at the end.
  std::vector<Pass> sequence() const {
    std::vector<Pass> result;
    for (unsigned unit = 0; unit < passAt.size(); ++unit)
      if (passAt[unit] != Idle)
        result.push_back(passAt[unit]);
      else if (before[unit].due)
        result.push_back(Weight);
    result.insert(result.end(), before.back().due, Weight);
    return result;
  }

private:
  struct State {
    unsigned memory = 0; // chunks whose activations are held
    unsigned due = 0;    // weight gradients that could run
  };
  static State after(State state, Pass pass) {
    if (pass == Idle) {
      state.memory -= state.due > 0;
      state.due -= state.due > 0;
    } else if (pass <= Forward1) {
      ++state.memory;
    } else {
      ++state.due;
    }
    return state;
  }

  void append(Pass pass) {
    passAt.push_back(pass);
    before.push_back(after(before.back(), pass));
  }

  /// The first unit after which the rank would hold more than the limit with a pass in an idle one.
  std::optional<unsigned> firstAbove(unsigned limit, int pass, unsigned at) const {
    State state = after(before[at], Pass(pass));
    for (unsigned unit = at;; state = after(state, passAt[unit])) {
      if (state.memory > limit)
        return unit;
      if (++unit == passAt.size())
        return std::nullopt;
    }
  }

  std::array<std::vector<unsigned>, numPasses> starts; // by microbatch
  std::vector<Pass> passAt;
  std::vector<State> before = {State()}; // each unit, and the end
};

class ControllableMemoryV : public VScheduleBuilder {
public:
  explicit ControllableMemoryV(bool half)
      : VScheduleBuilder(half ? "v-half" : "v-min",
                         half ? "V of two chunks at half the memory of 1F1B (arXiv 2405.15362)"
                              : "V of two chunks at a third of the memory of 1F1B (arXiv "
                                "2405.15362)"),
        half(half) {}

private:
  void fill(Schedule &program) const override {
    unsigned ranks = program.numRanks(), microbatches = program.numMicrobatches;
    // A longer run repeats the steady state of a shorter one.
    unsigned modelled = std::min(microbatches, 2 * ranks + 8);
    std::vector<std::vector<Pass>> sequences = reorder(ranks, modelled);
    if (modelled < microbatches && !llvm::all_of(sequences, isPeriodic)) {
      modelled = microbatches;
      sequences = reorder(ranks, modelled);
    }
    for (unsigned rank = 0; rank < ranks; ++rank)
      write(program, rank, sequences[rank], microbatches - modelled);
  }

  /// The memory in chunks that the paper gives, which is what the repeated blocks need.
  unsigned memory(unsigned ranks) const { return 2 * (half ? (ranks + 2) / 2 : (ranks + 4) / 3); }

  std::vector<std::vector<Pass>> reorder(unsigned ranks, unsigned microbatches) const {
    std::vector<Block> blocks;
    unsigned units = 0;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      blocks.push_back(half ? halfMemory(ranks, rank) : minimalMemory(ranks, rank));
      units = std::max(units, blocks.back()[Input0] + (microbatches - 1) * interval + 1);
    }
    std::vector<RankTimetable> tables(ranks);
    // In the order of the repeated blocks, in which everything comes after what it depends on.
    for (unsigned unit = 0; unit < units; ++unit)
      for (unsigned rank = 0; rank < ranks; ++rank)
        for (int pass = 0; pass < numPasses; ++pass) {
          if (unit < blocks[rank][pass] || (unit - blocks[rank][pass]) % interval)
            continue;
          unsigned microbatch = (unit - blocks[rank][pass]) / interval;
          if (microbatch < microbatches)
            tables[rank].place(pass, earliest(tables, rank, pass, microbatch), unit, memory(ranks));
        }
    std::vector<std::vector<Pass>> sequences;
    for (const RankTimetable &table : tables)
      sequences.push_back(table.sequence());
    return sequences;
  }

  /// The first unit at which what a pass needs is there.
  static unsigned earliest(llvm::ArrayRef<RankTimetable> tables, unsigned rank, int pass,
                           unsigned microbatch) {
    unsigned first = 0;
    auto after = [&](unsigned otherRank, int otherPass, unsigned otherMicrobatch) {
      first = std::max(first, tables[otherRank].start(otherPass, otherMicrobatch) + 1);
    };
    bool down = pass == Forward0 || pass == Input1;
    if (down && rank > 0)
      after(rank - 1, pass, microbatch);
    if (!down && rank + 1 < tables.size())
      after(rank + 1, pass, microbatch);
    if (pass > 0)
      after(rank, pass - 1, microbatch);
    if (microbatch > 0)
      after(rank, pass, microbatch - 1);
    return first;
  }

  /// Whether the passes in the middle repeat, so that more of them can be put there.
  static bool isPeriodic(llvm::ArrayRef<Pass> sequence) {
    llvm::ArrayRef<Pass> middle = sequence.slice(sequence.size() / 2 - 2 * interval, 4 * interval);
    return middle.drop_back(interval) == middle.drop_front(interval);
  }

  static void write(Schedule &program, unsigned rank, llvm::ArrayRef<Pass> sequence,
                    unsigned repeats) {
    llvm::ArrayRef<unsigned> stages = program.topology.stagesOf(rank);
    std::vector<Action> &list = program.ranks[rank];
    list.reserve(size_t(interval) * program.numMicrobatches);
    static constexpr ActionKind kinds[] = {ActionKind::Forward, ActionKind::Forward,
                                           ActionKind::BackwardInput, ActionKind::BackwardInput};
    static constexpr unsigned chunks[] = {0, 1, 1, 0};
    unsigned next[numPasses] = {};
    size_t weights = 0;         // written
    std::vector<size_t> inputs; // positions of input gradients in the list
    auto add = [&](Pass pass) {
      if (pass == Weight) {
        Action input = list[inputs[weights++]];
        list.emplace_back(ActionKind::BackwardWeight, input.stage, input.index);
        return;
      }
      if (pass >= Input1)
        inputs.push_back(list.size());
      list.emplace_back(kinds[pass], stages[chunks[pass]], next[pass]++);
    };
    size_t middle = sequence.size() / 2;
    for (Pass pass : sequence.take_front(middle))
      add(pass);
    for (unsigned i = 0; i < repeats; ++i)
      for (Pass pass : sequence.slice(middle, interval))
        add(pass);
    for (Pass pass : sequence.drop_front(middle))
      add(pass);
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
