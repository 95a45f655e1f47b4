//===- PeerConnections.cpp - The peer monitor's thread --------------------===//
//
// A star around rank 0, which accepts the others and passes on what concerns others.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/PeerMonitor.h"

#include "llvm/ADT/STLExtras.h"

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::runtime;
using llvm::StringRef;

bool PeerMonitor::sendFrame(int peer, PeerFrame kind, uint32_t from, uint32_t to,
                            StringRef payload) {
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

void PeerMonitor::takeFrames(int peer, Connection &connection) {
  bool open = receive(connection.socket, connection.received), bad = false;
  while (std::optional<std::string> frame = nextFrame(connection.received, bad))
    bad |= !takeFrame(peer, *frame);
  if (!open || bad)
    connectionBroke(peer);
}

bool PeerMonitor::takeFrame(int peer, StringRef frame) {
  bool ok = true;
  PeerFrame kind = static_cast<PeerFrame>(takeNumber<uint8_t>(frame, ok));
  uint32_t from = takeNumber<uint32_t>(frame, ok), to = takeNumber<uint32_t>(frame, ok);
  if (!ok || from >= uint32_t(size) || to >= uint32_t(size))
    return false;
  switch (kind) {
  case PeerFrame::AllHere: {
    std::lock_guard lock(mutex);
    everyoneHere = true;
    changed.notify_all();
    return true;
  }
  case PeerFrame::Left: {
    std::lock_guard lock(mutex);
    left[peer] = true;
    return true;
  }
  case PeerFrame::Failed:
  case PeerFrame::Lost:
    if (std::optional<PeerLoss> loss = decodeLoss(frame, size)) {
      recordLoss(std::move(*loss));
      return true;
    }
    return false;
  case PeerFrame::Ask: {
    if (isHub()) {
      passOnQuestion(peer, frame);
      return true;
    }
    StringRef group = frame;
    uint64_t id = takeNumber<uint64_t>(group, ok);
    if (ok)
      sendFrame(0, PeerFrame::Answer, rank, from, encodePosition(id, ownPosition(group)));
    return ok;
  }
  case PeerFrame::Answer:
    if (to == uint32_t(rank))
      recordAnswer(from, frame);
    else if (isHub())
      sendFrame(to, PeerFrame::Answer, peer, to, frame);
    return true;
  case PeerFrame::Hello:
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
  PeerFrame kind = static_cast<PeerFrame>(takeNumber<uint8_t>(fields, ok));
  uint32_t from = takeNumber<uint32_t>(fields, ok);
  takeNumber<uint32_t>(fields, ok);
  uint64_t key = takeNumber<uint64_t>(fields, ok);
  if (!ok || kind != PeerFrame::Hello || key != token || from == 0 || from >= uint32_t(size))
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
    PeerLoss refusal{
        peer, "another process has joined as this rank: two ranks have the same number", {}};
    sendAll(connection.socket, makeFrame(PeerFrame::Lost, 0, peer, encodeLoss(refusal)));
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
    sendFrame(peer, PeerFrame::Lost, 0, peer, encodeLoss(*earlier));
  if (complete)
    for (int each = 1; each < size; ++each)
      sendFrame(each, PeerFrame::AllHere, 0, each, "");
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
    recordLoss({peer, kProcessEnded.str(), {}});
}
