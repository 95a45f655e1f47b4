//===- RuleLocation.cpp - which rule of a plan has placed a value ------------===//

#include "lib/placement/RuleLocation.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;

static constexpr StringLiteral kRulesName = "dist.rules";

static DictionaryAttr getRules(Location location) {
  DictionaryAttr rules;
  location->walk([&](Location part) {
    auto fused = dyn_cast<FusedLoc>(part);
    auto metadata =
        fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata()) : DictionaryAttr();
    if (metadata)
      rules = metadata.getAs<DictionaryAttr>(kRulesName);
    return rules ? WalkResult::interrupt() : WalkResult::advance();
  });
  return rules;
}

StringRef placement::getRule(Location location, StringRef axis) {
  DictionaryAttr rules = getRules(location);
  auto rule = rules ? rules.getAs<StringAttr>(axis) : StringAttr();
  return rule ? rule.getValue() : "";
}

Location placement::withRules(Location location, const llvm::StringMap<std::string> &byAxis) {
  Builder b(location.getContext());
  NamedAttrList rules;
  if (DictionaryAttr before = getRules(location))
    rules.append(before.getValue());
  for (const auto &[axis, rule] : byAxis)
    rules.set(axis, b.getStringAttr(rule));
  auto metadata =
      b.getDictionaryAttr(b.getNamedAttr(kRulesName, rules.getDictionary(location.getContext())));
  auto fuse = [&](Location of) -> Location {
    if (auto fused = dyn_cast<FusedLoc>(of); fused && getRules(of))
      return FusedLoc::get(fused.getLocations(), metadata, of.getContext());
    return FusedLoc::get({of}, metadata, of.getContext());
  };
  if (auto named = dyn_cast<NameLoc>(location))
    return NameLoc::get(named.getName(), fuse(named.getChildLoc()));
  return fuse(location);
}
