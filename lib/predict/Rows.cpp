//===- Rows.cpp - predicting the rows of a table ------------------------------===//

#include "lib/predict/Rows.h"

#include "lib/predict/StepTime.h"

#include "llvm/ADT/StringExtras.h"

using namespace cleave;
using namespace cleave::predict;

namespace {
struct Context {
  cost::Library library;
  Defaults defaults;
  llvm::json::Value plans = nullptr;
  Terms terms;
};
} // namespace

/// The fields of the added columns.
static llvm::Expected<std::vector<std::string>> predictRow(const Row &row, const Context &context) {
  auto layout = readLayout(row, context.defaults);
  if (!layout)
    return layout.takeError();
  auto cluster = context.library.find(layout->gpuType, layout->gpusPerNode);
  if (!cluster)
    return cluster.takeError();
  cluster->devices = layout->gpus;
  const llvm::json::Object *plans = context.plans.getAsObject();
  auto step = predictStep(*layout, *cluster, plans, context.terms);
  if (!step)
    return step.takeError();
  if (step->memory > cluster->device.memory)
    step->notes.push_back(llvm::formatv("more memory than the device's {0:F1} GiB",
                                        cluster->device.memory / (1 << 30)));
  if (!cluster->note.empty())
    step->notes.push_back(cluster->note);
  auto number = [](double value, int digits) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << llvm::format("%.*g", digits, value);
    return text;
  };
  return std::vector<std::string>{number(step->seconds, 6), number(step->memory / (1 << 30), 5),
                                  number(cluster->error, 3), llvm::join(step->notes, "; ")};
}

llvm::Expected<Table> predict::predictRows(const RowsRequest &request) {
  auto table = readTable(request.rows);
  if (!table)
    return table.takeError();
  for (llvm::StringRef column : requiredColumns())
    if (!llvm::is_contained(table->header, column))
      return makeError("{0}: expected a column \"{1}\", found none", request.rows, column);
  auto library = cost::Library::read(request.devices);
  if (!library)
    return library.takeError();
  auto defaults = Defaults::read(request.defaults);
  if (!defaults)
    return defaults.takeError();
  Context context{std::move(*library), std::move(*defaults), nullptr, request.terms};
  if (!request.plans.empty()) {
    auto file = support::readJSONFile(request.plans);
    if (!file)
      return file.takeError();
    llvm::json::Object *root = file->getAsObject();
    llvm::json::Object *plans = root ? root->getObject("plans") : nullptr;
    if (!plans)
      return makeError("{0}: expected an object \"plans\"", request.plans);
    context.plans = std::move(*plans);
  }
  for (size_t i = 0; i < table->rows.size(); ++i) {
    auto fields = predictRow(Row(*table, i), context);
    if (!fields)
      fields = std::vector<std::string>{"", "", "",
                                        "not predicted: " + llvm::toString(fields.takeError())};
    table->rows[i].insert(table->rows[i].end(), fields->begin(), fields->end());
  }
  for (const char *column :
       {"predicted_step_time_s", "predicted_peak_memory_gib", "predicted_error", "note"})
    table->header.push_back(column);
  return table;
}
