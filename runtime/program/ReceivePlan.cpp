//===- ReceivePlan.cpp - where received values lie ----------------------------===//

#include "runtime/program/ReceivePlan.h"
#include "runtime/program/TakenValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace cleave::runtime;
namespace schedule = cleave::schedule;

int64_t cleave::runtime::alignInMessage(int64_t bytes) {
  constexpr uint64_t kAlignment = 64; // as LibTorch's allocators have it
  return int64_t(llvm::alignTo(uint64_t(bytes), kAlignment));
}

int64_t ReceivePlan::bytes() const {
  return std::accumulate(slotBytes.begin(), slotBytes.end(), int64_t(0));
}

ReceivePlan cleave::runtime::planReceives(const Program &program, int64_t place) {
  const Program::Impl &impl = program.impl();
  const schedule::Schedule &lists = impl.schedule->program;
  // By stage and direction: what a message with its input, or its output's gradient, takes.
  std::vector<int64_t> inputs(lists.numStages(), 0), gradients(lists.numStages(), 0);
  schedule::SlotOptions options;
  options.release = schedule::SlotRelease::AfterForward;
  for (const PhaseFunction &part : impl.phaseFunctions) {
    if (lists.topology.rankOf(unsigned(part.stage)) != place)
      continue;
    for (const ValueInfo &value : part.signature.arguments)
      if (value.role == RoleKind::Crossing || value.role == RoleKind::CrossingGradient)
        (value.role == RoleKind::Crossing ? inputs : gradients)[part.stage] +=
            alignInMessage(value.type.numBytes());
    // What a forward saves of its input lies in the slot until the backward.
    if (part.phase == Phase::Forward && countTaken(part, RoleKind::Crossing).saved > 0)
      options.release = schedule::SlotRelease::AfterBackward;
  }
  schedule::RankSlots slots = schedule::assignRecvSlots(lists, unsigned(place), options);
  ReceivePlan plan;
  plan.slotBytes.resize(slots.numSlots, 0);
  for (const schedule::SlotUse &use : slots.uses) {
    int64_t &bytes = plan.slotBytes[use.slot];
    bytes = std::max(
        bytes,
        (schedule::isForwardP2P(use.transfer.kind) ? inputs : gradients)[use.transfer.stage]);
  }
  plan.uses = std::move(slots.uses);
  return plan;
}
