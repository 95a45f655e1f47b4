//===- Against.cpp - compares what two programs compute ----------------------===//

#include "tools/cleave-run/Against.h"
#include "tools/cleave-run/Evaluate.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// 1e-3 of the median over the reference's gradients of their largest element.
static double gradientFloor(llvm::ArrayRef<run::Row> rows) {
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

static const ValueInfo *findResult(const Program &program, llvm::StringRef name) {
  for (const ValueInfo &value : program.outcomes())
    if (value.fileName == name)
      return &value;
  return nullptr;
}

/// Values by name that both programs have; what only one has goes to `complaints`.
static llvm::Expected<std::vector<run::Row>> compareResults(Session &ours, Session &theirs,
                                                            std::vector<std::string> &complaints) {
  std::vector<run::Row> rows;
  const Program &a = ours.program(), &b = theirs.program();
  for (const ValueInfo &value : b.outcomes()) {
    const ValueInfo *other = findResult(a, value.fileName);
    if (!other)
      complaints.push_back(("'" + value.fileName + "' is only in " + b.path()).str());
    else if (!(other->type == value.type))
      complaints.push_back(("'" + value.fileName + "' is " + other->type.str() + " in " + a.path() +
                            " and " + value.type.str() + " in " + b.path())
                               .str());
    else {
      auto left = ours.result(value.fileName), right = theirs.result(value.fileName);
      if (llvm::Error error = llvm::joinErrors(left.takeError(), right.takeError()))
        return error;
      rows.push_back({value.fileName, computeDifference(*left, *right)});
    }
  }
  for (const ValueInfo &value : a.outcomes())
    if (!findResult(b, value.fileName))
      complaints.push_back(("'" + value.fileName + "' is only in " + a.path()).str());
  return rows;
}

llvm::Error run::compare(const Program &program, const Options &options) {
  auto other = loadProgram(options.against);
  if (!other)
    return other.takeError();
  auto ours = runOnce(program, options);
  if (!ours)
    return ours.takeError();
  Options otherOptions = options;
  otherOptions.weightGradients = chooseWeightGradients(**other, options.weightGradients);
  auto theirs = runOnce(**other, otherOptions);
  if (!theirs)
    return theirs.takeError();

  std::vector<std::string> complaints;
  auto rows = compareResults(**ours, **theirs, complaints);
  if (!rows)
    return rows.takeError();
  return reportDifferences(*rows, gradientFloor(*rows), options.tolerance, std::move(complaints),
                           {program.path(), (*other)->path()});
}

llvm::Error run::reportDifferences(llvm::ArrayRef<Row> rows, double floor, double tolerance,
                                   std::vector<std::string> complaints,
                                   std::pair<llvm::StringRef, llvm::StringRef> paths) {
  size_t width = 8;
  for (const Row &row : rows)
    width = std::max(width, row.name.size());
  llvm::outs() << llvm::left_justify("value", width) << "  max|a-b|    relative\n";
  size_t above = 0, bitwise = 0;
  for (const Row &row : rows) {
    double relative = relativeDifference(row.difference, floor);
    bool isAbove = tolerance == 0 ? !row.difference.isBitwiseEqual : relative > tolerance;
    above += isAbove;
    bitwise += row.difference.isBitwiseEqual;
    llvm::outs() << llvm::left_justify(row.name, width)
                 << llvm::format("  %-10.3g  %-10.3g", row.difference.maxAbsolute, relative)
                 << (row.difference.isBitwiseEqual ? "  bitwise equal"
                     : isAbove                     ? "  ABOVE TOLERANCE"
                                                   : "")
                 << "\n";
  }
  llvm::outs() << bitwise << " of " << rows.size() << " values are bitwise equal\n";
  for (const std::string &complaint : complaints)
    llvm::outs() << complaint << "\n";
  if (above)
    complaints.push_back(llvm::formatv("{0} of {1} values differ by more than the tolerance {2}",
                                       above, rows.size(), tolerance));
  if (complaints.empty())
    return llvm::Error::success();
  return makeError(paths.first + " and " + paths.second +
                   " do not compute the same: " + llvm::join(complaints, "; "));
}
