// The actions of a pipeline schedule: eight bytes each, so that a program of 1,024 ranks and 4,096
// microbatches fits in memory. What does not fit (groups, names) is in the program's side tables.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_ACTION_H
#define CLEAVE_LIB_SCHEDULE_MODEL_ACTION_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace cleave::schedule {

enum class ActionKind : uint8_t {
  Forward,        // F: needs the previous stage's output
  Backward,       // B: gradients of input and weights; needs the next stage's input gradient
  BackwardInput,  // I: gradient of the input only (the papers' "B")
  BackwardWeight, // W: gradient of the weights, from what I kept
  SendForward,    // starts sending this stage's output to the next stage's rank
  RecvForward,    // starts receiving this stage's input from the previous stage's rank
  SendBackward,   // starts sending this stage's input gradient to the previous stage's rank
  RecvBackward,   // starts receiving this stage's output gradient from the next stage's rank
  Unshard,        // all-gathers the stage's sharded parameters
  Reshard,        // frees them again
  ReduceGrad,     // reduces one gradient bucket of the stage over the data-parallel ranks
  OptimizerStep,  // updates the stage's parameters
  Compose,        // several actions that run overlapped, as one
  Custom,         // a function of the user, found by name
  Collective,     // a named operation that several pipeline ranks enter together
};
constexpr unsigned numActionKinds = 15;

/// One action of one rank. A plain value.
///
/// `index` is the microbatch of compute, send and receive actions; the bucket of ReduceGrad; the
/// entry of the program's table for Compose, Custom and Collective; 0 elsewhere.
struct Action {
  ActionKind kind = ActionKind::Forward;
  uint8_t reserved = 0;
  uint16_t stage = 0;
  uint32_t index = 0;

  Action() = default;
  constexpr Action(ActionKind kind, unsigned stage, unsigned index = 0)
      : kind(kind), stage(static_cast<uint16_t>(stage)), index(index) {}

  unsigned microbatch() const { return index; }
  bool operator==(const Action &o) const {
    return kind == o.kind && stage == o.stage && index == o.index;
  }
};
static_assert(sizeof(Action) == 8);

/// The largest counts an action can hold.
constexpr unsigned maxStages = 1u << 16;
constexpr unsigned maxMicrobatches = 1u << 24;
constexpr unsigned maxBuckets = 1u << 16; // of one stage

constexpr bool isCompute(ActionKind kind) {
  return kind <= ActionKind::BackwardWeight;
}
constexpr bool isSend(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::SendBackward;
}
constexpr bool isRecv(ActionKind kind) {
  return kind == ActionKind::RecvForward || kind == ActionKind::RecvBackward;
}
constexpr bool isP2P(ActionKind kind) {
  return isSend(kind) || isRecv(kind);
}
/// True for sends and receives of activations (false: of gradients). Only for isP2P kinds.
constexpr bool isForwardP2P(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::RecvForward;
}
/// Backward or BackwardInput: what makes the input gradient of a stage.
constexpr bool makesInputGradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}
/// True if `index` is a microbatch.
constexpr bool hasMicrobatch(ActionKind kind) {
  return kind <= ActionKind::RecvBackward;
}
/// True if `stage` means something.
constexpr bool hasStage(ActionKind kind) {
  return kind <= ActionKind::OptimizerStep;
}

/// "forward", "backward-input", ...: for messages.
llvm::StringRef getKindName(ActionKind kind);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_ACTION_H
