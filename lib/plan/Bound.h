//===- Bound.h - what no plan's step can be shorter than ------------*- C++ -*-===//
//
// Lower bounds of the simulated time of a step, from what little is known at each point of a
// search. docs/planner.md has the proofs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLAN_BOUND_H
#define CLEAVE_LIB_PLAN_BOUND_H

#include "lib/cost/OpWork.h"
#include "lib/schedule/simulate/CostTable.h"

namespace cleave::plan {

/// Seconds of an op's kernels on one of `parts` ranks that divide it, at the least: as many
/// operations as its part has, at the rate that the largest product reaches, and its bytes.
double leastSeconds(const cost::Device &device, const cost::OpWork &op, double parts);

/// The shortest time of `microbatches` microbatches, each of which takes `seconds` on all stages of
/// a pipeline of `ranks` ranks together. `isPlain`: one stage a rank, and backwards in one piece.
double boundPipeline(double seconds, double ranks, double microbatches, bool isPlain);

/// The shortest time of any order of passes in which each stage is on the rank that the topology
/// says, in the unit of `costs`. Updates follow all else on their rank.
double boundSchedule(const simulate::CostTable &costs, const schedule::Topology &topology,
                     double microbatches, bool splitsBackward, bool hasUpdates);

/// The shortest time of any order of passes in which ranks have `room` bytes together for what each
/// stage keeps of a microbatch: from the end of its forward to the end of its input gradient, after
/// those of all later stages.
double boundResidence(const simulate::CostTable &costs, llvm::ArrayRef<double> savedBytes,
                      double microbatches, double room);

/// The least of both for the ways in which schedules lay stages on ranks, without updates.
double boundStages(const simulate::CostTable &costs, unsigned ranks,
                   llvm::ArrayRef<double> savedBytes, double microbatches, bool splitsBackward,
                   double room);

/// The time of a schedule's passes in their order on each rank, in the unit of `costs`, where each
/// transfer starts as soon as its data is there. The first stage's parameters are gathered before
/// all, a stage's gradients are reduced after its last pass, and updates come last. Fails where
/// they wait for each other for ever. `starts`: gets, by rank, when the first pass begins that is
/// not a forward's.
llvm::Expected<double> boundOrder(const simulate::CostTable &costs, const schedule::Schedule &order,
                                  std::vector<double> *starts = nullptr);

/// What follows the passes of a rank at the least: updates, and the reduction of the gradients of
/// the stage whose pass is the last.
double timeAfterPasses(const simulate::CostTable &costs, const schedule::Schedule &order,
                       unsigned rank);

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_BOUND_H
