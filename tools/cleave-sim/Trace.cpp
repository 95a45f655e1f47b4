// The trace for Perfetto: a process a rank, with a thread for compute, one for communication, and
// one for copies to and from the host if there are any.
#include "Report.h"

#include "llvm/Support/JSON.h"

using namespace cleave;
using namespace cleave::sim;
using schedule::Action;
using schedule::ActionKind;

static bool isCommunication(ActionKind kind) {
  return schedule::isP2P(kind) || kind == ActionKind::Unshard || kind == ActionKind::ReduceGrad;
}

static void printName(llvm::json::OStream &json, llvm::StringRef what, unsigned rank,
                      unsigned thread, const std::string &name) {
  json.object([&] {
    json.attribute("ph", "M");
    json.attribute("name", what);
    json.attribute("pid", rank);
    json.attribute("tid", thread);
    json.attributeObject("args", [&] { json.attribute("name", name); });
  });
}

static void printCopies(llvm::json::OStream &json, unsigned rank,
                        llvm::ArrayRef<simulate::HostCopy> copies, double microseconds) {
  constexpr unsigned thread = 2;
  printName(json, "thread_name", rank, thread, "copies to and from the host");
  for (const simulate::HostCopy &copy : copies)
    json.object([&] {
      json.attribute("ph", "X");
      json.attribute("name", copy.isToHost ? "offload" : "reload");
      json.attribute("cat", "host");
      json.attribute("pid", rank);
      json.attribute("tid", thread);
      json.attribute("ts", copy.begin * microseconds);
      json.attribute("dur", (copy.end - copy.begin) * microseconds);
    });
}

void sim::printTrace(const Run &run, llvm::raw_ostream &os) {
  constexpr double microseconds = 1000; // the format's unit, from milliseconds
  llvm::json::OStream json(os);
  json.objectBegin();
  json.attribute("displayTimeUnit", "ms");
  json.attributeBegin("traceEvents");
  json.arrayBegin();
  for (unsigned rank = 0; rank < run.program.numRanks(); ++rank) {
    printName(json, "process_name", rank, 0, "rank " + std::to_string(rank));
    printName(json, "thread_name", rank, 0, "compute");
    printName(json, "thread_name", rank, 1, "communication");
    if (!run.copies.empty())
      printCopies(json, rank, run.copies[rank], microseconds);
    std::vector<double> memory = simulate::memoryCurve(run.program, run.costs, rank);
    for (size_t at = 0; at < run.program.ranks[rank].size(); ++at) {
      Action action = run.program.ranks[rank][at];
      const simulate::ActionTime &time = run.timeline.ranks[rank][at];
      json.object([&] {
        json.attribute("ph", "X");
        json.attribute("name", run.program.str(action));
        json.attribute("cat", schedule::getKindName(action.kind));
        json.attribute("pid", rank);
        json.attribute("tid", isCommunication(action.kind) ? 1 : 0);
        json.attribute("ts", time.start * microseconds);
        json.attribute("dur", (time.end - time.start) * microseconds);
        json.attributeObject("args", [&] {
          json.attribute("position", int64_t(at));
          if (time.waitedFor)
            json.attribute(
                "waited for",
                run.program.str(run.program.ranks[time.waitedFor.rank][time.waitedFor.position]) +
                    " on rank " + std::to_string(time.waitedFor.rank));
        });
      });
      if (!run.costs.hasMemory() || isCommunication(action.kind))
        continue;
      json.object([&] {
        json.attribute("ph", "C");
        json.attribute("name", "activation memory");
        json.attribute("pid", rank);
        json.attribute("ts", time.end * microseconds);
        json.attributeObject("args", [&] { json.attribute("memory", memory[at]); });
      });
    }
  }
  json.arrayEnd();
  json.attributeEnd();
  json.objectEnd();
  os << '\n';
}
