//===- Explain.cpp - what the parts of a microbatch do and hold ----------------===//

#include "lib/backward/Explain.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::backward;
namespace memory = cleave::memory;
namespace train = cleave::train;

int64_t Explanation::Function::numRecomputed() const {
  int64_t sum = 0;
  for (const auto &[name, count] : recomputed)
    sum += count;
  return sum;
}

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

/// "h.0.attn (gpt.py:57)", or less where less is known.
static std::string describeLocation(Location location) {
  std::string module, file;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part); name && module.empty())
      module = name.getName().str();
    if (auto line = dyn_cast<FileLineColLoc>(part); line && file.empty())
      file = (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
    return WalkResult::advance();
  });
  if (module.empty() || file.empty())
    return module + file;
  return module + " (" + file + ")";
}

static std::string phaseOf(func::FuncOp function) {
  return train::stringifyPhase(
             function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue())
      .str();
}

static std::string nameOf(Operation *op) {
  if (op->getName().getStringRef() == "aten.call")
    return cast<cleave::aten::AtenOpInterface>(op).getSchemaName().str();
  return op->getName().getStringRef().str();
}

static Explanation::Function explainFunction(func::FuncOp function,
                                             const cleave::memory::FunctionPlan &plan,
                                             const cleave::memory::FunctionPlan &hostPlan) {
  Explanation::Function part;
  part.phase = phaseOf(function);
  part.peakBytes = plan.peakBytes;
  part.heldBytes = plan.heldBytes;
  part.hostBytes = hostPlan.heldBytes;
  llvm::StringMap<int64_t> counts;
  for (Operation &op : function.front().without_terminator()) {
    ++part.ops;
    if (op.hasAttr(train::kRecomputedAttrName))
      ++counts[nameOf(&op)];
  }
  for (const auto &entry : counts)
    part.recomputed.emplace_back(entry.first().str(), entry.second);
  llvm::sort(part.recomputed, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  return part;
}

Explanation cleave::backward::explainProgram(const train::ProgramFunctions &program) {
  Explanation explanation;
  auto functions = program.getMicrobatchFunctions();
  auto plan = memory::planMemory(functions, /*emptyAccumulators=*/true);
  auto hostPlan = memory::planMemory(functions, /*emptyAccumulators=*/true, /*owned=*/nullptr,
                                     memory::Space::Host);
  llvm::MapVector<StringAttr, Explanation::Saved> saved;
  for (auto [function, functionPlan, functionHostPlan] :
       llvm::zip_equal(functions, plan.functions, hostPlan.functions)) {
    explanation.functions.push_back(explainFunction(function, functionPlan, functionHostPlan));
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (train::RoleAttr role = train::getArgumentRole(function, i);
          saved.contains(role.getName()))
        if (role.getKind() == train::RoleKind::Saved)
          saved[role.getName()].takenBy.push_back(phaseOf(function));
    llvm::DenseSet<Value> counted; // with other results' memory, which stays anyway
    for (OpOperand &result : function.front().getTerminator()->getOpOperands())
      if (train::getResultRole(function, result.getOperandNumber()).getKind() !=
          train::RoleKind::Saved)
        counted.insert(memory::getStorage(result.get()));
    for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, result.getOperandNumber());
      if (role.getKind() != train::RoleKind::Saved)
        continue;
      Value storage = memory::getStorage(result.get());
      Explanation::Saved value;
      value.name = role.getNameOrEmpty();
      llvm::raw_string_ostream(value.type) << result.get().getType();
      value.location = describeLocation(result.get().getLoc());
      value.madeBy = phaseOf(function);
      value.isOffloaded = isa<cleave::dist::HostType>(storage.getType());
      memory::Space space = value.isOffloaded ? memory::Space::Host : memory::Space::Device;
      if (!isa<BlockArgument>(storage) && counted.insert(storage).second)
        value.bytes = memory::getByteSize(storage.getType(), space);
      saved[role.getName()] = std::move(value);
    }
  }
  for (auto &[name, value] : saved)
    explanation.saved.push_back(std::move(value));
  llvm::stable_sort(explanation.saved,
                    [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  return explanation;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

void Explanation::print(llvm::raw_ostream &os) const {
  os << "function             ops  recomputed   peak memory          held\n";
  auto row = [&](StringRef name, StringRef ops, StringRef recomputed, int64_t peak,
                 StringRef held) {
    os << llvm::left_justify(name, 16) << llvm::right_justify(ops, 8)
       << llvm::right_justify(recomputed, 12)
       << llvm::right_justify(memory::describeBytes(peak), 14) << llvm::right_justify(held, 14)
       << "\n";
  };
  if (jointPeakBytes)
    row("(joint)", "", "", *jointPeakBytes, "");
  for (const Function &part : functions)
    row(part.phase, llvm::utostr(part.ops), llvm::utostr(part.numRecomputed()), part.peakBytes,
        memory::describeBytes(part.heldBytes));
  if (budget)
    os << llvm::formatv(
        "\na step needs {0} of {1}; recomputation costs {2} of memory traffic\n"
        "on the frontier: {3} partitions, from {4} (recomputing {5}) to {6} (recomputing {7})\n",
        memory::describeBytes(budget->chosen.peakBytes), memory::describeBytes(budget->budgetBytes),
        memory::describeBytes(budget->chosen.time), budget->frontier.size(),
        memory::describeBytes(budget->frontier.front().peakBytes),
        memory::describeBytes(budget->frontier.front().time),
        memory::describeBytes(budget->frontier.back().peakBytes),
        memory::describeBytes(budget->frontier.back().time));
  if (budget && budget->chosen.hostBytes)
    os << "each microbatch offloads " << memory::describeBytes(budget->chosen.hostBytes) << "\n";
  for (const Function &part : functions) {
    if (part.recomputed.empty())
      continue;
    os << "\n" << part.phase << " recomputes\n";
    for (const auto &[name, count] : part.recomputed)
      os << llvm::format("%8lld ", static_cast<long long>(count)) << name << "\n";
  }
  int64_t total = 0, onHost = 0;
  for (const Saved &value : saved)
    (value.isOffloaded ? onHost : total) += value.bytes;
  os << "\nsaved values (" << saved.size() << ", " << memory::describeBytes(total)
     << (onHost ? ", and " + memory::describeBytes(onHost) + " on the host" : "") << ")\n";
  for (const Saved &value : saved)
    os << llvm::right_justify(value.bytes ? memory::describeBytes(value.bytes) : "-", 12) << "  "
       << value.name << "  " << value.type << "  " << value.madeBy << " -> "
       << llvm::join(value.takenBy, ", ")
       << (value.location.empty() ? "" : "  at " + value.location) << "\n";
}

llvm::json::Value Explanation::toJSON() const {
  llvm::json::Array parts, values;
  for (const Function &part : functions) {
    llvm::json::Object recomputed;
    for (const auto &[name, count] : part.recomputed)
      recomputed[name] = count;
    parts.push_back(llvm::json::Object{{"phase", part.phase},
                                       {"ops", part.ops},
                                       {"recomputed", std::move(recomputed)},
                                       {"peak_bytes", part.peakBytes},
                                       {"held_bytes", part.heldBytes},
                                       {"host_bytes", part.hostBytes}});
  }
  for (const Saved &value : saved)
    values.push_back(llvm::json::Object{{"name", value.name},
                                        {"type", value.type},
                                        {"bytes", value.bytes},
                                        {"offloaded", value.isOffloaded},
                                        {"made_by", value.madeBy},
                                        {"taken_by", llvm::json::Array(value.takenBy)},
                                        {"location", value.location}});
  llvm::json::Object object{{"functions", std::move(parts)}, {"saved", std::move(values)}};
  if (jointPeakBytes)
    object["joint_peak_bytes"] = *jointPeakBytes;
  if (budget) {
    auto describe = [](const BudgetReport::Point &point) {
      return llvm::json::Object{{"step_peak_bytes", point.peakBytes},
                                {"recompute_bytes", point.time},
                                {"offload_bytes", point.hostBytes}};
    };
    llvm::json::Object chosen = describe(budget->chosen);
    chosen["budget_bytes"] = budget->budgetBytes;
    llvm::json::Array frontier;
    for (const BudgetReport::Point &point : budget->frontier)
      frontier.push_back(describe(point));
    chosen["frontier"] = std::move(frontier);
    object["budget"] = std::move(chosen);
  }
  return object;
}

LogicalResult Explanation::writeJSON(StringRef path, Operation *op) const {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error, llvm::sys::fs::OF_Text);
  if (!error) {
    file << llvm::formatv("{0:2}", toJSON()) << "\n";
    file.close();
    error = file.error();
    file.clear_error();
  }
  if (error)
    return op->emitError() << "cannot write the explanation to '" << path
                           << "': " << error.message();
  return success();
}
