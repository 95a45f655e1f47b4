// The stage-to-rank maps and their checks.
#include "lib/schedule/model/Topology.h"

#include "lib/schedule/model/Action.h"
#include "lib/support/Error.h"

#include "llvm/ADT/StringExtras.h"

using namespace cleave::schedule;
using cleave::makeError;

llvm::StringRef cleave::schedule::getStyleName(TopologyStyle style) {
  switch (style) {
  case TopologyStyle::Loop:
    return "loop";
  case TopologyStyle::V:
    return "v";
  case TopologyStyle::Custom:
    return "custom";
  }
  return "custom";
}

std::optional<TopologyStyle> cleave::schedule::parseTopologyStyle(llvm::StringRef name) {
  if (name.equals_insensitive("loop"))
    return TopologyStyle::Loop;
  if (name.equals_insensitive("v"))
    return TopologyStyle::V;
  return std::nullopt;
}

static unsigned rankInStyle(TopologyStyle style, unsigned ranks, unsigned stage) {
  unsigned pass = stage / ranks, offset = stage % ranks;
  return style == TopologyStyle::V && pass % 2 ? ranks - 1 - offset : offset;
}

llvm::Expected<Topology> Topology::get(TopologyStyle style, unsigned ranks, unsigned stages) {
  if (ranks == 0)
    return makeError("a pipeline needs at least 1 rank, found 0");
  if (stages < ranks)
    return makeError("a {0} topology needs a stage for each of the {1} ranks, found {2}",
                     getStyleName(style), ranks, stages);
  if (style == TopologyStyle::V && stages % ranks)
    return makeError("a v topology needs a multiple of the {0} ranks as the number of stages, "
                     "found {1}",
                     ranks, stages);
  if (stages > maxStages)
    return makeError("at most {0} stages are supported, found {1}", maxStages, stages);
  if (style == TopologyStyle::Custom)
    return makeError("a custom topology is given by its map from stages to ranks");
  std::vector<unsigned> map(stages);
  for (unsigned stage = 0; stage < stages; ++stage)
    map[stage] = rankInStyle(style, ranks, stage);
  auto topology = fromMap(ranks, map);
  if (topology)
    topology->topologyStyle = style;
  return topology;
}

llvm::Expected<Topology> Topology::fromMap(unsigned ranks, llvm::ArrayRef<unsigned> stageToRank) {
  if (stageToRank.size() > maxStages)
    return makeError("at most {0} stages are supported, found {1}", maxStages, stageToRank.size());
  Topology topology;
  topology.byStage = stageToRank.vec();
  topology.byRank.resize(ranks);
  bool loop = true, v = true;
  for (unsigned stage = 0; stage < stageToRank.size(); ++stage) {
    unsigned rank = stageToRank[stage];
    if (rank >= ranks)
      return makeError("stage {0} is placed on rank {1}, but there are {2} ranks", stage, rank,
                       ranks);
    topology.byRank[rank].push_back(stage);
    loop &= rank == rankInStyle(TopologyStyle::Loop, ranks, stage);
    v &= rank == rankInStyle(TopologyStyle::V, ranks, stage);
  }
  for (unsigned rank = 0; rank < ranks; ++rank)
    if (topology.byRank[rank].empty())
      return makeError("rank {0} holds no stage: {1} stages on {2} ranks", rank, stageToRank.size(),
                       ranks);
  if (ranks == 0)
    return makeError("a pipeline needs at least 1 rank, found 0");
  v &= stageToRank.size() % ranks == 0;
  topology.topologyStyle = loop ? TopologyStyle::Loop
                           : v  ? TopologyStyle::V
                                : TopologyStyle::Custom;
  return topology;
}

std::string Topology::str() const {
  if (topologyStyle != TopologyStyle::Custom)
    return getStyleName(topologyStyle).str();
  return "[" +
         llvm::join(llvm::map_range(byStage, [](unsigned rank) { return std::to_string(rank); }),
                    " ") +
         "]";
}
