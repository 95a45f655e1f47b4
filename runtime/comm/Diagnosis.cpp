//===- Diagnosis.cpp - Why an operation did not complete ------------------===//

#include "runtime/comm/Diagnosis.h"

#include "runtime/comm/Failure.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;
using std::chrono::milliseconds;

/// What is wrong with a rank that the operation waited for; empty if nothing is.
static std::string describeAbsence(const PeerPosition &position, const Operation &operation) {
  switch (position.state) {
  case PeerPosition::State::NotJoined:
    return "has not joined";
  case PeerPosition::State::Silent:
    return "does not respond (its process is stopped, or its machine is unreachable)";
  case PeerPosition::State::Left:
    return "has already finished";
  case PeerPosition::State::Lost:
    return "is lost";
  case PeerPosition::State::Unknown:
    return "";
  case PeerPosition::State::Running:
    break;
  }
  std::string last = position.started == 0 ? "it has not started any"
                                           : "its last is " + position.operation + ", operation " +
                                                 std::to_string(position.started);
  if (operation.peer >= 0)
    return "has not taken part (of the group's collectives, " + last + ")";
  if (position.started < operation.number)
    return "has not reached it (" + last + ")";
  if (position.started == operation.number && position.operation != operation.text)
    return "is in another operation there: " + position.operation;
  return "";
}

llvm::Error cleave::runtime::lossError(const PeerLoss &loss, llvm::StringRef operation,
                                       std::vector<int> &blamed) {
  blamed = loss.blamed.empty() ? std::vector{loss.rank} : loss.blamed;
  std::string before = operation.empty() ? "" : (operation + " cannot complete: ").str();
  return llvm::make_error<PeerFailure>(
      before + "rank " + std::to_string(loss.rank) + " is lost: " + loss.reason, blamed,
      /*isReported=*/loss.reason != kProcessEnded, operation.rtrim(',').str());
}

llvm::Error cleave::runtime::diagnose(PeerMonitor &monitor, const GroupView &group,
                                      const Operation &operation, llvm::StringRef cause,
                                      milliseconds limit, std::vector<int> &blamed) {
  bool late = Clock::now() >= operation.start + limit;
  std::string head = operation.text;
  if (operation.peer < 0)
    head += ", operation " + std::to_string(operation.number) + " of group \"" + group.name.str() +
            "\",";
  // A connection that broke brings the news of its rank's end a moment later.
  if (std::optional<PeerLoss> loss = monitor.waitForLoss(milliseconds(late ? 0 : 1000)))
    return lossError(*loss, head, blamed);

  std::vector<PeerPosition> positions = monitor.askPositions(group.path, milliseconds(1000));
  std::string reasons;
  blamed.clear();
  auto isAwaited = [&](int place) {
    return place != group.rank && (operation.peer < 0 || place == operation.peer);
  };
  auto isRunning = [&](int rank) {
    return positions[rank].state == PeerPosition::State::Running ||
           positions[rank].state == PeerPosition::State::Unknown;
  };
  // Where a rank cannot go on, others may be late because they wait for it.
  bool isOneAway = false;
  for (auto [index, rank] : llvm::enumerate(group.members))
    isOneAway |= isAwaited(static_cast<int>(index)) && !isRunning(rank);
  for (auto [index, rank] : llvm::enumerate(group.members)) {
    if (!isAwaited(static_cast<int>(index)) || (isOneAway && isRunning(rank)))
      continue;
    std::string absence = describeAbsence(positions[rank], operation);
    if (absence.empty())
      continue;
    blamed.push_back(rank);
    reasons += (reasons.empty() ? "rank " : "; rank ") + std::to_string(rank) + " " + absence;
  }
  // The one that was late may itself have been told of this failure meanwhile, by another rank.
  if (reasons.empty())
    if (std::optional<PeerLoss> loss = monitor.loss())
      return lossError(*loss, head, blamed);

  std::string text = head;
  if (late)
    text +=
        " did not complete within " + describeSeconds(std::chrono::duration<double>(limit).count());
  else
    text += " failed";
  if (!reasons.empty())
    text += ": " + reasons;
  else
    text += ", though every rank has reached it" + (cause.empty() ? "" : ": " + cause.str());
  return llvm::make_error<PeerFailure>(std::move(text), blamed, /*isReported=*/false,
                                       llvm::StringRef(head).rtrim(',').str());
}
