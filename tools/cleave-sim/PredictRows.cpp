//===- PredictRows.cpp - predictions for a table of runs ----------------------===//

#include "PredictRows.h"

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
  return rowsOption.getNumOccurrences() > 0 || kernelsOption.getNumOccurrences() > 0;
}

static llvm::Error write(const predict::Table &table) {
  std::string text;
  llvm::raw_string_ostream os(text);
  table.print(os);
  std::error_code code;
  llvm::raw_fd_ostream file(outputOption, code, llvm::sys::fs::OF_Text);
  if (!code) {
    file << text;
    file.close();
    code = file.error();
    file.clear_error();
  }
  return code ? makeError("{0}: {1}", outputOption.getValue(), code.message())
              : llvm::Error::success();
}

static llvm::Error predictKernelsOfOptions() {
  if (rowsOption.getNumOccurrences())
    return makeError("--kernels: expected one table, found --rows, too");
  std::string devices = sim::findDevices();
  if (devices.empty())
    return makeError("--kernels: expected --devices=FOLDER, found none");
  auto table = predict::predictKernels(kernelsOption, devices);
  return table ? write(*table) : table.takeError();
}

llvm::Error sim::predictRowsOfOptions() {
  if (kernelsOption.getNumOccurrences())
    return predictKernelsOfOptions();
  predict::RowsRequest request;
  request.rows = rowsOption;
  request.devices = findDevices();
  request.defaults = defaultsOption;
  if (request.defaults.empty())
    request.defaults = cost::findBeside("../share/cleave/devices/defaults/runs.json",
                                        "../../examples/devices/defaults/runs.json");
  if (request.devices.empty() || request.defaults.empty())
    return makeError("--rows: expected --devices=FOLDER and --defaults=FILE, found none");
  request.plans = plansOption;
  request.details = detailsOption;
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
  auto table = predict::predictRows(request);
  return table ? write(*table) : table.takeError();
}
