//===- Budget.cpp - the fastest backward within a budget of memory ------------===//

#include "lib/backward/Budget.h"

#include "dialects/dist/Placed.h"
#include "lib/aten/OpCost.h"
#include "lib/backward/GraphFile.h"
#include "lib/backward/MicrobatchParts.h"
#include "lib/backward/Offload.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

FailureOr<std::optional<cost::Cluster>>
cleave::backward::readBudgetCluster(Operation *module, StringRef file, bool mayOffload) {
  if (file.empty())
    return std::optional<cost::Cluster>();
  llvm::Expected<cost::Cluster> cluster = cost::Library::readCluster(file);
  if (!cluster)
    return module->emitError(llvm::toString(cluster.takeError()));
  if (failed(aten::checkRates(module, *cluster)))
    return failure();
  if (mayOffload)
    if (llvm::Error error = cost::checkHostLink(cluster->device))
      return module->emitError(llvm::toString(std::move(error)));
  return std::optional<cost::Cluster>(std::move(*cluster));
}

/// How many bytes of its memory the device moves in a second.
static double getBytesOfSecond(const cost::Cluster &cluster) {
  return cluster.device.memoryBandwidth * cluster.device.memoryEfficiency;
}

double cleave::backward::getHostLinkFactor(const std::optional<cost::Cluster> &cluster) {
  return cluster ? cost::getHostLinkFactor(cluster->device) : cost::nominalHostLinkFactor;
}

RecomputeTimes::RecomputeTimes(ModuleOp module, bool mayOffload,
                               std::optional<cost::Cluster> cluster)
    : mayOffload(mayOffload), cluster(std::move(cluster)),
      ranks(dist::getMesh(module), [](StringRef) { return 0; }) {}

OpTimes RecomputeTimes::get(Operation *op) const {
  bool isView = llvm::all_of(op->getResults(), [&](OpResult result) {
    return memory::getSharedOperand(op, result.getResultNumber()).has_value();
  });
  if (isView)
    return {};
  auto communication = dyn_cast<dist::CommunicationOpInterface>(op);
  double time = 0;
  if (communication)
    time = getOfCommunication(communication);
  else if (cluster)
    time = aten::estimateSeconds(op, *cluster) * getBytesOfSecond(*cluster);
  else
    time = aten::estimateCost(op);
  const int64_t whole = std::max<int64_t>(1, static_cast<int64_t>(time));
  return {whole, communication || hidesCopies(op) ? whole : 0};
}

double RecomputeTimes::getOfCommunication(dist::CommunicationOpInterface op) const {
  const cost::Group group = ranks.find(op.getAxesAttr());
  if (!mayOffload || !cluster || group.size == 0)
    return cost::nominalLinkFactor * aten::estimateCost(op);
  return cost::timeOf(*cluster, aten::describeCommunication(op, group.size), group) *
         getBytesOfSecond(*cluster);
}

/// The partitions of other policies, which the frontier must not be worse than.
static LogicalResult addSeeds(const JointGraph &graph, const RecomputeModel &model,
                              RecomputeLevel most, const PartitionCosts &costs,
                              std::vector<BitVector> &seeds) {
  seeds.push_back(costs.getKept(choosePartition(graph, model, PartitionPolicy::SaveAll)));
  for (RecomputeLevel level : {RecomputeLevel::Views, RecomputeLevel::Cheap,
                               RecomputeLevel::Gathers, RecomputeLevel::All}) {
    if (level > most)
      break;
    FailureOr<RecomputeModel> other = RecomputeModel::create(graph, level);
    if (failed(other))
      return failure();
    seeds.push_back(costs.getKept(choosePartition(graph, *other, PartitionPolicy::MinCut)));
  }
  return success();
}

FailureOr<Frontier> cleave::backward::searchPartitions(const JointGraph &graph,
                                                       const RecomputeModel &model,
                                                       RecomputeLevel level, PartitionCosts &costs,
                                                       unsigned parts) {
  std::vector<BitVector> seeds;
  if (failed(addSeeds(graph, model, level, costs, seeds)))
    return failure();
  return findFrontier(costs, seeds, parts);
}

/// Says what a step needs at least, by what, and where its peak is.
static void reportMinimum(const train::ProgramFunctions &program, const JointGraph &graph,
                          const BudgetRequest &request, const memory::StepMemory &step,
                          const Partition &least, int64_t leastBytes) {
  // The peak's op is one of the functions that the partition gives.
  SmallVector<std::string> names;
  SavedNames saved(program);
  for (Value value : least.saved)
    names.push_back(saved.makeName(value));
  MicrobatchParts parts = buildParts(graph, least, names);
  func::FuncOp functions[] = {parts.forward, parts.backward};
  memory::MemoryPlan plan =
      memory::planMemory(functions, /*emptyAccumulators=*/request.microbatches == 1);
  Operation *peakOp = plan.peakOp;
  if (step.oncePeakOp && step.state.getStateBytes() + step.oncePeakBytes == leastBytes)
    peakOp = step.oncePeakOp;

  InFlightDiagnostic error = graph.getFunction().emitError();
  error << "cannot do with " << memory::describeBytes(request.bytes)
        << " of memory: the least that a step needs, whatever is recomputed"
        << (request.mayOffload ? " or offloaded" : "") << ", is "
        << memory::describeBytes(leastBytes) << " (" << leastBytes << " bytes); of these ";
  step.state.describe(error);
  const int64_t stateBytes = step.state.getStateBytes();
  error << (stateBytes ? "and " : "all, ") << memory::describeBytes(leastBytes - stateBytes)
        << " are values of a microbatch";
  if (peakOp) {
    auto phase = peakOp->getParentOfType<func::FuncOp>()->getAttrOfType<train::PhaseAttr>(
        train::kPhaseAttrName);
    error.attachNote(peakOp->getLoc()) << "the peak is at '" << peakOp->getName().getStringRef()
                                       << "' of the " << train::stringifyPhase(phase.getValue());
  }
  error.report();
  parts.forward.erase();
  parts.backward.erase();
}

FailureOr<BudgetedPartition>
cleave::backward::choosePartition(const train::ProgramFunctions &program, const JointGraph &graph,
                                  const BudgetRequest &request) {
  FailureOr<RecomputeModel> model = RecomputeModel::create(graph, request.level);
  if (failed(model))
    return failure();
  StepForm form{memory::planStep(program, request.microbatches),
                request.microbatches,
                request.isLowered,
                /*inFlight=*/0,
                request.mayOffload,
                getHostLinkFactor(request.cluster)};
  const memory::StepMemory &step = form.memory;
  RecomputeTimes times(graph.getFunction()->getParentOfType<ModuleOp>(), request.mayOffload,
                       request.cluster);
  PartitionCosts costs(graph, *model, form, [&](Operation *op) { return times.get(op); });
  FailureOr<Frontier> searched = searchPartitions(graph, *model, request.level, costs);
  if (failed(searched))
    return failure();
  const Frontier &frontier = *searched;

  BudgetedPartition result;
  result.report.budgetBytes = request.bytes;
  // What runs once per step may need more than any microbatch: then only the fastest is of use.
  for (const Frontier::Point &point : llvm::reverse(frontier.getPoints())) {
    int64_t bytes = step.getPeakBytes(point.costs.peakBytes);
    if (result.report.frontier.empty() || bytes < result.report.frontier.back().peakBytes)
      result.report.frontier.push_back({bytes, point.costs.time, point.costs.hostBytes});
  }
  std::reverse(result.report.frontier.begin(), result.report.frontier.end());
  auto fits = [&](const Frontier::Point &point) {
    return step.getPeakBytes(point.costs.peakBytes) <= request.bytes;
  };
  auto points = llvm::reverse(frontier.getPoints());
  auto chosen = llvm::find_if(points, fits);
  if (chosen == points.end()) {
    const Frontier::Point &least = frontier.getPoints().front();
    reportMinimum(program, graph, request, step, costs.getPartition(least.kept),
                  step.getPeakBytes(least.costs.peakBytes));
    return failure();
  }
  result.report.chosen = {step.getPeakBytes(chosen->costs.peakBytes), chosen->costs.time,
                          chosen->costs.hostBytes};
  result.partition = costs.getPartition(chosen->kept);
  if (!request.graphFile.empty() &&
      failed(writeGraph(request.graphFile, graph.getFunction(), costs, form)))
    return failure();
  return result;
}
