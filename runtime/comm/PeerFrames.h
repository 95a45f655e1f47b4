//===- PeerFrames.h - What peer monitors send each other --------*- C++ -*-===//
//
// A frame: u32 length of what follows, u8 kind, u32 sender, u32 addressee, payload; numbers are
// little-endian. Frames come from the network: decoding accepts nothing that does not fit.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_PEERFRAMES_H
#define CLEAVE_RUNTIME_COMM_PEERFRAMES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Why a rank is lost that did not say so itself.
inline constexpr llvm::StringLiteral kProcessEnded = "its process has ended or is unreachable";

/// The first rank that was lost, and why: it told its reason, or its connection broke.
struct PeerLoss {
  int rank;
  std::string reason;
  /// Whom that rank blames for its end, where not itself.
  std::vector<int> blamed;
};

/// Where a rank stood when it was asked.
struct PeerPosition {
  enum class State : uint8_t {
    NotJoined,
    Silent,
    Running,
    Left,
    Lost,
    Unknown ///< rank 0, through which it would have been asked, is silent
  } state = State::Silent;
  /// Number of operations of the group that the rank has started, and the last of them.
  uint64_t started = 0;
  std::string operation;
};

enum class PeerFrame : uint8_t { Hello, AllHere, Failed, Left, Lost, Ask, Answer };

/// Texts are cut to this length, so that every frame can be taken.
inline constexpr size_t kLongestText = 1 << 14;

template <typename T> void appendNumber(std::string &to, T value) {
  char bytes[sizeof(T)];
  llvm::support::endian::write<T, llvm::endianness::little>(bytes, value);
  to.append(bytes, sizeof(T));
}

/// Takes a number off the front; `ok` turns false if there is none left.
template <typename T> T takeNumber(llvm::StringRef &from, bool &ok) {
  if (from.size() < sizeof(T)) {
    ok = false;
    return T();
  }
  T value = llvm::support::endian::read<T, llvm::endianness::little>(from.data());
  from = from.drop_front(sizeof(T));
  return value;
}

std::string makeFrame(PeerFrame kind, uint32_t from, uint32_t to, llvm::StringRef payload);
/// Splits a complete frame, without its length, off the front of what was received. Sets `bad` for
/// an impossible length.
std::optional<std::string> nextFrame(std::string &received, bool &bad);

std::string encodePosition(uint64_t question, const PeerPosition &position);
std::optional<PeerPosition> decodePosition(llvm::StringRef payload, uint64_t &question);
std::string encodeLoss(const PeerLoss &loss);
/// `size`: number of ranks.
std::optional<PeerLoss> decodeLoss(llvm::StringRef payload, int size);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PEERFRAMES_H
