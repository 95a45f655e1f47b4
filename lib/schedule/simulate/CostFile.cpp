// Cost tables from JSON files.
#include "lib/schedule/simulate/CostTable.h"
#include "lib/support/JSONReader.h"

using namespace cleave::simulate;
using cleave::makeError;
using cleave::support::JSONReader;
using cleave::support::readJSONFile;

static llvm::Error readStage(const llvm::json::Object &object, std::string where, StageCost &cost) {
  JSONReader reader(object, std::move(where));
  // For an unsplit backward only the total is known.
  cost.hasHalves = !reader.has("backward") || reader.has("input");
  struct Field {
    const char *name;
    double *value;
    bool required;
  } fields[] = {
      {"forward", &cost.forward, true},           {"input", &cost.input, cost.hasHalves},
      {"weight", &cost.weight, cost.hasHalves},   {"backward", &cost.backward, false},
      {"send_forward", &cost.sendForward, false}, {"send_backward", &cost.sendBackward, false},
      {"unshard", &cost.unshard, false},          {"reduce", &cost.reduce, false},
      {"optimizer", &cost.optimizer, false},      {"forward_memory", &cost.forwardMemory, false},
      {"input_memory", &cost.inputMemory, false}, {"weight_memory", &cost.weightMemory, false}};
  for (const Field &field : fields)
    if (llvm::Error error = reader.number(field.name, *field.value, field.required))
      return error;
  if (!cost.hasHalves)
    cost.input = cost.weight = cost.backward / 2; // what a search may start from
  return reader.finish();
}

static llvm::Expected<CostTable> costsOfStages(const llvm::json::Object &root,
                                               llvm::StringRef file) {
  JSONReader reader(root, file.str());
  CostTable table;
  table.stages.clear();
  if (llvm::Error error =
          reader.objects("stages", [&](const llvm::json::Object &stage, const std::string &where) {
            return readStage(stage, where, table.stages.emplace_back());
          }))
    return error;
  // What was measured, and where: for the reader.
  auto measured = reader.child("measured");
  if (!measured)
    return measured.takeError();
  auto named = reader.child("named");
  if (!named)
    return named.takeError();
  if (*named)
    for (const auto &entry : **named) {
      std::optional<double> value = entry.second.getAsNumber();
      if (!value)
        return makeError("{0}: named: expected a number for \"{1}\"", file, entry.first.str());
      table.named[entry.first.str()] = *value;
    }
  if (llvm::Error error = reader.number("overlap", table.overlap))
    return error;
  if (llvm::Error error = reader.finish())
    return error;
  return table;
}

llvm::Expected<CostTable> cleave::simulate::readCostFile(llvm::StringRef path) {
  llvm::Expected<llvm::json::Value> value = readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *root = value->getAsObject();
  if (!root)
    return makeError("{0}: expected a JSON object with \"stages\"", path);
  llvm::Expected<CostTable> table = costsOfStages(*root, path);
  if (!table)
    return table;
  if (llvm::Error error = table->check())
    return makeError("{0}: {1}", path, llvm::toString(std::move(error)));
  return table;
}
