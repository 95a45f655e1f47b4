//===- GraphFile.cpp - what a budget counts, for others to check --------------===//

#include "lib/backward/GraphFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::backward;
using Fate = PartitionCosts::Fate;

static StringRef nameOf(Fate fate) {
  switch (fate) {
  case Fate::There:
    return "there";
  case Fate::Own:
    return "own";
  case Fate::Saved:
    return "saved";
  case Fate::Again:
    return "again";
  case Fate::Choice:
    return "choice";
  }
  llvm_unreachable("all fates have a name");
}

llvm::json::Object PartitionCosts::toJSON() const {
  auto numberOrNull = [](unsigned number) {
    return number == kNone ? llvm::json::Value(nullptr) : llvm::json::Value(int64_t(number));
  };
  auto describeResults = [](ArrayRef<Result> results) {
    llvm::json::Array array;
    for (const Result &result : results)
      array.push_back(llvm::json::Object{{"value", result.value}, {"stays", !result.isHandedOn}});
    return array;
  };
  llvm::json::Array valueArray, opArray;
  for (const Value &value : values)
    valueArray.push_back(llvm::json::Object{{"bytes", value.bytes},
                                            {"fate", nameOf(value.fate)},
                                            {"shares", numberOrNull(value.shared)},
                                            {"shares_at_first", numberOrNull(value.sharedAtFirst)},
                                            {"takes_own", value.takesOwn}});
  for (unsigned number = 0; number < numOps; ++number) {
    const Op &op = ops[number];
    opArray.push_back(llvm::json::Object{{"name", operations[number]->getName().getStringRef()},
                                         {"operands", llvm::json::Array(op.operands)},
                                         {"results", llvm::json::Array(op.results)},
                                         {"time", op.time},
                                         {"of", op.isTangent   ? "backward"
                                                : op.isForward ? "forward"
                                                               : "either"}});
  }
  return llvm::json::Object{{"values", std::move(valueArray)},
                            {"ops", std::move(opArray)},
                            {"saved", llvm::json::Array(saved)},
                            {"forward_results", describeResults(forwardResults)},
                            {"backward_results", describeResults(backwardResults)}};
}

LogicalResult cleave::backward::writeGraph(StringRef path, Operation *op,
                                           const PartitionCosts &costs, const StepForm &form) {
  llvm::json::Object object = costs.toJSON();
  object["step"] = llvm::json::Object{{"state_bytes", form.memory.state.getStateBytes()},
                                      {"unsharded_bytes", form.memory.unshardedBytes},
                                      {"once_peak_bytes", form.memory.oncePeakBytes},
                                      {"microbatches", form.microbatches},
                                      {"lowered", form.isLowered},
                                      {"offload", form.mayOffload}};
  std::error_code error;
  llvm::raw_fd_ostream file(path, error, llvm::sys::fs::OF_Text);
  if (!error) {
    file << llvm::formatv("{0}", llvm::json::Value(std::move(object))) << "\n";
    file.close();
    error = file.error();
    file.clear_error();
  }
  if (error)
    return op->emitError() << "cannot write the graph to '" << path << "': " << error.message();
  return success();
}
