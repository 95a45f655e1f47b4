//===- Profiler.cpp - measures a run's actions ----------------------------===//

#include "runtime/train/Profiler.h"
#include "cleave/Session.h"
#include "runtime/io/Trace.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/RankGrid.h"
#include "runtime/train/Agreement.h"

#include <thread>

using namespace cleave::runtime;

llvm::Expected<std::unique_ptr<Profiler>> Profiler::open(llvm::StringRef path, int rank) {
  std::unique_ptr<Profiler> profiler(new Profiler);
  profiler->path = path.str();
  if (rank != 0)
    return profiler;
  auto file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  profiler->file = std::move(*file);
  return profiler;
}

void Profiler::add(const ActionEvent &event) {
  if (event.step <= lastStep)
    record.actions.push_back({event.action, event.step, event.position, event.beginNs,
                              event.readyNs, event.endNs, event.bytes});
}

llvm::Error Profiler::finish(const Program &program, const RankGrid &grid, int64_t microbatches,
                             int64_t skipped) {
  ProfileNotes notes;
  record.rank = grid.rank();
  std::vector<std::string> others = grid.axisNames();
  if (const ScheduleInfo *schedule = program.schedule()) {
    notes.schedule = schedule->name;
    record.place = grid.coordinate(schedule->axis);
    llvm::erase(others, schedule->axis);
  }
  record.replica = grid.index(others);
  record.machine = getMachineNumber();
  record.clockOffset = wallTime(0);

  std::vector<RankRecord> records = {record};
  if (Communicator *world = grid.communicator()) {
    auto all = world->allGatherBytes(record.encode(), "the profile");
    if (!all)
      return all.takeError();
    records.clear();
    for (const std::string &bytes : *all) {
      auto other = RankRecord::decode(bytes);
      if (!other)
        return other.takeError();
      records.push_back(std::move(*other));
    }
  }
  if (!file)
    return llvm::Error::success();
  alignClocks(records);
  notes.program = program.name().str();
  notes.fingerprint = program.fingerprint().str();
  notes.processor = getProcessorName();
  notes.ranks = grid.ranks();
  notes.threads = getNumThreads();
  notes.cores = std::thread::hardware_concurrency();
  notes.microbatches = microbatches;
  notes.skippedSteps = skipped;
  const std::optional<ProgramSchedule> &schedule = program.impl().schedule;
  auto profile = makeProfile(records, unsigned(program.numStages()), notes,
                             schedule ? schedule->program : schedule::Schedule());
  if (!profile)
    return makeError("{0}: {1}", path, llvm::toString(profile.takeError()));
  std::string text = llvm::formatv("{0:2}\n", llvm::json::Value(std::move(*profile))).str();
  if (llvm::Error error = file->write(llvm::StringRef(text)))
    return error;
  return file->commit();
}
