// What was found.
#include "tools/cleave-plan/Report.h"

#include "lib/solve/OutputFile.h"
#include "tools/cleave-plan/Commands.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace cleave;
using namespace cleave::plan;
using simulate::RankMemory;
using simulate::Step;

static constexpr double gib = 1024.0 * 1024 * 1024;

std::string plan::describe(const Plan &plan, const Space &space) {
  const Layout &layout = plan.shape.layout;
  std::string text;
  for (unsigned index = 0; index < numKeys; ++index) {
    auto key = Key(index);
    bool isIdle =
        (key == Key::Order && !layout.dataInside) || (key == Key::Sequence && !layout.sequence) ||
        (key == Key::Sharding && layout.numSharers() == 1) ||
        (key == Key::Replicas && layout.replicas == 1) ||
        (key == Key::Context && layout.context == 1) ||
        (key == Key::Experts && layout.experts == 1) ||
        (key == Key::Ends && plan.shape.ends == 0) ||
        (key == Key::Chunks && plan.shape.chunks == 1) || (key == Key::Offload && !plan.offloads) ||
        (key == Key::Schedule && layout.pipeline == 1);
    if (isIdle)
      continue;
    if (!text.empty())
      text += " ";
    text += (getName(key) + "=" + getValue(plan, key, space.programs)).str();
  }
  if (plan.budget > 0)
    text += llvm::formatv(" budget={0:F3}GiB", double(plan.budget) / gib);
  if (space.programs.size() > 1)
    text += " program=" + space.programs[layout.program].path;
  return text;
}

static const RankMemory &getLargest(const Step &step) {
  return *std::max_element(
      step.memory.begin(), step.memory.end(),
      [](const RankMemory &a, const RankMemory &b) { return a.sum() < b.sum(); });
}

static std::string describe(const RankMemory &memory) {
  std::string text =
      llvm::formatv("parameters {0:F3}, gradients {1:F3}, optimizer {2:F3}, activations {3:F3}, "
                    "temporary {4:F3}, messages {5:F3}, others {6:F3}",
                    memory.state.parameters / gib, memory.state.gradients / gib,
                    memory.state.optimizer / gib, memory.activations / gib, memory.work / gib,
                    memory.messages / gib, memory.state.others / gib);
  if (memory.host > 0)
    text += llvm::formatv("; in the host's memory {0:F3} GiB", memory.host / gib);
  return text;
}

static double getGap(const Found &found) {
  double seconds = found.result.getBest()->step.seconds;
  return std::max(seconds - found.result.bound, 0.0) / seconds;
}

/// How far the best plan may be from the fastest with a budget.
static double getBudgetGap(const SearchResult &result) {
  const Candidate *best = result.getBest();
  return best ? std::max(1 - result.budgetBound / best->step.seconds, 0.0) : 0;
}

/// What the busiest rank waits for, besides its place in the pipeline.
static std::vector<simulate::Part> listWaits(const Step &step) {
  std::vector<simulate::Part> waits = step.exposed;
  if (step.copies.seconds > 0)
    waits.push_back({"copies to and from the host", step.copies.exposed});
  return waits;
}

/// What makes the gap: the parts of the best plan's step that the bound leaves out, in seconds. The
/// bound has kernels, and waiting for the first ones in a pipeline.
static std::vector<simulate::Part> listGap(const Found &found) {
  const Step &step = found.result.getBest()->step;
  double rest = std::max(step.seconds - found.result.bound, 0.0);
  std::vector<simulate::Part> parts;
  auto add = [&](std::string name, double seconds) {
    seconds = std::min(seconds, rest);
    rest -= seconds;
    parts.push_back({std::move(name), seconds});
  };
  for (const simulate::Part &part : listWaits(step))
    add("waits for " + part.name, part.seconds);
  add("bubbles", step.bubble);
  add("kernels", rest);
  return parts;
}

static llvm::StringRef describe(LayoutReport::Kind kind) {
  switch (kind) {
  case LayoutReport::Open:
    return "open";
  case LayoutReport::Closed:
    return "slower by its bound";
  case LayoutReport::Searched:
    return "searched";
  case LayoutReport::TooLarge:
    return "too large";
  case LayoutReport::Impossible:
    return "refused";
  }
  llvm_unreachable("not a kind");
}

/// The plan of a layout as far as it is decided.
static std::string describeLayout(const Layout &layout, const Space &space) {
  std::string text =
      llvm::formatv("dp={0} tp={1} pp={2}", layout.data, layout.tensor, layout.pipeline);
  Plan plan{{layout}, ""};
  if (layout.context > 1)
    text += llvm::formatv(" cp={0}", layout.context);
  if (layout.experts > 1)
    text += llvm::formatv(" ep={0}", layout.experts);
  if (layout.numSharers() > 1)
    text += " parameters=" + getValue(plan, Key::Sharding, space.programs);
  if (layout.replicas > 1)
    text += llvm::formatv(" replicas={0}", layout.replicas);
  if (layout.sequence)
    text += " sequence=yes";
  if (layout.dataInside)
    text += " neighbours=dp";
  if (space.programs.size() > 1)
    text += " program=" + space.programs[layout.program].path;
  return text;
}

static void printStep(const Step &step, llvm::raw_ostream &os) {
  auto percent = [&](double seconds) { return 100 * seconds / step.seconds; };
  os << llvm::formatv("busiest rank: kernels {0:F1} %, bubbles {1:F1} %, other {2:F1} %",
                      percent(step.compute), percent(step.bubble), percent(step.other));
  for (const simulate::Part &part : listWaits(step))
    os << llvm::formatv(", waits for {0} {1:F1} %", part.name, percent(part.seconds));
  os << "\n";
  for (auto [place, memory] : llvm::enumerate(step.memory))
    os << llvm::formatv("memory of place {0}: {1:F3} GiB: {2}\n", place, memory.sum() / gib,
                        ::describe(memory));
}

static void printLayouts(const Found &found, llvm::raw_ostream &os) {
  os << "layouts:\n";
  for (const LayoutReport &report : found.result.layouts) {
    os << "  " << describeLayout(report.layout, found.space) << ": " << ::describe(report.kind);
    if (report.best)
      os << llvm::formatv(", best {0:e4} s", *report.best);
    os << llvm::formatv(", bound {0:e4} s", report.bound);
    if (report.kind == LayoutReport::TooLarge)
      os << llvm::formatv(", parameters and optimizer states {0:F3} GiB", report.memoryBound / gib);
    if (!report.reason.empty())
      os << ": " << llvm::StringRef(report.reason).split('\n').first;
    os << "\n";
  }
}

void plan::printText(const Found &found, llvm::raw_ostream &os) {
  const SearchResult &result = found.result;
  const Candidate &best = *result.getBest();
  os << llvm::formatv("best of {0} ranks of {1}: {2}\n", found.space.ranks, found.cluster.name,
                      plan::describe(best.plan, found.space));
  os << llvm::formatv("step {0:e4} s, mfu {1:F2} %, {2:F1} tokens/s, {3:F2} examples/s\n",
                      best.step.seconds, 100 * best.step.mfu, best.step.tokensPerSecond,
                      best.step.examplesPerSecond);
  printStep(best.step, os);
  os << llvm::formatv("no plan of the space takes less than {0:e4} s: gap {1:F2} %{2}\n",
                      result.bound, 100 * getGap(found),
                      result.isComplete ? "" : "; the search was stopped");
  if (getGap(found) > 0) {
    os << "of which";
    for (const auto &[index, part] : llvm::enumerate(listGap(found)))
      os << llvm::formatv("{0} {1} {2:F2} %", index ? "," : "", part.name,
                          100 * part.seconds / best.step.seconds);
    os << "\n";
  }
  if (result.numBudgets) {
    os << llvm::formatv("memory budgets: {0} plans tried", result.numBudgets);
    if (result.bestBudget)
      os << llvm::formatv(", the best takes {0:e4} s", *result.bestBudget);
    os << llvm::formatv("; none takes less than {0:e4} s: gap {1:F2} %\n", result.budgetBound,
                        100 * getBudgetGap(result));
    for (const auto &[plan, reason] : result.refusedBudgets)
      os << llvm::formatv("  refused: {0}: {1}\n", plan::describe(plan, found.space), reason);
  }
  os << llvm::formatv("{0} plans simulated, {1} slower by their bounds, {2} refused by passes or "
                      "schedules; {3} programs partitioned ({5} layers), {4:F1} s\n",
                      result.candidates.size(), result.numClosed, result.numRefused,
                      found.numPartitioned, found.seconds, found.numLayers);
  llvm::ArrayRef<Candidate> others = llvm::ArrayRef(result.candidates).drop_front();
  for (const Candidate &other : others.take_front(found.numAlternatives)) {
    if (!other.fits)
      break;
    os << llvm::formatv("  {0:e4} s, {1:F3} GiB: {2}\n", other.step.seconds,
                        other.step.maxMemory() / gib, plan::describe(other.plan, found.space));
  }
  if (found.explanation) {
    printLayouts(found, os);
    plan::printText(*found.explanation, os);
  }
  for (const std::string &command : listCommands(found))
    os << command << "\n";
  os << describeTraining(found) << "\n";
}

static llvm::json::Object toJSON(const Plan &chosen, const Space &space) {
  llvm::json::Object plan;
  for (unsigned index = 0; index < numKeys; ++index)
    plan[getName(Key(index))] = getValue(chosen, Key(index), space.programs);
  if (chosen.budget > 0)
    plan["budget"] = std::to_string(chosen.budget);
  plan["program"] = space.programs[chosen.shape.layout.program].path;
  return plan;
}

static llvm::json::Object toJSON(const Candidate &candidate, const Space &space) {
  const Step &step = candidate.step;
  llvm::json::Object exposed;
  for (const simulate::Part &part : step.exposed)
    exposed[part.name] = part.seconds;
  llvm::json::Array memory;
  for (const RankMemory &rank : step.memory)
    memory.push_back(llvm::json::Object{{"parameters", rank.state.parameters},
                                        {"gradients", rank.state.gradients},
                                        {"optimizer", rank.state.optimizer},
                                        {"others", rank.state.others},
                                        {"activations", rank.activations},
                                        {"temporary", rank.work},
                                        {"messages", rank.messages},
                                        {"peak", rank.sum()},
                                        {"host", rank.host}});
  return llvm::json::Object{{"plan", toJSON(candidate.plan, space)},
                            {"seconds", step.seconds},
                            {"interval", llvm::json::Array{step.lowest, step.highest}},
                            {"fits", candidate.fits},
                            {"schedule_bound", candidate.bound},
                            {"mfu", step.mfu},
                            {"tokens_per_second", step.tokensPerSecond},
                            {"examples_per_second", step.examplesPerSecond},
                            {"compute", step.compute},
                            {"bubble", step.bubble},
                            {"other", step.other},
                            {"exposed_communication", std::move(exposed)},
                            {"exposed_copies", step.copies.exposed},
                            {"memory", std::move(memory)}};
}

llvm::json::Object plan::toJSON(const Found &found) {
  const SearchResult &result = found.result;
  llvm::json::Array alternatives, layouts, commands;
  llvm::json::Object gapParts;
  for (const simulate::Part &part : listGap(found))
    gapParts[part.name] = part.seconds;
  for (const Candidate &other :
       llvm::ArrayRef(result.candidates).drop_front().take_front(found.numAlternatives))
    alternatives.push_back(::toJSON(other, found.space));
  for (const LayoutReport &report : result.layouts) {
    llvm::json::Object entry{{"layout", describeLayout(report.layout, found.space)},
                             {"state", ::describe(report.kind)},
                             {"bound", report.bound},
                             {"state_bytes", report.memoryBound}};
    if (report.best)
      entry["seconds"] = *report.best;
    if (!report.reason.empty())
      entry["reason"] = report.reason;
    layouts.push_back(std::move(entry));
  }
  for (const std::string &command : listCommands(found))
    commands.push_back(command);
  llvm::json::Object object{{"ranks", found.space.ranks},
                            {"cluster", found.cluster.name},
                            {"memory", found.memory},
                            {"best", ::toJSON(*result.getBest(), found.space)},
                            {"lower_bound", result.bound},
                            {"gap", getGap(found)},
                            {"gap_parts", std::move(gapParts)},
                            {"complete", result.isComplete},
                            {"simulated", int64_t(result.candidates.size())},
                            {"closed", int64_t(result.numClosed)},
                            {"refused", int64_t(result.numRefused)},
                            {"partitioned", int64_t(found.numPartitioned)},
                            {"seconds", found.seconds},
                            {"alternatives", std::move(alternatives)},
                            {"commands", std::move(commands)},
                            {"training", describeTraining(found)}};
  llvm::json::Array refused;
  for (const auto &[plan, reason] : result.refusedBudgets)
    refused.push_back(
        llvm::json::Object{{"plan", ::toJSON(plan, found.space)}, {"reason", reason}});
  if (result.numBudgets)
    object["budgets"] = llvm::json::Object{
        {"tried", int64_t(result.numBudgets)},
        {"refused", std::move(refused)},
        {"seconds", result.bestBudget ? llvm::json::Value(*result.bestBudget) : nullptr},
        {"lower_bound", result.budgetBound},
        {"gap", getBudgetGap(result)}};
  if (found.explanation) {
    object["layouts"] = std::move(layouts);
    object["stages"] = makeStageList(*found.explanation);
    object["tensors"] = makeTensorList(*found.explanation);
  }
  return object;
}

static std::string quote(llvm::StringRef word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_-./=+:,") == llvm::StringRef::npos)
    return word.str();
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

static std::string getPath(const Found &found, llvm::StringRef name) {
  llvm::SmallString<128> path(found.folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

/// For a tool that runs programs without a schedule, which has the count.
static std::string describeMicrobatches(const Found &found, llvm::StringRef option) {
  const Layout &layout = found.result.getBest()->plan.shape.layout;
  if (layout.pipeline > 1)
    return "";
  return llvm::formatv("{0}{1}", option, found.sources[layout.program].facts.microbatches).str();
}

std::vector<std::string> plan::listCommands(const Found &found) {
  const Plan &plan = found.result.getBest()->plan;
  const Layout &layout = plan.shape.layout;
  const Source &source = found.sources[layout.program];
  std::vector<PassCall> passes = listPlacing(layout, getPath(found, "placements.json"));
  llvm::append_range(passes,
                     listStaging(plan, source, found.cluster, found.space.listCuts(plan.shape)));
  llvm::append_range(passes, listScheduling(plan, source.facts.microbatches));
  std::string program = quote(getPath(found, "program.mlir"));
  std::string opt = "cleave-opt " + quote(source.facts.path);
  for (const PassCall &pass : passes)
    opt += " --" + pass.name + (pass.options.empty() ? "" : "=" + quote(pass.options));
  opt += " --mlir-print-debuginfo -o " + program;
  std::string sim = "cleave-sim " + program + " --cluster=" + quote(found.clusterOption) +
                    describeMicrobatches(found, " --microbatches=");
  return {opt, sim};
}

std::string plan::describeTraining(const Found &found) {
  const Source &source = found.sources[found.result.getBest()->plan.shape.layout.program];
  llvm::SmallString<128> weights(source.facts.path);
  llvm::sys::path::replace_extension(weights, ".safetensors");
  // Ranks of one machine are started together, those of several each by a launcher.
  const cost::Level &inner = found.cluster.levels.front();
  bool isOneNode = inner.size == 0 || found.space.ranks <= inner.size;
  std::string ranks =
      isOneNode ? llvm::formatv(" --ranks {0}", found.space.ranks).str() : std::string();
  return "cleave-run " + quote(getPath(found, "program.mlir")) + " --weights " + quote(weights) +
         ranks + describeMicrobatches(found, " --microbatches ") + " --steps N --data SOURCE";
}

llvm::Error plan::makeFolder(llvm::StringRef folder) {
  std::error_code code = llvm::sys::fs::create_directories(folder);
  if (!code)
    code = llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write);
  return code ? makeError("-o: cannot write to {0}: {1}", folder, code.message())
              : llvm::Error::success();
}

llvm::Error plan::writeFiles(const Found &found) {
  auto write = [&](llvm::StringRef name, const std::string &text) {
    return solve::writeText(getPath(found, name), text);
  };
  const Plan &plan = found.result.getBest()->plan;
  const Layout &layout = plan.shape.layout;
  if (hasPlacements(layout))
    if (llvm::Error error =
            write("placements.json",
                  llvm::formatv("{0:2}\n", llvm::json::Value(makePlacements(
                                               layout, found.sources[layout.program])))))
      return error;
  if (llvm::Error error =
          write("plan.json", llvm::formatv("{0:2}\n", llvm::json::Value(plan::toJSON(found)))))
    return error;
  if (found.explanation) {
    std::string page;
    llvm::raw_string_ostream os(page);
    printPage(found, os);
    if (llvm::Error error = write("plan.html", page))
      return error;
  }
  std::string script = "#!/bin/sh -e\n# " + plan::describe(plan, found.space) + "\n";
  for (const std::string &command : listCommands(found))
    script += command + "\n";
  script += "# Trains, once N and SOURCE are filled in:\n# " + describeTraining(found) + "\n";
  return write("commands.sh", script);
}

llvm::Error plan::explainMemory(const Found &found) {
  const SearchResult &result = found.result;
  const Candidate *smallest = result.getSmallest();
  if (!smallest && !result.isComplete)
    return makeError("no plan was simulated within the time limit; no plan takes less than {0} s",
                     result.bound);
  if (!smallest) {
    std::string reason;
    for (const LayoutReport &report : result.layouts)
      if (reason.empty())
        reason = report.reason;
    return makeError("passes and schedules refuse all plans: {0}",
                     reason.empty() ? "see --explain" : reason);
  }
  const RankMemory &memory = getLargest(smallest->step);
  auto place = &memory - smallest->step.memory.data();
  bool isLeast = result.memoryBound >= smallest->step.maxMemory() * (1 - 1e-9);
  bool isProved = result.isComplete || result.memoryBound > found.memory;
  return makeError(
      "{0} {1:F3} GiB{2}: {3} {4:F3} GiB, of {5}; at place {6} of its pipeline: {7}{8}",
      isProved ? "no plan fits in" : "no plan was found that fits in", found.memory / gib,
      isProved ? "" : " within the time limit",
      isLeast ? "the least that would do is" : "the least that was found is",
      smallest->step.maxMemory() / gib, plan::describe(smallest->plan, found.space), place,
      ::describe(memory),
      isLeast ? ""
              : llvm::formatv("; below {0:F3} GiB there is none", result.memoryBound / gib).str());
}
