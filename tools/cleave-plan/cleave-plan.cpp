//===- cleave-plan.cpp - the fastest plan for a program and a cluster -------===//
//
// Searches over mesh, cut, schedule, recomputation and sharding. What each plan takes is what
// cleave-sim says of the program that the passes make of it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/autodiff/Register.h"
#include "lib/cost/Installed.h"
#include "lib/plan/Fixed.h"
#include "lib/support/Bytes.h"
#include "passes/Register.h"
#include "tools/cleave-plan/PartialPlan.h"
#include "tools/cleave-plan/Passes.h"
#include "tools/cleave-plan/PlanSample.h"
#include "tools/cleave-plan/Report.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

#include <cmath>

namespace cl = llvm::cl;
using namespace cleave;
using namespace cleave::plan;

static cl::OptionCategory category("cleave-plan options");
static cl::list<std::string>
    programOption(cl::Positional, cl::cat(category), cl::value_desc("program.mlir ..."),
                  cl::desc("<exports of one model, each with its own size of a microbatch>"));
static cl::opt<std::string> clusterOption("cluster", cl::cat(category),
                                          cl::value_desc("file.json|name"),
                                          cl::desc("The cluster, as for cleave-sim"));
static cl::opt<std::string> devicesOption("devices", cl::cat(category), cl::value_desc("folder"),
                                          cl::desc("Descriptions of devices, links and clusters"));
static cl::opt<int64_t> ranksOption("ranks", cl::cat(category), cl::init(0), cl::value_desc("N"),
                                    cl::desc("Devices to run on"));
static cl::opt<std::string> memoryOption("memory", cl::cat(category), cl::value_desc("80GiB"),
                                         cl::desc("Limit of a rank (all that the device has)"));
static cl::opt<int64_t> microbatchesOption("microbatches", cl::cat(category), cl::init(0),
                                           cl::value_desc("N"),
                                           cl::desc("Microbatches of a step, of one program"));
static cl::opt<int64_t>
    batchOption("global-batch", cl::cat(category), cl::init(0), cl::value_desc("N"),
                cl::desc("Examples of a step: microbatches follow from each program's batch"));
static cl::opt<std::string> fixOption("fix", cl::cat(category), cl::value_desc("tp=2,..."),
                                      cl::desc("What is not to be chosen: dp, tp, pp, cp, ep, "
                                               "neighbours, sequence, parameters, chunks, ends, "
                                               "recompute, schedule, offload, microbatches"));
static cl::opt<std::string>
    planOption("plan", cl::cat(category), cl::value_desc("file"),
               cl::desc("A plan with rules of the axis tp that every layout with that axis keeps"));
static cl::opt<std::string> capacityOption(
    "expert-capacity", cl::cat(category), cl::value_desc("1.25"),
    cl::desc("Rows of experts that a rank has room for, as a multiple of its even share (all)"));
static cl::opt<std::string> limitOption("time-limit", cl::cat(category), cl::init("60"),
                                        cl::value_desc("seconds"),
                                        cl::desc("Time in all (60 if not given)"));
static cl::opt<unsigned> alternativesOption("alternatives", cl::cat(category), cl::init(5),
                                            cl::value_desc("N"),
                                            cl::desc("Next best plans to list (5 if not given)"));
static cl::opt<unsigned> budgetsOption(
    "budgets", cl::cat(category), cl::init(8), cl::value_desc("N"),
    cl::desc("Plans at the most of which recomputation by a memory budget, which differs by rank, "
             "is tried after the search (8 if not given)"));
static cl::opt<bool> offloadOption(
    "offload", cl::cat(category),
    cl::desc("Budgets may also keep saved values in the host's memory until they are needed"));
static cl::opt<bool> explainOption(
    "explain", cl::cat(category),
    cl::desc("List every layout: searched, refused or slower, and by which bound; every "
             "stage of the plan; and how every tensor lies, and why. With -o, also as "
             "plan.html"));
static cl::opt<bool> jsonOption("json", cl::cat(category), cl::desc("Print JSON"));
static cl::opt<std::string>
    outputOption("o", cl::cat(category), cl::value_desc("folder"),
                 cl::desc("Write plan.json, placements.json and commands.sh"));
static cl::opt<bool>
    progressOption("progress", cl::cat(category),
                   cl::desc("Say on the error output which better plans are found, "
                            "and when"));
static cl::opt<bool> exhaustiveOption("exhaustive", cl::cat(category),
                                      cl::desc("Simulate every plan, whatever the bounds say"));
static cl::opt<unsigned> sampleOption("sample", cl::cat(category), cl::init(0), cl::value_desc("N"),
                                      cl::desc("Simulate that many random plans as well, and fail "
                                               "if one is faster than the lower bound"));
static cl::opt<bool>
    confirmOption("confirm", cl::cat(category),
                  cl::desc("Carry out random plans with all of their layers as well, and fail if "
                           "that is not what one of equal layers said"));
static cl::opt<uint64_t> seedOption("seed", cl::cat(category), cl::init(1), cl::value_desc("N"),
                                    cl::desc("Seed of --sample (1 if not given)"));

/// More than any cluster has.
static constexpr int64_t maxRanks = 1 << 20;

/// "80GiB", "80e9": bytes of a device, at most those that it has.
static llvm::Expected<double> readMemory(llvm::StringRef text, const cost::Cluster &cluster) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  std::optional<double> bytes = support::parseBytes(text);
  if (!bytes)
    return makeError("--memory: expected bytes above 0, such as 80GiB or 80e9, found '{0}'", text);
  if (*bytes > cluster.device.memory)
    return makeError("--memory: expected at most the {0:F2} GiB of device {1}, found {2:F2} GiB",
                     cluster.device.memory / gib, cluster.device.name, *bytes / gib);
  return *bytes;
}

/// Only budgets offload.
static llvm::Error checkOffload(const cost::Cluster &cluster, const Fixed &fixed) {
  const bool isFixed = fixed.get(Key::Offload) == "yes";
  const char *asked = isFixed ? "--fix=offload=yes" : "--offload";
  for (auto [isGiven, option] :
       {std::pair(budgetsOption == 0, "--budgets=0"), {bool(exhaustiveOption), "--exhaustive"}})
    if (isGiven)
      return makeError("{0}: expected memory budgets to be tried, found {1}", asked, option);
  const auto &recompute = fixed.get(Key::Recompute);
  if (recompute && !isFixed)
    return makeError("--offload: expected memory budgets to be tried, found --fix=recompute={0}",
                     *recompute);
  if (fixed.get(Key::Offload) == "no")
    return makeError("--offload: expected plans that may offload, found --fix=offload=no");
  return cost::checkHostLink(cluster.device);
}

static llvm::Expected<std::vector<Source>> readSources(mlir::MLIRContext &context) {
  if (programOption.empty())
    return makeError("expected an exported program, found none");
  bool hasCount = microbatchesOption.getNumOccurrences() > 0;
  bool hasBatch = batchOption.getNumOccurrences() > 0;
  if (hasCount == hasBatch)
    return makeError("expected either --microbatches=N or --global-batch=N, found {0}",
                     hasCount ? "both" : "none of them");
  if (hasCount && programOption.size() > 1)
    return makeError("--microbatches: expected one program, found {0}: --global-batch=N is for "
                     "several",
                     programOption.size());
  if ((hasCount && microbatchesOption < 1) || (hasBatch && batchOption < 1))
    return makeError("--{0}: expected 1 or more, found {1}",
                     hasCount ? "microbatches" : "global-batch",
                     hasCount ? int64_t(microbatchesOption) : int64_t(batchOption));
  double capacity = 0;
  const bool hasCapacity = capacityOption.getNumOccurrences() > 0;
  if (hasCapacity && (llvm::StringRef(capacityOption).getAsDouble(capacity) || capacity < 1 ||
                      !std::isfinite(capacity)))
    return makeError(
        "--expert-capacity: expected 1, an even share of the rows, or more, found '{0}'",
        capacityOption);
  std::vector<Source> sources;
  for (const std::string &path : programOption) {
    auto source = readSource(context, path, hasCapacity ? std::optional(capacity) : std::nullopt);
    if (!source)
      return source.takeError();
    if (!sources.empty() && sources.front().bytes != source->bytes)
      return makeError("{0}: expected an export of the same model as {1}, found one with {2} bytes "
                       "of parameters and optimizer states instead of {3}",
                       path, sources.front().facts.path, source->bytes.sum(),
                       sources.front().bytes.sum());
    int64_t batch = source->facts.batch;
    if (hasBatch && batchOption % batch)
      return makeError("--global-batch: expected a multiple of the {0} examples of {1}, found {2}",
                       batch, path, int64_t(batchOption));
    if (hasCapacity &&
        llvm::none_of(source->experts, [](const ExpertRule &rule) { return rule.hasRows; }))
      return makeError("--expert-capacity: expected experts whose rows are sorted and multiplied "
                       "by group (aten._grouped_mm), found none in {0}",
                       path);
    source->facts.microbatches = hasCount ? int64_t(microbatchesOption) : batchOption / batch;
    sources.push_back(std::move(*source));
  }
  return std::move(sources);
}

static llvm::Error runTool() {
  solve::Timer timer;
  if (llvm::Error error = timer.setLimit(limitOption))
    return error;
  if (clusterOption.empty())
    return makeError("expected --cluster=FILE|NAME, found none");
  auto cluster = cost::readNamedCluster(clusterOption, devicesOption);
  if (!cluster)
    return cluster.takeError();
  if (ranksOption.getNumOccurrences() == 0)
    return makeError("expected --ranks=N, found none");
  if (ranksOption < 1 || ranksOption > maxRanks)
    return makeError("--ranks: expected from 1 to {0}, found {1}", maxRanks, int64_t(ranksOption));
  cluster->devices = ranksOption;
  double memory = cluster->device.memory;
  if (memoryOption.getNumOccurrences()) {
    auto limit = readMemory(memoryOption, *cluster);
    if (!limit)
      return limit.takeError();
    memory = *limit;
  }
  auto fixed = parseFixed(fixOption);
  if (!fixed)
    return fixed.takeError();
  const bool mustOffload = fixed->get(Key::Offload) == "yes";
  if (offloadOption || mustOffload)
    if (llvm::Error error = checkOffload(*cluster, *fixed))
      return error;

  mlir::DialectRegistry registry;
  registerDialects(registry);
  autodiff::registerAllModels(registry);
  registerAllPasses();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  auto sources = readSources(context);
  if (!sources)
    return sources.takeError();
  if (!planOption.empty())
    if (llvm::Error error = readPartialPlan(planOption, *sources, *fixed))
      return error;
  Space space;
  space.ranks = ranksOption;
  space.fixed = std::move(*fixed);
  if (cluster->levels.size() > 1)
    for (const cost::Level &level : cluster->levels)
      if (level.size > 0)
        space.units.push_back(level.size);
  for (const Source &source : *sources)
    space.programs.push_back(source.facts);
  if (llvm::Error error = checkFixed(space))
    return error;
  if (!planOption.empty())
    if (llvm::Error error = checkPartialPlan(planOption, space, *sources))
      return error;

  if (!outputOption.empty())
    if (llvm::Error error = makeFolder(outputOption))
      return error;

  solve::stopOnSignal();
  PassRunner programs(space, *sources, *cluster);
  if (llvm::Error error = programs.prepare())
    return error;
  SearchOptions options;
  options.memory = memory;
  options.isExhaustive = exhaustiveOption;
  options.numBudgets = budgetsOption;
  options.offloads = offloadOption || mustOffload;
  options.mustOffload = mustOffload;
  options.timer = &timer;
  if (progressOption)
    options.report = [&](const Candidate &candidate) {
      constexpr double gib = 1024.0 * 1024 * 1024;
      std::string found =
          candidate.fits
              ? llvm::formatv("step {0:e4} s", candidate.step.seconds).str()
              : llvm::formatv("needs {0:F6} GiB, too much", candidate.step.maxMemory() / gib).str();
      llvm::errs() << llvm::formatv("{0:F1} s: {1}, {2}\n", timer.getSeconds(), found,
                                    describe(candidate.plan, space));
    };
  Search search(space, *cluster, programs, options);
  SearchResult result = search.run();
  if (!result.violations.empty())
    return makeError("the lower bound is wrong, please report this: {0}",
                     result.violations.front());
  Found found{space, *sources, *cluster, result};
  found.clusterOption = clusterOption;
  found.folder = outputOption;
  found.memory = memory;
  found.numAlternatives = alternativesOption;
  found.numPartitioned = programs.numPartitioned;
  found.numLayers = programs.numLayers;
  found.seconds = timer.getSeconds();
  if (!result.getBest() && result.hasOthers)
    return makeError("--fix=offload=yes: of {0} plans with a memory budget that were tried none "
                     "keeps anything in the host's memory and fits; others fit",
                     result.numBudgets);
  if (!result.getBest())
    return explainMemory(found);
  // What is reported has been carried out as its commands do it.
  if (llvm::Error error = search.confirm(*result.getBest(), /*isExact=*/false))
    return makeError("layers that look equal are not, please report this: {0}: {1}",
                     describe(result.getBest()->plan, space), llvm::toString(std::move(error)));
  found.seconds = timer.getSeconds();
  if (explainOption)
    if (llvm::Error error =
            explainPlan(result.getBest()->plan, space,
                        (*sources)[result.getBest()->plan.shape.layout.program], *cluster)
                .moveInto(found.explanation))
      return error;
  if (sampleOption)
    if (llvm::Error error =
            samplePlans(space, search, result, {sampleOption, seedOption, memory, confirmOption}))
      return error;
  if (!outputOption.empty())
    if (llvm::Error error = writeFiles(found))
      return error;
  if (jsonOption)
    llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(toJSON(found)));
  else
    printText(found, llvm::outs());
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "cleave-plan: the fastest mesh, cut, schedule, recomputation and sharding for a program on a "
      "cluster, and a bound below which none is\n");
  llvm::Error error = runTool();
  if (error) {
    llvm::WithColor::error(llvm::errs(), "cleave-plan") << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
