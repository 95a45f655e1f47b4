//===- FrameGroups.cpp - functions that share a microbatch's frame ------------===//

#include "lib/memory/FrameGroups.h"
#include "dialects/train/Program.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;
using train::Phase;

static std::optional<Phase> getPhase(func::FuncOp function) {
  auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  return phase ? std::optional(phase.getValue()) : std::nullopt;
}

/// The place of a phase among those of a microbatch; none for what runs once per step.
static std::optional<unsigned> getOrder(Phase phase) {
  static constexpr Phase kOrder[] = {Phase::Microbatch, Phase::Forward, Phase::Backward,
                                     Phase::BackwardInput, Phase::BackwardWeight};
  const Phase *found = llvm::find(kOrder, phase);
  return found == std::end(kOrder) ? std::nullopt : std::optional<unsigned>(found - kOrder);
}

std::vector<FunctionGroup> cleave::exec::findFunctionGroups(ModuleOp module) {
  std::vector<FunctionGroup> groups;
  llvm::MapVector<std::pair<Attribute, Attribute>, size_t> byStage;
  for (auto function : module.getOps<func::FuncOp>()) {
    std::optional<Phase> phase = getPhase(function);
    if (!phase || !llvm::hasSingleElement(function.getBody()))
      continue;
    if (!getOrder(*phase)) {
      groups.push_back({{function}, /*hasFrame=*/false});
      continue;
    }
    auto [found, isNew] = byStage.try_emplace(
        {function->getAttr(train::kRanksAttrName), function->getAttr(train::kStageAttrName)},
        groups.size());
    if (isNew)
      groups.push_back({{}, /*hasFrame=*/true});
    groups[found->second].functions.push_back(function);
  }
  auto orderOf = [](func::FuncOp function) { return *getOrder(*getPhase(function)); };
  for (FunctionGroup &group : groups) {
    if (!group.hasFrame)
      continue;
    llvm::stable_sort(group.functions,
                      [&](func::FuncOp a, func::FuncOp b) { return orderOf(a) < orderOf(b); });
    for (size_t i = 1; i < group.functions.size(); ++i)
      group.hasFrame &= orderOf(group.functions[i - 1]) != orderOf(group.functions[i]);
  }
  return groups;
}

static StringAttr getSaved(train::RoleAttr role) {
  return role && role.getKind() == train::RoleKind::Saved ? role.getName() : StringAttr();
}

StringAttr cleave::exec::getSavedArgument(func::FuncOp function, unsigned argument) {
  return getSaved(train::getArgumentRole(function, argument));
}

StringAttr cleave::exec::getSavedResult(func::FuncOp function, unsigned result) {
  return getSaved(train::getResultRole(function, result));
}
