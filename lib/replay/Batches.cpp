//===- Batches.cpp - what roles say of a rank's microbatches ----------------===//

#include "lib/replay/Batches.h"
#include "dialects/dist/Placed.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::replay;
using train::RoleAttr;
using train::RoleKind;

static bool isOf(func::FuncOp function, train::Phase phase) {
  auto found = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  return found && found.getValue() == phase;
}

/// Whether attributes say no more than that ranks have shards of what an update takes and gives.
static bool areShards(RoleAttr role, dist::PlacementAttr placement) {
  for (const dist::AxisEntry &entry :
       placement ? placement.getEntries() : ArrayRef<dist::AxisEntry>())
    if (!entry.placement.isSameOnAllRanks() &&
        (!entry.placement.isShard() || !role ||
         (role.getKind() != RoleKind::Parameter && role.getKind() != RoleKind::OptimizerState &&
          role.getKind() != RoleKind::Accumulator && role.getKind() != RoleKind::Gradient)))
      return false;
  return true;
}

std::string Batches::read(llvm::ArrayRef<func::FuncOp> global, llvm::ArrayRef<func::FuncOp> local) {
  std::optional<ArrayAttr> common;
  bool isWhole = true, isAlike = true, isTyped = false;
  for (func::FuncOp function : global)
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (RoleAttr role = train::getArgumentRole(function, i))
        isWhole &= !role.getOver();
  for (func::FuncOp function : local)
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      RoleAttr role = train::getArgumentRole(function, i);
      isTyped |=
          dist::getPlacement(function.getArgumentTypes()[i]) ||
          !areShards(role, function.getArgAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr));
      if (!role || !role.getBatch() ||
          (role.getKind() != RoleKind::Input && role.getKind() != RoleKind::Target))
        continue;
      isAlike &= !common || *common == role.getOver();
      common = role.getOver();
    }
  for (func::FuncOp function : local)
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      isTyped |=
          dist::getPlacement(function.getResultTypes()[i]) ||
          !areShards(train::getResultRole(function, i),
                     function.getResultAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr));
  if (!isWhole)
    return "the inputs of one device are divided over ranks";
  if (!isAlike)
    return "inputs are divided over several axes";
  over = common.value_or(ArrayAttr());
  if (over && isTyped)
    return "values are divided by types, and inputs by roles";
  for (llvm::ArrayRef<func::FuncOp> functions : {global, local})
    for (func::FuncOp function : functions)
      for (unsigned i = 0; i < function.getNumResults(); ++i) {
        RoleAttr role = train::getResultRole(function, i);
        if (role && role.getKind() == RoleKind::Buffer)
          updated.insert(role.getName());
        // What a reduction of ranks returns is whole.
        if (role && role.getKind() == RoleKind::Gradient && isOf(function, train::Phase::Reduce) &&
            functions.data() == local.data())
          reduced.insert(role.getName());
      }
  return "";
}

Batches::How Batches::howOf(func::FuncOp function, RoleAttr role) const {
  if (!over || !role)
    return Same;
  switch (role.getKind()) {
  case RoleKind::Input:
  case RoleKind::Target:
    return role.getBatch() ? Own : Same;
  case RoleKind::Seed:
  case RoleKind::RngOffset:
  case RoleKind::Accumulator:
    return Own;
  case RoleKind::Buffer:
    return isUpdated(role) ? Own : Same;
  case RoleKind::Gradient:
    return isOf(function, train::Phase::Update) && reduced.contains(role.getName()) ? Same : Term;
  default:
    return Same;
  }
}

bool cleave::replay::isMadeOf(const Forms &forms, const Form &form,
                              const llvm::DenseSet<TermId> &leaves) {
  llvm::DenseSet<TermId> seen;
  std::vector<TermId> open;
  auto see = [&](TermId id) {
    if (seen.insert(id).second)
      open.push_back(id);
  };
  for (const Summand &summand : form)
    see(summand.value.term);
  while (!open.empty()) {
    TermId id = open.back();
    open.pop_back();
    if (leaves.contains(id))
      return true;
    const replay::Term &term = forms.get(id);
    for (const Reference &operand : term.operands)
      see(operand.term);
    for (const Summand &summand : term.body)
      see(summand.value.term);
  }
  return false;
}
