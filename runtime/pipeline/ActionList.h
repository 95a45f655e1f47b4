//===- ActionList.h - one rank's part of a schedule, compiled -----*- C++ -*-===//
//
// A rank's list of actions, made flat once: groups are opened, functions and transfers found, and
// what an action waits for is a number. A step goes through the list and looks nothing up.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PIPELINE_ACTIONLIST_H
#define CLEAVE_RUNTIME_PIPELINE_ACTIONLIST_H

#include "cleave/UserActions.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/StageMap.h"

namespace cleave::runtime {

/// The values that one stage sends to a neighbour, one message each.
struct Channel {
  /// Of the activations of `stage` for the next stage, or of its gradients for the one before.
  bool isForward = true;
  int64_t stage = 0;
  int from = 0, to = 0; ///< places
  struct Value {
    std::string name;
    TensorType type;
  };
  std::vector<Value> values;
  /// Unique in the program, for tags.
  int64_t number = 0;
};

struct ScheduledAction {
  enum class Kind : uint8_t {
    Compute, ///< functions of one microbatch
    Send,
    Receive,
    Once,   ///< functions of the whole step: unshard, reduce, update
    Sum,    ///< a sum over stages, which all ranks of the pipeline enter
    User,   ///< what the schedule's user has set
    Release ///< reshard
  };
  static constexpr uint32_t kNone = ~0u;

  Kind kind = Kind::Compute;
  schedule::Action action;
  std::string text;      ///< "F2.0"
  uint32_t position = 0; ///< in the list as it was written
  uint32_t microbatch = 0;
  /// Indices of `Program::Impl::phaseFunctions`.
  llvm::SmallVector<uint32_t, 2> functions;
  /// Of a transfer: index of `ActionList::channels`. Of a computation: the channel whose values of
  /// this microbatch it waits for, if another rank makes them.
  uint32_t channel = kNone;
  /// Of a sum: its name.
  std::string sum;
  /// Of a user's action: what to call with what; the step is not set.
  UserCallback callback;
  UserAction user;
  /// Of a transfer: each value of the channel in it, for errors: `sendF0.1 ("h.0.add")`.
  std::vector<std::string> messages;
  /// Of a receive, and of a send whose values have to be packed: which of `ActionList`'s slots of
  /// its kind they lie in.
  uint32_t slot = 0;
  /// Of a send: its number among the list's sends.
  uint32_t send = kNone;
  /// Of a computation that waits: the sends that are complete once what it waits for is here,
  /// because the other rank sent that after it had used them.
  llvm::SmallVector<uint32_t, 1> completes;
  /// The first action of its microbatch here, where some stage here reads the data.
  bool readsInputs = false;
  /// Makes the microbatch's loss or, in a program without one, is the last stage's forward.
  bool endsForward = false;
  /// The microbatch's last computation or send here.
  bool isLast = false;
};

struct ActionList {
  std::vector<Channel> channels;
  uint32_t numSends = 0;
  /// Bytes of the slots of receives and of packed sends.
  std::vector<int64_t> receiveSlots, sendSlots;
  /// Most values that any two stages of the program exchange at a time.
  int64_t mostValues = 1;
  /// What runs before the update, and the optimizer steps at the list's end. Within a group
  /// transfers come first, so that they run under its computations.
  std::vector<ScheduledAction> actions, steps;

  /// The list of the rank that `stages` is of. Fails for what cannot run: actions of the
  /// user's for which nothing is set, or transfers that are only implied. The program outlives it.
  static llvm::Expected<ActionList> compile(const Program &program, const StageMap &stages);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_ACTIONLIST_H
