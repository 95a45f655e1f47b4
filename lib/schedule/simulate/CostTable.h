// What each action costs: time on the compute stream, time of transfers, activation memory.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_COSTTABLE_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_COSTTABLE_H

#include "lib/schedule/model/Schedule.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::simulate {

/// One stage and one microbatch. Times in any one unit (milliseconds where a trace is written),
/// memory in any one unit.
struct StageCost {
  double forward = 1;
  /// Gradient of the input only.
  double input = 1;
  /// Gradient of the weights, from what the input gradient kept.
  double weight = 1;
  /// Full backward; negative: input + weight.
  double backward = -1;
  /// Whether `input` and `weight` are known. Otherwise a schedule can only run the full backward.
  bool hasHalves = true;
  /// From the moment both ends are ready until the receiver may use the data: this stage's output
  /// to the next stage's rank, this stage's input gradient to the previous stage's rank.
  double sendForward = 0;
  double sendBackward = 0;
  /// Once per action, whatever the microbatch.
  double unshard = 0;
  double reduce = 0;
  double optimizer = 0;
  /// What a forward adds, and what the input and the weight gradient release. Of a program's stages
  /// an input gradient may add: then `inputMemory` is negative.
  double forwardMemory = 0;
  double inputMemory = 0;
  double weightMemory = 0;

  double fullBackward() const { return backward < 0 ? input + weight : backward; }
  /// All three passes, with the backward split or (where `backward` is set) not.
  double work() const { return forward + input + weight; }
};

/// Costs of a whole pipeline.
class CostTable {
public:
  /// One entry (every stage alike) or one a stage.
  std::vector<StageCost> stages = {StageCost()};
  /// Times of Custom and Collective actions by name; 0 if there is none.
  llvm::StringMap<double> named;
  /// How much of a group's smaller compute actions hides behind its largest one, 0 to 1.
  double overlap = 0;

  static CostTable uniform(double forward, double input, double weight, double comm);

  const StageCost &of(unsigned stage) const { return stages[stages.size() == 1 ? 0 : stage]; }
  bool isUniform() const { return stages.size() == 1; }
  bool hasMemory() const;

  /// Sets the activation memory of every stage. Refused unless forward >= 0 and the gradients
  /// release together what the forward adds, to 1 part in 1000.
  llvm::Error setMemory(double forward, double input, double weight);
  /// Every compute time and memory times `factor` (transfers stay): stages `factor` times as deep.
  CostTable scaled(double factor) const;
  /// The table of `numStages` stages, each of which runs as many stages of this one, in their
  /// order, as one. Refused unless `numStages` divides the number of entries.
  llvm::Expected<CostTable> merged(unsigned numStages) const;
  /// Fails if the number of entries is neither 1 nor the program's number of stages.
  llvm::Error checkFor(unsigned numStages) const;
  /// Fails if `program` runs a half of a stage's backward and only the whole one is known.
  llvm::Error checkHalves(const schedule::Schedule &program) const;
  /// Fails on times or memory that are negative or not finite, naming stage and field.
  llvm::Error check() const;
};

/// "F,B,W,COMM" with COMM optional (0), as in "14.4,14.3,9.7,1.6".
llvm::Expected<CostTable> parseCosts(llvm::StringRef text);
/// "F,B,W" of --activation-memory: what F adds, what B and W release; the signs of B and W do not
/// matter. Changes `table`.
llvm::Error parseActivationMemory(llvm::StringRef text, CostTable &table);

/// Reads a JSON table: {"stages": [{"forward": 1.5, "input": ..., ...}], "named": {...},
/// "overlap": 0.2, "measured": {...}}, with the fields of StageCost in snake case; "measured" says
/// how the numbers came about, for the reader.
llvm::Expected<CostTable> readCostFile(llvm::StringRef path);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_COSTTABLE_H
