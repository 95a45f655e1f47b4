// Schedule builders and the registry in which passes and tools find them by name.

#ifndef CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDER_H
#define CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDER_H

#include "lib/schedule/model/Schedule.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace cleave::schedule {

/// What a builder is asked for.
struct BuildRequest {
  unsigned ranks = 1;
  unsigned microbatches = 1;
  /// Stages per rank; unset: what the schedule needs (2 for the V schedules) or else 1.
  std::optional<unsigned> chunks = std::nullopt;
  /// Unset: the schedule's own. A topology the schedule cannot use is refused.
  std::optional<TopologyStyle> topology = std::nullopt;
  /// Only forwards; refused by schedules that have no meaning without a backward.
  bool forwardOnly = false;
  /// Stages of all ranks, instead of `chunks`; where ranks cannot have the same number, the last
  /// ones have one less. Refused by schedules that need as many on each.
  std::optional<unsigned> stages = std::nullopt;
};

/// Makes compute-only programs; insertP2P (P2P.h) adds sends and receives.
class ScheduleBuilder {
public:
  virtual ~ScheduleBuilder() = default;
  /// The registered name, lower case: "1f1b".
  virtual llvm::StringRef name() const = 0;
  /// One line: what it does, and where it was published.
  virtual llvm::StringRef description() const = 0;
  /// The stages per rank it uses where the request leaves them open.
  virtual unsigned defaultChunks() const { return 1; }
  /// The topology it uses where the request leaves it open.
  virtual TopologyStyle defaultTopology() const { return TopologyStyle::Loop; }
  /// A precondition that does not hold is an error that says which, and what was found.
  virtual llvm::Expected<Schedule> build(const BuildRequest &request) const = 0;
};

/// Builders by name. Look-up ignores case, '-' and '_'. Not for concurrent registration.
class ScheduleRegistry {
public:
  /// The process's registry, with every schedule of this library in it.
  static ScheduleRegistry &global();

  /// Fails if a builder with that name (or alias) is there already.
  llvm::Error add(std::unique_ptr<ScheduleBuilder> builder,
                  llvm::ArrayRef<llvm::StringRef> aliases = {});
  /// Null if there is none.
  const ScheduleBuilder *find(llvm::StringRef name) const;
  /// All builders, in the order of registration.
  std::vector<const ScheduleBuilder *> all() const;

private:
  std::vector<std::unique_ptr<ScheduleBuilder>> builders;
  std::vector<std::pair<std::string, const ScheduleBuilder *>> names;
};

/// What a schedule asks of a request, beyond at least one rank, chunk and microbatch.
struct Preconditions {
  std::optional<unsigned> chunks = std::nullopt;
  /// Checked where there is more than one chunk.
  std::optional<TopologyStyle> topology = std::nullopt;
  bool forwardOnlyAllowed = false;
  /// Ranks may have different numbers of stages.
  bool unevenAllowed = false;
};

/// Checks the request and returns a program without actions; the builder fills the lists.
llvm::Expected<Schedule> startSchedule(const ScheduleBuilder &builder, const BuildRequest &request,
                                       const Preconditions &needs);

/// Finds the builder and runs it; an unknown name is an error that lists the known ones.
llvm::Expected<Schedule> buildSchedule(llvm::StringRef name, const BuildRequest &request);

/// Makes the builder known to this process. For plugins, whose function of registration returns no
/// error: a name that is taken ends the process with a message.
void registerSchedule(std::unique_ptr<ScheduleBuilder> builder,
                      llvm::ArrayRef<llvm::StringRef> aliases = {});

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDER_H
