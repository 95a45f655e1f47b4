// What the schedules on a V of two chunks a rank share: the request, and its checks.

#ifndef CLEAVE_LIB_SCHEDULE_BUILDERS_VSCHEDULEBUILDER_H
#define CLEAVE_LIB_SCHEDULE_BUILDERS_VSCHEDULEBUILDER_H

#include "lib/schedule/builders/Builders.h"

namespace cleave::schedule {

class VScheduleBuilder : public ScheduleBuilder {
public:
  VScheduleBuilder(llvm::StringRef name, llvm::StringRef description)
      : builderName(name), text(description) {}
  llvm::StringRef name() const override { return builderName; }
  llvm::StringRef description() const override { return text; }
  unsigned defaultChunks() const override { return 2; }
  TopologyStyle defaultTopology() const override { return TopologyStyle::V; }

  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(*this, request, {.chunks = 2, .topology = TopologyStyle::V});
    if (!program)
      return program.takeError();
    if (llvm::Error error = check(*program))
      return error;
    fill(*program);
    return program;
  }

private:
  /// What the schedule needs beyond two chunks on a V.
  virtual llvm::Error check(const Schedule &) const { return llvm::Error::success(); }
  /// Writes the lists of all ranks.
  virtual void fill(Schedule &program) const = 0;

  llvm::StringRef builderName, text;
};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_BUILDERS_VSCHEDULEBUILDER_H
