//===- GlooCommunicator.cpp - Gloo groups, and how they fail --------------===//

#include "GlooCommunicator.h"

#include "runtime/comm/C10dHelpers.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <map>
#include <numeric>

using namespace cleave::runtime;
using llvm::StringRef;
using std::chrono::milliseconds;

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

llvm::Error GlooCommunicator::diagnose(const Operation &operation, StringRef cause,
                                       milliseconds limit) {
  broken = true;
  GroupView view{name(), path, rank(), members()};
  return cleave::runtime::diagnose(*world->monitor, view, operation, cause, limit, blamed);
}

llvm::Error GlooCommunicator::diagnoseStart(const Operation &operation, StringRef cause) {
  // A connection that a peer's end has closed brings the news of that end a moment later; anything
  // else is this rank's own fault.
  if (world->monitor->waitForLoss(milliseconds(1000)))
    return diagnose(operation, cause, timeout());
  return llvm::createStringError(llvm::StringRef(operation.text).rtrim(',') + ": " + cause);
}

llvm::Error GlooCommunicator::checkPeers() {
  if (!world->monitor->hasLoss())
    return llvm::Error::success();
  broken = true;
  return lossError(*world->monitor->loss(), "", blamed);
}

void GlooCommunicator::abort(StringRef reason) {
  broken = true;
  world->monitor->fail(reason, blamed);
}

std::vector<RankPosition> GlooCommunicator::askPositions(std::chrono::milliseconds patience) {
  std::vector<PeerPosition> last = world->monitor->askPositions(kAnyGroup, patience);
  std::map<StringRef, std::vector<PeerPosition>> byGroup;
  std::vector<RankPosition> result;
  for (const PeerPosition &position : last) {
    RankPosition &rank = result.emplace_back();
    rank.responds = position.state == PeerPosition::State::Running;
    auto [groupPath, operation] = StringRef(position.operation).split('\n');
    if (!rank.responds)
      continue;
    // Operations may name what they move over several lines, a peer never does.
    if (groupPath.empty()) {
      auto [exchange, peer] = operation.rsplit('\n');
      rank.operation = exchange.str();
      if (int other; !peer.getAsInteger(10, other) && other >= 0 && other < int(last.size()))
        rank.waitsFor.push_back(other);
      continue;
    }
    rank.operation = operation.str();
    auto [group, isNew] = byGroup.try_emplace(groupPath);
    if (isNew)
      group->second = world->monitor->askPositions(groupPath, patience);
    for (auto [other, theirs] : llvm::enumerate(group->second)) {
      bool isStopped = theirs.state == PeerPosition::State::Silent;
      // Who is not in the group has started nothing there: its members all began with its creation.
      if (isStopped || (theirs.started > 0 && theirs.started < position.started))
        rank.waitsFor.push_back(int(other));
    }
  }
  return result;
}

void *GlooCommunicator::groupStore() {
  if (!storeOfGroup)
    storeOfGroup = c10::make_intrusive<c10d::PrefixStore>(path + "/device", world->store);
  return storeOfGroup.get();
}

uint64_t GlooCommunicator::enterOperation(StringRef what) {
  world->monitor->setPosition(path, ++started, what);
  return started;
}

llvm::Error GlooCommunicator::explainFailure(StringRef text, uint64_t number, StringRef cause) {
  return diagnose(Operation{text.str(), number}, cause, timeout());
}

llvm::Error GlooCommunicator::finish() {
  if (llvm::Error error = barrier("the end of the program"))
    return error;
  if (isWorld())
    world->monitor->leave();
  finished = true;
  return llvm::Error::success();
}

GlooCommunicator::~GlooCommunicator() {
  if (isWorld() && !finished) {
    broken = true;
    world->monitor->fail("it ended before the program did", blamed);
  }
  // Gloo's threads stay with an operation that cannot complete until its timeout. The thread that
  // reports the failure need not wait for them.
  if (broken || world->monitor->hasLoss())
    std::thread([world = std::move(world), group = std::move(group)]() mutable {
      group.reset();
      world.reset();
    }).detach();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Communicator>> GlooCommunicator::subgroup(llvm::ArrayRef<int> ranks,
                                                                         StringRef subgroupName) {
  if (llvm::Error error = checkSubgroup(ranks, subgroupName))
    return error;
  std::vector<int> worldRanks;
  for (int each : ranks)
    worldRanks.push_back(members()[each]);
  // The first member's rank keeps groups of one name on disjoint ranks apart; the count, groups
  // made one after the other.
  std::string groupPath = path + "/" + subgroupName.str() + "." + std::to_string(worldRanks[0]);
  groupPath += "." + std::to_string(subgroups[groupPath]++);
  int place = static_cast<int>(llvm::find(ranks, rank()) - ranks.begin());
  Operation operation{"creating group \"" + subgroupName.str() + "\"", 1};
  world->monitor->setPosition(groupPath, 1, operation.text);
  try {
    auto made = world->makeGroup(groupPath, place, worldRanks.size());
    return std::make_unique<GlooCommunicator>(world, place, std::move(worldRanks),
                                              subgroupName.str(), groupPath, std::move(made));
  } catch (...) {
    return diagnose(operation, describeException(), timeout());
  }
}

std::unique_ptr<Communicator>
cleave::runtime::makeGlooCommunicator(std::shared_ptr<World> world,
                                      c10::intrusive_ptr<c10d::ProcessGroupGloo> group) {
  std::vector<int> members(world->size);
  std::iota(members.begin(), members.end(), 0);
  int rank = world->rank;
  return std::make_unique<GlooCommunicator>(std::move(world), rank, std::move(members), kWorldName,
                                            kWorldName, std::move(group));
}
