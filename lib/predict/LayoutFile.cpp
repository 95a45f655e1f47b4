//===- LayoutFile.cpp - from a JSON object to a row ---------------------------===//

#include "lib/predict/LayoutFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cleave;
using namespace cleave::predict;
using llvm::json::Object;
using support::JSONReader;

namespace {
struct Column {
  const char *name;
  bool isRequired = false;
};
} // namespace

static constexpr Column numbers[] = {
    {"layers", true}, {"hidden", true}, {"ffn", true},  {"heads", true},
    {"kv_heads"},     {"vocab"},        {"seq", true},  {"global_batch", true},
    {"micro_batch"},  {"microbatches"}, {"gpus", true}, {"gpus_per_node"},
    {"dp", true},     {"tp", true},     {"sp"},         {"pp", true},
    {"vpp"},          {"cp"},           {"ep"}};
static constexpr Column strings[] = {{"model", true}, {"arch"},     {"gpu_type", true},
                                     {"fsdp_zero"},   {"schedule"}, {"precision", true}};

namespace {
class Reader {
public:
  Reader(llvm::StringRef path, Defaults &defaults) : path(path), defaults(defaults) {
    table.rows.emplace_back();
  }

  llvm::Error read(const Object &object);
  Table take() { return std::move(table); }

private:
  void add(llvm::StringRef column, std::string value) {
    table.header.push_back(column.str());
    table.rows.front().push_back(std::move(value));
  }
  llvm::Error readModel(JSONReader &reader, llvm::StringRef name);
  llvm::Error readSoftware(JSONReader reader);

  std::string path;
  Defaults &defaults;
  Table table;
};
} // namespace

/// As in a table: whole numbers without a fraction, so that messages have what the file has.
static std::string print(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", value);
  return text;
}

/// What no column says of the model. A GPT has nothing there, but a name that is spelled wrong is
/// not to become one.
llvm::Error Reader::readModel(JSONReader &reader, llvm::StringRef name) {
  auto known = defaults.models.find(name);
  if (known == defaults.models.end())
    known = defaults.models.find(name.split(" (").first);
  bool isKnown = known != defaults.models.end();
  auto part = reader.child("dimensions");
  if (!part)
    return part.takeError();
  if (!isKnown && !*part) {
    auto names = llvm::to_vector(defaults.models.keys());
    llvm::sort(names);
    return makeError("{0}: expected an object, or a model that the file of defaults has ({1}), "
                     "found neither, but '{2}'",
                     reader.path("dimensions"), llvm::join(names, ", "), name);
  }
  Model model = isKnown ? known->second : Model();
  if (*part) {
    JSONReader fields(**part, reader.path("dimensions"));
    if (llvm::Error error = predict::readModel(fields, model))
      return error;
    if (llvm::Error error = fields.finish())
      return error;
  }
  defaults.models[name] = model;
  return llvm::Error::success();
}

/// "like" names a source or a software of the file of defaults; other fields say what differs, from
/// its recipes too.
llvm::Error Reader::readSoftware(JSONReader reader) {
  std::string like, attention = "flash", recompute, release;
  for (auto [name, text] : {std::pair<const char *, std::string *>{"like", &like},
                            {"attention", &attention},
                            {"recompute", &recompute},
                            {"release", &release}})
    if (llvm::Error error = reader.string(name, *text))
      return error;
  auto sets = readSets(reader);
  if (!sets)
    return sets.takeError();
  if (llvm::Error error = reader.finish())
    return error;
  Source source;
  Software software;
  if (auto found = defaults.sources.find(like); found != defaults.sources.end()) {
    source = found->second;
    software = defaults.software.find(source.software)->second;
  } else if (auto alone = defaults.software.find(like); alone != defaults.software.end()) {
    software = alone->second;
  } else if (!like.empty()) {
    return makeError("{0}: expected a source or a software of the file of defaults, found '{1}'",
                     reader.path("like"), like);
  }
  applySets(*sets, software);
  for (Recipe &recipe : source.recipes)
    recipe.sets.insert(recipe.sets.end(), sets->begin(), sets->end());
  source.software = path;
  defaults.software[path] = std::move(software);
  defaults.sources[path] = std::move(source);
  add("source", path);
  add("attention", attention);
  add("recompute", recompute);
  add("extra", release.empty() ? "" : "container=" + release);
  return llvm::Error::success();
}

llvm::Error Reader::read(const Object &object) {
  JSONReader reader(object, path);
  for (const Column &column : numbers) {
    double value = 0;
    if (llvm::Error error = reader.number(column.name, value, column.isRequired))
      return error;
    add(column.name, reader.has(column.name) ? print(value) : "");
  }
  std::string name;
  for (const Column &column : strings) {
    std::string text = llvm::StringRef(column.name) == "arch" ? "dense" : "";
    if (llvm::Error error = reader.string(column.name, text, column.isRequired))
      return error;
    if (llvm::StringRef(column.name) == "model")
      name = text;
    add(column.name, std::move(text));
  }
  if (llvm::Error error = readModel(reader, name))
    return error;
  auto software = reader.child("software", true);
  if (!software)
    return software.takeError();
  if (llvm::Error error = reader.finish())
    return error;
  return readSoftware(JSONReader(**software, reader.path("software")));
}

llvm::Expected<Table> predict::readLayoutFile(llvm::StringRef path, Defaults &defaults) {
  auto value = support::readJSONFile(path);
  if (!value)
    return value.takeError();
  const Object *object = value->getAsObject();
  if (!object)
    return makeError("{0}: expected an object with the layout of a run", path);
  Reader reader(path, defaults);
  if (llvm::Error error = reader.read(*object))
    return error;
  return reader.take();
}
