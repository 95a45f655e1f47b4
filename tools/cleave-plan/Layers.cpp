// Which layers are equal, and programs without some of them.
#include "tools/cleave-plan/Layers.h"

#include "lib/pipeline/StageAssignment.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

/// The layers that use a value, those whose results it is among them.
static SmallVector<unsigned> listUsers(const LayerMap &map, Value value) {
  SmallVector<unsigned> users;
  for (OpOperand &use : value.getUses()) {
    if (use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      users.push_back(map.results[use.getOperandNumber()]);
    else if (auto found = map.ops.find(use.getOwner()); found != map.ops.end())
      users.push_back(found->second);
  }
  return users;
}

FailureOr<LayerMap> plan::mapLayers(const backward::JointGraph &graph,
                                    ArrayRef<std::string> modules) {
  pipeline::StageRequest request;
  request.kind = pipeline::StageRequest::Kind::Modules;
  request.modules.assign(modules.begin(), modules.end());
  auto assignment = pipeline::StageAssignment::create(graph, request);
  if (failed(assignment))
    return failure();
  LayerMap map;
  func::FuncOp microbatch = graph.getFunction();
  for (unsigned index = 0; index < microbatch.getNumResults(); ++index)
    map.results.push_back(assignment->getResultStage(index));
  for (Operation &op : microbatch.front().without_terminator())
    if (std::optional<unsigned> layer = assignment->getStage(&op))
      map.ops[&op] = *layer;
  // What the backward alone computes, of values of the forward, belongs to the one that needs it.
  for (Operation &op : llvm::reverse(microbatch.front())) {
    if (op.hasTrait<OpTrait::IsTerminator>() || map.ops.contains(&op) || graph.isForward(&op))
      continue;
    std::set<unsigned> users;
    for (Value result : op.getResults())
      for (unsigned user : listUsers(map, result))
        users.insert(user);
    if (users.size() == 1)
      map.ops[&op] = *users.begin();
  }
  return std::move(map);
}

llvm::Expected<Layers> Layers::find(const Source &source) {
  int64_t count = source.facts.layers;
  if (count < 4)
    return makeError("too few layers to leave any out");
  func::FuncOp microbatch = source.functions.microbatch;
  ScopedDiagnosticHandler handler(microbatch.getContext(), [](Diagnostic &) { return success(); });
  auto graph = backward::JointGraph::create(microbatch, /*mayLackBackward=*/true);
  if (failed(graph))
    return makeError("the program has no forward and backward");
  std::vector<std::string> modules;
  for (int64_t layer = 1; layer < count; ++layer)
    modules.push_back(source.layers + "." + std::to_string(layer));
  auto map = mapLayers(*graph, modules);
  if (failed(map))
    return makeError("the program cannot be cut at each of its layers");
  Layers found(source);
  found.map = std::move(*map);
  for (Operation &op : microbatch.front().without_terminator())
    if (graph->isTangent(&op))
      found.tangents.insert(&op);
  found.classes.resize(size_t(count));
  found.classify();
  return std::move(found);
}

//===----------------------------------------------------------------------===//
// Equal layers
//===----------------------------------------------------------------------===//

namespace {
/// Numbers for lists of words: equal lists have the same.
class Numbering {
public:
  using Words = std::vector<uintptr_t>;

  uintptr_t get(Words words) {
    return numbers.try_emplace(std::move(words), numbers.size()).first->second;
  }
  uintptr_t get(StringRef text) { return texts.try_emplace(text, texts.size()).first->second; }

private:
  std::map<Words, uintptr_t> numbers;
  llvm::StringMap<uintptr_t> texts;
};
} // namespace

/// Two layers are equal if their ops are, in order: names, attributes, types, and where operands
/// come from. What lies outside of layers counts by how it is computed.
void Layers::classify() {
  enum Origin : uintptr_t { Argument, Inside, Near, Far, Outside };
  func::FuncOp microbatch = source->functions.microbatch;
  Numbering numbering;
  llvm::DenseMap<Operation *, uintptr_t> outside;
  llvm::DenseMap<Value, unsigned> places; // in their layer
  std::vector<unsigned> sizes(classes.size(), 0);
  std::vector<Numbering::Words> contents(classes.size());
  auto describe = [&](Operation &op, std::optional<unsigned> layer) {
    Numbering::Words words = {uintptr_t(op.getName().getAsOpaquePointer())};
    for (NamedAttribute attribute : op.getAttrDictionary()) {
      if (attribute.getName() == train::kCheckpointAttrName)
        continue; // numbers the checkpoints of a program
      words.push_back(uintptr_t(attribute.getName().getAsOpaquePointer()));
      words.push_back(uintptr_t(attribute.getValue().getAsOpaquePointer()));
    }
    for (Type type : op.getResultTypes())
      words.push_back(uintptr_t(type.getAsOpaquePointer()));
    for (Value operand : op.getOperands()) {
      words.push_back(uintptr_t(operand.getType().getAsOpaquePointer()));
      auto argument = dyn_cast<BlockArgument>(operand);
      if (argument) {
        train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
        words.insert(words.end(),
                     {Argument, uintptr_t(role.getKind()),
                      numbering.get(withoutNumber(role.getNameOrEmpty(), source->layers))});
        continue;
      }
      Operation *producer = operand.getDefiningOp();
      std::optional<unsigned> from = getLayer(operand);
      if (!from)
        words.insert(words.end(), {Outside, outside.lookup(producer)});
      else if (layer && *from == *layer)
        words.insert(words.end(), {Inside, places.lookup(operand)});
      else if (layer && (*from + 1 == *layer || *layer + 1 == *from))
        words.insert(words.end(), {Near, *from < *layer});
      else
        words.insert(words.end(), {Far, uintptr_t(operand.getAsOpaquePointer())});
    }
    return words;
  };
  for (Operation &op : microbatch.front().without_terminator()) {
    auto layer = map.ops.find(&op);
    if (layer == map.ops.end()) {
      outside[&op] = numbering.get(describe(op, std::nullopt));
      continue;
    }
    Numbering::Words words = describe(op, layer->second);
    contents[layer->second].insert(contents[layer->second].end(), words.begin(), words.end());
    for (Value result : op.getResults())
      places[result] = sizes[layer->second]++;
  }
  // What the exchange of rows needs of constants is made where the first experts are.
  std::optional<unsigned> first;
  for (Operation &op : microbatch.front().without_terminator())
    for (Value operand : op.getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      auto layer = map.ops.find(&op);
      if (argument && layer != map.ops.end() && layer->second < first.value_or(classes.size()) &&
          source->isOfExperts(
              train::getArgumentRole(microbatch, argument.getArgNumber()).getNameOrEmpty(),
              cast<RankedTensorType>(argument.getType()).getShape()))
        first = layer->second;
    }
  if (first)
    contents[*first].push_back(0);
  std::map<Numbering::Words, unsigned> known;
  for (size_t layer = 0; layer < classes.size(); ++layer)
    classes[layer] = known.try_emplace(contents[layer], known.size()).first->second;
}

//===----------------------------------------------------------------------===//
// Fewer layers
//===----------------------------------------------------------------------===//

std::optional<unsigned> Layers::getLayer(Value value) const {
  auto found = map.ops.find(value.getDefiningOp());
  return found == map.ops.end() ? std::nullopt : std::optional(found->second);
}

/// What the layer before the run [first, last] gives it, and the run itself gives on as `value`; of
/// a gradient, what the layer after it gives.
llvm::Expected<Value> Layers::findReplacement(Value value, unsigned first, unsigned last,
                                              bool isGradient) const {
  func::FuncOp microbatch = source->functions.microbatch;
  unsigned from = isGradient ? last + 1 : first - 1;
  Value found;
  for (Operation &op : microbatch.front().without_terminator()) {
    auto layer = map.ops.find(&op);
    if (layer == map.ops.end() || layer->second != from || tangents.contains(&op) != isGradient)
      continue;
    for (Value result : op.getResults()) {
      bool isTaken = llvm::any_of(listUsers(map, result),
                                  [&](unsigned user) { return first <= user && user <= last; });
      if (!isTaken || result.getType() != value.getType())
        continue;
      if (found)
        return makeError("layer {0} passes on several values with the same type", from);
      found = result;
    }
  }
  if (!found)
    return makeError("layer {0} passes on nothing that the next one does", from);
  return found;
}

/// Erases ops without uses, and then arguments and results. Fails where something is still used.
static llvm::Error erase(func::FuncOp function, const llvm::BitVector &results,
                         llvm::function_ref<bool(Operation *)> mayGo,
                         llvm::function_ref<bool(BlockArgument)> hasToGo) {
  Operation *terminator = function.front().getTerminator();
  SmallVector<Value> kept;
  for (auto [index, value] : llvm::enumerate(terminator->getOperands()))
    if (!results.test(unsigned(index)))
      kept.push_back(value);
  terminator->setOperands(kept);
  if (failed(function.eraseResults(results)))
    return makeError("results cannot be left out");
  SmallVector<Operation *> ops;
  for (Operation &op : function.front().without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty() && mayGo(op))
      op->erase();
  llvm::BitVector arguments(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    if (!hasToGo(argument))
      continue;
    if (!argument.use_empty())
      return makeError("what layers share depends on each of them");
    arguments.set(argument.getArgNumber());
  }
  if (failed(function.eraseArguments(arguments)))
    return makeError("arguments cannot be left out");
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> Layers::keep(const std::vector<bool> &kept) const {
  func::FuncOp microbatch = source->functions.microbatch, update = source->functions.update;
  SmallVector<std::pair<Value, Value>> replacements;
  for (unsigned first = 1; first < kept.size(); ++first) {
    if (kept[first])
      continue;
    unsigned last = first;
    while (!kept[last + 1])
      ++last;
    for (Operation &op : microbatch.front().without_terminator()) {
      auto layer = map.ops.find(&op);
      if (layer == map.ops.end() || layer->second < first || layer->second > last)
        continue;
      for (Value result : op.getResults())
        for (unsigned user : listUsers(map, result)) {
          if (first <= user && user <= last)
            continue;
          auto other = findReplacement(result, first, last, /*isGradient=*/user < first);
          if (!other)
            return other.takeError();
          replacements.emplace_back(result, *other);
          break;
        }
    }
    first = last;
  }
  IRMapping mapping;
  OwningOpRef<ModuleOp> module(cast<ModuleOp>((*source->module)->clone(mapping)));
  auto shortMicrobatch = cast<func::FuncOp>(mapping.lookup(microbatch.getOperation()));
  auto shortUpdate = cast<func::FuncOp>(mapping.lookup(update.getOperation()));
  for (auto [from, to] : replacements)
    mapping.lookup(from).replaceAllUsesWith(mapping.lookup(to));
  llvm::DenseSet<Operation *> dropped, shared;
  for (Operation &op : microbatch.front().without_terminator()) {
    auto layer = map.ops.find(&op);
    if (layer == map.ops.end())
      shared.insert(mapping.lookup(&op));
    else if (!kept[layer->second])
      dropped.insert(mapping.lookup(&op));
  }
  llvm::BitVector results(microbatch.getNumResults());
  for (auto [index, layer] : llvm::enumerate(map.results))
    if (!kept[layer])
      results.set(unsigned(index));
  llvm::StringSet<> parameters;
  llvm::DenseSet<unsigned> used;
  for (BlockArgument argument : microbatch.getArguments())
    if (!argument.use_empty())
      used.insert(argument.getArgNumber());
  llvm::Error error = erase(
      shortMicrobatch, results,
      [&](Operation *op) {
        return dropped.erase(op) || (shared.contains(op) && isMemoryEffectFree(op));
      },
      [&](BlockArgument argument) {
        if (!argument.use_empty() || !used.contains(argument.getArgNumber()))
          return false;
        train::RoleAttr role = train::getArgumentRole(shortMicrobatch, argument.getArgNumber());
        if (role.getKind() == train::RoleKind::Parameter)
          parameters.insert(role.getNameOrEmpty());
        return true;
      });
  if (error)
    return std::move(error);
  if (!dropped.empty())
    return makeError("a layer makes something that others need");
  auto isDropped = [&](train::RoleAttr role) {
    return role && role.getName() && parameters.contains(role.getName().getValue());
  };
  llvm::BitVector updated(shortUpdate.getNumResults());
  for (unsigned index = 0; index < shortUpdate.getNumResults(); ++index)
    if (isDropped(train::getResultRole(shortUpdate, index)))
      updated.set(index);
  error = erase(
      shortUpdate, updated, [](Operation *op) { return isMemoryEffectFree(op); },
      [&](BlockArgument argument) {
        return isDropped(train::getArgumentRole(shortUpdate, argument.getArgNumber()));
      });
  if (error)
    return std::move(error);
  return std::move(module);
}
