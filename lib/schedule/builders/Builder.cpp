// The registry, and the preconditions that builders share.
#include "lib/schedule/builders/Builder.h"

#include "lib/schedule/builders/Builders.h"
#include "lib/support/Error.h"

#include "llvm/ADT/StringExtras.h"

using namespace cleave::schedule;
using cleave::makeError;

/// Names are looked up without case, '-' and '_'.
static std::string canonicalName(llvm::StringRef name) {
  std::string text;
  for (char c : name)
    if (c != '-' && c != '_')
      text += llvm::toLower(c);
  return text;
}

ScheduleRegistry &ScheduleRegistry::global() {
  static ScheduleRegistry registry = [] {
    ScheduleRegistry built;
    addBuiltinSchedules(built);
    return built;
  }();
  return registry;
}

llvm::Error ScheduleRegistry::add(std::unique_ptr<ScheduleBuilder> builder,
                                  llvm::ArrayRef<llvm::StringRef> aliases) {
  llvm::SmallVector<std::string> keys = {canonicalName(builder->name())};
  for (llvm::StringRef alias : aliases)
    keys.push_back(canonicalName(alias));
  for (const std::string &key : keys) {
    if (key.empty())
      return makeError("a schedule needs a name");
    for (const auto &[name, existing] : names)
      if (name == key)
        return makeError("a schedule named '{0}' is already registered: {1}", existing->name(),
                         existing->description());
  }
  for (std::string &key : keys)
    names.emplace_back(std::move(key), builder.get());
  builders.push_back(std::move(builder));
  return llvm::Error::success();
}

const ScheduleBuilder *ScheduleRegistry::find(llvm::StringRef name) const {
  std::string key = canonicalName(name);
  for (const auto &[registered, builder] : names)
    if (registered == key)
      return builder;
  return nullptr;
}

std::vector<const ScheduleBuilder *> ScheduleRegistry::all() const {
  std::vector<const ScheduleBuilder *> result;
  for (const auto &builder : builders)
    result.push_back(builder.get());
  return result;
}

void cleave::schedule::registerSchedule(std::unique_ptr<ScheduleBuilder> builder,
                                        llvm::ArrayRef<llvm::StringRef> aliases) {
  if (llvm::Error error = ScheduleRegistry::global().add(std::move(builder), aliases))
    llvm::report_fatal_error(std::move(error), /*gen_crash_diag=*/false);
}

llvm::Expected<Schedule> cleave::schedule::buildSchedule(llvm::StringRef name,
                                                         const BuildRequest &request) {
  const ScheduleRegistry &registry = ScheduleRegistry::global();
  if (const ScheduleBuilder *builder = registry.find(name))
    return builder->build(request);
  std::string known;
  for (const ScheduleBuilder *builder : registry.all())
    known += (known.empty() ? "" : ", ") + builder->name().str();
  return makeError("unknown schedule '{0}'; known schedules: {1}", name, known);
}

llvm::Expected<Schedule> cleave::schedule::startSchedule(const ScheduleBuilder &builder,
                                                         const BuildRequest &request,
                                                         const Preconditions &needs) {
  llvm::StringRef name = builder.name();
  if (request.ranks == 0)
    return makeError("schedule '{0}' needs at least 1 rank, found 0", name);
  if (request.microbatches == 0)
    return makeError("schedule '{0}' needs at least 1 microbatch, found 0", name);
  if (request.microbatches > maxMicrobatches)
    return makeError("schedule '{0}': at most {1} microbatches are supported, found {2}", name,
                     maxMicrobatches, request.microbatches);
  unsigned chunks = request.chunks.value_or(builder.defaultChunks());
  uint64_t stages = request.stages.value_or(0);
  if (request.stages) {
    if (stages < request.ranks)
      return makeError("schedule '{0}' needs a stage for each of the {1} ranks, found {2}", name,
                       request.ranks, stages);
    if (stages % request.ranks != 0 && !needs.unevenAllowed)
      return makeError("schedule '{0}' needs the same number of stages on each rank, found {1} "
                       "stages for {2} ranks; 'looped-bfs' and schedules from files do not",
                       name, stages, request.ranks);
    chunks = unsigned(llvm::divideCeil(stages, request.ranks));
  }
  if (chunks == 0)
    return makeError("schedule '{0}' needs at least 1 chunk (stage per rank), found 0", name);
  if (needs.chunks && chunks != *needs.chunks)
    return makeError("schedule '{0}' needs exactly {1} {2} per rank, found {3}", name,
                     *needs.chunks, *needs.chunks == 1 ? "stage" : "stages", chunks);
  if (request.forwardOnly && !needs.forwardOnlyAllowed)
    return makeError("schedule '{0}' orders backward actions and cannot run forward only; "
                     "'looped-bfs' and 'gpipe' can",
                     name);
  TopologyStyle style = request.topology.value_or(builder.defaultTopology());
  // One chunk is a loop and a V at once.
  if (chunks > 1 && needs.topology && style != *needs.topology)
    return makeError("schedule '{0}' needs the {1} topology, found {2}", name,
                     getStyleName(*needs.topology), getStyleName(style));
  if (!request.stages)
    stages = uint64_t(request.ranks) * chunks;
  if (stages > maxStages)
    return makeError("schedule '{0}': at most {1} stages are supported, found {2} ranks with {3} "
                     "stages each",
                     name, maxStages, request.ranks, chunks);
  constexpr uint64_t maxSteps = 1u << 28; // about 10 GB of actions
  uint64_t steps = stages * request.microbatches;
  if (steps > maxSteps)
    return makeError("schedule '{0}': {1} stages with {2} microbatches are {3} steps, at most {4} "
                     "are supported",
                     name, stages, request.microbatches, steps, maxSteps);
  auto topology = Topology::get(style, request.ranks, unsigned(stages));
  if (!topology)
    return topology.takeError();
  Schedule program;
  program.name = name.str();
  program.topology = std::move(*topology);
  program.numMicrobatches = request.microbatches;
  program.forwardOnly = request.forwardOnly;
  program.ranks.resize(request.ranks);
  return program;
}
