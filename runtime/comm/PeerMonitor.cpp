//===- PeerMonitor.cpp - Which rank is lost, which is late ----------------===//
//
// What other threads ask of the monitor, and what it knows. Its own thread: PeerConnections.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/PeerMonitor.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cerrno>
#include <cstring>
#include <random>

#include <sys/eventfd.h>
#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Life
//===----------------------------------------------------------------------===//

PeerMonitor::PeerMonitor(int rank, int size) : rank(rank), size(size), joined(size), left(size) {
  joined[rank] = true;
  everyoneHere = size == 1;
}

llvm::Error PeerMonitor::start() {
  wakeEvent = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeEvent)
    return llvm::createStringError("cannot create an event: %s", std::strerror(errno));
  thread = std::thread([this] { run(); });
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<PeerMonitor>> PeerMonitor::host(int size, bool loopbackOnly,
                                                               std::vector<std::string> hosts) {
  std::unique_ptr<PeerMonitor> monitor(new PeerMonitor(0, size));
  llvm::Expected<FileDescriptor> listener = listenOn(0, loopbackOnly);
  if (!listener)
    return listener.takeError();
  llvm::Expected<uint16_t> port = listeningPort(*listener);
  if (!port)
    return port.takeError();
  monitor->listener = std::move(*listener);
  // The token keeps a rank of another job, or a port scanner, from being taken for a peer.
  std::random_device random;
  monitor->token = (uint64_t(random()) << 32) | random();
  hosts.push_back(std::to_string(*port));
  hosts.push_back(std::to_string(monitor->token));
  monitor->endpointLine = llvm::join(hosts, " ");
  if (llvm::Error error = monitor->start())
    return error;
  return monitor;
}

llvm::Expected<std::unique_ptr<PeerMonitor>>
PeerMonitor::join(int rank, int size, StringRef endpoint, Clock::time_point deadline) {
  std::unique_ptr<PeerMonitor> monitor(new PeerMonitor(rank, size));
  llvm::SmallVector<StringRef> fields;
  endpoint.split(fields, ' ');
  uint16_t port = 0;
  if (fields.size() < 3 || fields.back().getAsInteger(10, monitor->token) ||
      fields[fields.size() - 2].getAsInteger(10, port))
    return llvm::createStringError("rank 0 published an address that this version of Cleave does "
                                   "not understand: \"%s\"",
                                   endpoint.str().c_str());
  llvm::ArrayRef<StringRef> hosts = llvm::ArrayRef(fields).drop_back(2);
  std::string problems;
  Connection hub;
  for (size_t i = 0; i < hosts.size() && !hub.socket; ++i) {
    // The last name has all the time that is left, those before it their share.
    Clock::time_point until = Clock::now() + (deadline - Clock::now()) / int(hosts.size() - i);
    llvm::Expected<FileDescriptor> socket = connectTo(hosts[i], port, until);
    if (socket)
      hub.socket = std::move(*socket);
    else
      problems += (i ? "; " : "") + llvm::toString(socket.takeError());
  }
  if (!hub.socket)
    return llvm::createStringError("cannot reach rank 0's monitor: %s", problems.c_str());
  monitor->connections.emplace(0, std::move(hub));
  std::string payload;
  appendNumber<uint64_t>(payload, monitor->token);
  monitor->sendFrame(0, PeerFrame::Hello, rank, 0, payload);
  if (llvm::Error error = monitor->start())
    return error;
  return monitor;
}

PeerMonitor::~PeerMonitor() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wake();
  thread.join();
}

void PeerMonitor::wake() {
  uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyway.
  (void)!::write(wakeEvent.get(), &one, sizeof one);
}

void PeerMonitor::leave() {
  {
    std::lock_guard lock(mutex);
    leaving = true;
  }
  for (int peer = 0; peer < size; ++peer)
    sendFrame(peer, PeerFrame::Left, rank, peer, "");
}

void PeerMonitor::fail(StringRef reason, llvm::ArrayRef<int> blamed) {
  {
    std::lock_guard lock(mutex);
    // A rank that ends because another did has nothing to add.
    if (leaving || firstLoss)
      return;
    leaving = true;
  }
  std::string payload = encodeLoss({rank, reason.take_front(kLongestText).str(), blamed.vec()});
  for (int peer = 0; peer < size; ++peer)
    sendFrame(peer, isHub() ? PeerFrame::Lost : PeerFrame::Failed, rank, peer, payload);
}

//===----------------------------------------------------------------------===//
// Positions and losses
//===----------------------------------------------------------------------===//

void PeerMonitor::setPosition(StringRef group, uint64_t number, StringRef operation) {
  std::lock_guard lock(mutex);
  auto found = positions.find(group);
  if (found == positions.end())
    found = positions.emplace(group.str(), Started()).first;
  lastGroup.assign(group.data(), group.size());
  found->second.number = number;
  found->second.operation.assign(operation.data(), std::min(operation.size(), kLongestText));
}

uint64_t PeerMonitor::beginExchange(StringRef operation, int peer) {
  std::lock_guard lock(mutex);
  exchanges[++nextExchange] = {operation.take_front(kLongestText).str(), peer};
  return nextExchange;
}

void PeerMonitor::endExchange(uint64_t exchange) {
  std::lock_guard lock(mutex);
  exchanges.erase(exchange);
}

PeerPosition PeerMonitor::ownPosition(StringRef group) {
  std::lock_guard lock(mutex);
  PeerPosition position;
  position.state = PeerPosition::State::Running;
  bool isAny = group == kAnyGroup;
  if (isAny && !exchanges.empty()) {
    const Exchange &waitedFor = exchanges.begin()->second;
    position.operation = "\n" + waitedFor.operation + "\n" + std::to_string(waitedFor.peer);
    return position;
  }
  auto found = positions.find(isAny ? StringRef(lastGroup) : group);
  if (found != positions.end()) {
    position.started = found->second.number;
    position.operation = isAny ? lastGroup + "\n" : "";
    position.operation += found->second.operation;
  }
  return position;
}

PeerPosition PeerMonitor::positionOfAbsent(int peer) {
  std::lock_guard lock(mutex);
  PeerPosition position;
  position.state = left[peer]     ? PeerPosition::State::Left
                   : joined[peer] ? PeerPosition::State::Lost
                                  : PeerPosition::State::NotJoined;
  return position;
}

std::vector<PeerPosition> PeerMonitor::askPositions(StringRef group,
                                                    std::chrono::milliseconds patience) {
  uint64_t id;
  {
    std::lock_guard lock(mutex);
    id = ++nextQuestion;
    questions[id] = {std::vector<PeerPosition>(size), size - 1};
  }
  std::string payload;
  appendNumber<uint64_t>(payload, id);
  payload += group.str();
  if (isHub())
    passOnQuestion(0, payload);
  else
    sendFrame(0, PeerFrame::Ask, rank, 0, payload);

  PeerPosition own = ownPosition(group);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, patience, [&] { return questions[id].missing == 0; });
  std::vector<PeerPosition> answers = std::move(questions[id].answers);
  questions.erase(id);
  answers[rank] = std::move(own);
  if (!isHub() && answers[0].state == PeerPosition::State::Silent)
    for (PeerPosition &position : answers)
      if (&position != &answers[0] && position.state == PeerPosition::State::Silent)
        position.state = PeerPosition::State::Unknown;
  return answers;
}

void PeerMonitor::recordAnswer(int from, StringRef payload) {
  uint64_t id = 0;
  std::optional<PeerPosition> position = decodePosition(payload, id);
  if (!position)
    return;
  {
    std::lock_guard lock(mutex);
    auto found = questions.find(id);
    if (found == questions.end() || from < 0 || from >= size)
      return;
    found->second.answers[from] = std::move(*position);
    --found->second.missing;
  }
  changed.notify_all();
}

/// Rank 0's part in a question: asks those who are there, answers for itself and the absent.
void PeerMonitor::passOnQuestion(int asker, StringRef payload) {
  bool ok = true;
  StringRef group = payload;
  uint64_t id = takeNumber<uint64_t>(group, ok);
  for (int peer = 0; ok && peer < size; ++peer) {
    if (peer == asker)
      continue;
    // One that has left does not read any more, though its connection may still stand.
    if (peer != 0 && positionOfAbsent(peer).state != PeerPosition::State::Left &&
        sendFrame(peer, PeerFrame::Ask, asker, peer, payload))
      continue;
    std::string answer =
        encodePosition(id, peer == 0 ? ownPosition(group) : positionOfAbsent(peer));
    if (asker == 0)
      recordAnswer(peer, answer);
    else
      sendFrame(asker, PeerFrame::Answer, peer, asker, answer);
  }
}

void PeerMonitor::recordLoss(PeerLoss lost) {
  {
    std::lock_guard lock(mutex);
    if (firstLoss || leaving)
      return;
  }
  // The others first: this rank may end as soon as it knows.
  if (isHub())
    for (int peer = 1; peer < size; ++peer)
      if (peer != lost.rank)
        sendFrame(peer, PeerFrame::Lost, 0, peer, encodeLoss(lost));
  std::function<void()> handler;
  {
    std::lock_guard lock(mutex);
    firstLoss = std::move(lost);
    lossTime = Clock::now();
    lossKnown.store(true, std::memory_order_release);
    handler = lossHandler;
  }
  changed.notify_all();
  if (handler)
    handler();
}

void PeerMonitor::onLoss(std::function<void()> handler) {
  std::lock_guard lock(mutex);
  lossHandler = std::move(handler);
}

void PeerMonitor::endAfterLoss(std::chrono::milliseconds grace,
                               std::function<void(const PeerLoss &)> end) {
  {
    std::lock_guard lock(mutex);
    endGrace = grace;
    endProcess = std::move(end);
  }
  wake();
}

std::optional<PeerLoss> PeerMonitor::loss() {
  return waitForLoss(std::chrono::milliseconds(0));
}

std::optional<PeerLoss> PeerMonitor::waitForLoss(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, patience, [&] { return firstLoss.has_value(); });
  return firstLoss;
}

bool PeerMonitor::waitForAll(Clock::time_point deadline) {
  std::unique_lock lock(mutex);
  changed.wait_until(lock, deadline, [&] { return everyoneHere || firstLoss; });
  return everyoneHere && !firstLoss;
}
