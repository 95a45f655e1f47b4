//===- PlaceIndex.cpp - the values of a program, numbered ---------------------===//

#include "runtime/step/PlaceIndex.h"
#include "runtime/io/Error.h"

using namespace cleave::runtime;

/// Roles of values that functions of a microbatch pass to each other.
static bool isHandedOn(RoleKind role) {
  return role == RoleKind::Saved || role == RoleKind::Crossing ||
         role == RoleKind::CrossingGradient;
}

PlaceIndex::PlaceIndex(const Program &program, const StageMap &stages, bool keepsInputs)
    : keepsInputs(keepsInputs) {
  for (auto [index, value] : llvm::enumerate(program.weights())) {
    weights[value.name] = index;
    for (const std::string &alias : value.aliases)
      weights[alias] = index;
  }
  for (auto [index, value] : llvm::enumerate(program.inputs()))
    inputs[value.name] = index;
  for (auto [index, value] : llvm::enumerate(program.optimizerStates()))
    states[stateKey(value.name, value.slot)] = index;
  numberResults(program);
  numberSaved(program, stages);
}

void PlaceIndex::numberResults(const Program &program) {
  for (auto [index, value] : llvm::enumerate(program.results(Phase::Microbatch))) {
    results[value.fileName] = index;
    if (value.role == RoleKind::Gradient)
      gradients[value.name] = index;
  }
  // A reduce function may wait for a bucket and give its members' gradients one by one.
  size_t count = program.results(Phase::Microbatch).size();
  for (const ValueInfo &value : program.results(Phase::Reduce)) {
    if (value.role == RoleKind::Gradient && gradients.try_emplace(value.name, count).second)
      ++count;
    if (value.role == RoleKind::StageSum)
      stageSums.try_emplace(value.name, stageSums.size());
  }
  // What an update reports, such as the norm of the gradients, is there until the next step begins.
  for (const ValueInfo &value : program.results(Phase::Update))
    if (value.role == RoleKind::Output && results.try_emplace(value.fileName, count).second)
      ++count;
  // So is what the schedule's own functions report.
  for (const ActionFunction &function : program.impl().actionFunctions)
    for (const ValueInfo &value : function.part.signature.results)
      if (value.role == RoleKind::Output && results.try_emplace(value.fileName, count).second)
        ++count;
  accumulated.resize(count);
  for (const ValueInfo &value : program.arguments(Phase::Microbatch))
    if (value.role == RoleKind::Accumulator)
      accumulated[gradients.lookup(value.name)] = true;
}

void PlaceIndex::numberSaved(const Program &program, const StageMap &stages) {
  auto runs = [&](const PhaseFunction &part) { return stages.runs(part); };
  auto parts = llvm::make_filter_range(program.impl().phaseFunctions, runs);
  for (const PhaseFunction &part : parts)
    if (part.phase == Phase::Unshard)
      for (const ValueInfo &value : part.signature.results)
        if (value.role == RoleKind::Saved)
          unsharded.try_emplace(savedKey(part, value, true), unsharded.size());
  for (const PhaseFunction &part : parts) {
    if (!llvm::is_contained(program.microbatchPhases(), part.phase))
      continue;
    for (const ValueInfo &value : part.signature.results)
      if (isHandedOn(value.role))
        saved.try_emplace(savedKey(part, value, true), saved.size());
    for (const ValueInfo &value : part.signature.arguments) {
      std::string key = isHandedOn(value.role) ? savedKey(part, value, false) : "";
      if (!key.empty() && !unsharded.contains(key)) {
        // What another rank makes arrives there.
        saved.try_emplace(key, saved.size());
        lastConsumer[key] = &part;
      }
      if (value.role == RoleKind::Input || value.role == RoleKind::Target)
        lastInputConsumer[value.name] = &part;
    }
  }
}

std::string PlaceIndex::crossingKey(bool isForward, int64_t boundary, llvm::StringRef name) {
  return ((isForward ? "crossing " : "crossing_gradient ") + llvm::Twine(boundary) + "\n" + name)
      .str();
}

/// The key of a value that functions pass to each other.
std::string PlaceIndex::savedKey(const PhaseFunction &part, const ValueInfo &value, bool isResult) {
  switch (value.role) {
  case RoleKind::Crossing:
    return crossingKey(true, isResult ? part.stage : part.stage - 1, value.name);
  case RoleKind::CrossingGradient:
    return crossingKey(false, isResult ? part.stage - 1 : part.stage, value.name);
  default:
    return value.name;
  }
}

Place PlaceIndex::ofSaved(const PhaseFunction &part, const ValueInfo &value, bool isResult) const {
  std::string key = savedKey(part, value, isResult);
  if (auto found = unsharded.find(key); found != unsharded.end())
    return {Place::Unsharded, found->second};
  return {Place::Saved, saved.lookup(key)};
}

llvm::Expected<Place> PlaceIndex::ofArgument(const PhaseFunction &part,
                                             const ValueInfo &value) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Constant:
    return Place{Place::Weight, weights.lookup(value.name)};
  case RoleKind::Input:
  case RoleKind::Target: {
    bool isLast = keepsInputs && lastInputConsumer.lookup(value.name) == &part;
    return Place{Place::Input, inputs.lookup(value.name), isLast};
  }
  case RoleKind::OptimizerState:
    return Place{Place::State, states.lookup(stateKey(value.name, value.slot))};
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
    return Place{Place::Result, gradients.lookup(value.name), /*isTied=*/true};
  case RoleKind::Seed:
    return Place{Place::Seed};
  case RoleKind::Step:
    return Place{Place::Step};
  case RoleKind::StageSum:
    return Place{Place::StageSum, stageSums.lookup(value.name)};
  case RoleKind::LossScale:
    return Place{Place::LossScale};
  case RoleKind::RngSeed:
    return Place{Place::RngSeed};
  case RoleKind::RngOffset:
    return Place{Place::RngOffset};
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient: {
    Place place = ofSaved(part, value, /*isResult=*/false);
    place.isTied =
        place.kind == Place::Saved && lastConsumer.lookup(savedKey(part, value, false)) == &part;
    return place;
  }
  case RoleKind::Loss:
  case RoleKind::Output:
    break;
  }
  return makeError("argument '{0}' has a role that only results have", value.fileName);
}

Place PlaceIndex::ofResult(const PhaseFunction &part, const ValueInfo &value) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
    return {Place::Weight, weights.lookup(value.name), true};
  case RoleKind::OptimizerState:
    return {Place::State, states.lookup(stateKey(value.name, value.slot)), true};
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient:
    return ofSaved(part, value, /*isResult=*/true);
  case RoleKind::Gradient:
    return {Place::Result, gradients.lookup(value.name)};
  case RoleKind::StageSum:
    return {Place::StageSum, stageSums.lookup(value.name)};
  default:
    return {Place::Result, results.lookup(value.fileName)};
  }
}
