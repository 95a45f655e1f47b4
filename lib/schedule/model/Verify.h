// Proof that a program computes what it should and cannot hang; the first problems where it does.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_VERIFY_H
#define CLEAVE_LIB_SCHEDULE_MODEL_VERIFY_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Schedule.h"

namespace cleave::schedule {

enum class ProblemKind : uint8_t {
  Malformed,   // out of range, or on the wrong rank
  Duplicate,   // a step occurs twice
  MissingStep, // a step does not occur
  WrongOrder,  // an action comes before what makes its input
  MissingRecv, // a send without its receive
  MissingSend, // a receive without its send
  NeedlessP2P, // a send or receive between stages of one rank
  WrongData,   // first-in-first-out matching pairs a send with another transfer's receive
  Deadlock,    // actions wait for each other, or for something that never comes
};

struct Problem {
  ProblemKind kind;
  /// Without place where it is about an action that does not exist.
  std::optional<Place> place;
  std::string message;
  /// Further places with what to say about them: the cycle of a deadlock, the first of two, ...
  std::vector<std::pair<std::optional<Place>, std::string>> notes;

  /// One paragraph: "rank 1, position 3: ...", notes on lines of their own.
  std::string str() const;
};

struct VerifyOptions {
  /// Every model under which the program must run. Empty: Gloo's and NCCL's (per direction).
  std::vector<CommModel> models;
  /// For each stage the number of gradient buckets to be reduced. Empty: buckets are only checked
  /// against each other (each at most once, the stages that reduce any reduce 0..n-1).
  std::vector<unsigned> buckets;
  /// A compute-only program: transfers are implied and no deadlock is looked for in them.
  bool computeOnly = false;
  size_t maxProblems = 20;
};

/// Checks that
/// - stages, microbatches and ranks are in range, and every action is on its stage's rank;
/// - each stage and microbatch runs forward once, and, unless the program is forward only, either
///   backward once or backward-input and backward-weight once each, in this order;
/// - every input exists: a transfer between ranks has one send, after its producer, and one
///   receive, before its consumer; between stages of one rank the producer comes first;
/// - a stage's buckets are reduced once each, after its last weight gradient, and its optimizer
///   steps once, after them; a stage that is ever unsharded is unsharded wherever it computes;
/// - under each model the program runs to its end, and matching pairs each send with its receive.
/// Returns the problems found, at most `maxProblems`; empty: all of it holds.
std::vector<Problem> verify(const Schedule &program, const VerifyOptions &options = {});

/// Only the first point; what the other functions of this library rely on.
std::optional<Problem> checkStructure(const Schedule &program);

/// Runs the program under the model, without durations. The result does not depend on the order in
/// which ranks are advanced: what can happen stays possible whatever else happens first. A stuck
/// program is a problem with the cycle of waiting actions; a program that checkStructure refuses
/// must not be passed. Linear in the number of actions.
std::optional<Problem> findDeadlock(const Schedule &program, const CommModel &model);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_VERIFY_H
