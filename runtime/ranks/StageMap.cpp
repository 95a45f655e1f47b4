//===- StageMap.cpp - which rank has which stage, and its values --------------===//

#include "runtime/ranks/StageMap.h"
#include "runtime/program/ProgramImpl.h"

using namespace cleave::runtime;

bool cleave::runtime::isRunBySchedule(const Program &program, const Communicator *world) {
  const ScheduleInfo *schedule = program.schedule();
  return schedule && (schedule->ranks == 1 || (world && world->size() > 1));
}

StageMap::StageMap(const Program &program, const RankGrid &grid)
    : scheduled(isRunBySchedule(program, grid.communicator())) {
  for (const ActionFunction &function : program.impl().actionFunctions)
    for (const ValueInfo &value : function.part.signature.results)
      if (value.role == RoleKind::Output)
        actionOutputs[value.fileName] = int(*llvm::min_element(function.ranks));
  if (!scheduled)
    return;
  const ProgramSchedule &plan = *program.impl().schedule;
  myPlace = int(grid.coordinate(plan.info.axis));
  numPlaces = int(plan.info.ranks);
  stageToPlace = plan.program.topology.stageToRank();
  isForwardOnly = plan.info.isForwardOnly;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    note(part);
}

int StageMap::placeOf(int64_t stage) const {
  return scheduled ? int(stageToPlace[stage]) : 0;
}

bool StageMap::runs(const PhaseFunction &part) const {
  bool isForward = part.phase == Phase::Forward || part.phase == Phase::Unshard;
  return holds(part.stage) && (!isForwardOnly || isForward);
}

void StageMap::note(const PhaseFunction &part) {
  int at = placeOf(part.stage);
  for (const ValueInfo &value : part.signature.arguments) {
    switch (value.role) {
    case RoleKind::Parameter:
    case RoleKind::Buffer:
    case RoleKind::Constant: {
      auto [entry, isNew] = weights.try_emplace(value.name);
      entry->second.places.insert(at);
      if (isNew)
        entry->second.owner = at;
      break;
    }
    case RoleKind::OptimizerState:
      states[value.name] = at;
      break;
    case RoleKind::Input:
    case RoleKind::Target:
      if (runs(part))
        inputs.try_emplace(value.name);
      break;
    default:
      break;
    }
  }
  for (const ValueInfo &value : part.signature.results) {
    if (value.role == RoleKind::Parameter || value.role == RoleKind::Buffer)
      weights[value.name].owner = at;
    bool isForward = part.phase == Phase::Forward;
    if (part.phase != Phase::Update && (isForward || !isForwardOnly)) {
      results[value.fileName] = at;
      for (const ValueInfo &member : value.members)
        results[member.fileName] = at;
    }
  }
}

bool StageMap::hasWeight(llvm::StringRef name) const {
  return !scheduled || weight(name).places.contains(myPlace);
}

int StageMap::placeOfState(llvm::StringRef parameter) const {
  return states.lookup(parameter);
}

std::optional<int> StageMap::placeOfResult(llvm::StringRef fileName) const {
  if (auto found = actionOutputs.find(fileName); found != actionOutputs.end())
    return scheduled ? std::optional<int>(found->second) : std::nullopt;
  if (!scheduled)
    return myPlace;
  auto found = results.find(fileName);
  return found == results.end() ? std::nullopt : std::optional<int>(found->second);
}
