//===- PeerMonitor.cpp - Which rank is lost, which is late ----------------===//
//
// A star around rank 0, which passes on what concerns others. Frames: u32 length of what follows,
// u8 kind, u32 sender, u32 addressee, payload; numbers are little-endian.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/PeerMonitor.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"

#include <cerrno>
#include <cstring>
#include <random>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;

static constexpr size_t kHeader = 13, kMaxFrame = 1 << 16, kMaxText = 1 << 14;

template <typename T> static void append(std::string &to, T value) {
  char bytes[sizeof(T)];
  llvm::support::endian::write<T, llvm::endianness::little>(bytes, value);
  to.append(bytes, sizeof(T));
}

/// Takes a number off the front; `ok` turns false where there is none left.
template <typename T> static T take(StringRef &from, bool &ok) {
  if (from.size() < sizeof(T)) {
    ok = false;
    return T();
  }
  T value = llvm::support::endian::read<T, llvm::endianness::little>(from.data());
  from = from.drop_front(sizeof(T));
  return value;
}

static std::string encodePosition(uint64_t question, const PeerPosition &position) {
  std::string payload;
  append<uint64_t>(payload, question);
  append<uint8_t>(payload, static_cast<uint8_t>(position.state));
  append<uint64_t>(payload, position.started);
  return payload + position.operation;
}

static std::string encodeLoss(const PeerLoss &loss) {
  std::string payload;
  append<uint32_t>(payload, loss.rank);
  append<uint32_t>(payload, loss.blamed.size());
  for (int blamed : loss.blamed)
    append<uint32_t>(payload, blamed);
  return payload + loss.reason;
}

static std::optional<PeerLoss> decodeLoss(StringRef payload, int size) {
  bool ok = true;
  PeerLoss loss;
  loss.rank = take<uint32_t>(payload, ok);
  for (uint32_t count = take<uint32_t>(payload, ok); ok && count; --count)
    loss.blamed.push_back(take<uint32_t>(payload, ok));
  loss.reason = payload.str();
  for (int rank : loss.blamed)
    ok &= rank >= 0 && rank < size;
  if (!ok || loss.rank < 0 || loss.rank >= size)
    return std::nullopt;
  return loss;
}

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
  append<uint64_t>(payload, monitor->token);
  monitor->sendFrame(0, Kind::Hello, rank, 0, payload);
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
    sendFrame(peer, Kind::Left, rank, peer, "");
}

void PeerMonitor::fail(StringRef reason, llvm::ArrayRef<int> blamed) {
  {
    std::lock_guard lock(mutex);
    // A rank that ends because another did has nothing to add.
    if (leaving || firstLoss)
      return;
    leaving = true;
  }
  std::string payload = encodeLoss({rank, reason.take_front(kMaxText).str(), blamed.vec()});
  for (int peer = 0; peer < size; ++peer)
    sendFrame(peer, isHub() ? Kind::Lost : Kind::Failed, rank, peer, payload);
}

//===----------------------------------------------------------------------===//
// Positions and losses
//===----------------------------------------------------------------------===//

void PeerMonitor::setPosition(StringRef group, uint64_t number, StringRef operation) {
  std::lock_guard lock(mutex);
  auto found = positions.find(group);
  if (found == positions.end())
    found = positions.emplace(group.str(), Started()).first;
  found->second.number = number;
  found->second.operation.assign(operation.data(), std::min(operation.size(), kMaxText));
}

PeerPosition PeerMonitor::ownPosition(StringRef group) {
  std::lock_guard lock(mutex);
  PeerPosition position;
  position.state = PeerPosition::State::Running;
  if (auto found = positions.find(group); found != positions.end()) {
    position.started = found->second.number;
    position.operation = found->second.operation;
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
  append<uint64_t>(payload, id);
  payload += group.str();
  if (isHub())
    passOnQuestion(0, payload);
  else
    sendFrame(0, Kind::Ask, rank, 0, payload);

  PeerPosition own = ownPosition(group);
  std::unique_lock lock(mutex);
  changed.wait_for(lock, patience, [&] { return questions[id].missing == 0; });
  std::vector<PeerPosition> answers = std::move(questions[id].answers);
  questions.erase(id);
  answers[rank] = std::move(own);
  return answers;
}

void PeerMonitor::recordAnswer(int from, StringRef payload) {
  bool ok = true;
  uint64_t id = take<uint64_t>(payload, ok);
  PeerPosition position;
  uint8_t state = take<uint8_t>(payload, ok);
  position.started = take<uint64_t>(payload, ok);
  position.operation = payload.str();
  if (!ok || state > static_cast<uint8_t>(PeerPosition::State::Lost))
    return;
  position.state = static_cast<PeerPosition::State>(state);
  {
    std::lock_guard lock(mutex);
    auto found = questions.find(id);
    if (found == questions.end() || from < 0 || from >= size)
      return;
    found->second.answers[from] = std::move(position);
    --found->second.missing;
  }
  changed.notify_all();
}

/// Rank 0's part in a question: asks those who are there, answers for itself and the absent.
void PeerMonitor::passOnQuestion(int asker, StringRef payload) {
  bool ok = true;
  StringRef group = payload;
  uint64_t id = take<uint64_t>(group, ok);
  for (int peer = 0; ok && peer < size; ++peer) {
    if (peer == asker)
      continue;
    if (peer != 0 && sendFrame(peer, Kind::Ask, asker, peer, payload))
      continue;
    std::string answer =
        encodePosition(id, peer == 0 ? ownPosition(group) : positionOfAbsent(peer));
    if (asker == 0)
      recordAnswer(peer, answer);
    else
      sendFrame(asker, Kind::Answer, peer, asker, answer);
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
        sendFrame(peer, Kind::Lost, 0, peer, encodeLoss(lost));
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

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

std::string PeerMonitor::makeFrame(Kind kind, uint32_t from, uint32_t to, StringRef payload) {
  std::string frame;
  append<uint32_t>(frame, kHeader - 4 + payload.size());
  append<uint8_t>(frame, static_cast<uint8_t>(kind));
  append<uint32_t>(frame, from);
  append<uint32_t>(frame, to);
  return frame + payload.str();
}

bool PeerMonitor::sendFrame(int peer, Kind kind, uint32_t from, uint32_t to, StringRef payload) {
  std::string frame = makeFrame(kind, from, to, payload);
  std::lock_guard lock(sendMutex);
  auto found = connections.find(peer);
  return found != connections.end() && sendAll(found->second.socket, frame);
}

void PeerMonitor::run() {
  std::vector<pollfd> waiting;
  std::vector<int> peers;
  for (;;) {
    int patience = -1;
    std::function<void()> end;
    {
      std::lock_guard lock(mutex);
      if (stopping)
        return;
      if (firstLoss && endProcess) {
        auto remaining =
            std::chrono::ceil<std::chrono::milliseconds>(lossTime + endGrace - Clock::now());
        patience = static_cast<int>(std::max<int64_t>(remaining.count(), 0));
        if (patience == 0)
          end = [loss = *firstLoss, handler = std::exchange(endProcess, nullptr)] {
            handler(loss);
          };
      }
    }
    if (end) {
      end();
      continue;
    }
    waiting = {{wakeEvent.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    peers.clear();
    for (auto &[peer, connection] : connections) {
      waiting.push_back({connection.socket.get(), POLLIN, 0});
      peers.push_back(peer);
    }
    for (Connection &newcomer : newcomers)
      waiting.push_back({newcomer.socket.get(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), patience) < 0 && errno != EINTR)
      return;
    uint64_t count;
    (void)!::read(wakeEvent.get(), &count, sizeof count);

    for (size_t i = 0; i < peers.size(); ++i)
      if (waiting[2 + i].revents)
        takeFrames(peers[i], connections.find(peers[i])->second);
    size_t first = 2 + peers.size();
    for (size_t i = newcomers.size(); i-- > 0;)
      if (waiting[first + i].revents && greet(newcomers[i]))
        newcomers.erase(newcomers.begin() + i);
    if (waiting[1].revents)
      acceptNewcomers();
  }
}

/// Appends what has arrived; false once the connection has ended.
static bool receive(const FileDescriptor &socket, std::string &to) {
  char buffer[4096];
  ssize_t length = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (length > 0)
    to.append(buffer, length);
  return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

/// Splits a complete frame, without its length, off the front. Sets `bad` for an impossible length.
static std::optional<std::string> nextFrame(std::string &received, bool &bad) {
  if (received.size() < 4)
    return std::nullopt;
  uint32_t length = llvm::support::endian::read32le(received.data());
  if (length < kHeader - 4 || length > kMaxFrame) {
    bad = true;
    return std::nullopt;
  }
  if (received.size() < 4 + length)
    return std::nullopt;
  std::string frame = received.substr(4, length);
  received.erase(0, 4 + length);
  return frame;
}

void PeerMonitor::takeFrames(int peer, Connection &connection) {
  bool open = receive(connection.socket, connection.received), bad = false;
  while (std::optional<std::string> frame = nextFrame(connection.received, bad))
    bad |= !takeFrame(peer, *frame);
  if (!open || bad)
    connectionBroke(peer);
}

bool PeerMonitor::takeFrame(int peer, StringRef frame) {
  bool ok = true;
  Kind kind = static_cast<Kind>(take<uint8_t>(frame, ok));
  uint32_t from = take<uint32_t>(frame, ok), to = take<uint32_t>(frame, ok);
  if (!ok || from >= uint32_t(size) || to >= uint32_t(size))
    return false;
  switch (kind) {
  case Kind::AllHere: {
    std::lock_guard lock(mutex);
    everyoneHere = true;
    changed.notify_all();
    return true;
  }
  case Kind::Left: {
    std::lock_guard lock(mutex);
    left[peer] = true;
    return true;
  }
  case Kind::Failed:
  case Kind::Lost:
    if (std::optional<PeerLoss> loss = decodeLoss(frame, size)) {
      recordLoss(std::move(*loss));
      return true;
    }
    return false;
  case Kind::Ask: {
    if (isHub()) {
      passOnQuestion(peer, frame);
      return true;
    }
    StringRef group = frame;
    uint64_t id = take<uint64_t>(group, ok);
    if (ok)
      sendFrame(0, Kind::Answer, rank, from, encodePosition(id, ownPosition(group)));
    return ok;
  }
  case Kind::Answer:
    if (to == uint32_t(rank))
      recordAnswer(from, frame);
    else if (isHub())
      sendFrame(to, Kind::Answer, peer, to, frame);
    return true;
  case Kind::Hello:
    break;
  }
  return false;
}

void PeerMonitor::acceptNewcomers() {
  if (FileDescriptor socket = acceptFrom(listener)) {
    // More strangers than ranks are not ours: keep the newest.
    if (newcomers.size() > size_t(size) + 16)
      newcomers.erase(newcomers.begin());
    newcomers.push_back({std::move(socket), ""});
  }
}

/// Takes a newcomer's first frame. True when it is no longer a newcomer: it is a peer, or gone.
bool PeerMonitor::greet(Connection &connection) {
  bool open = receive(connection.socket, connection.received), bad = false;
  std::optional<std::string> frame = nextFrame(connection.received, bad);
  if (!frame)
    return !open || bad;
  StringRef fields = *frame;
  bool ok = true;
  Kind kind = static_cast<Kind>(take<uint8_t>(fields, ok));
  uint32_t from = take<uint32_t>(fields, ok);
  take<uint32_t>(fields, ok);
  uint64_t key = take<uint64_t>(fields, ok);
  if (!ok || kind != Kind::Hello || key != token || from == 0 || from >= uint32_t(size))
    return true;
  welcome(from, std::move(connection));
  return true;
}

void PeerMonitor::welcome(int peer, Connection connection) {
  bool taken;
  {
    std::lock_guard lock(mutex);
    taken = joined[peer];
  }
  if (taken) {
    PeerLoss refusal{peer, "another process has joined as this rank: two have the same number", {}};
    sendAll(connection.socket, makeFrame(Kind::Lost, 0, peer, encodeLoss(refusal)));
    return;
  }
  {
    std::lock_guard lock(sendMutex);
    connections.insert_or_assign(peer, std::move(connection));
  }
  std::optional<PeerLoss> earlier;
  bool complete;
  {
    std::lock_guard lock(mutex);
    joined[peer] = true;
    everyoneHere = complete = llvm::all_of(joined, [](bool here) { return here; });
    earlier = firstLoss;
  }
  changed.notify_all();
  if (earlier)
    sendFrame(peer, Kind::Lost, 0, peer, encodeLoss(*earlier));
  if (complete)
    for (int each = 1; each < size; ++each)
      sendFrame(each, Kind::AllHere, 0, each, "");
}

void PeerMonitor::connectionBroke(int peer) {
  bool expected;
  {
    std::lock_guard lock(mutex);
    expected = left[peer];
  }
  {
    std::lock_guard lock(sendMutex);
    connections.erase(peer);
  }
  if (!expected)
    recordLoss({peer, "its process has ended or cannot be reached any more", {}});
}
