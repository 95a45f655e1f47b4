//===- Profile.cpp - measured costs of pipeline stages ---------------------===//

#include "runtime/profile/Profile.h"
#include "runtime/io/Error.h"
#include "runtime/profile/StepTimes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;
using schedule::Action;
using schedule::ActionKind;

static constexpr double kMsPerNs = 1e-6;
/// A shorter wait is none: what asking costs.
static constexpr int64_t kMinWaitNs = 20000;

std::optional<double> cleave::runtime::median(std::vector<double> values) {
  if (values.empty())
    return std::nullopt;
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

uint64_t cleave::runtime::getMachineNumber() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  auto boot = llvm::MemoryBuffer::getFileAsStream("/proc/sys/kernel/random/boot_id");
  return llvm::xxh3_64bits(host + (boot ? (*boot)->getBuffer().str() : std::string()));
}

int64_t TransferTimes::count() const {
  return llvm::count_if(values, [](const Observed &each) { return !each.isBound; });
}

std::optional<double> TransferTimes::typical() const {
  std::vector<Observed> sorted = values;
  // Among equal values the bounds come last: such a transfer may have taken as long as the known
  // one.
  std::sort(sorted.begin(), sorted.end(), [](const Observed &a, const Observed &b) {
    return std::pair(a.milliseconds, a.isBound) < std::pair(b.milliseconds, b.isBound);
  });
  // From the longest down: how likely a transfer takes no longer than what is left.
  double shorter = 1;
  std::optional<double> result;
  for (size_t left = sorted.size(); left > 0; --left) {
    if (sorted[left - 1].isBound)
      continue;
    if (shorter >= 0.5 - 1e-9 || !result)
      result = sorted[left - 1].milliseconds;
    shorter *= 1 - 1 / double(left);
  }
  return result;
}

std::string cleave::runtime::getProcessorName() {
  auto file = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  llvm::StringRef text = file ? (*file)->getBuffer() : llvm::StringRef();
  auto [before, after] = text.split("model name");
  llvm::StringRef name = after.split('\n').first.ltrim(" \t:").rtrim();
  return name.empty() ? "unknown" : name.str();
}

//===----------------------------------------------------------------------===//
// Between ranks
//===----------------------------------------------------------------------===//

static_assert(std::is_trivially_copyable_v<RecordedAction>);

std::string RankRecord::encode() const {
  const int64_t header[] = {
      rank, place, replica, int64_t(machine), clockOffset, int64_t(actions.size())};
  std::string bytes(sizeof header + actions.size() * sizeof(RecordedAction), '\0');
  std::memcpy(bytes.data(), header, sizeof header);
  if (!actions.empty())
    std::memcpy(bytes.data() + sizeof header, actions.data(),
                actions.size() * sizeof(RecordedAction));
  return bytes;
}

llvm::Expected<RankRecord> RankRecord::decode(llvm::StringRef bytes) {
  int64_t header[6];
  if (bytes.size() < sizeof header)
    return makeError("a rank's profile has {0} bytes, expected at least {1}", bytes.size(),
                     sizeof header);
  std::memcpy(header, bytes.data(), sizeof header);
  size_t size = bytes.size() - sizeof header;
  if (size % sizeof(RecordedAction) != 0 || int64_t(size / sizeof(RecordedAction)) != header[5])
    return makeError("a rank's profile of {0} actions has {1} bytes", header[5], bytes.size());
  RankRecord record{header[0], header[1], header[2], uint64_t(header[3]), header[4], {}};
  record.actions.resize(size_t(header[5]));
  if (size > 0)
    std::memcpy(static_cast<void *>(record.actions.data()), bytes.data() + sizeof header, size);
  return record;
}

void cleave::runtime::alignClocks(std::vector<RankRecord> &records) {
  for (RankRecord &record : records) {
    if (record.machine == records.front().machine)
      continue;
    int64_t shift = record.clockOffset - records.front().clockOffset;
    for (RecordedAction &action : record.actions)
      for (int64_t *time : {&action.begin, &action.ready, &action.end})
        *time += shift;
  }
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Whether the rank is busy with the action itself: it is not a transfer in the background.
static bool occupiesRank(ActionKind kind) {
  return !schedule::isP2P(kind);
}

namespace {
/// What crosses a boundary, in one direction.
struct Crossing {
  int64_t bytes = 0;
  TransferTimes times;
};

class ProfileBuilder {
public:
  ProfileBuilder(llvm::ArrayRef<RankRecord> records, unsigned numStages, const ProfileNotes &notes,
                 const schedule::Schedule &schedule)
      : records(records), notes(notes), schedule(schedule), computations(numStages),
        forwards(numStages), backwards(numStages) {}

  llvm::Expected<llvm::json::Object> build() {
    for (const RankRecord &record : records)
      visit(record);
    if (steps.empty())
      return makeError("no step is left to measure: expected more than the {0} skipped",
                       notes.skippedSteps);
    for (const RankRecord &record : records)
      visitArrivals(record);
    measureSteps();
    llvm::json::Array stages;
    for (unsigned stage = 0; stage < computations.size(); ++stage)
      stages.push_back(describeStage(stage));
    return llvm::json::Object{{"stages", std::move(stages)}, {"measured", describeMeasured()}};
  }

private:
  using SendKey = std::tuple<int64_t, int64_t, ActionKind, unsigned, unsigned>;
  struct Span {
    int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  };

  bool counts(const RecordedAction &action) const { return action.step > notes.skippedSteps; }

  /// The rank's actions of all steps that count, in the order in which it came to them.
  std::vector<RecordedAction> inOrder(const RankRecord &record) const {
    std::vector<RecordedAction> result;
    llvm::copy_if(record.actions, std::back_inserter(result),
                  [&](const RecordedAction &action) { return counts(action); });
    llvm::stable_sort(result, [](const RecordedAction &a, const RecordedAction &b) {
      return std::tie(a.step, a.begin) < std::tie(b.step, b.begin);
    });
    return result;
  }

  void visit(const RankRecord &record) {
    const RecordedAction *last = nullptr;
    std::vector<RecordedAction> actions = inOrder(record);
    for (const RecordedAction &recorded : actions) {
      Span &span = steps[recorded.step];
      span.begin = std::min(span.begin, recorded.begin);
      span.end = std::max(span.end, recorded.end);
      if (schedule::isSend(recorded.action.kind))
        sends[{record.replica, recorded.step, recorded.action.kind, recorded.action.stage,
               recorded.action.index}] = recorded;
      if (!occupiesRank(recorded.action.kind))
        continue;
      if (last)
        note(*last, &recorded);
      last = &recorded;
    }
    if (last)
      note(*last, nullptr);
  }

  /// Adds the time of a computation, which `next` follows on its rank.
  void note(const RecordedAction &recorded, const RecordedAction *next) {
    int64_t end = recorded.end;
    // Before the updates ranks agree on the loss: that is not part of a computation.
    if (next && next->step == recorded.step && schedule::isCompute(recorded.action.kind) &&
        schedule::isCompute(next->action.kind))
      end = std::max(end, next->begin);
    if (schedule::hasStage(recorded.action.kind) && recorded.action.stage < computations.size())
      computations[recorded.action.stage][recorded.action.kind].add(
          recorded.step, double(end - recorded.ready) * kMsPerNs);
  }

  /// Transfers that a computation of the rank waited for.
  void visitArrivals(const RankRecord &record) {
    for (const RecordedAction &recorded : record.actions) {
      Action action = recorded.action;
      bool isForward = action.kind == ActionKind::Forward;
      if (!counts(recorded) || !(isForward || schedule::makesInputGradient(action.kind)))
        continue;
      if (isForward && action.stage == 0)
        continue;
      unsigned from = isForward ? action.stage - 1u : action.stage + 1u;
      auto found = sends.find({record.replica, recorded.step,
                               isForward ? ActionKind::SendForward : ActionKind::SendBackward, from,
                               action.index});
      if (found == sends.end())
        continue;
      Crossing &crossing = (isForward ? forwards : backwards)[from];
      crossing.bytes = found->second.bytes;
      crossing.times.add(std::max(0.0, double(recorded.ready - found->second.begin) * kMsPerNs),
                         /*isBound=*/recorded.ready - recorded.begin < kMinWaitNs);
    }
  }

  void measureSteps() {
    std::vector<double> lengths;
    for (const auto &[step, span] : steps)
      lengths.push_back(double(span.end - span.begin) * kMsPerNs);
    stepMs = *median(lengths);
    double nearest = std::numeric_limits<double>::infinity();
    for (const auto &[step, span] : steps) {
      double distance = std::abs(double(span.end - span.begin) * kMsPerNs - stepMs);
      if (distance < nearest) {
        nearest = distance;
        typicalStep = step;
      }
    }
  }

  /// What a transfer takes for which no wait was observed: like the others, by its bytes.
  double estimate(const Crossing &crossing) const {
    double bytes = 0, milliseconds = 0;
    for (const auto *list : {&forwards, &backwards})
      for (const Crossing &other : *list)
        if (std::optional<double> time = other.times.typical()) {
          bytes += double(other.bytes);
          milliseconds += *time;
        }
    return bytes > 0 ? milliseconds * double(crossing.bytes) / bytes : 0;
  }

  llvm::json::Object describeStage(unsigned stage) {
    llvm::json::Object object;
    auto put = [&](llvm::StringRef field, ActionKind kind) {
      auto found = computations[stage].find(kind);
      if (found != computations[stage].end())
        object[field] = *found->second.typical();
    };
    put("forward", ActionKind::Forward);
    put("backward", ActionKind::Backward);
    put("input", ActionKind::BackwardInput);
    put("weight", ActionKind::BackwardWeight);
    put("unshard", ActionKind::Unshard);
    put("reduce", ActionKind::ReduceGrad);
    put("optimizer", ActionKind::OptimizerStep);
    // The cost table wants a number where a program is forward only, or a stage is frozen.
    if (!object.get("backward") && !object.get("input"))
      object["backward"] = 0.0;
    if (object.get("input") && !object.get("weight"))
      object["weight"] = 0.0;
    for (auto [field, crossing] :
         {std::pair<const char *, Crossing *>{"send_forward", &forwards[stage]},
          {"send_backward", &backwards[stage]}})
      if (crossing->bytes > 0)
        object[field] = crossing->times.typical().value_or(estimate(*crossing));
    return object;
  }

  llvm::json::Array describeTransfers() const {
    llvm::json::Array array;
    for (bool isForward : {true, false})
      for (const auto &[stage, crossing] : llvm::enumerate(isForward ? forwards : backwards))
        if (crossing.bytes > 0) {
          llvm::json::Object object{{"stage", int64_t(stage)},
                                    {"direction", isForward ? "forward" : "backward"},
                                    {"bytes", crossing.bytes},
                                    {"waited_for", crossing.times.count()}};
          if (std::optional<double> time = crossing.times.typical())
            object["ms"] = *time;
          array.push_back(std::move(object));
        }
    return array;
  }

  llvm::json::Object describeTimeline() const {
    const Span &span = steps.find(typicalStep)->second;
    auto ms = [&](int64_t time) { return double(time - span.begin) * kMsPerNs; };
    llvm::json::Array ranks;
    for (const RankRecord &record : records) {
      llvm::json::Array actions;
      for (const RecordedAction &recorded : inOrder(record))
        if (recorded.step == typicalStep)
          actions.push_back(llvm::json::Array{schedule.str(recorded.action), ms(recorded.begin),
                                              ms(recorded.ready), ms(recorded.end)});
      ranks.push_back(llvm::json::Object{
          {"rank", record.rank}, {"place", record.place}, {"actions", std::move(actions)}});
    }
    return llvm::json::Object{
        {"step", typicalStep}, {"makespan", ms(span.end)}, {"ranks", std::move(ranks)}};
  }

  llvm::json::Object describeMeasured() const {
    llvm::json::Object object{{"program", notes.program},
                              {"fingerprint", notes.fingerprint},
                              {"processor", notes.processor},
                              {"cores", notes.cores},
                              {"threads", notes.threads},
                              {"ranks", notes.ranks},
                              {"microbatches", notes.microbatches},
                              {"steps", int64_t(steps.size())},
                              {"skipped_steps", notes.skippedSteps},
                              {"step_ms", stepMs},
                              {"transfers", describeTransfers()},
                              {"timeline", describeTimeline()}};
    if (!notes.schedule.empty())
      object["schedule"] = notes.schedule;
    return object;
  }

  llvm::ArrayRef<RankRecord> records;
  const ProfileNotes &notes;
  const schedule::Schedule &schedule;
  /// By stage.
  std::vector<std::map<ActionKind, StepTimes>> computations;
  std::vector<Crossing> forwards, backwards;
  std::map<SendKey, RecordedAction> sends;
  std::map<int64_t, Span> steps;
  double stepMs = 0;
  int64_t typicalStep = 0;
};
} // namespace

llvm::Expected<llvm::json::Object>
cleave::runtime::makeProfile(llvm::ArrayRef<RankRecord> records, unsigned numStages,
                             const ProfileNotes &notes, const schedule::Schedule &schedule) {
  return ProfileBuilder(records, numStages, notes, schedule).build();
}
