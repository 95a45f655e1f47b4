//===- Arguments.cpp - arguments of typed ops, and the checks all ops share -===//

#include "dialects/aten/Aten.h"

using namespace mlir;
using namespace cleave::aten;

SmallVector<int32_t> cleave::aten::operandSegments(Operation *op, ArrayRef<ArgumentSpec> specs) {
  // They are stored only where two or more may vary; otherwise the number of operands tells.
  if (std::optional<Attribute> sizes = op->getInherentAttr("operandSegmentSizes"))
    if (auto array = dyn_cast_or_null<DenseI32ArrayAttr>(*sizes))
      return SmallVector<int32_t>(array.asArrayRef());
  SmallVector<int32_t> segments;
  int32_t fixed = llvm::count_if(specs, [](ArgumentSpec spec) { return spec.kind == 'T'; });
  for (ArgumentSpec spec : specs)
    if (spec.kind != 'A')
      segments.push_back(spec.kind == 'T' ? 1 : int32_t(op->getNumOperands()) - fixed);
  return segments;
}

SmallVector<Argument> cleave::aten::collectArguments(Operation *op) {
  ArrayRef<ArgumentSpec> specs = cast<AtenOpInterface>(op).getArgumentSpecs();
  SmallVector<int32_t> segments = operandSegments(op, specs);
  SmallVector<Argument> arguments;
  unsigned operand = 0, segment = 0;
  for (ArgumentSpec spec : specs) {
    if (spec.kind == 'A') {
      Attribute value = op->getInherentAttr(spec.name).value_or(Attribute());
      if (!value)
        continue;
      if (!spec.isPresenceMask()) {
        arguments.push_back({spec.name, 'A', {}, value});
        continue;
      }
      // Spread the list before it over the positions that are present.
      Argument &list = arguments.back();
      SmallVector<Value, 1> spread;
      auto next = list.values.begin();
      for (bool present : cast<DenseBoolArrayAttr>(value).asArrayRef())
        spread.push_back(present && next != list.values.end() ? *next++ : Value());
      list.values = std::move(spread);
      continue;
    }
    Argument argument{spec.name, spec.kind, {}, {}};
    for (int32_t i = 0, e = segments[segment++]; i < e; ++i)
      argument.values.push_back(op->getOperand(operand++));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

LogicalResult cleave::aten::verifyAtenOp(Operation *op) {
  // An attribute without a dialect's prefix is a misspelt argument: MLIR itself would keep it
  // silently and the call would run with the default.
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (!attribute.getName().getValue().contains('.'))
      return op->emitOpError("has no argument named '") << attribute.getName().getValue() << "'";

  for (ArgumentSpec spec : cast<AtenOpInterface>(op).getArgumentSpecs()) {
    if (!spec.isPresenceMask())
      continue;
    auto mask =
        dyn_cast_or_null<DenseBoolArrayAttr>(op->getInherentAttr(spec.name).value_or(Attribute()));
    if (!mask)
      continue;
    StringRef list = StringRef(spec.name).drop_back(StringRef("_present").size());
    for (const Argument &argument : collectArguments(op)) {
      if (argument.name != list)
        continue;
      if (int64_t(argument.values.size()) != mask.size() ||
          !llvm::equal(argument.values, mask.asArrayRef(),
                       [](Value v, bool b) { return bool(v) == b; }))
        return op->emitOpError("has a presence mask that does not fit the list '") << list << "'";
    }
  }
  return success();
}
