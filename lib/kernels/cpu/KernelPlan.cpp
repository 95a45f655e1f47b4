//===- KernelPlan.cpp - how a row program is carried out ---------------------===//

#include "lib/kernels/cpu/KernelPlan.h"

#include "llvm/Support/MathExtras.h"

using namespace cleave::kernels;

int64_t cleave::kernels::sizeOf(ComputeType type) {
  switch (type) {
  case ComputeType::F32:
  case ComputeType::I32:
    return 4;
  case ComputeType::F64:
  case ComputeType::I64:
    return 8;
  case ComputeType::I1:
    return 1;
  }
  return 0;
}

namespace {
class Planner {
public:
  Planner(const RowProgram &program, const PlanOptions &options)
      : program(program), options(options) {}

  KernelPlan run();

private:
  static constexpr int64_t kAlignment = 64;

  bool isFinished(const Store &store) const { return program.rows() > 1 && store.rowDims == 0; }
  void findLevels();
  void planFirst();
  void planFinish();
  void divide(Phase &phase);
  void planKept(Phase &phase);
  void visit(NodeId node, unsigned pass, bool isWhole, llvm::DenseMap<NodeId, unsigned> &first);
  double costOf(NodeId node);
  Pass &passOf(Phase &phase, unsigned level) {
    if (phase.passes.size() <= level)
      phase.passes.resize(level + 1);
    return phase.passes[level];
  }
  void addReductions(Phase &phase);

  const RowProgram &program;
  const PlanOptions &options;
  KernelPlan plan;
  llvm::DenseMap<NodeId, double> costs;
};
} // namespace

/// After which walk of its phase each node is known.
void Planner::findLevels() {
  plan.levels.resize(program.nodes.size(), 0);
  for (auto [id, node] : llvm::enumerate(program.nodes)) {
    if (node.kind == Node::Kind::ReduceRows)
      continue;
    for (NodeId operand : node.operands)
      plan.levels[id] = std::max(plan.levels[id], plan.levels[operand]);
    plan.levels[id] += node.kind == Node::Kind::ReduceColumns;
  }
}

/// The reductions along rows that the phase's stores need, and, in the first phase, what is summed
/// down the columns.
void Planner::addReductions(Phase &phase) {
  std::vector<bool> needed(program.nodes.size());
  auto need = [&](NodeId node) { needed[node] = true; };
  for (const Store &store : program.stores)
    if (isFinished(store) == phase.isFinish)
      need(store.value);
  if (!phase.isFinish)
    for (auto [id, node] : llvm::enumerate(program.nodes))
      if (node.kind == Node::Kind::ReduceRows)
        need(node.operands[0]);
  for (NodeId id = program.nodes.size(); id-- > 0;) {
    const Node &node = program.nodes[id];
    if (!needed[id] || node.kind == Node::Kind::ReduceRows)
      continue;
    for (NodeId operand : node.operands)
      need(operand);
    if (node.kind == Node::Kind::ReduceColumns)
      passOf(phase, plan.levels[node.operands[0]]).reductions.push_back(id);
  }
  for (Pass &pass : phase.passes)
    std::reverse(pass.reductions.begin(), pass.reductions.end());
}

void Planner::divide(Phase &phase) {
  bool hasReductions =
      llvm::any_of(phase.passes, [](const Pass &pass) { return !pass.reductions.empty(); });
  bool hasGather =
      llvm::any_of(program.nodes, [](const Node &node) { return node.kind == Node::Kind::Gather; });
  bool movesColumns = llvm::any_of(program.nodes, [](const Node &node) {
    return node.kind == Node::Kind::Slice || node.kind == Node::Kind::Concat;
  });
  bool isOneRow = program.rows() == 1 || phase.isFinish;
  phase.isOverRows = !isOneRow || hasReductions || hasGather || movesColumns;
  int64_t rows = isOneRow ? 1 : program.rows();
  int64_t elements = std::max<int64_t>(1, rows * program.columns);
  if (phase.isFinish)
    elements *= plan.phases.front().chunks;
  int64_t wanted = std::clamp<int64_t>(elements / options.elementsPerChunk, 1, options.maxChunks);
  int64_t size = phase.isOverRows ? rows : program.columns;
  phase.step = llvm::divideCeil(size, wanted);
  if (!phase.isOverRows)
    phase.step = llvm::alignTo(phase.step, options.columnStep);
  phase.chunks = std::max<int64_t>(1, llvm::divideCeil(size, phase.step));
}

/// Simple operations per element that computing the value again takes.
double Planner::costOf(NodeId id) {
  const Node &node = program.nodes[id];
  if (node.columns == 0 || node.kind == Node::Kind::Constant)
    return 0;
  if (auto it = costs.find(id); it != costs.end())
    return it->second;
  double cost = 1;
  if (node.kind == Node::Kind::Load)
    cost = program.tensors[node.access.tensor].getIntOrFloatBitWidth() == 16 ? 2 : 1;
  if (node.kind == Node::Kind::Map)
    switch (node.function) {
    case Function::Div:
    case Function::Sqrt:
      cost = 5;
      break;
    case Function::Exp:
    case Function::Log:
    case Function::Log1p:
    case Function::Tanh:
    case Function::Erf:
      cost = 12;
      break;
    case Function::Sin:
    case Function::Cos:
    case Function::Pow:
      cost = 40;
      break;
    default:
      break;
    }
  for (NodeId operand : node.operands)
    cost += costOf(operand);
  return costs[id] = cost;
}

/// Finds what walk `pass` would recompute that an earlier one (`first`: which) has computed
/// for all columns.
void Planner::visit(NodeId id, unsigned pass, bool isWhole,
                    llvm::DenseMap<NodeId, unsigned> &first) {
  const Node &node = program.nodes[id];
  if (node.columns == 0)
    return;
  if (auto it = plan.kept.find(id); it != plan.kept.end() && it->second.pass < pass)
    return;
  if (auto it = first.find(id);
      it != first.end() && it->second < pass && costOf(id) > options.keepCost) {
    Kept kept;
    kept.pass = it->second;
    kept.scratch = llvm::alignTo(plan.scratchBytes, kAlignment);
    plan.scratchBytes = *kept.scratch + node.columns * sizeOf(node.type);
    plan.kept[id] = kept;
    plan.phases.front().passes[kept.pass].keeps.push_back(id);
    return;
  }
  if (isWhole)
    first.try_emplace(id, pass);
  isWhole &= node.kind != Node::Kind::Slice;
  for (NodeId operand : node.operands)
    visit(operand, pass, isWhole, first);
}

void Planner::planKept(Phase &phase) {
  // What is stored as it was computed can be read back.
  constexpr double kReadBack = 3;
  for (auto [index, pass] : llvm::enumerate(phase.passes))
    for (unsigned store : pass.stores) {
      const Store &its = program.stores[store];
      const Node &node = program.nodes[its.value];
      bool isExact = getComputeType(program.tensors[its.access.tensor]) == node.type &&
                     program.tensors[its.access.tensor].getIntOrFloatBitWidth() ==
                         (node.type == ComputeType::I1 ? 1 : sizeOf(node.type) * 8);
      if (isExact && node.columns == its.columns && its.rowDims == program.allRowDims() &&
          costOf(its.value) >= kReadBack) {
        Kept kept;
        kept.pass = index;
        kept.store = store;
        plan.kept.try_emplace(its.value, kept);
      }
    }
  llvm::DenseMap<NodeId, unsigned> first;
  for (auto [index, pass] : llvm::enumerate(phase.passes)) {
    for (NodeId node : llvm::concat<NodeId>(pass.reductions, pass.rowReductions))
      visit(program.nodes[node].operands[0], index, true, first);
    for (unsigned store : pass.stores)
      visit(program.stores[store].value, index,
            program.nodes[program.stores[store].value].columns == program.stores[store].columns,
            first);
  }
}

void Planner::planFirst() {
  Phase &phase = plan.phases.emplace_back();
  addReductions(phase);
  for (auto [id, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Kind::ReduceRows) {
      if (node.columns)
        passOf(phase, plan.levels[node.operands[0]]).rowReductions.push_back(id);
      else
        phase.scalarReductions.push_back(id);
    }
  for (auto [index, store] : llvm::enumerate(program.stores)) {
    if (isFinished(store))
      continue;
    if (store.columns)
      passOf(phase, plan.levels[store.value]).stores.push_back(index);
    else
      phase.rowStores.push_back(index);
  }
  divide(phase);
  planKept(phase);
  for (auto [id, node] : llvm::enumerate(program.nodes))
    if (node.kind == Node::Kind::ReduceRows) {
      int64_t offset = llvm::alignTo(plan.partialBytes, kAlignment);
      plan.partials[id] = offset;
      plan.partialBytes =
          offset + phase.chunks * std::max<int64_t>(1, node.columns) * sizeOf(node.type);
    }
}

void Planner::planFinish() {
  if (llvm::none_of(program.stores, [&](const Store &store) { return isFinished(store); }))
    return;
  Phase phase;
  phase.isFinish = true;
  addReductions(phase);
  for (auto [index, store] : llvm::enumerate(program.stores)) {
    if (!isFinished(store))
      continue;
    if (store.columns)
      passOf(phase, plan.levels[store.value]).stores.push_back(index);
    else
      phase.rowStores.push_back(index);
  }
  divide(phase);
  if (phase.passes.empty()) {
    // Single numbers only.
    phase.isOverRows = true;
    phase.chunks = phase.step = 1;
  }
  plan.phases.push_back(std::move(phase));
}

KernelPlan Planner::run() {
  findLevels();
  planFirst();
  planFinish();
  return std::move(plan);
}

KernelPlan cleave::kernels::planKernel(const RowProgram &program, const PlanOptions &options) {
  return Planner(program, options).run();
}
