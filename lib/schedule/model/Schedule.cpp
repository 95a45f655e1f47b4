// The program's side tables, and the spelling of actions.
#include "lib/schedule/model/Schedule.h"
#include "lib/schedule/model/ActionWords.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace cleave::schedule;

llvm::StringRef cleave::schedule::getKindName(ActionKind kind) {
  static constexpr const char *names[numActionKinds] = {
      "forward",      "backward",       "backward-input", "backward-weight", "send forward",
      "recv forward", "send backward",  "recv backward",  "unshard",         "reshard",
      "reduce-grad",  "optimizer step", "compose",        "custom",          "collective"};
  return names[static_cast<unsigned>(kind)];
}

Action Schedule::addGroup(llvm::ArrayRef<Action> actions) {
  groupActions.insert(groupActions.end(), actions.begin(), actions.end());
  groupEnds.push_back(static_cast<uint32_t>(groupActions.size()));
  return Action(ActionKind::Compose, 0, static_cast<unsigned>(groupEnds.size() - 1));
}

template <typename T> static Action addTo(std::vector<T> &table, T entry, ActionKind kind) {
  auto found = std::find(table.begin(), table.end(), entry);
  unsigned index = static_cast<unsigned>(found - table.begin());
  if (found == table.end())
    table.push_back(std::move(entry));
  return Action(kind, 0, index);
}

Action Schedule::addCustom(CustomAction custom) {
  // Customs with a microbatch are many and distinct: looking for an equal one would be quadratic.
  if (custom.microbatch != CustomAction::noIndex) {
    customs.push_back(std::move(custom));
    return Action(ActionKind::Custom, 0, static_cast<unsigned>(customs.size() - 1));
  }
  return addTo(customs, std::move(custom), ActionKind::Custom);
}

Action Schedule::addCollective(CollectiveAction collective) {
  llvm::sort(collective.ranks);
  return addTo(collectives, std::move(collective), ActionKind::Collective);
}

bool Schedule::hasP2P() const {
  for (const std::vector<Action> &list : ranks)
    for (const Action &action : list) {
      bool found = false;
      forEachLeaf(action, [&](Action leaf) { found |= isP2P(leaf.kind); });
      if (found)
        return true;
    }
  return false;
}

size_t Schedule::numActions() const {
  size_t count = 0;
  for (const std::vector<Action> &list : ranks)
    count += list.size();
  return count;
}

void Schedule::print(llvm::raw_ostream &os, Action action) const {
  switch (action.kind) {
  case ActionKind::Compose: {
    os << '{';
    llvm::interleave(groupOf(action), os, [&](Action member) { print(os, member); }, " ");
    os << '}';
    return;
  }
  case ActionKind::Custom: {
    const CustomAction &custom = customOf(action);
    os << "call \"" << custom.name << '"';
    if (custom.stage == CustomAction::noIndex)
      return;
    os << '(' << custom.stage;
    if (custom.microbatch != CustomAction::noIndex)
      os << '.' << custom.microbatch;
    os << ')';
    return;
  }
  case ActionKind::Collective: {
    const CollectiveAction &collective = collectiveOf(action);
    os << "collective \"" << collective.name << "\"[";
    llvm::interleave(collective.ranks, os, " ");
    os << ']';
    return;
  }
  default:
    os << actionWords[static_cast<unsigned>(action.kind)] << action.stage;
    if (hasMicrobatch(action.kind) || action.kind == ActionKind::ReduceGrad)
      os << '.' << action.index;
  }
}

std::string Schedule::str(Action action) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os, action);
  return text;
}

unsigned cleave::schedule::getPeer(const Topology &topology, Action p2p) {
  bool next = p2p.kind == ActionKind::SendForward || p2p.kind == ActionKind::RecvBackward;
  return topology.rankOf(next ? p2p.stage + 1u : p2p.stage - 1u);
}

Action cleave::schedule::getCounterpart(Action p2p) {
  switch (p2p.kind) {
  case ActionKind::SendForward:
    return {ActionKind::RecvForward, p2p.stage + 1u, p2p.index};
  case ActionKind::RecvForward:
    return {ActionKind::SendForward, p2p.stage - 1u, p2p.index};
  case ActionKind::SendBackward:
    return {ActionKind::RecvBackward, p2p.stage - 1u, p2p.index};
  default:
    return {ActionKind::SendBackward, p2p.stage + 1u, p2p.index};
  }
}

bool cleave::schedule::sameActions(const Schedule &a, const Schedule &b) {
  auto sameAction = [&](Action x, Action y) {
    if (x.kind != y.kind)
      return false;
    switch (x.kind) {
    case ActionKind::Compose:
      return a.groupOf(x) == b.groupOf(y);
    case ActionKind::Custom:
      return a.customOf(x) == b.customOf(y);
    case ActionKind::Collective:
      return a.collectiveOf(x) == b.collectiveOf(y);
    default:
      return x == y;
    }
  };
  if (!(a.topology == b.topology) || a.numMicrobatches != b.numMicrobatches ||
      a.forwardOnly != b.forwardOnly || a.ranks.size() != b.ranks.size())
    return false;
  for (size_t rank = 0; rank < a.ranks.size(); ++rank)
    if (!std::equal(a.ranks[rank].begin(), a.ranks[rank].end(), b.ranks[rank].begin(),
                    b.ranks[rank].end(), sameAction))
      return false;
  return true;
}
