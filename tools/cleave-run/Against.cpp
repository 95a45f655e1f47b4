//===- Against.cpp - compares what two programs compute ----------------------===//

#include "tools/cleave-run/Against.h"
#include "runtime/comm/Failure.h"
#include "runtime/io/Error.h"
#include "runtime/io/Metrics.h"
#include "tools/cleave-run/Evaluate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace cleave;
using namespace cleave::runtime;

double run::gradientFloor(llvm::ArrayRef<run::Row> rows) {
  std::vector<double> largest;
  for (const run::Row &row : rows)
    if (llvm::StringRef(row.name).starts_with("grad."))
      largest.push_back(row.difference.maxReference);
  if (largest.empty())
    return 0;
  llvm::sort(largest);
  size_t middle = largest.size() / 2;
  double median =
      largest.size() % 2 ? largest[middle] : (largest[middle - 1] + largest[middle]) / 2;
  return 1e-3 * median;
}

using Results = std::vector<WholeTensor>;

static const WholeTensor *findResult(const Results &results, llvm::StringRef name) {
  for (const WholeTensor &result : results)
    if (result.name == name)
      return &result;
  return nullptr;
}

/// Values by name that both programs, `a` and `b`, have; what only one has goes to `problems`.
static std::vector<run::Row> compareResults(const Results &ours, const Results &theirs,
                                            llvm::StringRef a, llvm::StringRef b,
                                            std::vector<std::string> &problems) {
  std::vector<run::Row> rows;
  for (const WholeTensor &result : theirs) {
    const WholeTensor *other = findResult(ours, result.name);
    if (!other)
      problems.push_back(("'" + result.name + "' is only in " + b).str());
    else if (!(other->type == result.type))
      problems.push_back(("'" + result.name + "' is " + other->type.str() + " in " + a + " and " +
                          result.type.str() + " in " + b)
                             .str());
    else
      rows.push_back(
          {result.name, result.type.shape, computeDifference(other->ref(), result.ref())});
  }
  for (const WholeTensor &result : ours)
    if (!findResult(theirs, result.name))
      problems.push_back(("'" + result.name + "' is only in " + a).str());
  return rows;
}

/// Results of a program on the ranks that it is for; none on others.
static llvm::Expected<Results> runOne(const Program &program, Communicator &world,
                                      const run::Options &options, int64_t microbatches) {
  const ScheduleInfo *schedule = program.schedule();
  if (world.size() == 1 || program.isTyped() || (schedule && schedule->ranks == world.size()))
    return run::runOnce(program, world, options, microbatches);
  if (!program.mesh().empty())
    return makeError(program.path() +
                     ": on several ranks, results of typed programs and of programs for one rank "
                     "can be compared; train an untyped program on a mesh: --steps");
  if (world.rank() != 0)
    return Results();
  return run::runOnce(program, *makeSingleRankCommunicator(), options, microbatches);
}

llvm::Error run::compare(const Program &program, Communicator &world, const Options &options) {
  auto other = loadProgram(options.against, {world.rank(), world.size()});
  if (!other)
    return other.takeError();
  if (options.weightGradients == WeightGradients::Deferred)
    if (llvm::Error error = checkDeferrable(program))
      return error;
  // A schedule says how many microbatches there are; the other program runs as many.
  int64_t microbatches = std::max(countMicrobatches(program), countMicrobatches(**other));
  llvm::Expected<Results> ours = runOne(program, world, options, microbatches);
  if (!ours)
    return ours.takeError();
  llvm::Expected<Results> theirs = runOne(**other, world, adapt(options, **other), microbatches);
  if (!theirs)
    return theirs.takeError();
  llvm::Error error = llvm::Error::success();
  if (world.rank() == 0) {
    std::vector<std::string> problems;
    std::vector<Row> rows =
        compareResults(*ours, *theirs, program.path(), (*other)->path(), problems);
    error = reportDifferences(rows, gradientFloor(rows), options, std::move(problems),
                              {program.path(), (*other)->path()});
  }
  if (world.size() == 1)
    return error;
  // One message is enough: the others end with it.
  std::string text = llvm::toString(std::move(error));
  auto all = world.allGatherBytes(text, "the comparison");
  if (!all)
    return all.takeError();
  return all->front().empty() ? llvm::Error::success()
                              : llvm::make_error<CollectiveRefusal>(all->front());
}

/// The indices of an element, of which row-major order has `at` before it.
static llvm::SmallVector<int64_t> unravel(int64_t at, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> indices(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; at /= shape[dim])
    indices[dim] = at % shape[dim];
  return indices;
}

/// " at [3, 7]: 0.25 and 0.5"
static std::string describePlace(const run::Row &row) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!row.shape.empty()) {
    os << " at [";
    llvm::interleaveComma(unravel(row.difference.at, row.shape), os);
    os << "]";
  }
  if (row.rank)
    os << " on rank " << *row.rank;
  os << ": " << llvm::format("%.6g", row.difference.a) << " and "
     << llvm::format("%.6g", row.difference.b);
  return text;
}

/// JSON has no infinity and no NaN.
static llvm::json::Value toJson(double value) {
  return std::isfinite(value) ? llvm::json::Value(value) : llvm::json::Value(nullptr);
}

static llvm::Error writeJson(llvm::StringRef path, llvm::json::Array values,
                             llvm::ArrayRef<std::string> problems, double tolerance) {
  auto file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  llvm::json::Object report{{"version", 1},
                            {"tolerance", tolerance},
                            {"values", std::move(values)},
                            {"problems", llvm::json::Array(problems)}};
  std::string text = llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report)));
  if (llvm::Error error = (*file)->write(text))
    return error;
  return (*file)->commit();
}

llvm::Error run::reportDifferences(llvm::ArrayRef<Row> rows, double floor, const Options &options,
                                   std::vector<std::string> problems,
                                   std::pair<llvm::StringRef, llvm::StringRef> paths) {
  size_t width = 8;
  for (const Row &row : rows)
    width = std::max(width, row.name.size());
  llvm::outs() << llvm::left_justify("value", width) << "  max|a-b|    relative\n";
  size_t above = 0, bitwise = 0;
  llvm::json::Array values;
  for (const Row &row : rows) {
    const Difference &difference = row.difference;
    double relative = relativeDifference(difference, std::max(floor, row.floor));
    bool isAbove =
        options.tolerance == 0 ? !difference.isBitwiseEqual : relative > options.tolerance;
    above += isAbove;
    bitwise += difference.isBitwiseEqual;
    llvm::outs() << llvm::left_justify(row.name, width)
                 << llvm::format("  %-10.3g  %-10.3g", difference.maxAbsolute, relative)
                 << (difference.isBitwiseEqual ? "  bitwise equal"
                     : isAbove                 ? "  ABOVE TOLERANCE"
                                               : "")
                 << (isAbove && difference.maxAbsolute > 0 ? describePlace(row) : "") << "\n";
    llvm::json::Object value{{"name", row.name},
                             {"max_difference", toJson(difference.maxAbsolute)},
                             {"relative", toJson(relative)},
                             {"bitwise_equal", difference.isBitwiseEqual},
                             {"above_tolerance", isAbove}};
    if (row.rank)
      value["rank"] = *row.rank;
    if (difference.maxAbsolute > 0) {
      value["at"] = llvm::json::Array(unravel(difference.at, row.shape));
      value["numbers"] = llvm::json::Array{toJson(difference.a), toJson(difference.b)};
    }
    values.push_back(std::move(value));
  }
  llvm::outs() << bitwise << " of " << rows.size() << " values are bitwise equal\n";
  for (const std::string &problem : problems)
    llvm::outs() << problem << "\n";
  if (!options.json.empty())
    if (llvm::Error error = writeJson(options.json, std::move(values), problems, options.tolerance))
      return error;
  if (rows.empty())
    problems.push_back("they have no values in common");
  if (above)
    problems.push_back(llvm::formatv("{0} of {1} values differ by more than the tolerance {2}",
                                     above, rows.size(), formatNumber(options.tolerance)));
  if (problems.empty())
    return llvm::Error::success();
  return makeError(paths.first + " and " + paths.second +
                   " compute different values: " + llvm::join(problems, "; "));
}
