//===- Plan.cpp - how the threads of a grid share a row program's work -----------------===//

#include "lib/kernels/gpu/Plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>

using namespace cleave::kernels;
using namespace cleave::kernels::gpu;
using llvm::divideCeil;

/// The plan is made for GPUs of about as many multiprocessors: an A100 has 108, an H100 132, a
/// B200 148.
static constexpr int64_t kMultiprocessors = 132;

/// Numbers that a thread may hold from one walk over its row to the next, or add up for columns.
/// Beside them it needs some thirty registers; of 1024 threads each has 64.
static constexpr int64_t kHeldNumbers = 32;

unsigned gpu::sizeOfPartial(ComputeType type) {
  return type == ComputeType::F64 || type == ComputeType::I64 ? 8 : 4;
}

namespace {
class Planner {
public:
  explicit Planner(const RowProgram &program) : program(program) {}
  Plan run();

private:
  void planRows(unsigned stage);
  void planFinish(unsigned stage);
  void findNodes(RowPhase &phase);
  void findLevels(RowPhase &phase);
  Mapping chooseMapping(const RowPhase &phase);
  void mapReducedRows(Mapping &mapping, int64_t vectors, int64_t weight, int64_t unit);
  void mapIndependentColumns(Mapping &mapping, int64_t vectors, bool sumsColumns, int64_t unit);
  void divideRows(Mapping &mapping, bool sums);
  int64_t countHeld(const RowPhase &phase);
  int64_t columnUnit(const RowPhase &phase);
  unsigned preferredVector(const RowPhase &phase);
  bool followsByColumn(const Store &store, const FinishPhase &finish);
  std::string entryName(llvm::StringRef suffix) const;

  const Node &node(NodeId id) const { return program.nodes[id]; }
  unsigned stageOf(const Store &store) const { return node(store.value).stage; }

  const RowProgram &program;
  Plan plan;
  std::vector<bool> stored;
};
} // namespace

/// The kernel's name as PTX can have it; `$` occurs nowhere else.
std::string Planner::entryName(llvm::StringRef suffix) const {
  std::string name;
  for (char c : program.name)
    if (llvm::isAlnum(c) || c == '_')
      name += c;
    else
      name += "$" + llvm::utohexstr(uint8_t(c));
  if (!llvm::isAlpha(name.front()))
    name.insert(0, "kernel$");
  return suffix.empty() ? name : name + "$" + suffix.str();
}

/// All that the phase computes, but for sums over rows, which it reads.
void Planner::findNodes(RowPhase &phase) {
  std::vector<bool> needed(program.nodes.size());
  auto close = [&] {
    for (NodeId id = needed.size(); id-- > 0;)
      if (needed[id] && node(id).kind != Node::Kind::ReduceRows)
        for (NodeId operand : node(id).operands)
          needed[operand] = true;
  };
  auto totalOf = [&](NodeId sum) -> std::optional<NodeId> {
    const Node &operand = node(node(sum).operands[0]);
    if (operand.kind != Node::Kind::ReduceColumns || operand.reduction != RowReduction::Sum ||
        node(sum).reduction != RowReduction::Sum)
      return std::nullopt;
    return operand.operands[0];
  };
  for (unsigned store : phase.stores)
    needed[program.stores[store].value] = true;
  for (NodeId sum : phase.sums)
    if (!totalOf(sum))
      needed[node(sum).operands[0]] = true;
  close();
  for (NodeId sum : phase.sums)
    if (auto total = totalOf(sum)) {
      if (!needed[node(sum).operands[0]])
        phase.totals[sum] = *total;
    }
  for (auto [sum, total] : phase.totals)
    needed[total] = true;
  close();
  for (NodeId id = 0; id < needed.size(); ++id)
    if (needed[id])
      phase.nodes.push_back(id);
}

void Planner::findLevels(RowPhase &phase) {
  phase.levels.assign(program.nodes.size(), 0);
  for (NodeId id : phase.nodes) {
    if (node(id).kind == Node::Kind::ReduceRows)
      continue;
    unsigned &level = phase.levels[id];
    for (NodeId operand : node(id).operands)
      level = std::max(level, phase.levels[operand]);
    if (node(id).kind == Node::Kind::ReduceColumns)
      phase.numLevels = std::max(phase.numLevels, ++level);
  }
}

/// How many registers for each of its columns a thread holds from one walk to the next, at most.
int64_t Planner::countHeld(const RowPhase &phase) {
  /// The walk that computes a node, and the last one that uses it.
  std::map<NodeId, std::pair<unsigned, unsigned>> walks;
  auto visit = [&](auto &visit, NodeId id, unsigned walk) -> void {
    const Node &visited = node(id);
    if (visited.columns == 0 || visited.kind == Node::Kind::ColumnIndex)
      return;
    auto [it, isNew] = walks.try_emplace(id, walk, walk);
    it->second.second = walk;
    if (isNew)
      for (NodeId operand : visited.operands)
        visit(visit, operand, walk);
  };
  for (unsigned walk = 1; walk <= phase.numLevels; ++walk)
    for (NodeId id : phase.nodes)
      if (node(id).kind == Node::Kind::ReduceColumns && phase.levels[id] == walk)
        visit(visit, node(id).operands[0], walk);
  unsigned last = phase.numLevels + 1;
  for (unsigned store : phase.stores)
    visit(visit, program.stores[store].value, last);
  for (NodeId sum : phase.sums)
    visit(visit, phase.totals.contains(sum) ? phase.totals.at(sum) : node(sum).operands[0], last);
  int64_t maximum = 0;
  for (unsigned walk = 1; walk < last; ++walk) {
    int64_t registers = 0;
    for (auto &[id, range] : walks)
      if (range.first <= walk && walk < range.second)
        registers += sizeOfPartial(node(id).type) / 4;
    maximum = std::max(maximum, registers);
  }
  return maximum;
}

/// What all numbers of columns, and all places where columns are cut, are multiples of.
int64_t Planner::columnUnit(const RowPhase &phase) {
  int64_t unit = 0;
  for (NodeId id : phase.nodes) {
    unit = std::gcd(unit, node(id).columns);
    unit = std::gcd(unit, node(id).start);
    for (int64_t width : node(id).widths)
      unit = std::gcd(unit, width);
  }
  for (unsigned store : phase.stores)
    unit = std::gcd(unit, program.stores[store].columns);
  return unit == 0 ? 1 : unit;
}

/// How many columns make 16 bytes of the narrowest tensor, booleans apart.
unsigned Planner::preferredVector(const RowPhase &phase) {
  unsigned bytes = 16;
  auto see = [&](const Access &access) {
    if (access.columnStride)
      if (unsigned bits = program.tensors[access.tensor].getIntOrFloatBitWidth(); bits >= 16)
        bytes = std::min(bytes, bits / 8);
  };
  for (NodeId id : phase.nodes)
    if (node(id).kind == Node::Kind::Load)
      see(node(id).access);
  for (unsigned store : phase.stores)
    see(program.stores[store].access);
  return bytes == 16 ? 8 : 16 / bytes;
}

/// Rows that are reduced: a group of threads has all of a row.
void Planner::mapReducedRows(Mapping &mapping, int64_t vectors, int64_t weight, int64_t unit) {
  int64_t maximum = std::max<int64_t>(1, kHeldNumbers / (mapping.vector * weight));
  if (vectors <= 32 * std::min<int64_t>(4, maximum)) {
    mapping.threads = 128;
    mapping.lanes = std::min<int64_t>(32, llvm::PowerOf2Ceil(vectors));
    // Where rows are put together of parts, a step is in one part only if that costs few steps
    // more.
    int64_t part = llvm::bit_floor(uint64_t(unit / mapping.vector));
    if (part < int64_t(mapping.lanes) && part >= 4 &&
        int64_t(divideCeil(vectors, part)) <= std::min<int64_t>(8, maximum))
      mapping.lanes = part;
    mapping.slots = divideCeil(vectors, mapping.lanes);
    return;
  }
  // Few rows: rather more threads than more columns for each.
  int64_t slots = mapping.rows < 2 * kMultiprocessors ? std::min<int64_t>(2, maximum) : maximum;
  for (; slots >= 1; --slots) {
    int64_t threads = llvm::alignTo(divideCeil(vectors, slots), 32);
    if ((threads >= 128 || slots == 1) && threads <= 1024) {
      mapping.threads = mapping.lanes = threads;
      mapping.slots = divideCeil(vectors, threads);
      return;
    }
  }
  for (slots = 1; slots <= maximum; ++slots)
    if (int64_t(divideCeil(vectors, 1024)) <= slots) {
      mapping.threads = mapping.lanes = 1024;
      mapping.slots = slots;
      return;
    }
  mapping.threads = mapping.lanes = 256;
  mapping.slots = std::max(1u, 8 / mapping.vector);
  mapping.isLooped = true;
}

/// Columns that nothing joins: they are shared among blocks.
void Planner::mapIndependentColumns(Mapping &mapping, int64_t vectors, bool sumsColumns,
                                    int64_t unit) {
  unsigned maxSlots = mapping.rows == 1 || !sumsColumns ? std::max(1u, 8 / mapping.vector) : 1;
  mapping.threads = 256;
  if (vectors >= 256) {
    mapping.lanes = 256;
    mapping.slots = std::min<int64_t>(maxSlots, divideCeil(vectors, 256));
  } else {
    // The fewest idle threads; of those, the most lanes.
    int64_t minWaste = std::numeric_limits<int64_t>::max();
    for (unsigned lanes = 256; lanes >= 1; lanes /= 2) {
      int64_t slots = divideCeil(vectors, lanes), waste = slots * lanes - vectors;
      if (slots > std::max(4u, maxSlots) || waste >= minWaste)
        continue;
      minWaste = waste;
      mapping.lanes = lanes;
      mapping.slots = slots;
    }
    // Where rows are put together of parts, each step is in one of them if they are few.
    int64_t part = llvm::bit_floor(uint64_t(unit / mapping.vector));
    if (part < int64_t(mapping.lanes) && divideCeil(vectors, part) <= 4) {
      mapping.lanes = part;
      mapping.slots = divideCeil(vectors, part);
    }
    if (mapping.rows == 1)
      mapping.threads = mapping.lanes = std::max(32u, mapping.lanes);
  }
  mapping.tiles = divideCeil(vectors, int64_t(mapping.lanes) * mapping.slots);
}

void Planner::divideRows(Mapping &mapping, bool sums) {
  int64_t blocks =
      sums ? kMultiprocessors * std::max(1u, 1024 / mapping.threads) : kMultiprocessors * 64;
  int64_t parts =
      std::clamp<int64_t>(blocks / mapping.tiles, 1, divideCeil(mapping.rows, mapping.groups()));
  mapping.rowsPerPart = llvm::alignTo(divideCeil(mapping.rows, parts), mapping.groups());
  mapping.parts = divideCeil(mapping.rows, mapping.rowsPerPart);
}

Mapping Planner::chooseMapping(const RowPhase &phase) {
  int64_t columns = 1, columnSums = 0;
  bool hasRows = !phase.sums.empty();
  for (NodeId id : phase.nodes)
    columns = std::max(columns, node(id).columns);
  for (unsigned index : phase.stores) {
    columns = std::max(columns, program.stores[index].columns);
    hasRows |= program.stores[index].rowDims != 0;
  }
  for (NodeId sum : phase.sums)
    columnSums += node(sum).columns ? sizeOfPartial(node(sum).type) / 4 : 0;
  int64_t unit = columnUnit(phase);

  Mapping mapping;
  mapping.rows = hasRows ? program.rows() : 1;
  mapping.vector = preferredVector(phase);
  while (unit % int64_t(mapping.vector))
    mapping.vector /= 2;
  int64_t vectors = divideCeil(columns, mapping.vector);
  if (phase.numLevels > 0)
    mapReducedRows(mapping, vectors, std::max<int64_t>(1, countHeld(phase) + columnSums), unit);
  else
    mapIndependentColumns(mapping, vectors, columnSums != 0, unit);
  divideRows(mapping, !phase.sums.empty());
  return mapping;
}

void Planner::planRows(unsigned stage) {
  RowPhase phase;
  phase.stage = stage;
  for (auto [index, store] : llvm::enumerate(program.stores))
    if (!stored[index] && stageOf(store) == stage) {
      phase.stores.push_back(index);
      stored[index] = true;
    }
  for (NodeId id = 0; id < program.nodes.size(); ++id)
    if (node(id).kind == Node::Kind::ReduceRows && node(id).stage == stage + 1)
      phase.sums.push_back(id);
  if (phase.stores.empty() && phase.sums.empty())
    return;
  phase.entry = entryName(stage == 0 ? "" : llvm::utostr(stage + 1));
  findNodes(phase);
  findLevels(phase);
  phase.mapping = chooseMapping(phase);
  for (NodeId sum : phase.sums) {
    SumPlace &place = plan.places[sum];
    int64_t columns = node(sum).columns;
    place.parts = columns ? phase.mapping.parts : phase.mapping.chunks();
    place.stride = columns ? llvm::alignTo(columns * sizeOfPartial(node(sum).type), 16)
                           : sizeOfPartial(node(sum).type);
    place.partial = plan.partialBytes;
    plan.partialBytes = llvm::alignTo(plan.partialBytes + place.parts * place.stride, 64);
  }
  plan.phases.push_back({std::move(phase), std::nullopt});
}

/// Whether the store's value at a column follows from the sums at that column.
bool Planner::followsByColumn(const Store &store, const FinishPhase &finish) {
  if (store.rowDims != 0 || store.columns != finish.columns)
    return false;
  llvm::SmallVector<NodeId> work = {store.value};
  while (!work.empty()) {
    NodeId id = work.pop_back_val();
    switch (node(id).kind) {
    case Node::Kind::ReduceRows:
      if (!llvm::is_contained(finish.sums, id))
        return false;
      continue;
    case Node::Kind::Load:
    case Node::Kind::Constant:
    case Node::Kind::ColumnIndex:
    case Node::Kind::Map:
      work.append(node(id).operands.begin(), node(id).operands.end());
      continue;
    default:
      return false;
    }
  }
  return true;
}

void Planner::planFinish(unsigned stage) {
  std::map<int64_t, FinishPhase> byColumns;
  for (NodeId id = 0; id < program.nodes.size(); ++id)
    if (node(id).kind == Node::Kind::ReduceRows && node(id).stage == stage + 1)
      byColumns[node(id).columns].sums.push_back(id);
  for (auto &[columns, finish] : byColumns) {
    finish.columns = columns;
    for (auto [index, store] : llvm::enumerate(program.stores))
      if (!stored[index] && stageOf(store) == stage + 1 && followsByColumn(store, finish)) {
        finish.stores.push_back(index);
        stored[index] = true;
      }
  }
  for (auto &[columns, finish] : byColumns) {
    for (NodeId id = 0; id < program.nodes.size(); ++id)
      finish.keepsSums |= node(id).kind == Node::Kind::ReduceRows && node(id).stage > stage + 1;
    finish.keepsSums |= llvm::is_contained(stored, false);
    int64_t parts = 1;
    for (NodeId sum : finish.sums) {
      SumPlace &place = plan.places[sum];
      parts = std::max(parts, place.parts);
      place.final = plan.partialBytes;
      plan.partialBytes = llvm::alignTo(
          plan.partialBytes + std::max<int64_t>(1, columns) * sizeOfPartial(node(sum).type), 64);
    }
    if (columns) {
      // Several threads for each column, as far as shared memory for their sums goes.
      int64_t deep = std::clamp<int64_t>(llvm::PowerOf2Ceil(parts) / 4, 4, 32);
      while (deep > 1 && deep * kFinishColumns * 8 * int64_t(finish.sums.size()) > 40 * 1024)
        deep /= 2;
      finish.threads = kFinishColumns * deep;
      finish.chunks = divideCeil(columns, kFinishColumns);
    }
    unsigned count = llvm::count_if(plan.phases, [](auto &phase) { return phase.finish; });
    finish.entry = entryName(count == 0 ? "finish" : "finish" + llvm::utostr(count + 1));
    plan.phases.push_back({std::nullopt, std::move(finish)});
  }
}

Plan Planner::run() {
  stored.assign(program.stores.size(), false);
  unsigned last = 0;
  for (const Node &node : program.nodes)
    last = std::max(last, node.stage);
  for (unsigned stage = 0; stage <= last; ++stage) {
    planRows(stage);
    planFinish(stage);
  }
  return plan;
}

Plan gpu::makePlan(const RowProgram &program) {
  return Planner(program).run();
}
