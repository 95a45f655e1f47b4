//===- CollectiveTime.h - seconds of a collective over a group ------*- C++ -*-===//

#ifndef CLEAVE_LIB_COST_COLLECTIVETIME_H
#define CLEAVE_LIB_COST_COLLECTIVETIME_H

#include "lib/cost/Cluster.h"

namespace cleave::cost {

/// `Send`: each rank to the one a stride further.
enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Send };

/// Seconds of a collective of a group, while the other groups of the same kind run it too: each has
/// the bandwidth of its own ranks' links. `bytes`: of the whole tensor (all-reduce), of the
/// gathered or the reduced one, of what a rank sends to all together (all-to-all, its own part
/// included).
///
/// Rings: n - 1 steps, twice for an all-reduce, each with a part of the bytes, at the pace of the
/// slowest level that the ring crosses, and with the latency of the level that it crosses. The
/// first 512 KiB that a ring sends in a step go at the bandwidth of a message, the rest at that of
/// rings. Trees, for all-reduces: twice the bytes; a latency for each of log2 steps between nodes,
/// and for each step of a chain within them, as NCCL builds trees. The faster counts. All begin
/// with the start of the outermost level that the group crosses.
double timeOf(const Cluster &cluster, Collective kind, const Group &group, double bytes);

/// Each rank sends each of its tokens, `bytes` all together, to `copies` ranks of the group at
/// random. A token that several ranks of a unit want crosses to that unit once.
double exchangeTime(const Cluster &cluster, const Group &group, double bytes, double copies);

/// Bytes from a rank to the one `stride` ranks further, while all ranks do the same.
double sendTime(const Cluster &cluster, int64_t stride, double bytes);

} // namespace cleave::cost

#endif // CLEAVE_LIB_COST_COLLECTIVETIME_H
