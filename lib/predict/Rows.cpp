//===- Rows.cpp - predicting the rows of a table ------------------------------===//

#include "lib/predict/Rows.h"

#include "lib/predict/LayoutFile.h"
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
  bool details = false;
};
} // namespace

/// By how much memory may be exceeded before a row is refused: of runs that were measured, one in
/// ten is predicted to need a quarter more than it did.
static constexpr double memoryMargin = 4.0 / 3;

/// What the note of a row without a predicted time begins with.
static constexpr llvm::StringLiteral refused = "not predicted: ";

static std::string print(double value, int digits) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*g", digits, value);
  return text;
}

/// The columns that are added.
static std::vector<std::string> listColumns(bool details) {
  std::vector<std::string> columns = {"predicted_step_time_s", "predicted_peak_memory_gib",
                                      "predicted_error", "note"};
  if (!details)
    return columns;
  for (const char *name :
       {"predicted_compute_s", "predicted_bubble_s", "predicted_gradients_s", "predicted_update_s",
        "predicted_flops", "predicted_parameters", "predicted_saved_bytes",
        "predicted_allocated_gib", "predicted_reserved_gib"})
    columns.push_back(name);
  for (const char *what : {"predicted_exposed_{0}_s", "predicted_sent_{0}_bytes"})
    for (size_t axis = 0; axis < numAxes; ++axis)
      columns.push_back(llvm::formatv(what, getName(Axis(axis))));
  return columns;
}

static void addDetails(const Prediction &step, std::vector<std::string> &fields) {
  for (double value : {step.compute, step.bubble, step.gradients, step.update})
    fields.push_back(print(value, 6));
  for (double value : {step.flops, step.parameters, step.savedBytes})
    fields.push_back(print(value, 12));
  for (double value : {step.allocated, step.reserved})
    fields.push_back(print(value / (1 << 30), 5));
  for (double value : step.exposed)
    fields.push_back(print(value, 6));
  for (double value : step.sent)
    fields.push_back(print(value, 12));
}

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
  double limit = cluster->device.memory;
  std::string memory = print(step->reportedMemory / (1 << 30), 5);
  if (step->memory > memoryMargin * limit)
    return std::vector<std::string>{
        "", memory, "",
        llvm::formatv("{0}gpu_type: expected a device of at least {1:F1} GiB, found {2:F1} GiB",
                      refused, step->memory / (1 << 30), limit / (1 << 30))};
  if (step->memory > limit)
    step->notes.push_back(
        llvm::formatv("more memory than the device's {0:F1} GiB", limit / (1 << 30)));
  if (!cluster->note.empty())
    step->notes.push_back(cluster->note);
  std::vector<std::string> fields = {print(step->seconds, 6), memory, print(cluster->error, 3),
                                     llvm::join(step->notes, "; ")};
  if (context.details)
    addDetails(*step, fields);
  return fields;
}

static llvm::Expected<Context> readContext(const RowsRequest &request) {
  auto library = cost::Library::read(request.devices);
  if (!library)
    return library.takeError();
  auto defaults = Defaults::read(request.defaults);
  if (!defaults)
    return defaults.takeError();
  Context context{std::move(*library), std::move(*defaults), nullptr, request.terms,
                  request.details};
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
  return context;
}

/// Of a table that was predicted before, these predictions are replaced.
static void removeColumns(Table &table, llvm::ArrayRef<std::string> columns) {
  for (size_t at = table.header.size(); at-- > 0;) {
    if (!llvm::is_contained(columns, table.header[at]))
      continue;
    table.header.erase(table.header.begin() + long(at));
    for (std::vector<std::string> &row : table.rows)
      row.erase(row.begin() + long(at));
  }
}

llvm::Expected<Table> predict::predictRows(const RowsRequest &request) {
  auto table = readTable(request.rows);
  if (!table)
    return table.takeError();
  for (llvm::StringRef column : requiredColumns())
    if (!llvm::is_contained(table->header, column))
      return makeError("{0}: expected a column \"{1}\", found none", request.rows, column);
  auto context = readContext(request);
  if (!context)
    return context.takeError();
  std::vector<std::string> columns = listColumns(request.details);
  removeColumns(*table, columns);
  for (size_t i = 0; i < table->rows.size(); ++i) {
    auto fields = predictRow(Row(*table, i), *context);
    if (!fields)
      fields =
          std::vector<std::string>{"", "", "", refused.str() + llvm::toString(fields.takeError())};
    fields->resize(columns.size());
    table->rows[i].insert(table->rows[i].end(), fields->begin(), fields->end());
  }
  table->header.insert(table->header.end(), columns.begin(), columns.end());
  return table;
}

llvm::Expected<Table> predict::predictLayout(const RowsRequest &request) {
  auto context = readContext(request);
  if (!context)
    return context.takeError();
  auto table = readLayoutFile(request.rows, context->defaults);
  if (!table)
    return table.takeError();
  auto fields = predictRow(Row(*table, 0), *context);
  if (!fields)
    return makeError("{0}: {1}", request.rows, llvm::toString(fields.takeError()));
  // What does not fit in memory has no time.
  llvm::StringRef note = (*fields)[3];
  if (note.consume_front(refused))
    return makeError("{0}: {1}", request.rows, note);
  table->header = listColumns(request.details);
  table->rows = {std::move(*fields)};
  return table;
}
