// Starting, matching and completing, under one lock.
#include "test/unit/lib/schedule/strict/Fabric.h"

#include <algorithm>
#include <set>
#include <thread>

using namespace cleave::strict;

Communicator &Fabric::communicator(const std::string &name, const std::vector<unsigned> &members,
                                   const CommOptions &options) {
  std::unique_lock lock(mutex);
  auto [found, inserted] = communicators.try_emplace(name);
  Communicator &comm = found->second;
  if (inserted) {
    comm.name = name;
    comm.members = members;
    comm.options = options;
    if (comm.options.streamScope.empty())
      comm.options.streamScope = name;
  } else if (comm.members != members || comm.options.matching != options.matching ||
             comm.options.streams != options.streams || comm.options.lanes != options.lanes) {
    throw std::invalid_argument("communicator '" + name + "': the ranks disagree about it");
  }
  return comm;
}

void Fabric::run(const std::function<void(unsigned)> &body) {
  numLive = unsigned(ranks.size());
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([this, rank, &body] {
      try {
        body(rank);
      } catch (const Stuck &) {
        // The report says it.
      } catch (const std::exception &error) {
        ranks[rank].failure = error.what();
      }
      std::unique_lock lock(mutex);
      ranks[rank].ended = true;
      --numLive;
      checkStuck();
    });
  for (std::thread &thread : threads)
    thread.join();
}

//===----------------------------------------------------------------------===//
// Starting
//===----------------------------------------------------------------------===//

/// The queue of the rank that a side enters. Under tag matching, transfers have none.
unsigned Fabric::streamOf(const Side &side) {
  const CommOptions &options = side.comm->options;
  std::string key = std::to_string(side.rank) + " " + options.streamScope;
  if (side.role == Role::Collective && options.streams != StreamSharing::World)
    key += " collectives of " + side.comm->name;
  else if (options.streams != StreamSharing::World) {
    key += " peer " + std::to_string(side.peer);
    if (options.streams != StreamSharing::Peer)
      key += (side.role == Role::Send ? " out " : " in ") +
             std::to_string(side.tag % int64_t(options.lanes));
  }
  auto [found, inserted] = streamIds.try_emplace(std::move(key), streams.size());
  if (inserted)
    streams.emplace_back();
  return found->second;
}

std::shared_ptr<Entry> Fabric::start(std::vector<Side> sides) {
  std::unique_lock lock(mutex);
  auto entry = std::make_shared<Entry>();
  Rank &rank = ranks[sides.front().rank];
  entry->rank = sides.front().rank;
  entry->number = rank.nextNumber++;
  entry->position = rank.position;
  entry->sides = std::move(sides);
  entry->pendingSides = unsigned(entry->sides.size());
  rank.open.emplace(entry->number, entry);
  for (Side &side : entry->sides) {
    side.entry = entry.get();
    if (side.role != Role::Collective && side.comm->options.matching == Matching::Tag)
      continue;
    unsigned stream = streamOf(side);
    if (std::find(entry->streams.begin(), entry->streams.end(), stream) == entry->streams.end())
      entry->streams.push_back(stream);
  }
  for (unsigned stream : entry->streams) {
    entry->pendingHeads += !streams[stream].empty();
    streams[stream].push_back(entry);
  }
  if (entry->pendingHeads == 0)
    activate(*entry);
  return entry;
}

/// Offers the sides of entries at the head of their streams to their counterparts; what completes
/// may bring further entries to the head.
void Fabric::activate(Entry &first) {
  active.push_back(&first);
  while (!active.empty()) {
    Entry &entry = *active.back();
    active.pop_back();
    entry.running = true;
    // The last side may complete the entry, which ends its life here.
    std::shared_ptr<Entry> keep = ranks[entry.rank].open.at(entry.number);
    for (Side &side : entry.sides)
      meet(side);
  }
}

std::tuple<unsigned, unsigned, int64_t> Fabric::channelOf(const Side &side) {
  bool send = side.role == Role::Send;
  const CommOptions &options = side.comm->options;
  // Under tag matching the tag is the channel; otherwise the lane, and the tag means nothing.
  int64_t lane = options.matching == Matching::Tag ? side.tag : side.tag % int64_t(options.lanes);
  return {send ? side.rank : side.peer, send ? side.peer : side.rank, lane};
}

void Fabric::meet(Side &side) {
  if (side.role == Role::Collective)
    meetCollective(side);
  else
    meetTransfer(side);
}

void Fabric::meetTransfer(Side &side) {
  Communicator::Channel &channel = side.comm->channels[channelOf(side)];
  bool send = side.role == Role::Send;
  auto &theirs = send ? channel.recvs : channel.sends;
  if (theirs.empty()) {
    (send ? channel.sends : channel.recvs).push_back(&side);
    return;
  }
  Side *other = theirs.front();
  theirs.pop_front();
  Side *from = send ? &side : other, *to = send ? other : &side;
  mismatches += from->tag != to->tag;
  joined({from, to});
}

/// The k-th collective of a rank meets the k-th of all others, whatever they are.
void Fabric::meetCollective(Side &side) {
  Communicator &comm = *side.comm;
  comm.collectives[side.rank].push_back(&side);
  std::vector<Side *> round;
  for (unsigned member : comm.members) {
    std::deque<Side *> &waiting = comm.collectives[member];
    if (waiting.empty())
      return;
    round.push_back(waiting.front());
  }
  for (unsigned member : comm.members)
    comm.collectives[member].pop_front();
  joined(round);
}

void Fabric::joined(const std::vector<Side *> &sides) {
  std::string error;
  bool collective = sides.front()->role == Role::Collective;
  for (Side *side : sides)
    if (side->bytes != sides.front()->bytes || (collective && side->what != sides.front()->what))
      error = nameOf(*sides.front()) + " of " + std::to_string(sides.front()->bytes) +
              " bytes of rank " + std::to_string(sides.front()->rank) + " met " + nameOf(*side) +
              " of " + std::to_string(side->bytes) + " bytes of rank " + std::to_string(side->rank);
  if (error.empty()) {
    try {
      deliver(sides);
    } catch (const std::exception &thrown) {
      error = thrown.what();
    }
  }
  for (Side *side : sides) {
    side->met = true;
    if (!error.empty())
      side->entry->error = error;
    if (--side->entry->pendingSides == 0)
      complete(*side->entry);
  }
}

void Fabric::complete(Entry &entry) {
  Rank &rank = ranks[entry.rank];
  std::shared_ptr<Entry> keep = rank.open.at(entry.number);
  entry.complete = true;
  rank.open.erase(entry.number);
  for (unsigned stream : entry.streams) {
    streams[stream].pop_front();
    if (!streams[stream].empty() && --streams[stream].front()->pendingHeads == 0)
      active.push_back(streams[stream].front().get());
  }
  if (!entry.awaited || rank.missing == 0)
    return;
  // A group's works are one entry: it counts for each of them.
  rank.missing -= std::min<size_t>(rank.missing, entry.awaited);
  if (rank.missing == 0) {
    rank.blocked = false;
    --numBlocked;
    rank.wake.notify_one();
  }
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

bool Fabric::isComplete(const Entry &entry) {
  std::unique_lock lock(mutex);
  return entry.complete;
}

void Fabric::wait(unsigned number, const std::vector<std::shared_ptr<Entry>> &entries,
                  size_t allowed) {
  std::unique_lock lock(mutex);
  Rank &rank = ranks[number];
  rank.awaited.clear();
  for (const std::shared_ptr<Entry> &entry : entries)
    if (!entry->complete)
      rank.awaited.push_back(entry.get());
  if (rank.awaited.size() > allowed) {
    rank.missing = rank.awaited.size() - allowed;
    for (Entry *entry : rank.awaited)
      ++entry->awaited;
    block(number, lock);
    for (Entry *entry : rank.awaited)
      entry->awaited = 0;
  }
  for (const std::shared_ptr<Entry> &entry : entries)
    if (entry->complete && !entry->error.empty())
      throw std::runtime_error(entry->error);
}

void Fabric::waitForever(unsigned number, const std::string &reason) {
  std::unique_lock lock(mutex);
  ranks[number].awaited.clear();
  ranks[number].reason = reason;
  block(number, lock);
}

void Fabric::block(unsigned number, std::unique_lock<std::mutex> &lock) {
  Rank &rank = ranks[number];
  rank.blocked = true;
  ++numBlocked;
  checkStuck();
  rank.wake.wait(lock, [&] { return stuck || !rank.blocked; });
  if (rank.blocked)
    throw Stuck(text);
}

void Fabric::checkStuck() {
  if (stuck || numLive == 0 || numBlocked < numLive)
    return;
  stuck = true;
  for (unsigned number = 0; number < ranks.size(); ++number) {
    Rank &rank = ranks[number];
    if (!rank.blocked)
      continue;
    text += "rank " + std::to_string(number) +
            (describe ? ", " + describe(number, rank.position) : "") + ": waits for " + rank.reason;
    const char *separator = "";
    for (const Entry *entry : rank.awaited)
      if (!entry->complete) {
        text += separator + describeWait(*entry);
        separator = "; ";
      }
    text += "\n";
  }
  for (Rank &rank : ranks)
    rank.wake.notify_one();
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//

std::string Fabric::nameOf(const Side &side) const {
  std::string name = side.what;
  if (side.role != Role::Collective)
    name += (side.role == Role::Send ? " to rank " : " from rank ") + std::to_string(side.peer) +
            " (tag " + std::to_string(side.tag) + ")";
  return name + " on '" + side.comm->name + "'";
}

std::string Fabric::nameOf(const Entry &entry) const {
  std::string name;
  for (const Side &side : entry.sides)
    name += (name.empty() ? "" : " with ") + nameOf(side);
  return name + (describe ? " started at " + describe(entry.rank, entry.position) : "");
}

std::string Fabric::describeWait(const Entry &entry) const {
  std::string name = nameOf(entry);
  for (unsigned stream : entry.streams)
    if (streams[stream].front().get() != &entry)
      return name + ", queued behind " + nameOf(*streams[stream].front());
  std::set<std::string> lacks;
  for (const Side &side : entry.sides) {
    if (side.met)
      continue;
    std::vector<unsigned> others = {side.peer};
    if (side.role == Role::Collective)
      others = side.comm->members;
    for (unsigned other : others) {
      if (other == side.rank)
        continue;
      // Does the counterpart stand in a queue of its rank?
      const Side *queued = nullptr;
      for (const auto &[number, open] : ranks[other].open)
        for (const Side &theirs : open->sides) {
          bool counterpart = theirs.comm == side.comm &&
                             (side.role == Role::Collective
                                  ? theirs.role == Role::Collective
                                  : theirs.role != side.role && theirs.role != Role::Collective &&
                                        channelOf(theirs) == channelOf(side));
          if (counterpart && !theirs.met && !queued)
            queued = &theirs;
        }
      std::string who = "rank " + std::to_string(other);
      if (queued && !queued->entry->running)
        lacks.insert(who + ", where it is queued");
      else if (!queued)
        lacks.insert(who +
                     (ranks[other].ended ? ", which has ended" : ", which has not started it"));
    }
  }
  for (const std::string &lack : lacks)
    name += ", for which it needs " + lack;
  return name;
}
