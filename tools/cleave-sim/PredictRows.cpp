//===- PredictRows.cpp - predictions for a table of runs ----------------------===//

#include "PredictRows.h"
#include "Output.h"

#include "lib/cost/Installed.h"
#include "lib/predict/Kernels.h"
#include "lib/predict/Rows.h"
#include "lib/support/Error.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

using namespace cleave;
namespace cl = llvm::cl;

static cl::OptionCategory rowsCategory("Options for tables of runs");
static cl::opt<std::string>
    rowsOption("rows", cl::cat(rowsCategory), cl::value_desc("in.csv"),
               cl::desc("Predict step time and memory of the training runs in a table, one a row"));
static cl::opt<std::string>
    layoutOption("layout", cl::cat(rowsCategory), cl::value_desc("run.json"),
                 cl::desc("Predict step time and memory of one training run"));
static cl::opt<std::string>
    kernelsOption("kernels", cl::cat(rowsCategory), cl::value_desc("in.csv"),
                  cl::desc("Predict the seconds of the kernels in a table, one a row"));
static cl::opt<std::string> outputOption("output", cl::cat(rowsCategory), cl::value_desc("out.csv"),
                                         cl::init("-"),
                                         cl::desc("The table with predictions (default: printed)"));
static cl::opt<std::string> devicesOption("devices", cl::cat(rowsCategory),
                                          cl::value_desc("folder"),
                                          cl::desc("Descriptions of devices, links and clusters"));
static cl::opt<std::string> defaultsOption("defaults", cl::cat(rowsCategory),
                                           cl::value_desc("file.json"),
                                           cl::desc("What rows leave open, by source"));
static cl::opt<std::string> plansOption("plans", cl::cat(rowsCategory), cl::value_desc("file.json"),
                                        cl::desc("Plans by op that rows name"));
static cl::list<std::string>
    withoutOption("without", cl::cat(rowsCategory), cl::CommaSeparated, cl::value_desc("term"),
                  cl::desc("Leave terms of the model out: tiles, bytes, launches, latency, "
                           "starts, strided, slots, contention, bubble, optimizer"));

static cl::opt<bool>
    detailsOption("details", cl::cat(rowsCategory),
                  cl::desc("Add columns with where the seconds go, and what a device computes, "
                           "sends and holds"));

cl::OptionCategory &sim::getRowsCategory() {
  return rowsCategory;
}

std::string sim::findDevices() {
  return devicesOption.empty() ? cost::findDevices() : devicesOption.getValue();
}

bool sim::wantsRows() {
  return rowsOption.getNumOccurrences() || layoutOption.getNumOccurrences() ||
         kernelsOption.getNumOccurrences();
}

llvm::Error sim::checkRowsOptions(bool hasProgram) {
  llvm::StringRef first;
  for (const auto *option : {&rowsOption, &layoutOption, &kernelsOption}) {
    if (!option->getNumOccurrences())
      continue;
    if (hasProgram)
      return makeError("--{0}: expected no program beside it, found one", option->ArgStr);
    if (!first.empty())
      return makeError("--{0}: expected it alone, found --{1}, too", first, option->ArgStr);
    first = option->ArgStr;
  }
  if (first == layoutOption.ArgStr && plansOption.getNumOccurrences())
    return makeError("--plans expects --rows, found --layout");
  if (!first.empty())
    return llvm::Error::success();
  auto check = [](const cl::Option &option) -> llvm::Error {
    return option.getNumOccurrences()
               ? makeError("--{0} expects --rows, --layout or --kernels, found none", option.ArgStr)
               : llvm::Error::success();
  };
  for (const auto *option : {&outputOption, &defaultsOption, &plansOption})
    if (llvm::Error error = check(*option))
      return error;
  if (llvm::Error error = check(withoutOption))
    return error;
  return check(detailsOption);
}

/// The output's place is looked at before any work: the input is never overwritten.
static llvm::Error checkOutput(llvm::StringRef input) {
  return llvm::sys::fs::equivalent(outputOption, input)
             ? makeError("--output: {0}: expected another file than the input",
                         outputOption.getValue())
             : llvm::Error::success();
}

static llvm::Error predictKernelsOfOptions() {
  std::string devices = sim::findDevices();
  if (devices.empty())
    return makeError("--kernels: expected --devices=FOLDER, found none");
  if (llvm::Error error = checkOutput(kernelsOption))
    return error;
  auto table = predict::predictKernels(kernelsOption, devices);
  if (!table)
    return table.takeError();
  return sim::writeFile(outputOption, [&](llvm::raw_ostream &os) { table->print(os); });
}

/// A line for each column.
static void printLayout(const predict::Table &table, llvm::raw_ostream &os) {
  for (auto [column, value] : llvm::zip_equal(table.header, table.rows.front()))
    if (!value.empty())
      os << llvm::formatv("{0,-28} {1}\n", column, value);
}

llvm::Error sim::predictRowsOfOptions() {
  if (kernelsOption.getNumOccurrences())
    return predictKernelsOfOptions();
  bool isLayout = layoutOption.getNumOccurrences() > 0;
  predict::RowsRequest request;
  request.rows = isLayout ? layoutOption : rowsOption;
  if (llvm::Error error = checkOutput(request.rows))
    return error;
  request.devices = findDevices();
  request.defaults = defaultsOption;
  if (request.defaults.empty())
    request.defaults = cost::findBeside("../share/cleave/devices/defaults/runs.json",
                                        "../../examples/devices/defaults/runs.json");
  if (request.devices.empty() || request.defaults.empty())
    return makeError("--{0}: expected --devices=FOLDER and --defaults=FILE, found none",
                     isLayout ? "layout" : "rows");
  request.plans = plansOption;
  request.details = detailsOption || isLayout;
  for (llvm::StringRef name : withoutOption) {
    predict::Terms &terms = request.terms;
    bool *term = llvm::StringSwitch<bool *>(name)
                     .Case("tiles", &terms.tiles)
                     .Case("bytes", &terms.bytes)
                     .Case("launches", &terms.launches)
                     .Case("latency", &terms.latency)
                     .Case("starts", &terms.starts)
                     .Case("strided", &terms.strided)
                     .Case("slots", &terms.slots)
                     .Case("contention", &terms.contention)
                     .Case("bubble", &terms.bubble)
                     .Case("optimizer", &terms.optimizer)
                     .Default(nullptr);
    if (!term)
      return makeError(
          "--without: expected tiles, bytes, launches, latency, starts, strided, slots, "
          "contention, bubble or optimizer, found '{0}'",
          name);
    *term = false;
  }
  auto table = isLayout ? predict::predictLayout(request) : predict::predictRows(request);
  if (!table)
    return table.takeError();
  return writeFile(outputOption, [&](llvm::raw_ostream &os) {
    if (isLayout)
      printLayout(*table, os);
    else
      table->print(os);
  });
}
