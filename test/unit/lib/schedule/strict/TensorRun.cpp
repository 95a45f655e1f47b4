// One rank's loop over its list, and the sequential computation it is compared with.
#include "test/unit/lib/schedule/strict/TensorRun.h"

#include "test/unit/lib/schedule/strict/StrictBackend.h"

#include <unordered_map>

using namespace cleave::schedule;
using namespace cleave::strict;
using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

namespace {
constexpr int64_t width = 3;

Tensor numbers(std::array<double, width> values) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble);
}
Tensor weightOf(unsigned stage) {
  static const double cycle[] = {1, -1, 2, 1, -1};
  return numbers({cycle[stage % 5], cycle[(stage + 1) % 5], cycle[(stage + 3) % 5]});
}
Tensor inputOf(unsigned microbatch) {
  return numbers({microbatch + 1., 3. - 2 * microbatch, 5. * microbatch});
}
Tensor lossGradientOf(unsigned microbatch) {
  return numbers({microbatch + 2., 7., -1. - microbatch});
}

/// What a training step has to come to.
struct Results {
  std::vector<Tensor> losses, inputGradients,
      weightGradients; // by microbatch, by microbatch, by stage

  explicit Results(const Schedule &program)
      : losses(program.numMicrobatches), inputGradients(program.numMicrobatches) {
    for (unsigned stage = 0; stage < program.numStages(); ++stage)
      weightGradients.push_back(at::zeros({width}, at::kDouble));
  }
};

Results sequentially(const Schedule &program) {
  Results results(program);
  for (unsigned m = 0; m < program.numMicrobatches; ++m) {
    std::vector<Tensor> inputs = {inputOf(m)};
    for (unsigned stage = 0; stage < program.numStages(); ++stage)
      inputs.push_back(inputs.back() * weightOf(stage));
    results.losses[m] = inputs.back() * lossGradientOf(m);
    if (program.forwardOnly)
      continue;
    Tensor gradient = lossGradientOf(m);
    for (unsigned stage = program.numStages(); stage-- > 0;) {
      results.weightGradients[stage].add_(gradient * inputs[stage]);
      gradient = gradient * weightOf(stage);
    }
    results.inputGradients[m] = gradient;
  }
  return results;
}

/// One rank. Shares the results with the others, of which it writes its own stages' parts.
class RankRun {
public:
  RankRun(Fabric &fabric, const Schedule &program, unsigned rank, const CommModel &model,
          const SlotPlan *plan, Results &results)
      : fabric(fabric), program(program), rank(rank), model(model), plan(plan), results(results),
        pipeline(fabric, "pipeline", rank, everyone(program), optionsOf(model)) {
    unsigned microbatches = program.numMicrobatches;
    for (unsigned stage : program.topology.stagesOf(rank))
      stages.emplace(stage, StageState{weightOf(stage), std::vector<Tensor>(microbatches),
                                       std::vector<Tensor>(microbatches),
                                       std::vector<Tensor>(microbatches),
                                       std::vector<Tensor>(microbatches)});
    if (!plan)
      return;
    const RankSlots &receives = plan->receives[rank];
    const SendSlots &sends = plan->sends[rank];
    for (unsigned i = 0; i < receives.numSlots; ++i)
      recvSlots.push_back(at::empty({width}, at::kDouble));
    for (unsigned i = 0; i < sends.numSlots; ++i)
      sendSlots.push_back(at::empty({width}, at::kDouble));
    lastInSlot.resize(sends.numSlots);
    for (const std::vector<SlotUse> *uses : {&receives.uses, &sends.uses})
      for (const SlotUse &use : *uses)
        slotOf[keyOf(use.transfer)] = use.slot;
  }

  void run() {
    const std::vector<Action> &list = program.ranks[rank];
    for (size_t position = 0; position < list.size(); ++position) {
      fabric.setPosition(rank, position);
      runAction(list[position]);
    }
    fabric.setPosition(rank, list.size());
    pipeline.waitUntilAtMost(started, 0);
  }

  std::vector<std::string> errors;

private:
  struct StageState {
    Tensor weight;
    std::vector<Tensor> inputs, outputs, keptGradients, inputGradients; // by microbatch
  };

  static std::vector<unsigned> everyone(const Schedule &program) {
    std::vector<unsigned> ranks(program.numRanks());
    for (unsigned i = 0; i < ranks.size(); ++i)
      ranks[i] = i;
    return ranks;
  }
  static CommOptions optionsOf(const CommModel &model) {
    CommOptions options;
    options.matching = model.matching;
    options.streams = model.streams;
    // The lowest bit of a tag says activation or gradient.
    options.lanes = model.streams == StreamSharing::Kind ? 2 : 1;
    return options;
  }

  static uint64_t keyOf(Action action) {
    return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
  }

  void runAction(Action action) {
    if (action.kind == ActionKind::Collective)
      return enter(action);
    std::vector<Action> computes, transfers;
    program.forEachLeaf(action, [&](Action leaf) {
      if (isP2P(leaf.kind))
        transfers.push_back(leaf);
      else if (isCompute(leaf.kind))
        computes.push_back(leaf);
    });
    if (!transfers.empty())
      start(transfers);
    // None of a group sees another's result: all inputs first.
    for (Action leaf : computes)
      awaitInputs(leaf);
    for (Action leaf : computes)
      compute(leaf);
  }

  //===--------------------------------------------------------------------===//
  // Transfers
  //===--------------------------------------------------------------------===//

  /// By the receiving stage: equal at both ends.
  int64_t tagOf(Action p2p) const {
    bool forward = isForwardP2P(p2p.kind);
    int64_t stage = p2p.stage + (isSend(p2p.kind) ? (forward ? 1 : -1) : 0);
    return 2 * (stage * program.numMicrobatches + p2p.index) + forward;
  }

  void start(const std::vector<Action> &transfers) {
    unsigned sends = 0, recvs = 0;
    for (Action transfer : transfers)
      ++(isSend(transfer.kind) ? sends : recvs);
    if (!plan)
      awaitSlots(sends, recvs);
    std::vector<Tensor> buffers;
    for (size_t i = 0; i < transfers.size(); ++i)
      buffers.push_back(bufferOf(transfers[i]));
    bool group = transfers.size() > 1 && model.matching == Matching::Fifo;
    if (group)
      pipeline.startCoalescing();
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < transfers.size(); ++i) {
      std::vector<Tensor> tensors = {buffers[i]};
      int peer = int(getPeer(program.topology, transfers[i]));
      works.push_back(isSend(transfers[i].kind)
                          ? pipeline.send(tensors, peer, int(tagOf(transfers[i])))
                          : pipeline.recv(tensors, peer, int(tagOf(transfers[i]))));
    }
    if (group)
      works.assign(transfers.size(), pipeline.endCoalescing());
    for (size_t i = 0; i < transfers.size(); ++i) {
      started.push_back(works[i]);
      if (isSend(transfers[i].kind)) {
        incompleteSends.push_back(works[i]);
        if (plan)
          lastInSlot[slotOf.at(keyOf(transfers[i]))] = works[i];
      } else {
        ++heldRecvs;
        received[tagOf(transfers[i])].push_back({works[i], buffers[i]});
      }
    }
  }

  /// The model's slots are numbers only: any completion frees one.
  void awaitSlots(unsigned sends, unsigned recvs) {
    auto complete = [](const WorkPtr &work) { return work->isCompleted(); };
    while (sends && model.sendSlots) {
      std::erase_if(incompleteSends, complete);
      if (incompleteSends.size() + sends <= model.sendSlots)
        break;
      if (incompleteSends.empty())
        fabric.waitForever(rank, "more send slots than there are");
      pipeline.waitUntilAtMost(incompleteSends, incompleteSends.size() - 1);
    }
    if (recvs && model.recvSlots && heldRecvs + recvs > model.recvSlots)
      fabric.waitForever(rank, "a receive slot, which only later actions of this rank free");
  }

  /// Where a transfer's value lives; a send's is there afterwards.
  Tensor bufferOf(Action transfer) {
    if (isRecv(transfer.kind))
      return plan ? recvSlots[slotOf.at(keyOf(transfer))] : at::empty({width}, at::kDouble);
    StageState &stage = stages.at(transfer.stage);
    bool forward = isForwardP2P(transfer.kind);
    Tensor value = (forward ? stage.outputs : stage.inputGradients)[transfer.index];
    if (!value.defined()) {
      errors.push_back(program.str(transfer) + " has nothing to send");
      value = at::zeros({width}, at::kDouble);
    }
    if (!plan)
      return value;
    unsigned slot = slotOf.at(keyOf(transfer));
    if (WorkPtr last = lastInSlot[slot]; last && !last->isCompleted())
      errors.push_back(program.str(transfer) + " takes the slot of a send that is not complete");
    return sendSlots[slot].copy_(value);
  }

  void enter(Action action) {
    const CollectiveAction &collective = program.collectiveOf(action);
    CommOptions options = optionsOf(model);
    // One communicator for everything that is called so; in the World model, on the one stream.
    if (model.streams == StreamSharing::World && model.matching == Matching::Fifo)
      options.streamScope = "pipeline";
    StrictBackend group(fabric, "collective " + std::to_string(action.index), rank,
                        collective.ranks, options);
    std::vector<Tensor> tensors = {at::full({1}, double(rank + 1), at::kDouble)};
    group.allreduce(tensors, {})->wait();
    double expected = 0;
    for (unsigned member : collective.ranks)
      expected += member + 1;
    if (tensors[0].item<double>() != expected)
      errors.push_back(program.str(action) + " came to another sum");
  }

  //===--------------------------------------------------------------------===//
  // Compute
  //===--------------------------------------------------------------------===//

  bool isHere(unsigned stage) const { return program.topology.rankOf(stage) == rank; }

  /// Waits for a value that another rank sends, and returns where it is.
  Tensor awaitReceived(Action recv) {
    auto found = received.find(tagOf(recv));
    if (found == received.end())
      fabric.waitForever(rank, program.str(recv) + ", which this rank has not started");
    std::vector<WorkPtr> works;
    for (auto &[work, buffer] : found->second)
      works.push_back(work);
    pipeline.waitUntilAtMost(works, works.size() - 1);
    for (auto &[work, buffer] : found->second)
      if (work->isCompleted())
        return buffer;
    TORCH_INTERNAL_ASSERT(false, "a wait ended without a completion");
  }

  void need(bool there, Action leaf, const char *what) {
    if (!there)
      fabric.waitForever(rank, std::string(what) + " of " + program.str(leaf) +
                                   ", which this rank has not computed");
  }

  void awaitInputs(Action leaf) {
    unsigned m = leaf.index;
    StageState &own = stages.at(leaf.stage);
    if (leaf.kind == ActionKind::Forward && leaf.stage > 0) {
      if (isHere(leaf.stage - 1))
        need(stages.at(leaf.stage - 1).outputs[m].defined(), leaf, "the input");
      else
        awaitReceived({ActionKind::RecvForward, leaf.stage, m});
    }
    if (makesInputGradient(leaf.kind)) {
      need(own.outputs[m].defined(), leaf, "the forward");
      if (leaf.stage + 1u == program.numStages())
        return;
      if (isHere(leaf.stage + 1))
        need(stages.at(leaf.stage + 1).inputGradients[m].defined(), leaf, "the output's gradient");
      else
        awaitReceived({ActionKind::RecvBackward, leaf.stage, m});
    }
    if (leaf.kind == ActionKind::BackwardWeight)
      need(own.inputGradients[m].defined(), leaf, "the input gradient");
  }

  void compute(Action leaf) {
    unsigned m = leaf.index;
    StageState &own = stages.at(leaf.stage);
    if (leaf.kind == ActionKind::Forward) {
      if (leaf.stage == 0)
        own.inputs[m] = inputOf(m);
      else if (isHere(leaf.stage - 1))
        own.inputs[m] = stages.at(leaf.stage - 1).outputs[m];
      else
        own.inputs[m] = take({ActionKind::RecvForward, leaf.stage, m});
      own.outputs[m] = own.inputs[m] * own.weight;
      if (leaf.stage + 1u == program.numStages())
        results.losses[m] = own.outputs[m] * lossGradientOf(m);
      return;
    }
    if (makesInputGradient(leaf.kind)) {
      Tensor gradient;
      if (leaf.stage + 1u == program.numStages())
        gradient = lossGradientOf(m);
      else if (isHere(leaf.stage + 1))
        gradient = stages.at(leaf.stage + 1).inputGradients[m];
      else
        gradient = take({ActionKind::RecvBackward, leaf.stage, m});
      own.inputGradients[m] = gradient * own.weight;
      // What the weight gradient needs outlives the buffer that the gradient came in.
      own.keptGradients[m] = gradient.clone();
      if (leaf.stage == 0)
        results.inputGradients[m] = own.inputGradients[m];
    }
    if (leaf.kind != ActionKind::BackwardInput)
      results.weightGradients[leaf.stage].add_(own.keptGradients[m] * own.inputs[m]);
  }

  /// The value of a receive that has arrived; its first use frees the model's slot.
  Tensor take(Action recv) {
    auto [used, first] = taken.try_emplace(tagOf(recv), true);
    heldRecvs -= first;
    return awaitReceived(recv);
  }

  Fabric &fabric;
  const Schedule &program;
  unsigned rank;
  const CommModel model;
  const SlotPlan *plan;
  Results &results;
  StrictBackend pipeline;
  std::map<unsigned, StageState> stages;
  std::vector<Tensor> recvSlots, sendSlots;
  std::unordered_map<uint64_t, unsigned> slotOf; // by transfer
  std::vector<WorkPtr> lastInSlot;               // by send slot
  std::vector<WorkPtr> started;                  // all transfers, in order
  std::vector<WorkPtr> incompleteSends;
  std::unordered_map<int64_t, std::vector<std::pair<WorkPtr, Tensor>>> received; // by tag
  std::unordered_map<int64_t, bool> taken;
  unsigned heldRecvs = 0;
};

void compare(const Schedule &program, const Results &found, std::vector<std::string> &wrong) {
  Results expected = sequentially(program);
  auto check = [&](const char *what, const std::vector<Tensor> &a, const std::vector<Tensor> &b) {
    for (size_t i = 0; i < b.size(); ++i)
      if (b[i].defined() && (!a[i].defined() || !at::equal(a[i], b[i])))
        wrong.push_back(std::string(what) + " " + std::to_string(i));
  };
  check("loss of microbatch", found.losses, expected.losses);
  check("input gradient of microbatch", found.inputGradients, expected.inputGradients);
  check("weight gradient of stage", found.weightGradients, expected.weightGradients);
}
} // namespace

SlotPlan::SlotPlan(const Schedule &program) : receives(assignRecvSlots(program)) {
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    sends.push_back(assignSendSlots(program, rank));
}

TensorRun cleave::strict::runWithTensors(const Schedule &program, const CommModel &model,
                                         const SlotPlan *plan) {
  c10::InferenceMode guard;
  Fabric fabric(program.numRanks(), deliverTensors, [&](unsigned rank, size_t position) {
    const std::vector<Action> &list = program.ranks[rank];
    return "position " + std::to_string(position) + ": " +
           (position < list.size() ? program.str(list[position]) : "the end of its list");
  });
  Results results(program);
  TensorRun run;
  std::vector<std::vector<std::string>> errors(program.numRanks());
  fabric.run([&](unsigned rank) {
    c10::InferenceMode guard;
    RankRun body(fabric, program, rank, model, plan, results);
    try {
      body.run();
    } catch (...) {
      errors[rank] = body.errors;
      throw;
    }
    errors[rank] = body.errors;
  });
  run.stuck = fabric.isStuck();
  run.report = fabric.report();
  run.mismatches = fabric.numMismatches();
  for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
    run.positions.push_back(fabric.position(rank));
    for (const std::string &error : errors[rank])
      run.wrong.push_back("rank " + std::to_string(rank) + ": " + error);
    if (!fabric.failure(rank).empty())
      run.wrong.push_back("rank " + std::to_string(rank) + ": " + fabric.failure(rank));
  }
  if (!run.stuck)
    compare(program, results, run.wrong);
  return run;
}
