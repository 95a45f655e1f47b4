//===- Space.h - the plans among which a search chooses -------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_SPACE_H
#define CLEAVE_LIB_PLAN_SPACE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::plan {

/// How parameters lie on the ranks that divide the batch.
enum class Sharding {
  Replicated,
  Zero1,    ///< whole; optimizer states are sharded
  Fsdp,     ///< sharded; gathered, and gradients scattered, in each microbatch
  FsdpOnce, ///< sharded; gathered and scattered once per step
};

/// What a backward recomputes.
enum class Recompute {
  None,  ///< nothing: all that it uses is saved
  Cheap, ///< pointwise ops, where fewer bytes are saved then
  Full,  ///< whatever makes the saved bytes of a stage fewest
  Budget ///< on each rank as little as keeps its step within a plan's `budget`
};
/// The same on all ranks.
constexpr Recompute allRecomputes[] = {Recompute::None, Recompute::Cheap, Recompute::Full};

/// How an export lies on the ranks: what the placement passes decide.
struct Layout {
  unsigned program = 0; ///< of the exports
  int64_t data = 1, tensor = 1, pipeline = 1, context = 1;
  /// Ranks that share the experts; they divide the batch as well, after `data`.
  int64_t experts = 1;
  /// Ranks that divide the batch are neighbours; otherwise those that divide products are.
  bool dataInside = false;
  /// Normalizations work on shards of the sequence.
  bool sequence = false;
  Sharding sharding = Sharding::Replicated;
  /// Of the ranks along `data`, groups that each have all of the parameters that are sharded
  /// (HSDP): those of a group are neighbours.
  int64_t replicas = 1;

  /// Ranks that divide a stage.
  int64_t numParts() const { return data * experts * tensor * context; }
  /// Ranks that have the same parameters, but for experts, which `data * context` of them have.
  int64_t numSharers() const { return data * experts * context; }
  /// Ranks along `data` among which parameters are sharded, if they are.
  int64_t numDataShards() const { return data / replicas; }
  /// Whether they are: gathered in each microbatch or once per step.
  bool shardsParameters() const {
    return sharding == Sharding::Fsdp || sharding == Sharding::FsdpOnce;
  }
  /// All among which they are, but for experts.
  int64_t numShards() const { return numSharers() / replicas; }
  bool operator==(const Layout &) const = default;
};

/// A layout in stages: what the passes after placement decide, up to the schedule.
struct Shape {
  Layout layout;
  int64_t chunks = 1; ///< stages of a pipeline rank
  Recompute recompute = Recompute::Cheap;
  bool splitsBackward = false;
  /// What comes before the layers, and what comes after them, counts as so many layers in the cut.
  int64_t ends = 0;

  int64_t numStages() const { return layout.pipeline * chunks; }
  bool operator==(const Shape &) const = default;
};

struct Plan {
  Shape shape;
  std::string schedule; ///< "1f1b" also of one pipeline rank, which has none
  /// Bytes that the passes plan a rank's step with, where backwards recompute by a budget.
  int64_t budget = 0;
  /// Whether these ranks may keep saved values in the host's memory.
  bool offloads = false;

  bool operator==(const Plan &) const = default;
};

/// Bytes of a program, on all ranks together.
struct ProgramBytes {
  double parameters = 0, gradients = 0, states = 0;

  double sum() const { return parameters + gradients + states; }
  ProgramBytes &operator+=(const ProgramBytes &other) {
    parameters += other.parameters;
    gradients += other.gradients;
    states += other.states;
    return *this;
  }
  bool operator==(const ProgramBytes &) const = default;
};

/// What the space depends on of an export.
struct ProgramFacts {
  std::string path;
  int64_t batch = 1;        ///< examples of a microbatch
  int64_t microbatches = 1; ///< in a step
  int64_t layers = 1;       ///< equal modules, one after the other; 1 if there are none
  int64_t tokens = 1;       ///< of a sequence; 1 if there is none to divide
  bool hasTensorRules = false, hasSequenceRules = false;
  int64_t experts = 1; ///< of each module that has some: what divides all of these numbers
  /// Rows of tokens are sorted by expert: ranks that divide the batch and share no experts gather
  /// them.
  bool sortsRows = false;
  /// By layer, what is divided among the ranks that share the experts; empty without them.
  std::vector<ProgramBytes> expertBytes;
};

/// The words that `--fix` takes, in the order of reports.
enum class Key {
  Data,
  Tensor,
  Pipeline,
  Context,
  Experts,
  Order,
  Sequence,
  Sharding,
  Replicas,
  Chunks,
  Ends,
  Recompute,
  Offload,
  Schedule,
  Microbatches
};
constexpr unsigned numKeys = 15;
llvm::StringRef getName(Key key);
/// The values of a word; none: any number from 1 on.
std::vector<llvm::StringRef> listValues(Key key);

/// The value that a plan has for a word: "2", "fsdp", "1f1b".
std::string getValue(const Plan &plan, Key key, llvm::ArrayRef<ProgramFacts> programs);

/// What was fixed: a value by key, or nothing.
struct Fixed {
  std::optional<std::string> values[numKeys];

  const std::optional<std::string> &get(Key key) const { return values[unsigned(key)]; }
};

struct Space {
  int64_t ranks = 1;
  std::vector<ProgramFacts> programs;
  Fixed fixed;
  /// Ranks of a unit of each of the cluster's levels that has some, from the inside.
  std::vector<int64_t> units;

  /// Those of the innermost level, in which the order of axes does not matter; 0: all.
  int64_t getUnit() const { return units.empty() ? 0 : units.front(); }

  /// All layouts that divide ranks, batch and layers evenly and have what is fixed.
  std::vector<Layout> listLayouts() const;
  /// The shapes of a layout that have a schedule, likewise.
  std::vector<Shape> listShapes(const Layout &layout) const;
  std::vector<std::string> listSchedules(const Shape &shape) const;
  bool isEmpty() const;

  /// The first layers of the second and later stages: runs of equal length, or one longer from the
  /// front, where `ends` are layers of the first and the last run.
  std::vector<int64_t> listCuts(const Shape &shape) const;

private:
  void listLayouts(const Layout &axes, std::vector<Layout> &layouts) const;
  std::vector<int64_t> listReplicas(const Layout &layout) const;
  bool hasOwnCut(const Shape &shape) const;
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SPACE_H
