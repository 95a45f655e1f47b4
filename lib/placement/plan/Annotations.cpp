//===- Annotations.cpp - placements said so far, and by which rule -----------===//

#include "lib/placement/plan/Annotations.h"

#include "dialects/train/Program.h"
#include "lib/placement/RuleLocation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

static std::string describeRole(train::RoleAttr role) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << train::stringifyRoleKind(role.getKind());
  if (role.getName())
    os << " \"" << role.getNameOrEmpty() << "\"";
  if (role.getSlot())
    os << " slot \"" << role.getSlotOrEmpty() << "\"";
  return text;
}

std::string placement::describe(Site site) {
  if (auto *operand = dyn_cast<OpOperand *>(site)) {
    if (isa<func::ReturnOp>(operand->getOwner())) {
      auto function = operand->getOwner()->getParentOfType<func::FuncOp>();
      if (train::RoleAttr role = train::getResultRole(function, operand->getOperandNumber()))
        return "result " + describeRole(role);
      return "result " + std::to_string(operand->getOperandNumber()) + " of @" +
             function.getSymName().str();
    }
    return "operand " + std::to_string(operand->getOperandNumber()) + " of '" +
           operand->getOwner()->getName().getStringRef().str() + "'";
  }
  auto value = cast<Value>(site);
  if (auto result = dyn_cast<OpResult>(value))
    return "result " + std::to_string(result.getResultNumber()) + " of '" +
           result.getOwner()->getName().getStringRef().str() + "'";
  auto argument = cast<BlockArgument>(value);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber()))
    return describeRole(role);
  return "argument " + std::to_string(argument.getArgNumber()) + " of @" +
         function.getSymName().str();
}

Location placement::getLoc(Site site) {
  if (auto *operand = dyn_cast<OpOperand *>(site))
    return operand->getOwner()->getLoc();
  return cast<Value>(site).getLoc();
}

Type placement::getType(Site site) {
  if (auto *operand = dyn_cast<OpOperand *>(site))
    return operand->get().getType();
  return cast<Value>(site).getType();
}

static dist::PlacementAttr getAttr(Site site) {
  if (auto *operand = dyn_cast<OpOperand *>(site))
    return dist::getPlacementOf(*operand);
  return dist::getPlacementOf(cast<Value>(site));
}

void Annotations::addExisting(func::FuncOp function) {
  auto add = [&](Site site) {
    dist::PlacementAttr attribute = getAttr(site);
    if (!attribute)
      return;
    SmallVector<dist::AxisEntry> ordered(attribute.getEntries());
    llvm::stable_sort(ordered, [](const dist::AxisEntry &a, const dist::AxisEntry &b) {
      return a.placement.order < b.placement.order;
    });
    for (const dist::AxisEntry &entry : ordered)
      sites[site].push_back(
          {entry.axis.getValue().str(), entry.placement, Strength::Explicit, nullptr});
  };
  for (BlockArgument argument : function.getArguments())
    add(Value(argument));
  function.walk([&](Operation *op) {
    if (op == function)
      return;
    for (OpOperand &operand : op->getOpOperands())
      add(&operand);
    for (Value result : op->getResults())
      add(result);
  });
}

static std::string nameRule(const PlanRule *rule) {
  return rule ? rule->where() : "its attribute in the program";
}

LogicalResult Annotations::disagree(Site site, const Entry &old, const Entry &found) const {
  return emitError(getLoc(site)) << nameRule(found.rule) << " places " << describe(site) << " "
                                 << found.placement << " on axis \"" << found.axis << "\", but "
                                 << nameRule(old.rule) << " places it " << old.placement;
}

FailureOr<bool> Annotations::place(Site site, StringRef axis, AxisPlacement placement,
                                   const PlanRule &rule, Strength strength) {
  auto type = dyn_cast<RankedTensorType>(getType(site));
  if (!type)
    return emitError(getLoc(site)) << rule.where() << " places " << describe(site) << " on axis \""
                                   << axis << "\", but it is not a tensor: " << getType(site);
  if (placement.isShard()) {
    int64_t dim = placement.dim < 0 ? placement.dim + type.getRank() : placement.dim;
    if (dim < 0 || dim >= type.getRank())
      return emitError(getLoc(site))
             << rule.where() << " places " << describe(site) << " " << placement << " on axis \""
             << axis << "\", but it has " << type.getRank() << " dimensions: " << type;
    placement.dim = dim;
  }
  if (mesh.findAxis(axis).getSize() == 1)
    return true;

  Entry found{axis.str(), placement, strength, &rule};
  Entries &entries = sites[site];
  Entry *old = llvm::find_if(entries, [&](const Entry &entry) { return entry.axis == axis; });
  if (old == entries.end()) {
    Entry *at = entries.end();
    if (strength == Strength::Explicit)
      at = llvm::find_if(entries, [](auto &entry) { return entry.strength == Strength::Default; });
    entries.insert(at, found);
    return true;
  }
  AxisPlacement before = old->placement;
  before.order = 0;
  if (before == placement)
    return true;
  if (old->strength == strength)
    return disagree(site, *old, found);
  if (strength == Strength::Default)
    return false;
  *old = found;
  return true;
}

std::optional<AxisPlacement> Annotations::get(Site site, StringRef axis) const {
  auto found = sites.find(site);
  if (found == sites.end())
    return std::nullopt;
  for (const Entry &entry : found->second)
    if (entry.axis == axis)
      return entry.placement;
  return std::nullopt;
}

bool Annotations::isExplicit(Site site, StringRef axis) const {
  return llvm::any_of(sites.lookup(site), [&](const Entry &entry) {
    return entry.axis == axis && entry.strength == Strength::Explicit;
  });
}

int64_t Annotations::countShards(Site site, int64_t dim,
                                 llvm::function_ref<bool(const Entry &)> counts) const {
  int64_t count = 1;
  dist::MeshOp op = mesh;
  auto found = sites.find(site);
  if (found != sites.end())
    for (const Entry &entry : found->second)
      if (entry.placement.isShard(dim) && counts(entry))
        count *= op.findAxis(entry.axis).getSize();
  return count;
}

int64_t Annotations::countExplicitShards(Site site, int64_t dim) const {
  return countShards(site, dim,
                     [](const Entry &entry) { return entry.strength == Strength::Explicit; });
}

int64_t Annotations::countOtherShards(Site site, int64_t dim, StringRef axis) const {
  return countShards(site, dim, [&](const Entry &entry) { return entry.axis != axis; });
}

namespace {
/// The attributes of functions' arguments and results, written all at once: each list of them
/// lives as long as the context.
class SignatureAttributes {
public:
  void set(BlockArgument argument, dist::PlacementAttr placement) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    set(get(function).arguments[argument.getArgNumber()], placement);
  }
  /// Of a return's operand.
  void set(OpOperand &operand, dist::PlacementAttr placement) {
    auto function = operand.getOwner()->getParentOfType<func::FuncOp>();
    set(get(function).results[operand.getOperandNumber()], placement);
  }

  void write() {
    for (auto &[function, lists] : functions) {
      function.setAllArgAttrs(lists.arguments);
      function.setAllResultAttrs(lists.results);
    }
  }

private:
  struct Lists {
    SmallVector<DictionaryAttr> arguments, results;
  };

  Lists &get(func::FuncOp function) {
    auto [entry, isNew] = functions.try_emplace(function);
    if (isNew) {
      function.getAllArgAttrs(entry->second.arguments);
      function.getAllResultAttrs(entry->second.results);
    }
    return entry->second;
  }

  static void set(DictionaryAttr &attributes, dist::PlacementAttr placement) {
    NamedAttrList list(attributes);
    list.set(dist::kPlacementAttr, placement);
    attributes = list.getDictionary(placement.getContext());
  }

  llvm::MapVector<func::FuncOp, Lists> functions;
};
} // namespace

LogicalResult Annotations::write() {
  SignatureAttributes signatures;
  auto symbol = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  for (auto &[site, entries] : sites) {
    SmallVector<dist::AxisEntry> placed;
    llvm::SmallDenseMap<int64_t, int64_t> orders;
    for (const Entry &entry : entries) {
      AxisPlacement placement = entry.placement;
      if (placement.isShard())
        placement.order = orders[placement.dim]++;
      placed.push_back({StringAttr::get(mesh.getContext(), entry.axis), placement});
    }
    std::string rules = llvm::join(
        llvm::map_range(entries, [](const Entry &entry) { return nameRule(entry.rule); }), ", ");
    auto emit = [&, &site = site] {
      return emitError(getLoc(site)) << describe(site) << ", as placed by " << rules << ": ";
    };
    auto attribute = dist::PlacementAttr::getChecked(emit, symbol, placed);
    if (!attribute)
      return failure();
    auto type = cast<RankedTensorType>(getType(site));
    if (failed(attribute.verifyEncoding(type.getShape(), type.getElementType(), emit)))
      return failure();
    if (auto *operand = dyn_cast<OpOperand *>(site)) {
      if (isa<func::ReturnOp>(operand->getOwner()))
        signatures.set(*operand, attribute);
      else
        dist::setPlacementOf(*operand, attribute);
      continue;
    }
    auto value = cast<Value>(site);
    if (auto argument = dyn_cast<BlockArgument>(value))
      signatures.set(argument, attribute);
    else
      dist::setPlacementOf(value, attribute);
    llvm::StringMap<std::string> byAxis;
    for (const Entry &entry : entries)
      if (entry.rule)
        byAxis[entry.axis] = entry.rule->name;
    if (!byAxis.empty())
      value.setLoc(withRules(value.getLoc(), byAxis));
  }
  signatures.write();
  return success();
}
