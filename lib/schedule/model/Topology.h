// Which rank holds which stage.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_TOPOLOGY_H
#define CLEAVE_LIB_SCHEDULE_MODEL_TOPOLOGY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::schedule {

/// Loop: stage s is on rank s mod ranks. V: the first pass over the ranks ascends, the next
/// descends, and so on, so that the first and the last of two chunks share rank 0. Custom: any map.
enum class TopologyStyle : uint8_t { Loop, V, Custom };

llvm::StringRef getStyleName(TopologyStyle style);
std::optional<TopologyStyle> parseTopologyStyle(llvm::StringRef name);

/// A map from stages to ranks, and its inverse. Every rank holds at least one stage.
class Topology {
public:
  Topology() = default;

  /// Fails unless ranks >= 1 and `stages` is a positive multiple of `ranks`. `style` is Loop or V.
  static llvm::Expected<Topology> get(TopologyStyle style, unsigned ranks, unsigned stages);
  /// Fails if a rank is out of range or holds no stage. The style is Loop or V where the map
  /// happens to be one of them (one chunk is a Loop).
  static llvm::Expected<Topology> fromMap(unsigned ranks, llvm::ArrayRef<unsigned> stageToRank);

  TopologyStyle style() const { return topologyStyle; }
  unsigned numRanks() const { return static_cast<unsigned>(byRank.size()); }
  unsigned numStages() const { return static_cast<unsigned>(byStage.size()); }
  unsigned rankOf(unsigned stage) const { return byStage[stage]; }
  /// The stages of a rank, ascending: its chunks.
  llvm::ArrayRef<unsigned> stagesOf(unsigned rank) const { return byRank[rank]; }
  llvm::ArrayRef<unsigned> stageToRank() const { return byStage; }
  /// "loop", "v", or the rank of each stage: "[0 1 1 0]".
  std::string str() const;

  bool operator==(const Topology &o) const { return byStage == o.byStage; }

private:
  TopologyStyle topologyStyle = TopologyStyle::Loop;
  std::vector<unsigned> byStage;
  std::vector<std::vector<unsigned>> byRank;
};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_TOPOLOGY_H
