// What layers compute and send, and the shortest times of that.
#include "tools/cleave-plan/LayerWork.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/aten/CommunicationWork.h"
#include "lib/aten/OpCost.h"
#include "lib/pipeline/StageWork.h"
#include "lib/placement/Form.h"
#include "lib/plan/Bound.h"
#include "tools/cleave-plan/Layers.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

llvm::DenseSet<Value> plan::listParameters(func::FuncOp function) {
  llvm::DenseSet<Value> parameters;
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    train::RoleAttr role = train::getArgumentRole(function, index);
    if (role && role.getKind() == train::RoleKind::Parameter)
      parameters.insert(function.getArgument(index));
  }
  return parameters;
}

std::vector<std::pair<Operation *, cost::OpWork>>
plan::listWork(func::FuncOp microbatch, bool isGlobal, bool isCut, bool hasCopies) {
  llvm::DenseSet<Value> constant = listParameters(microbatch);
  std::vector<std::pair<Operation *, cost::OpWork>> works;
  for (Operation &op : microbatch.front().without_terminator()) {
    if (llvm::all_of(op.getOperands(), [&](Value value) { return constant.contains(value); })) {
      constant.insert(op.result_begin(), op.result_end());
      continue;
    }
    if (!isa<aten::AtenDialect>(op.getDialect()) || (!isCut && mayBeLeftOut(&op)))
      continue;
    cost::OpWork work = aten::describeWork(&op);
    if (work.kernels == 0 || (op.hasTrait<aten::CopyLike>() && !hasCopies) ||
        (isGlobal && work.kind == cost::OpWork::Bytes &&
         !placement::getForms(op.getName()).empty()))
      continue;
    works.emplace_back(&op, work);
  }
  return works;
}

KernelTime KernelTimer::time(const cost::OpWork &work) {
  for (const auto &[other, time] : known)
    if (other == work)
      return time;
  KernelTime time{parts > 1 ? leastSeconds(cluster.device, work, double(parts))
                            : cost::timeOf(cluster, work, {}) +
                                  work.kernels * cluster.device.kernelSeconds,
                  work.kernels * cluster.device.hostSeconds};
  known.emplace_back(work, time);
  return time;
}

//===----------------------------------------------------------------------===//
// Reading a program
//===----------------------------------------------------------------------===//

class LayerWork::Builder {
public:
  Builder(func::FuncOp microbatch, Division division, const backward::JointGraph &graph,
          const LayerMap &map, unsigned numLayers)
      : microbatch(microbatch), division(division), graph(graph), map(map), numLayers(numLayers) {
    for (bool isForward : {true, false})
      taken[isForward].resize(numLayers);
    for (Operation &op : microbatch.front().without_terminator())
      if (std::optional<Place> place = find(&op))
        for (Value operand : op.getOperands())
          if (std::optional<Place> from = find(operand.getDefiningOp());
              from && from->isForward == place->isForward && from->layer != place->layer)
            taken[place->isForward][place->layer].insert(operand);
    if (division != Division::All)
      findParts();
  }

  bool takesOneValue() const {
    return llvm::all_of(llvm::drop_begin(taken[true]),
                        [](const auto &values) { return values.size() == 1; });
  }
  /// Whether a part of a gradient runs in a layer that does not use the weight, but for what the
  /// last layer has of a table that the first one uses.
  bool hasParts() const {
    return llvm::any_of(parts, [&](const auto &part) {
      const unsigned layer = find(part.first)->layer;
      return part.second != layer && (part.second > 0 || layer + 1 < numLayers);
    });
  }

  /// How many ranks an axis has does not matter here: the bytes are those of the whole value.
  static std::optional<AxisWork> describe(dist::CommunicationOpInterface op) {
    ArrayAttr axes = op.getAxesAttr();
    if (axes.size() != 1)
      return std::nullopt;
    StringRef name = cast<StringAttr>(axes[0]).getValue();
    // Along the experts' axis the batch is divided, too: rows alone are sent as part of a layer.
    const Axis axis = name == "tp"                                      ? Axis::Tensor
                      : name == "cp"                                    ? Axis::Context
                      : name == "ep" && isa<dist::RaggedAllToAllOp>(op) ? Axis::Experts
                                                                        : Axis::None;
    if (axis == Axis::None)
      return std::nullopt;
    auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(op, op.getMeshAttr());
    for (auto each : mesh.getAxes().getAsRange<dist::AxisAttr>())
      if (each.getName() == name)
        return AxisWork{aten::describeCommunication(op, each.getSize()), axis};
    return std::nullopt;
  }

  /// `shared` gets what may be another layer's.
  Pass build(unsigned layer, bool isForward, const llvm::DenseMap<Operation *, AxisWork> &works,
             std::vector<cost::OpWork> &shared) {
    Pass pass;
    llvm::SmallVector<Operation *> ops;
    llvm::DenseMap<Operation *, unsigned> numbers;
    pass.isStart = layer == (isForward ? 0 : numLayers - 1);
    bool isEnd = layer == (isForward ? numLayers - 1 : 0);
    Value input = pass.isStart ? Value() : getOnly(layer, isForward);
    Value output = isEnd ? Value() : getOnly(isForward ? layer + 1 : layer - 1, isForward);
    // The first layer's backward ends with gradients of weights, which may be another pass's.
    pass.hasChain = (pass.isStart || input) && (isEnd ? isForward : bool(output));
    for (Operation &op : microbatch.front().without_terminator()) {
      std::optional<Place> place = find(&op);
      if (!place || place->layer != layer || place->isForward != isForward)
        continue;
      numbers[&op] = unsigned(pass.ops.size());
      ops.push_back(&op);
      Op &entry = pass.ops.emplace_back();
      // Along the batch's axis ops with forms are divided as others are.
      entry.isWhole = division != Division::None || placement::getForms(op.getName()).empty();
      entry.isBound = isForward || graph.isTangent(&op);
      // What it takes for a shape alone, as a draw does, another value may say as well.
      const auto shapes = sharding::getShardingRule(&op).shapeOnly;
      for (auto [number, operand] : llvm::enumerate(op.getOperands())) {
        if (llvm::is_contained(shapes, number))
          continue;
        entry.isFirst |= operand == input;
        if (auto found = numbers.find(operand.getDefiningOp()); found != numbers.end())
          entry.operands.push_back(found->second);
      }
      if (auto found = works.find(&op); found != works.end()) {
        entry.work = found->second.work;
        entry.axis = found->second.axis;
      }
    }
    if (output)
      if (auto found = numbers.find(output.getDefiningOp()); found != numbers.end())
        pass.last = found->second;
    // A value that layers between only hand on is not theirs.
    pass.hasChain &= isEnd || pass.last.has_value();
    if (pass.last)
      pass.ops[*pass.last].isNeeded = true;
    for (Op &op : llvm::reverse(pass.ops))
      for (unsigned operand : op.operands)
        pass.ops[operand].isNeeded |= op.isNeeded;
    if (!isForward)
      moveOut(pass, layer, ops, shared);
    findStops(pass, division);
    return pass;
  }

private:
  struct Place {
    unsigned layer;
    bool isForward;
  };
  std::optional<Place> find(Operation *op) const {
    auto found = map.ops.find(op);
    if (!op || found == map.ops.end())
      return std::nullopt;
    return Place{found->second, graph.isForward(op)};
  }
  /// Parts of the gradient of a weight that another layer uses run in the one or in the other,
  /// where fewer bytes cross: that depends on how the batch is divided. So does what is made of the
  /// gradient that a layer gets alone, such as that of a slice of what it passed on.
  void moveOut(Pass &pass, unsigned layer, ArrayRef<Operation *> ops,
               std::vector<cost::OpWork> &shared) const {
    if (division == Division::All)
      return;
    llvm::DenseSet<Operation *> early;
    for (auto [op, entry] : llvm::zip_equal(ops, pass.ops)) {
      auto part = parts.find(op);
      if (part == parts.end() && isOfGradient(op, layer, early))
        early.insert(op);
      else if (part == parts.end() || part->second == layer)
        continue;
      if (entry.work && entry.axis == Axis::None) {
        shared.push_back(*entry.work);
        entry.work.reset();
      }
    }
  }
  /// Whether an op of a layer's backward takes nothing but gradients that come from other layers,
  /// or that `early` ops make of these.
  bool isOfGradient(Operation *op, unsigned layer, const llvm::DenseSet<Operation *> &early) const {
    return op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value operand) {
             Operation *producer = operand.getDefiningOp();
             std::optional<Place> place = find(producer);
             return place && graph.isTangent(operand) &&
                    (place->layer != layer || early.contains(producer));
           });
  }
  /// Ops that compute a part of one gradient of a weight, and nothing else, with the first layer
  /// that uses the weight.
  void findParts() {
    llvm::DenseMap<Attribute, unsigned> users; // by a weight's name
    for (BlockArgument argument : microbatch.getArguments())
      if (train::RoleAttr role = train::getArgumentRole(microbatch, argument.getArgNumber());
          role && role.getKind() == train::RoleKind::Parameter)
        for (Operation *user : argument.getUsers())
          if (std::optional<Place> place = find(user); place && place->isForward) {
            auto [known, isNew] = users.try_emplace(role.getName(), place->layer);
            known->second = std::min(known->second, place->layer);
          }
    auto add = [&](Operation *op, train::RoleAttr role) {
      if (auto user = users.find(role ? Attribute(role.getName()) : Attribute());
          role && user != users.end())
        parts[op] = user->second;
    };
    Operation *terminator = microbatch.front().getTerminator();
    for (Operation &op : llvm::reverse(microbatch.front().without_terminator())) {
      if (!find(&op) || !graph.isTangent(&op) || !op.hasOneUse())
        continue;
      OpOperand &use = *op.getUses().begin();
      Operation *user = use.getOwner();
      if (auto accumulate = dyn_cast<train::AccumulateOp>(user)) {
        if (auto argument = dyn_cast<BlockArgument>(accumulate.getAccumulator()))
          add(&op, train::getArgumentRole(microbatch, argument.getArgNumber()));
      } else if (user == terminator) {
        add(&op, train::getResultRole(microbatch, use.getOperandNumber()));
      } else if (auto known = parts.find(user);
                 known != parts.end() && llvm::all_of(user->getOperands(), [&](Value each) {
                   return graph.isTangent(each);
                 })) {
        parts[&op] = known->second;
      }
    }
  }
  /// The value that a layer takes from others, if there is one only.
  Value getOnly(unsigned layer, bool isForward) const {
    const llvm::SetVector<Value> &values = taken[isForward][layer];
    return values.size() == 1 ? values.front() : Value();
  }

  func::FuncOp microbatch;
  Division division;
  const backward::JointGraph &graph;
  const LayerMap &map;
  unsigned numLayers;
  /// By pass and layer: what other layers make for it.
  std::vector<llvm::SetVector<Value>> taken[2];
  llvm::DenseMap<Operation *, unsigned> parts;
};

void LayerWork::findStops(Pass &pass, Division division) {
  const size_t count = pass.ops.size();
  if (!pass.hasChain || !pass.last)
    return;
  // Rings over many ranks have thousands of stops: a bound needs only those shortly before one.
  // A layout's own program, which bounds are compared to, has all.
  const size_t window = division == Division::All ? std::numeric_limits<size_t>::max() : 64;
  llvm::BitVector kernels(unsigned(count), false);
  for (auto [number, op] : llvm::enumerate(pass.ops))
    kernels[unsigned(number)] = op.axis == Axis::None && op.work && op.isWhole;
  // By earlier stop, the first being what the layer takes: the ops that follow it.
  std::vector<llvm::BitVector> after(1, llvm::BitVector(unsigned(count)));
  auto add = [&](unsigned op) {
    // What a stop needs comes before it.
    llvm::BitVector needed(unsigned(count), false);
    needed.set(op);
    for (unsigned each = op + 1; each-- > 0;)
      if (needed.test(each))
        for (unsigned operand : pass.ops[each].operands)
          needed.set(operand);
    needed &= kernels;
    Stop &stop = pass.stops.emplace_back(Stop{op, {}});
    for (auto [number, follows] : llvm::enumerate(after)) {
      std::optional<std::vector<unsigned>> &kernels = stop.kernels.emplace_back();
      if (!follows.test(op) || (number > 0 && after.size() - number > window))
        continue;
      llvm::BitVector between = needed;
      between &= follows;
      kernels.emplace(between.set_bits_begin(), between.set_bits_end());
    }
    after.emplace_back(unsigned(count), false);
  };
  for (unsigned op = 0; op < count; ++op) {
    const Op &entry = pass.ops[op];
    if (entry.isBound && (entry.isFirst || pass.isStart))
      after.front().set(op);
    for (llvm::BitVector &follows : after)
      for (unsigned operand : entry.operands)
        if (follows.test(operand))
          follows.set(op);
    bool isCommunication =
        entry.work && entry.axis != Axis::None && entry.isNeeded && entry.isBound;
    if (!isCommunication && op != *pass.last)
      continue;
    add(op);
    after.back().set(op);
  }
}

FailureOr<LayerWork> LayerWork::create(func::FuncOp microbatch, Division division,
                                       ArrayRef<std::string> modules, ArrayRef<unsigned> chosen) {
  auto graph = backward::JointGraph::create(microbatch, /*mayLackBackward=*/true);
  if (failed(graph))
    return failure();
  auto map = mapLayers(*graph, modules);
  LayerWork layers;
  std::optional<Builder> builder;
  if (succeeded(map))
    builder.emplace(microbatch, division, *graph, *map, unsigned(modules.size()) + 1);
  const bool takesOne = builder && builder->takesOneValue();
  layers.isSettled = takesOne && !builder->hasParts();
  // Where several values cross, their bytes decide which layer runs what of the backward.
  const bool isCut = builder && (division == Division::All || takesOne);
  llvm::DenseMap<Operation *, AxisWork> works;
  for (const auto &[op, work] : listWork(microbatch, /*isGlobal=*/division != Division::All)) {
    works[op] = {work};
    if (!isCut || !map->ops.contains(op))
      layers.shared.push_back(work);
  }
  if (!isCut)
    return std::move(layers);
  for (auto op : microbatch.front().getOps<dist::CommunicationOpInterface>())
    if (std::optional<AxisWork> work = Builder::describe(op))
      works[op] = *work;
  for (unsigned layer : chosen) {
    layers.forward.push_back(builder->build(layer, /*isForward=*/true, works, layers.shared));
    layers.backward.push_back(builder->build(layer, /*isForward=*/false, works, layers.shared));
  }
  // A program whose batch is not divided may have copies that others have not.
  if (division == Division::All)
    for (const auto &[op, work] :
         listWork(microbatch, /*isGlobal=*/false, /*isCut=*/false, /*hasCopies=*/true))
      works.try_emplace(op, AxisWork{work});
  RecomputeGraphs graphs(microbatch, *graph, *map, unsigned(modules.size()) + 1, works);
  layers.passedBytes = graphs.getPassedBytes();
  for (unsigned layer : chosen)
    layers.recomputation.push_back(graphs.describe(layer));
  return std::move(layers);
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

void plan::divideCommunication(cost::OpWork &work, const cost::Cluster &cluster,
                               const cost::Group &group, int64_t parts) {
  if (parts == 1)
    return;
  // Bytes that are sent are rounded down to whole numbers.
  work.bytes = std::max(work.bytes / double(parts) - 2, 0.0);
  // Of rows, `copies` are sent.
  if (work.collective != cost::Collective::AllToAll || work.copies > 0)
    return;
  cost::OpWork sum = work;
  sum.collective = cost::Collective::ReduceScatter;
  if (cost::timeOf(cluster, sum, group) < cost::timeOf(cluster, work, group))
    work = sum;
}

/// A communication where `parts` more ranks divide what is sent.
static double timeTransfer(const cost::Cluster &cluster, const Layout &layout, int64_t parts,
                           cost::OpWork work, Axis axis) {
  cost::Group group = axis == Axis::Tensor
                          ? cost::Group{layout.tensor, layout.dataInside ? layout.data : 1}
                      : axis == Axis::Context ? cost::Group{layout.context, layout.tensor}
                                              : cost::Group{layout.experts, layout.tensor};
  divideCommunication(work, cluster, group, parts);
  return cost::timeOf(cluster, work, group);
}

PassTime LayerWork::time(const cost::Cluster &cluster, const Layout &layout, int64_t parts,
                         const Pass &pass, KernelTimer &timer, KernelTime &either) const {
  PassTime sum;
  // Of each op when it ends after the layer's input was there; negative: it does not need that.
  std::vector<double> ends(pass.ops.size(), -1), taken(pass.ops.size(), 0);
  double longest = 0;
  for (auto [op, end] : llvm::zip_equal(pass.ops, ends)) {
    double seconds = 0;
    if (op.work && op.axis == Axis::None) {
      KernelTime time = timer.time(*op.work);
      (op.isBound ? sum.kernels : either) += time;
      seconds = op.isWhole ? time.device : 0;
    } else if (op.work && op.isNeeded && op.isBound) {
      seconds = timeTransfer(cluster, layout, parts, *op.work, op.axis);
      sum.transfers += seconds;
    }
    taken[size_t(&op - pass.ops.data())] = seconds;
    double start = op.isBound && (op.isFirst || pass.isStart) ? 0 : -1;
    for (unsigned operand : op.operands)
      start = std::max(start, ends[operand]);
    if (start >= 0)
      end = start + seconds;
    longest = std::max(longest, end);
  }
  if (pass.hasChain)
    sum.chain = pass.last ? timeStops(pass, taken) : longest;
  return sum;
}

/// When the last stop is over. Between two of them kernels take turns, also those of which none
/// needs another one.
double LayerWork::timeStops(const Pass &pass, llvm::ArrayRef<double> taken) {
  std::vector<double> ends; // negative: it does not follow what the layer takes
  for (const Stop &stop : pass.stops) {
    double end = -1;
    for (auto [number, kernels] : llvm::enumerate(stop.kernels)) {
      double start = number == 0 ? 0 : ends[number - 1];
      if (start < 0 || !kernels)
        continue;
      for (unsigned kernel : *kernels)
        start += taken[kernel];
      end = std::max(end, start);
    }
    bool isCommunication = pass.ops[stop.op].axis != Axis::None;
    ends.push_back(end < 0 || !isCommunication ? end : end + taken[stop.op]);
  }
  return ends.empty() ? 0 : std::max(ends.back(), 0.0);
}

LayerWork::Times LayerWork::time(const cost::Cluster &cluster, const Layout &layout,
                                 int64_t parts) const {
  Times times;
  KernelTimer timer(cluster, parts);
  for (auto [ahead, back] : llvm::zip_equal(forward, backward)) {
    KernelTime &either = times.either.emplace_back();
    times.forward.push_back(time(cluster, layout, parts, ahead, timer, either));
    times.backward.push_back(time(cluster, layout, parts, back, timer, either));
  }
  for (const cost::OpWork &work : shared)
    times.shared += timer.time(work);
  return times;
}

/// Adds a value for each parameter that is sharded over the ranks that divide the batch: it is kept
/// as it was gathered, or gathered again. Nothing takes time to begin: several may be gathered
/// at once.
static void addGathers(const cost::Cluster &cluster, const Layout &layout,
                       const LayerRecomputation &layer, RecomputeGraph &graph) {
  // Ranks that share experts have some parameters each by itself.
  if (layout.sharding != Sharding::Fsdp || layout.experts > 1)
    return;
  const cost::Group group{layout.numShards(), layout.dataInside ? 1 : layout.tensor};
  for (const auto &[shape, bytes] : layer.parameters) {
    if (llvm::none_of(shape, [&](int64_t size) { return size % layout.numShards() == 0; }))
      continue;
    graph.values.push_back({double(bytes), unsigned(graph.ops.size()), /*isNeeded=*/true});
    graph.ops.push_back(
        {0, cost::timeOf(cluster, cost::Collective::AllGather, group, double(bytes)), {}});
  }
}

std::vector<RecomputeCurve> LayerWork::drawCurves(const cost::Cluster &cluster,
                                                  const Layout &layout, int64_t parts,
                                                  bool isStream) const {
  // Kernels take longer beside communications.
  const double slowdown = std::min(cluster.device.overlapSlowdown, 1.0);
  const RecomputeWeights weights =
      isStream ? RecomputeWeights{slowdown, 1} : RecomputeWeights{1, slowdown};
  const cost::Cluster linear = makeLinear(cluster);
  std::vector<RecomputeCurve> curves;
  KernelTimer timer(cluster, parts);
  bool isSent = false;
  for (const LayerRecomputation &layer : recomputation) {
    RecomputeGraph graph = layer.graph;
    for (auto [op, work] : llvm::zip_equal(graph.ops, layer.works)) {
      if (work && work->axis == Axis::None)
        op.seconds = timer.time(work->work).device;
      else if (work)
        op.sent = timeTransfer(cluster, layout, parts, work->work, work->axis);
    }
    for (RecomputeGraph::Value &value : graph.values)
      value.bytes /= double(parts);
    addGathers(linear, layout, layer, graph);
    isSent |= llvm::any_of(graph.ops, [](const RecomputeGraph::Op &op) { return op.sent > 0; });
    curves.emplace_back(graph, weights);
  }
  return isStream && !isSent ? std::vector<RecomputeCurve>() : curves;
}
