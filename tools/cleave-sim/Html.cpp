// The page: a template (timeline.html, compiled in) with the timeline's data in its place.
#include "Report.h"

#include "tools/cleave-sim/TimelinePage.h"

#include "llvm/Support/JSON.h"

using namespace cleave;
using namespace cleave::sim;
using schedule::Action;
using schedule::ActionKind;

/// What colour and which lane an action has on the page.
static llvm::StringRef classOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return "F";
  case ActionKind::Backward:
    return "B";
  case ActionKind::BackwardInput:
    return "I";
  case ActionKind::BackwardWeight:
    return "W";
  case ActionKind::Compose:
    return "G";
  case ActionKind::SendForward:
  case ActionKind::SendBackward:
  case ActionKind::RecvForward:
  case ActionKind::RecvBackward:
    return "C";
  case ActionKind::Unshard:
  case ActionKind::ReduceGrad:
    return "D";
  default:
    return "O";
  }
}

/// The lanes of a measured step, with its actions as [class, name, stage, microbatch, start, end,
/// -1, 0, 0, idle time before it].
static void printMeasured(const Run &run, llvm::json::OStream &json) {
  llvm::StringMap<Action> byText;
  for (const std::vector<Action> &list : run.program.ranks)
    for (Action action : list)
      run.program.forEachLeaf(
          action, [&](Action leaf) { byText.try_emplace(run.program.str(leaf), leaf); });
  json.attribute("makespan", run.measured->makespan);
  json.attribute("step", run.measured->step);
  json.attributeArray("ranks", [&] {
    for (const MeasuredStep::Rank &rank : run.measured->ranks)
      json.object([&] {
        json.attribute("rank", rank.rank);
        json.attribute("place", rank.place);
        json.attributeArray("actions", [&] {
          for (const MeasuredStep::Action &action : rank.actions)
            json.array([&] {
              auto found = byText.find(action.text);
              Action leaf = found == byText.end() ? Action(ActionKind::Custom, 0) : found->second;
              llvm::StringRef lane = classOf(leaf.kind);
              bool transfer = lane == "C" || lane == "D";
              json.value(lane);
              json.value(action.text);
              json.value(hasStage(leaf.kind) ? int(leaf.stage) : -1);
              json.value(hasMicrobatch(leaf.kind) ? int(leaf.index) : -1);
              json.value(transfer ? action.begin : action.ready);
              json.value(action.end);
              json.value(-1);
              json.value(0);
              json.value(0);
              json.value(action.ready - action.begin);
            });
        });
      });
  });
}

/// Copies in the form of actions, without a place in the schedule.
static void printCopies(llvm::ArrayRef<simulate::HostCopy> copies, llvm::json::OStream &json) {
  for (const simulate::HostCopy &copy : copies)
    json.array([&] {
      json.value("H");
      json.value(copy.isToHost ? "offload" : "reload");
      json.value(-1);
      json.value(-1);
      json.value(copy.begin);
      json.value(copy.end);
      json.value(-1);
      json.value(0);
      json.value(0);
    });
}

static void printRun(const Run &run, llvm::json::OStream &json) {
  const schedule::Topology &topology = run.program.topology;
  json.object([&] {
    json.attribute("schedule", run.name);
    json.attribute("microbatches", run.program.numMicrobatches);
    json.attribute("stages", topology.numStages());
    json.attribute("topology", schedule::getStyleName(topology.style()));
    json.attribute("makespan", run.metrics.makespan);
    json.attribute("bubbleRate", run.metrics.bubbleRate);
    json.attribute("spanRate", run.metrics.largestSpanBubbleRate);
    json.attribute("hasMemory", run.costs.hasMemory());
    if (std::isfinite(run.memoryLimit))
      json.attribute("memoryLimit", run.memoryLimit);
    if (run.measured)
      json.attributeObject("measured", [&] { printMeasured(run, json); });
    json.attributeArray("ranks", [&] {
      for (unsigned rank = 0; rank < topology.numRanks(); ++rank)
        json.object([&] {
          json.attribute("peak", run.metrics.peakMemory[rank]);
          json.attribute("busy", run.metrics.busy[rank]);
          json.attribute("exposed", run.metrics.exposedCommunication[rank]);
          if (!run.copies.empty())
            json.attributeArray("copies", [&] { printCopies(run.copies[rank], json); });
          std::vector<double> memory = simulate::memoryCurve(run.program, run.costs, rank);
          // [class, name, stage, microbatch, start, end, waited-for rank, position, memory after]
          json.attributeArray("actions", [&] {
            for (size_t at = 0; at < run.program.ranks[rank].size(); ++at) {
              Action action = run.program.ranks[rank][at];
              const simulate::ActionTime &time = run.timeline.ranks[rank][at];
              json.array([&] {
                json.value(classOf(action.kind));
                json.value(run.program.str(action));
                json.value(hasStage(action.kind) ? int(action.stage) : -1);
                json.value(hasMicrobatch(action.kind) ? int(action.index) : -1);
                json.value(time.start);
                json.value(time.end);
                json.value(time.waitedFor ? int64_t(time.waitedFor.rank) : -1);
                json.value(int64_t(time.waitedFor.position));
                json.value(memory[at]);
              });
            }
          });
        });
    });
  });
}

static void printData(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os) {
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("timeUnit", runs.front().isMilliseconds ? "ms" : "");
    json.attribute("memoryUnit", runs.front().isBytes ? "B" : "");
    json.attributeArray("runs", [&] {
      for (const Run &run : runs)
        printRun(run, json);
    });
  });
}

void sim::printHTML(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  printData(runs, stream);
  // "</script" inside a string would end the script element.
  std::string safe;
  for (char c : data)
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  auto [before, after] = llvm::StringRef(timelinePage).split("/*DATA*/null");
  os << before << safe << after;
}
