// The checks of single actions and of their numbers and order; Deadlock.cpp has the rest.
#include "lib/schedule/model/Verify.h"

#include "lib/schedule/model/Progress.h"

#include "llvm/Support/FormatVariadic.h"

using namespace cleave::schedule;

static std::string placeText(const std::optional<Place> &place) {
  if (!place)
    return "";
  return llvm::formatv("rank {0}, position {1}: ", place->rank, place->position);
}

std::string Problem::str() const {
  std::string text = placeText(place) + message;
  if (kind == ProblemKind::Deadlock)
    text = message;
  for (const auto &[where, note] : notes)
    text += "\n  " + placeText(where) + note;
  return text;
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

/// The text form has no escapes.
static std::string checkName(llvm::StringRef name) {
  if (name.empty() || name.find_first_of("\"\n") != llvm::StringRef::npos)
    return "its name must not be empty or contain '\"' or a line break";
  return "";
}

static std::string checkLeaf(const Schedule &program, unsigned rank, Action leaf) {
  if (leaf.kind == ActionKind::Custom)
    return leaf.index < program.customTable().size()
               ? checkName(program.customOf(leaf).name)
               : "refers to no entry of the table of custom actions";
  if (leaf.kind == ActionKind::Collective) {
    if (leaf.index >= program.collectiveTable().size())
      return "refers to no entry of the table of collectives";
    if (std::string message = checkName(program.collectiveOf(leaf).name); !message.empty())
      return message;
    llvm::ArrayRef<unsigned> ranks = program.collectiveOf(leaf).ranks;
    if (!llvm::is_contained(ranks, rank))
      return "is entered by a rank that it does not list";
    for (size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] >= program.numRanks() || (i && ranks[i] == ranks[i - 1]))
        return llvm::formatv("lists rank {0}, which is {1}", ranks[i],
                             ranks[i] >= program.numRanks() ? "out of range" : "listed twice");
    return "";
  }
  unsigned stages = program.numStages();
  if (leaf.stage >= stages)
    return llvm::formatv("stage {0} is out of range: there are {1} stages", leaf.stage, stages);
  if (program.topology.rankOf(leaf.stage) != rank)
    return llvm::formatv("stage {0} is on rank {1} in this topology ({2})", leaf.stage,
                         program.topology.rankOf(leaf.stage),
                         getStyleName(program.topology.style()));
  if (hasMicrobatch(leaf.kind) && leaf.index >= program.numMicrobatches)
    return llvm::formatv("microbatch {0} is out of range: there are {1} microbatches", leaf.index,
                         program.numMicrobatches);
  if (leaf.kind == ActionKind::ReduceGrad && leaf.index >= maxBuckets)
    return llvm::formatv("bucket {0} is out of range: at most {1} buckets", leaf.index, maxBuckets);
  if ((leaf.kind == ActionKind::SendForward || leaf.kind == ActionKind::RecvBackward) &&
      leaf.stage + 1u == stages)
    return "the last stage has no next stage";
  if ((leaf.kind == ActionKind::RecvForward || leaf.kind == ActionKind::SendBackward) &&
      leaf.stage == 0)
    return "the first stage has no previous stage";
  if (isP2P(leaf.kind) && getPeer(program.topology, leaf) == rank)
    return "both stages are on this rank: no transfer is needed";
  bool ofBackward = leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardInput ||
                    leaf.kind == ActionKind::BackwardWeight ||
                    leaf.kind == ActionKind::ReduceGrad || leaf.kind == ActionKind::OptimizerStep ||
                    (isP2P(leaf.kind) && !isForwardP2P(leaf.kind));
  if (program.forwardOnly && ofBackward)
    return "a forward-only schedule has no " + getKindName(leaf.kind).str();
  return "";
}

/// Tables of stages x microbatches are only made where the lists are about as large: a header alone
/// must not ask for terabytes.
static std::optional<Problem> checkSize(const Schedule &program) {
  constexpr uint64_t small = 1u << 20;
  uint64_t needed = uint64_t(program.numStages()) * program.numMicrobatches, leaves = 0;
  if (needed <= small)
    return std::nullopt;
  for (const std::vector<Action> &list : program.ranks)
    for (Action action : list)
      leaves += action.kind == ActionKind::Compose && action.index < program.numGroups()
                    ? program.groupOf(action).size()
                    : 1;
  if (needed <= leaves)
    return std::nullopt;
  return Problem{ProblemKind::MissingStep,
                 std::nullopt,
                 llvm::formatv("{0} stages with {1} microbatches need at least {2} actions, found "
                               "{3}",
                               program.numStages(), program.numMicrobatches, needed, leaves),
                 {}};
}

std::optional<Problem> cleave::schedule::checkStructure(const Schedule &program) {
  if (program.ranks.size() != program.numRanks() || program.ranks.empty())
    return Problem{ProblemKind::Malformed,
                   std::nullopt,
                   llvm::formatv("{0} lists of actions for {1} ranks", program.ranks.size(),
                                 program.numRanks()),
                   {}};
  if (program.numMicrobatches == 0)
    return Problem{ProblemKind::Malformed, std::nullopt, "the schedule has no microbatches", {}};
  if (std::optional<Problem> problem = checkSize(program))
    return problem;
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    for (size_t position = 0; position < program.ranks[rank].size(); ++position) {
      Action action = program.ranks[rank][position];
      auto problem = [&](ProblemKind kind, std::string message) {
        return Problem{kind, Place{rank, position}, std::move(message), {}};
      };
      if (action.kind == ActionKind::Compose) {
        if (action.index >= program.numGroups())
          return problem(ProblemKind::Malformed, "the group is not in the schedule's table");
        if (program.groupOf(action).empty())
          return problem(ProblemKind::Malformed, "a group needs at least one action");
        for (Action member : program.groupOf(action))
          if (member.kind == ActionKind::Compose || member.kind == ActionKind::Collective)
            return problem(ProblemKind::Malformed, "a group holds no groups and no collectives");
      }
      std::string message;
      Action wrong;
      program.forEachLeaf(action, [&](Action leaf) {
        if (message.empty()) {
          message = checkLeaf(program, rank, leaf);
          wrong = leaf;
        }
      });
      if (!message.empty()) {
        bool needless = isP2P(wrong.kind) && wrong.stage < program.numStages() &&
                        llvm::StringRef(message).starts_with("both stages");
        bool named = wrong.kind != ActionKind::Custom && wrong.kind != ActionKind::Collective;
        return problem(needless ? ProblemKind::NeedlessP2P : ProblemKind::Malformed,
                       (named ? program.str(wrong) + ": " : "") + message);
      }
    }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
/// Where each step of each stage and microbatch happens. Everything about one stage is in the list
/// of one rank, so that positions compare.
class StepChecker {
public:
  StepChecker(const Schedule &program, const VerifyOptions &options, std::vector<Problem> &problems)
      : program(program), options(options), problems(problems),
        microbatches(program.numMicrobatches) {}

  void run() {
    for (unsigned stage = 0; stage < program.numStages() && !full(); ++stage)
      stagesSeen.push_back(StageSteps(microbatches));
    for (unsigned rank = 0; rank < program.numRanks() && !full(); ++rank)
      checkRank(rank);
    if (!full())
      checkTransfers();
  }

private:
  static constexpr uint32_t never = ~0u;
  /// Indexed by the compute, send and receive kinds.
  static constexpr unsigned numSteps = unsigned(ActionKind::RecvBackward) + 1;
  struct StageSteps {
    explicit StageSteps(size_t microbatches) : microbatches(microbatches) {}
    uint32_t &at(ActionKind kind, unsigned microbatch) {
      std::vector<uint32_t> &places = byKind[unsigned(kind)];
      if (places.empty())
        places.resize(microbatches, never);
      return places[microbatch];
    }
    uint32_t get(ActionKind kind, unsigned microbatch) const {
      const std::vector<uint32_t> &places = byKind[unsigned(kind)];
      return places.empty() ? never : places[microbatch];
    }
    size_t microbatches;
    std::vector<uint32_t> byKind[numSteps];
    std::vector<uint32_t> reduced; // by bucket
    uint32_t lastGradient = never, optimizer = never;
    bool sharded = false, unsharded = false;
  };

  bool full() const { return problems.size() >= options.maxProblems; }
  void report(ProblemKind kind, std::optional<Place> place, std::string message,
              std::vector<std::pair<std::optional<Place>, std::string>> notes = {}) {
    if (!full())
      problems.push_back({kind, place, std::move(message), std::move(notes)});
  }

  void checkRank(unsigned rank) {
    const std::vector<Action> &list = program.ranks[rank];
    for (Action action : list)
      program.forEachLeaf(action, [&](Action leaf) {
        if (leaf.kind == ActionKind::Unshard)
          stagesSeen[leaf.stage].sharded = true;
      });
    for (size_t position = 0; position < list.size() && !full(); ++position)
      program.forEachLeaf(list[position], [&](Action leaf) { see(rank, position, leaf); });
    for (unsigned stage : program.topology.stagesOf(rank))
      checkStage(rank, stage);
  }

  void see(unsigned rank, size_t position, Action leaf) {
    if (!hasStage(leaf.kind))
      return;
    Place here{rank, position};
    StageSteps &steps = stagesSeen[leaf.stage];
    uint32_t at = uint32_t(position);
    if (hasMicrobatch(leaf.kind)) {
      uint32_t &place = steps.at(leaf.kind, leaf.index);
      if (place != never)
        return report(ProblemKind::Duplicate, here, program.str(leaf) + " runs a second time",
                      {{Place{rank, place}, "here first"}});
      place = at;
      if (leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardWeight)
        steps.lastGradient = at;
      if (isCompute(leaf.kind) && steps.sharded && !steps.unsharded)
        report(ProblemKind::WrongOrder, here,
               program.str(leaf) + " needs the stage's parameters, which are sharded here");
      return;
    }
    switch (leaf.kind) {
    case ActionKind::Unshard:
    case ActionKind::Reshard:
      if (steps.unsharded == (leaf.kind == ActionKind::Unshard))
        report(ProblemKind::WrongOrder, here,
               program.str(leaf) + ": the parameters are " +
                   (steps.unsharded ? "unsharded" : "sharded") + " already");
      steps.unsharded = leaf.kind == ActionKind::Unshard;
      return;
    case ActionKind::ReduceGrad:
      if (leaf.index >= steps.reduced.size())
        steps.reduced.resize(leaf.index + 1, never);
      if (steps.reduced[leaf.index] != never)
        return report(ProblemKind::Duplicate, here,
                      program.str(leaf) + " reduces the bucket a second time",
                      {{Place{rank, steps.reduced[leaf.index]}, "here first"}});
      steps.reduced[leaf.index] = at;
      return;
    case ActionKind::OptimizerStep:
      if (steps.optimizer != never)
        return report(ProblemKind::Duplicate, here, program.str(leaf) + " runs a second time",
                      {{Place{rank, steps.optimizer}, "here first"}});
      steps.optimizer = at;
      return;
    default:
      return;
    }
  }

  void checkStage(unsigned rank, unsigned stage) {
    const StageSteps &steps = stagesSeen[stage];
    for (unsigned microbatch = 0; microbatch < microbatches && !full(); ++microbatch)
      checkMicrobatch(rank, stage, microbatch);
    checkBuckets(rank, stage);
    uint32_t lastNeeded = steps.lastGradient;
    llvm::StringRef what = "weight gradient";
    for (uint32_t reduced : steps.reduced)
      if (reduced != never && (lastNeeded == never || reduced > lastNeeded)) {
        lastNeeded = reduced;
        what = "gradient reduction";
      }
    if (steps.optimizer != never && lastNeeded != never && steps.optimizer < lastNeeded)
      report(ProblemKind::WrongOrder, Place{rank, steps.optimizer},
             llvm::formatv("step{0} runs before the stage's last {1}", stage, what),
             {{Place{rank, lastNeeded}, "which is here"}});
  }

  void checkBuckets(unsigned rank, unsigned stage) {
    const StageSteps &steps = stagesSeen[stage];
    size_t expected = options.buckets.empty() ? steps.reduced.size() : options.buckets[stage];
    for (size_t bucket = 0; bucket < std::max(expected, steps.reduced.size()); ++bucket) {
      uint32_t at = bucket < steps.reduced.size() ? steps.reduced[bucket] : never;
      if (at == never && bucket < expected)
        report(ProblemKind::MissingStep, std::nullopt,
               llvm::formatv("rank {0} never reduces bucket {1} of stage {2} (reduce{2}.{1})", rank,
                             bucket, stage));
      else if (at != never && bucket >= expected)
        report(ProblemKind::Malformed, Place{rank, at},
               llvm::formatv("reduce{0}.{1}: stage {0} has {2} buckets", stage, bucket, expected));
      else if (at != never && steps.lastGradient != never && at < steps.lastGradient)
        report(ProblemKind::WrongOrder, Place{rank, at},
               llvm::formatv("reduce{0}.{1} runs before the stage's last weight gradient", stage,
                             bucket),
               {{Place{rank, steps.lastGradient}, "which is here"}});
    }
  }

  void checkMicrobatch(unsigned rank, unsigned stage, unsigned microbatch) {
    const StageSteps &steps = stagesSeen[stage];
    auto at = [&](ActionKind kind) { return steps.get(kind, microbatch); };
    auto name = [&](ActionKind kind) { return program.str(Action(kind, stage, microbatch)); };
    auto missing = [&](ActionKind kind) {
      report(ProblemKind::MissingStep, std::nullopt,
             llvm::formatv("rank {0} never runs {1} (the {2} of stage {3}, microbatch {4})", rank,
                           name(kind), getKindName(kind), stage, microbatch));
    };
    // `kind` at `place` needs `input`, another action of this rank, before it.
    auto needs = [&](ActionKind kind, uint32_t place, Action input, uint32_t inputPlace) {
      if (place != never && inputPlace != never && inputPlace >= place)
        report(ProblemKind::WrongOrder, Place{rank, place},
               llvm::formatv("{0} needs {1} before it", name(kind), program.str(input)),
               {{Place{rank, inputPlace}, "which is here"}});
    };
    using K = ActionKind;
    uint32_t forward = at(K::Forward), backward = at(K::Backward), input = at(K::BackwardInput),
             weight = at(K::BackwardWeight);
    if (forward == never)
      missing(K::Forward);
    if (!program.forwardOnly) {
      if (backward != never && (input != never || weight != never))
        report(ProblemKind::Duplicate, Place{rank, input != never ? input : weight},
               llvm::formatv("{0} and the full {1} both compute the gradients of stage {2}, "
                             "microbatch {3}",
                             name(input != never ? K::BackwardInput : K::BackwardWeight),
                             name(K::Backward), stage, microbatch),
               {{Place{rank, backward}, "the full backward is here"}});
      else if (backward == never && input == never && weight == never)
        missing(K::Backward);
      else if (backward == never && input == never)
        missing(K::BackwardInput);
      else if (backward == never && weight == never)
        missing(K::BackwardWeight);
    }
    uint32_t gradient = backward != never ? backward : input;
    K gradientKind = backward != never ? K::Backward : K::BackwardInput;
    needs(gradientKind, gradient, {K::Forward, stage, microbatch}, forward);
    needs(K::BackwardWeight, weight, {K::BackwardInput, stage, microbatch}, input);
    // Values from and to neighbours.
    if (stage > 0) {
      if (isRemote(stage - 1, stage)) {
        needs(K::Forward, forward, {K::RecvForward, stage, microbatch}, at(K::RecvForward));
        needs(K::SendBackward, at(K::SendBackward), {gradientKind, stage, microbatch}, gradient);
      } else {
        needs(K::Forward, forward, {K::Forward, stage - 1, microbatch},
              stagesSeen[stage - 1].get(K::Forward, microbatch));
      }
    }
    if (stage + 1 < program.numStages()) {
      if (isRemote(stage, stage + 1)) {
        needs(gradientKind, gradient, {K::RecvBackward, stage, microbatch}, at(K::RecvBackward));
        needs(K::SendForward, at(K::SendForward), {K::Forward, stage, microbatch}, forward);
      } else {
        const StageSteps &next = stagesSeen[stage + 1];
        bool whole = next.get(K::Backward, microbatch) != never;
        K kind = whole ? K::Backward : K::BackwardInput;
        needs(gradientKind, gradient, {kind, stage + 1, microbatch}, next.get(kind, microbatch));
      }
    }
  }
  bool isRemote(unsigned a, unsigned b) const {
    return program.topology.rankOf(a) != program.topology.rankOf(b);
  }

  /// Every transfer between ranks has its send and its receive.
  void checkTransfers() {
    if (options.computeOnly)
      return;
    for (unsigned stage = 0; stage + 1 < program.numStages(); ++stage) {
      if (!isRemote(stage, stage + 1))
        continue;
      for (unsigned microbatch = 0; microbatch < microbatches && !full(); ++microbatch) {
        checkTransfer({ActionKind::SendForward, stage, microbatch},
                      {ActionKind::RecvForward, stage + 1, microbatch});
        if (!program.forwardOnly)
          checkTransfer({ActionKind::SendBackward, stage + 1, microbatch},
                        {ActionKind::RecvBackward, stage, microbatch});
      }
    }
  }

  void checkTransfer(Action send, Action recv) {
    unsigned sender = program.topology.rankOf(send.stage);
    unsigned receiver = program.topology.rankOf(recv.stage);
    uint32_t sent = stagesSeen[send.stage].get(send.kind, send.index);
    uint32_t received = stagesSeen[recv.stage].get(recv.kind, recv.index);
    if (sent != never && received != never)
      return;
    if (sent != never)
      return report(ProblemKind::MissingRecv, Place{sender, sent},
                    llvm::formatv("{0} has no receive: rank {1} never starts {2}",
                                  program.str(send), receiver, program.str(recv)));
    if (received != never)
      return report(ProblemKind::MissingSend, Place{receiver, received},
                    llvm::formatv("{0} has no send: rank {1} never starts {2}", program.str(recv),
                                  sender, program.str(send)));
    report(ProblemKind::MissingSend, std::nullopt,
           llvm::formatv("no transfer from stage {0} to stage {1} for microbatch {2}: rank {3} "
                         "never starts {4}, nor rank {5} {6}",
                         send.stage, recv.stage, send.index, sender, program.str(send), receiver,
                         program.str(recv)));
  }

  const Schedule &program;
  const VerifyOptions &options;
  std::vector<Problem> &problems;
  size_t microbatches;
  std::vector<StageSteps> stagesSeen;
};
} // namespace

std::vector<Problem> cleave::schedule::verify(const Schedule &program,
                                              const VerifyOptions &options) {
  std::vector<Problem> problems;
  if (std::optional<Problem> problem = checkStructure(program)) {
    problems.push_back(std::move(*problem));
    return problems;
  }
  if (!options.buckets.empty() && options.buckets.size() != program.numStages()) {
    problems.push_back({ProblemKind::Malformed,
                        std::nullopt,
                        llvm::formatv("bucket counts for {0} stages, but there are {1}",
                                      options.buckets.size(), program.numStages()),
                        {}});
    return problems;
  }
  StepChecker(program, options, problems).run();
  // What is missing explains a hang better than the hang does.
  if (!problems.empty() || options.computeOnly)
    return problems;
  std::vector<CommModel> models = options.models;
  if (models.empty())
    models = {CommModel::gloo(), CommModel::nccl()};
  for (const CommModel &model : models) {
    Progress progress(program, model);
    if (!progress.run()) {
      problems.push_back(*findDeadlock(program, model));
      return problems;
    }
    if (progress.mismatch) {
      const auto &[send, recv] = *progress.mismatch;
      problems.push_back({ProblemKind::WrongData,
                          Place{recv.rank, recv.position},
                          llvm::formatv("{0} would receive what {1} sends: their orders differ",
                                        program.str(recv.action), program.str(send.action)),
                          {{Place{send.rank, send.position}, "the send is here"}}});
      return problems;
    }
  }
  return problems;
}
