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
  /// Carries activations of `stage` to the next stage, or else its gradients to the one before.
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

/// A sum over stages, which the ranks of all stages compute together.
struct StageSumExchange {
  std::string name;
  TensorType type;
  /// By stage: whether its functions give a term.
  std::vector<bool> hasTerm;
};

struct ScheduledAction {
  enum class Kind : uint8_t {
    Compute, ///< functions of one microbatch
    Send,
    Receive,
    Once,   ///< functions of the whole step: unshard, reduce, update
    Sum,    ///< a sum over stages, which all ranks of the pipeline enter
    Call,   ///< a function of the program
    User,   ///< a callback of the session
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
  /// Index of `ActionList::channels`: a transfer's own, or the channel whose values of this
  /// microbatch a computation waits for, if another rank makes them.
  uint32_t channel = kNone;
  /// Index of `ActionList::sums`; set for Sum.
  uint32_t sum = kNone;
  /// Index of `Program::Impl::actionFunctions`; set for Call.
  uint32_t actionFunction = kNone;
  /// What to call with what; set for User, except for the step.
  UserCallback callback;
  UserAction user;
  /// The values that a transfer carries, for errors: `sendF0.1 ("h.0.add")`.
  std::vector<std::string> messages;
  /// Which of `ActionList`'s slots of its kind the values lie in; set for Receive and Send. A send
  /// uses it only if its values have to be packed.
  uint32_t slot = 0;
  /// Number among the list's sends; set for Send.
  uint32_t send = kNone;
  /// The sends that are complete once what a computation waits for is here, because the other rank
  /// sent that after it had used them.
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
  std::vector<StageSumExchange> sums;
  uint32_t numSends = 0;
  /// Bytes of the slots of receives and of packed sends.
  std::vector<int64_t> receiveSlots, sendSlots;
  /// Most values that any two stages of the program exchange at a time.
  int64_t maxValues = 1;
  /// What runs before the update; and the optimizer steps at the list's end, with the calls that
  /// follow them. Within a group transfers come first, so that they run under its computations.
  std::vector<ScheduledAction> actions, steps;

  /// The list of the rank that `stages` is of. Fails for what cannot run: actions of the user's
  /// without a function or a callback, or transfers that are only implied. The program outlives it.
  static llvm::Expected<ActionList> compile(const Program &program, const StageMap &stages,
                                            const UserCallbacks &callbacks = {});
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_ACTIONLIST_H
