//===- Plan.cpp - reading a plan of placements --------------------------------===//

#include "lib/placement/plan/Plan.h"

#include "lib/support/JSONReader.h"
#include "lib/support/Nesting.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace cleave;
using namespace cleave::placement;
using cleave::makeError;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using support::JSONReader;

namespace {
struct StyleWord {
  Style style;
  const char *word;
  bool needsModules;
  bool takesDim;
};
constexpr StyleWord kStyles[] = {
    {Style::Colwise, "colwise", true, false},  {Style::Rowwise, "rowwise", true, false},
    {Style::Sequence, "sequence", true, true}, {Style::Expert, "expert", true, false},
    {Style::Data, "data", false, false},       {Style::Context, "context", false, true},
    {Style::FSDP, "fsdp", false, true},        {Style::HSDP, "hsdp", false, true},
};
constexpr const char *kRoles[] = {"parameters",   "buffers",          "inputs", "gradients",
                                  "accumulators", "optimizer_states", "outputs"};
} // namespace

StringRef placement::toString(Style style) {
  return kStyles[static_cast<int>(style)].word;
}

/// `R`, `P`, `P(max)`, `S(0)`, `S(-1)`.
static std::optional<dist::AxisPlacement> parsePlacement(StringRef text) {
  if (text == "R")
    return dist::AxisPlacement::replicate();
  if (text == "P")
    return dist::AxisPlacement::partial();
  StringRef argument = text.drop_front(std::min<size_t>(2, text.size()));
  if (!argument.consume_back(")"))
    return std::nullopt;
  if (text.starts_with("P(")) {
    std::optional<dist::Reduction> reduction = dist::symbolizeReduction(argument);
    if (!reduction || *reduction == dist::Reduction::PremulSum ||
        *reduction == dist::Reduction::BitAnd || *reduction == dist::Reduction::BitOr ||
        *reduction == dist::Reduction::BitXor)
      return std::nullopt;
    return dist::AxisPlacement::partial(*reduction);
  }
  int64_t dim;
  if (!text.starts_with("S(") || argument.getAsInteger(10, dim))
    return std::nullopt;
  return dist::AxisPlacement::shard(dim);
}

static Error readPlacement(const llvm::json::Object &object, const std::string &where,
                           PlannedPlacement &placement) {
  for (const auto &[axis, value] : object) {
    std::optional<StringRef> text = value.getAsString();
    std::optional<dist::AxisPlacement> parsed;
    if (text)
      parsed = parsePlacement(*text);
    if (!parsed)
      return makeError("{0}: expected \"R\", \"P\", \"P(max)\" or \"S(dimension)\" for axis "
                       "\"{1}\", found {2}",
                       where, axis.str(), value);
    placement.emplace_back(axis.str(), *parsed);
  }
  if (placement.empty())
    return makeError("{0}: expected a placement for at least one mesh axis", where);
  llvm::sort(placement, llvm::less_first());
  return Error::success();
}

static Error readInteger(JSONReader &reader, StringRef field, const std::string &where,
                         std::optional<int64_t> &value) {
  if (!reader.has(field))
    return Error::success();
  double number = 0;
  if (Error error = reader.number(field, number))
    return error;
  if (std::floor(number) != number || std::abs(number) > 1e9)
    return makeError("{0}: expected \"{1}\" to be an integer, found {2}", where, field, number);
  value = static_cast<int64_t>(number);
  return Error::success();
}

/// A list with a placement, or null, a value.
static Error readValues(JSONReader &reader, StringRef field, const std::string &where,
                        std::vector<std::optional<PlannedPlacement>> &values) {
  if (!reader.has(field))
    return Error::success();
  Expected<const llvm::json::Array *> list = reader.array(field);
  if (!list)
    return list.takeError();
  for (const auto &[i, value] : llvm::enumerate(**list)) {
    std::string place = llvm::formatv("{0}: {1}[{2}]", where, field, i);
    if (value.kind() == llvm::json::Value::Null) {
      values.emplace_back();
      continue;
    }
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return makeError("{0}: expected placements by axis or null, found {1}", place, value);
    if (Error error = readPlacement(*object, place, values.emplace_back().emplace()))
      return error;
  }
  return Error::success();
}

static Error readPattern(JSONReader &reader, StringRef field, PlanRule &rule) {
  if (Error error = reader.string(field, rule.pattern, /*required=*/true))
    return error;
  if (std::string wrong = checkPattern(rule.pattern); !wrong.empty())
    return makeError("{0}: '{1}' is not a pattern of names: {2}", rule.name, rule.pattern, wrong);
  return Error::success();
}

static Error readStyle(JSONReader &reader, PlanRule &rule) {
  rule.kind = PlanRule::Kind::Module;
  std::string word;
  if (Error error = reader.string("style", word))
    return error;
  const StyleWord *style = llvm::find_if(kStyles, [&](auto &s) { return s.word == word; });
  if (style == std::end(kStyles)) {
    std::string known =
        llvm::join(llvm::map_range(kStyles, [](auto &s) { return std::string(s.word); }), ", ");
    return makeError("{0}: there is no style '{1}'; there are {2}", rule.name, word, known);
  }
  rule.style = style->style;
  if (style->needsModules && !reader.has("modules"))
    return makeError("{0}: expected \"modules\", a pattern of the modules that are to be {1}",
                     rule.name, word);
  bool takesModules = style->needsModules || rule.style == Style::FSDP || rule.style == Style::HSDP;
  if (takesModules && reader.has("modules"))
    if (Error error = readPattern(reader, "modules", rule))
      return error;
  if (Error error = reader.string("axis", rule.axis, /*required=*/true))
    return error;
  if (rule.style == Style::HSDP)
    if (Error error = reader.string("replicate_axis", rule.replicateAxis, /*required=*/true))
      return error;
  if (rule.style == Style::HSDP && rule.axis == rule.replicateAxis)
    return makeError("{0}: expected two axes, found \"{1}\" to shard and to replicate over",
                     rule.name, rule.axis);
  if (rule.style == Style::Expert && reader.has("capacity")) {
    if (Error error = reader.number("capacity", rule.capacity.emplace()))
      return error;
    if (!(*rule.capacity >= 1))
      return makeError("{0}: expected a \"capacity\" of at least 1, an even share of the rows, "
                       "found {1}",
                       rule.name, *rule.capacity);
  }
  if (rule.style == Style::Context)
    if (Error error = reader.boolean("shard_parameters", rule.shardsParameters))
      return error;
  return style->takesDim ? readInteger(reader, "dim", rule.name, rule.dim) : Error::success();
}

static Error readOp(JSONReader &reader, PlanRule &rule) {
  rule.kind = PlanRule::Kind::Op;
  if (Error error = readPattern(reader, "ops", rule))
    return error;
  if (Error error = reader.string("op", rule.opName, /*required=*/true))
    return error;
  if (std::string wrong = checkPattern(rule.opName); !wrong.empty())
    return makeError("{0}: '{1}' is not a pattern of op names: {2}", rule.name, rule.opName, wrong);
  if (Error error = reader.string("part", rule.part))
    return error;
  if (!rule.part.empty() && rule.part != "forward" && rule.part != "backward")
    return makeError("{0}: expected \"part\" to be \"forward\" or \"backward\", found \"{1}\"",
                     rule.name, rule.part);
  if (Error error = readInteger(reader, "index", rule.name, rule.index))
    return error;
  if (rule.index && *rule.index < 0)
    return makeError("{0}: expected a non-negative \"index\", found {1}", rule.name, *rule.index);
  if (Error error = readValues(reader, "operands", rule.name, rule.operands))
    return error;
  if (Error error = readValues(reader, "results", rule.name, rule.results))
    return error;
  if (llvm::none_of(rule.operands, [](auto &v) { return v.has_value(); }) &&
      llvm::none_of(rule.results, [](auto &v) { return v.has_value(); }))
    return makeError("{0}: expected placements in \"operands\" or \"results\"", rule.name);
  return Error::success();
}

static Error readArguments(JSONReader &reader, PlanRule &rule) {
  const char *const *role = llvm::find_if(kRoles, [&](auto *word) { return reader.has(word); });
  if (role == std::end(kRoles))
    return makeError("{0}: expected the target of the rule: \"style\", \"ops\", or one of {1}",
                     rule.name, llvm::join(std::begin(kRoles), std::end(kRoles), ", "));
  rule.role = *role;
  if (Error error = readPattern(reader, rule.role, rule))
    return error;
  Expected<const llvm::json::Object *> placement = reader.child("placement", /*required=*/true);
  if (!placement)
    return placement.takeError();
  return readPlacement(**placement, rule.name, rule.placement);
}

static Error readKind(JSONReader &reader, PlanRule &rule) {
  if (reader.has("style"))
    return readStyle(reader, rule);
  return reader.has("ops") ? readOp(reader, rule) : readArguments(reader, rule);
}

static Error readRule(const llvm::json::Object &object, PlanRule &rule) {
  std::string python;
  if (Error error = JSONReader(object, rule.name).string("where", python))
    return error;
  if (!python.empty())
    rule.name += " (" + python + ")";
  JSONReader reader(object, rule.name);
  cantFail(reader.string("where", python));
  if (Error error = readKind(reader, rule))
    return error;
  return reader.finish();
}

static Error readMesh(const llvm::json::Array &axes, Plan &plan) {
  llvm::StringSet<> names;
  for (const auto &[i, value] : llvm::enumerate(axes)) {
    std::string where = llvm::formatv("mesh[{0}]", i);
    const llvm::json::Array *pair = value.getAsArray();
    std::optional<StringRef> name;
    std::optional<int64_t> size;
    if (pair && pair->size() == 2) {
      name = (*pair)[0].getAsString();
      size = (*pair)[1].getAsInteger();
    }
    if (!name || !size)
      return makeError("{0}: expected an axis and its size, as [\"dp\", 2], found {1}", where,
                       value);
    if (name->empty())
      return makeError("{0}: expected a name for the axis, found \"\"", where);
    if (*size < 1)
      return makeError("{0}: expected a positive size for axis \"{1}\", found {2}", where, *name,
                       *size);
    if (!names.insert(*name).second)
      return makeError("{0}: axis \"{1}\" appears twice", where, *name);
    plan.mesh.push_back({name->str(), *size});
  }
  if (plan.mesh.empty())
    return makeError("expected at least one axis in \"mesh\"");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Lines, which LLVM's parser does not keep; of text that it has parsed
//===----------------------------------------------------------------------===//

static size_t skipSpace(StringRef text, size_t i) {
  return std::min(text.find_first_not_of(" \t\r\n,:", i), text.size());
}

/// The end of the value that begins at `i`.
static size_t skipValue(StringRef text, size_t i) {
  for (unsigned depth = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"')
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    else if (depth == 0)
      return std::min(text.find_first_of(" \t\r\n,]}", i), text.size());
    if (depth == 0)
      return i + 1;
  }
  return text.size();
}

/// Where each value of the field `name` of the whole object begins, if it is an array.
static std::vector<unsigned> findLines(StringRef text, StringRef name) {
  std::vector<unsigned> lines;
  std::string quoted = ("\"" + name + "\"").str();
  size_t i = skipSpace(text, text.find('{') + 1);
  while (i < text.size() && text[i] == '"') {
    size_t end = skipValue(text, i), value = skipSpace(text, end);
    bool isIt = text.slice(i, end) == quoted && text[value] == '[';
    if (isIt)
      for (i = skipSpace(text, value + 1); i < text.size() && text[i] != ']';
           i = skipSpace(text, skipValue(text, i)))
        lines.push_back(text.take_front(i).count('\n') + 1);
    i = skipSpace(text, skipValue(text, value));
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

char PlanError::ID = 0;

static Error at(unsigned line, Error error) {
  return llvm::make_error<PlanError>(line, llvm::toString(std::move(error)));
}

/// The line that an error of LLVM's parser begins with: "[3:14, byte=25]: ...".
static Error describeSyntax(Error error) {
  std::string text = "expected JSON: " + llvm::toString(std::move(error));
  unsigned line = 1;
  (void)StringRef(text).split('[').second.consumeInteger(10, line);
  return llvm::make_error<PlanError>(line, std::move(text));
}

static Error readRules(StringRef path, StringRef text, JSONReader &reader, Plan &plan) {
  Expected<const llvm::json::Array *> rules = reader.array("rules");
  if (!rules)
    return at(1, rules.takeError());
  std::vector<unsigned> lines = findLines(text, "rules");
  for (const auto &[i, rule] : llvm::enumerate(**rules)) {
    PlanRule &read = plan.rules.emplace_back();
    read.file = path.str();
    read.line = i < lines.size() ? lines[i] : 1;
    read.name = llvm::formatv("rules[{0}]", i);
    const llvm::json::Object *fields = rule.getAsObject();
    if (Error error = fields ? readRule(*fields, read)
                             : makeError("{0}: expected an object, found {1}", read.name, rule))
      return at(read.line, std::move(error));
  }
  return Error::success();
}

Expected<Plan> placement::readPlan(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return at(0, makeError("cannot read the plan '{0}': {1}", path, buffer.getError().message()));
  StringRef text = (*buffer)->getBuffer();
  if (Error error = support::checkNesting(text, path))
    return at(0, std::move(error));
  Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return describeSyntax(value.takeError());
  const llvm::json::Object *object = value->getAsObject();
  if (!object)
    return at(1, makeError("expected an object with \"mesh\" and \"rules\""));

  Plan plan;
  JSONReader reader(*object, "the plan");
  if (reader.has("mesh")) {
    Expected<const llvm::json::Array *> axes = reader.array("mesh");
    std::vector<unsigned> lines = findLines(text, "mesh");
    if (!axes)
      return at(1, axes.takeError());
    if (Error error = readMesh(**axes, plan))
      return at(lines.empty() ? 1 : lines.front(), std::move(error));
  }
  if (Error error = readRules(path, text, reader, plan))
    return error;
  if (Error error = reader.finish())
    return at(1, std::move(error));
  return plan;
}
