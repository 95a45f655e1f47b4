// How point-to-point transfers of the backend are matched and ordered.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_COMMMODEL_H
#define CLEAVE_LIB_SCHEDULE_MODEL_COMMMODEL_H

#include <cstdint>

namespace cleave::schedule {

/// Tag: a send meets the receive of its (stage, microbatch, direction), in any order (Gloo).
/// Fifo: the k-th send of a communicator meets its k-th receive, and what shares a stream runs one
/// after the other, in the order in which it was started (NCCL).
enum class Matching : uint8_t { Tag, Fifo };

/// Which transfers of a rank share a stream, and thus wait for each other (Fifo only).
enum class StreamSharing : uint8_t {
  World,     // all transfers of the rank: one communicator
  Peer,      // all transfers with one peer: a communicator per pair, as PyTorch's NCCL backend has
  Direction, // sends to one peer; receives from one peer: a communicator per ordered pair
  Kind,      // as Direction, with activations and gradients apart
};

struct CommModel {
  Matching matching = Matching::Tag;
  StreamSharing streams = StreamSharing::Direction;
  /// Buffers of a rank for receives, from start until the consumer has run; 0: unbounded.
  unsigned recvSlots = 0;
  /// Sends of a rank that may be incomplete at a time: the next one blocks the rank; 0: unbounded.
  unsigned sendSlots = 0;

  static CommModel gloo() { return {}; }
  static CommModel nccl(StreamSharing streams = StreamSharing::Direction) {
    return {Matching::Fifo, streams, 0, 0};
  }
  /// True if a receive may start before the send of an earlier transfer without blocking it.
  bool receivesAreIndependent() const {
    return matching == Matching::Tag || streams >= StreamSharing::Direction;
  }
};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_COMMMODEL_H
