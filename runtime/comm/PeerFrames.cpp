//===- PeerFrames.cpp - What peer monitors send each other ----------------===//

#include "runtime/comm/PeerFrames.h"

using namespace cleave::runtime;
using llvm::StringRef;

static constexpr size_t kHeader = 13, kLongestFrame = 1 << 16;

std::string cleave::runtime::makeFrame(PeerFrame kind, uint32_t from, uint32_t to,
                                       StringRef payload) {
  std::string frame;
  appendNumber<uint32_t>(frame, kHeader - 4 + payload.size());
  appendNumber<uint8_t>(frame, static_cast<uint8_t>(kind));
  appendNumber<uint32_t>(frame, from);
  appendNumber<uint32_t>(frame, to);
  return frame + payload.str();
}

std::optional<std::string> cleave::runtime::nextFrame(std::string &received, bool &bad) {
  if (received.size() < 4)
    return std::nullopt;
  uint32_t length = llvm::support::endian::read32le(received.data());
  if (length < kHeader - 4 || length > kLongestFrame) {
    bad = true;
    return std::nullopt;
  }
  if (received.size() < 4 + length)
    return std::nullopt;
  std::string frame = received.substr(4, length);
  received.erase(0, 4 + length);
  return frame;
}

std::string cleave::runtime::encodePosition(uint64_t question, const PeerPosition &position) {
  std::string payload;
  appendNumber<uint64_t>(payload, question);
  appendNumber<uint8_t>(payload, static_cast<uint8_t>(position.state));
  appendNumber<uint64_t>(payload, position.started);
  return payload + position.operation;
}

std::optional<PeerPosition> cleave::runtime::decodePosition(StringRef payload, uint64_t &question) {
  bool ok = true;
  PeerPosition position;
  question = takeNumber<uint64_t>(payload, ok);
  uint8_t state = takeNumber<uint8_t>(payload, ok);
  position.started = takeNumber<uint64_t>(payload, ok);
  position.operation = payload.str();
  if (!ok || state > static_cast<uint8_t>(PeerPosition::State::Lost))
    return std::nullopt;
  position.state = static_cast<PeerPosition::State>(state);
  return position;
}

std::string cleave::runtime::encodeLoss(const PeerLoss &loss) {
  std::string payload;
  appendNumber<uint32_t>(payload, loss.rank);
  appendNumber<uint32_t>(payload, loss.blamed.size());
  for (int blamed : loss.blamed)
    appendNumber<uint32_t>(payload, blamed);
  return payload + loss.reason;
}

std::optional<PeerLoss> cleave::runtime::decodeLoss(StringRef payload, int size) {
  bool ok = true;
  PeerLoss loss;
  loss.rank = takeNumber<uint32_t>(payload, ok);
  for (uint32_t count = takeNumber<uint32_t>(payload, ok); ok && count; --count)
    loss.blamed.push_back(takeNumber<uint32_t>(payload, ok));
  loss.reason = payload.str();
  for (int rank : loss.blamed)
    ok &= rank >= 0 && rank < size;
  if (!ok || loss.rank < 0 || loss.rank >= size)
    return std::nullopt;
  return loss;
}
