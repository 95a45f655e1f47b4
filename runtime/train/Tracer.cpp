//===- Tracer.cpp - the trace of a run's first steps ----------------------===//

#include "runtime/train/Tracer.h"
#include "runtime/comm/Communicator.h"
#include "runtime/step/ActionEvent.h"
#include "llvm/Support/FileSystem.h"
#include <chrono>

using namespace cleave;
using namespace cleave::runtime;

static std::string pathOfRank(llvm::StringRef path, int rank) {
  return llvm::formatv("{0}.rank{1}", path, rank).str();
}

int64_t cleave::runtime::steadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

llvm::Expected<std::unique_ptr<Tracer>> Tracer::open(llvm::StringRef path, Communicator &world) {
  std::unique_ptr<Tracer> tracer(new Tracer(world));
  tracer->path = path.str();
  // All ranks count from the time at which the first one started.
  int64_t origin = wallTime(steadyNs());
  llvm::Expected<std::vector<std::string>> origins =
      world.allGatherBytes(std::to_string(origin), "the start of the trace");
  if (!origins)
    return origins.takeError();
  llvm::StringRef(origins->front()).getAsInteger(10, origin);
  bool isAlone = world.size() == 1;
  if (!isAlone && world.rank() == 0) {
    llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
    if (!file)
      return file.takeError();
    if (!(*file)->isFile())
      return makeError(
          "{0}: expected a regular file, since several ranks merge their traces into it", path);
    tracer->joined = std::move(*file);
  }
  auto writer = TraceWriter::open(isAlone ? path.str() : pathOfRank(path, world.rank()),
                                  world.rank(), origin);
  if (!writer)
    return writer.takeError();
  tracer->writer = std::move(*writer);
  tracer->writer->nameTrack(0, "program");
  return tracer;
}

void Tracer::op(const OpEvent &event) {
  llvm::StringRef category =
      event.name.starts_with("dist.") ? "communication" : getPhaseName(event.phase);
  writer->slice(event.name, category, event.location, event.startNs,
                event.startNs + event.durationNs);
}

void Tracer::action(const ActionEvent &event) {
  if (!schedule::isP2P(event.action.kind)) {
    if (event.readyNs > event.beginNs)
      writer->slice(("wait for " + event.text).str(), "idle", "", event.beginNs, event.readyNs);
    writer->slice(event.text, schedule::getKindName(event.action.kind), "", event.readyNs,
                  event.endNs);
    return;
  }
  writer->slice(event.text, schedule::getKindName(event.action.kind), "", event.beginNs,
                event.endNs, takeTrack("transfers", event.beginNs, event.endNs));
}

void Tracer::reduction(const ReductionEvent &event) {
  writer->slice(event.bucket, "reduction", "", event.startNs, event.endNs,
                takeTrack("reductions", event.startNs, event.endNs));
}

int64_t Tracer::takeTrack(llvm::StringRef name, int64_t beginNs, int64_t endNs) {
  size_t index = 0;
  while (index < tracks.size() && (tracks[index].first != name || tracks[index].second > beginNs))
    ++index;
  if (index == tracks.size()) {
    tracks.emplace_back(name.str(), 0);
    writer->nameTrack(int64_t(index) + 1, name);
  }
  tracks[index].second = endNs;
  return int64_t(index) + 1;
}

void Tracer::span(const std::string &name, int64_t beginNs, int64_t endNs) {
  writer->slice(name, "step", "", beginNs, endNs);
}

llvm::Error Tracer::finish() {
  if (llvm::Error error = writer->close())
    return error;
  if (llvm::Error error = world.barrier("the end of the trace"))
    return error;
  if (!joined)
    return llvm::Error::success();
  std::vector<std::string> parts;
  for (int rank = 0; rank < world.size(); ++rank)
    if (std::string part = pathOfRank(path, rank); llvm::sys::fs::exists(part))
      parts.push_back(std::move(part));
  return mergeTraces(parts, *joined);
}
