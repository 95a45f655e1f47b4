//===- Schema.cpp - schemas of the dispatcher's operators -------------------===//

#include "dialects/aten/Schema.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace cleave::aten;

namespace {
struct Row {
  StringLiteral name;
  StringLiteral text;
  bool seeded;
};
} // namespace

static const Row table[] = {
#include "dialects/aten/AtenSchemas.inc"
};

/// Splits at commas outside brackets and quotes.
static SmallVector<StringRef> splitList(StringRef text) {
  SmallVector<StringRef> parts;
  int depth = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"' || c == '\'')
      quoted = !quoted;
    if (quoted)
      continue;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c == ',' && depth == 0) {
      parts.push_back(text.slice(start, i).trim());
      start = i + 1;
    }
  }
  if (!text.drop_front(start).trim().empty())
    parts.push_back(text.drop_front(start).trim());
  return parts;
}

/// `Tensor(a!)[] self=None`
static SchemaValue parseValue(StringRef text) {
  SchemaValue value;
  StringRef declaration = text;
  if (size_t equals = text.find('='); equals != StringRef::npos) {
    declaration = text.take_front(equals);
    value.hasDefault = true;
  }
  // The alias annotation holds spaces ("a -> *"), so the name is what follows the last one
  // outside it.
  size_t open = declaration.find('('), close = declaration.rfind(')');
  bool hasAlias = open != StringRef::npos && close != StringRef::npos;
  size_t space = declaration.rfind(' ');
  if (space != StringRef::npos && (!hasAlias || space > close)) {
    value.name = declaration.drop_front(space + 1);
    declaration = declaration.take_front(space);
  }
  value.type = declaration;
  if (hasAlias) {
    value.alias = declaration.slice(open + 1, close);
    // `Tensor(a!)[]` is `Tensor[]`, `Tensor(a)` is `Tensor`: all that is asked of either.
    StringRef suffix = declaration.drop_front(close + 1);
    value.type = suffix == "[]" ? "Tensor[]" : suffix == "?" ? "Tensor?" : "Tensor";
  }
  return value;
}

std::optional<Schema> cleave::aten::parseSchema(StringRef name, StringRef text) {
  Schema schema;
  schema.name = name;
  schema.text = text;
  size_t arrow = text.rfind(") -> ");
  if (!text.starts_with("(") || arrow == StringRef::npos)
    return std::nullopt;
  for (StringRef argument : splitList(text.slice(1, arrow)))
    if (argument != "*") // what follows is by keyword only
      schema.arguments.push_back(parseValue(argument));
  StringRef returns = text.drop_front(arrow + 5).trim();
  // One return may carry an alias: `Tensor(a)`; several stand in parentheses.
  if (returns.starts_with("("))
    returns = returns.drop_front().drop_back();
  for (StringRef value : splitList(returns))
    schema.returns.push_back(parseValue(value));
  return schema;
}

const SchemaValue *Schema::findArgument(StringRef argument) const {
  const auto *found = find_if(arguments, [&](const SchemaValue &v) { return v.name == argument; });
  return found == arguments.end() ? nullptr : found;
}

std::optional<Schema> cleave::aten::lookupSchema(StringRef name) {
  const Row *row = partition_point(table, [&](const Row &r) { return StringRef(r.name) < name; });
  if (row == std::end(table) || row->name != name)
    return std::nullopt;
  std::optional<Schema> schema = parseSchema(row->name, row->text);
  schema->drawsRandomNumbers = row->seeded;
  return schema;
}
