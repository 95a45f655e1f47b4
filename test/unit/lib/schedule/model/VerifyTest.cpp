// What the verifier refuses, and how it says so.
#include "test/unit/lib/schedule/TestUtils.h"

using namespace cleave::schedule;

namespace {
constexpr const char *header2 = "ranks 2 stages 2 microbatches 1 topology loop\n";
constexpr const char *good2 = "rank 0: F0.0 sendF0.0 recvB0.0 B0.0\n"
                              "rank 1: recvF1.0 F1.0 B1.0 sendB1.0\n";

/// The problems of a two-rank program under tag matching.
std::string problemsOf(const std::string &lists, const std::string &header = header2) {
  return verifyText(parse(header + lists), {.models = {CommModel::gloo()}, .buckets = {}});
}
void expectProblem(const std::string &lists, const std::string &message) {
  EXPECT_EQ(problemsOf(lists), message + "\n");
}

TEST(Verify, AcceptsTheSmallestPipeline) {
  EXPECT_EQ(problemsOf(good2), "");
}

TEST(Verify, Steps) {
  expectProblem("rank 0: sendF0.0 recvB0.0 B0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0 never runs F0.0 (the forward of stage 0, microbatch 0)");
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0 never runs B0.0 (the backward of stage 0, microbatch 0)");
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0 I0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0 never runs W0.0 (the backward-weight of stage 0, microbatch 0)");
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0 B0.0\nrank 1: recvF1.0 F1.0 F1.0 B1.0 sendB1.0\n",
                "rank 1, position 2: F1.0 runs a second time\n  rank 1, position 1: here first");
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0 B0.0 W0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0, position 4: W0.0 and the full B0.0 both compute the gradients of stage 0, "
                "microbatch 0\n  rank 0, position 3: the full backward is here");
}

TEST(Verify, Order) {
  expectProblem("rank 0: sendF0.0 F0.0 recvB0.0 B0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0, position 0: sendF0.0 needs F0.0 before it\n"
                "  rank 0, position 1: which is here");
  expectProblem("rank 0: F0.0 sendF0.0 B0.0 recvB0.0\nrank 1: recvF1.0 F1.0 B1.0 sendB1.0\n",
                "rank 0, position 2: B0.0 needs recvB0.0 before it\n"
                "  rank 0, position 3: which is here");
  // One chunk after the other on one rank: no transfer, but an order.
  EXPECT_EQ(problemsOf("rank 0: F1.0 F0.0 B1.0 B0.0\n",
                       "ranks 1 stages 2 microbatches 1 topology loop\n"),
            "rank 0, position 0: F1.0 needs F0.0 before it\n  rank 0, position 1: which is here\n");
  // The members of a group do not see each other's results.
  EXPECT_EQ(problemsOf("rank 0: {F0.0 B0.0}\n", "ranks 1 stages 1 microbatches 1\n"),
            "rank 0, position 0: B0.0 needs F0.0 before it\n  rank 0, position 0: which is here\n");
}

TEST(Verify, Transfers) {
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0 B0.0\nrank 1: F1.0 B1.0 sendB1.0\n",
                "rank 0, position 1: sendF0.0 has no receive: rank 1 never starts recvF1.0");
  expectProblem("rank 0: F0.0 sendF0.0 recvB0.0 B0.0\nrank 1: recvF1.0 F1.0 B1.0\n",
                "rank 0, position 2: recvB0.0 has no send: rank 1 never starts sendB1.0");
  expectProblem("rank 0: F0.0 recvB0.0 B0.0\nrank 1: F1.0 B1.0 sendB1.0\n",
                "no transfer from stage 0 to stage 1 for microbatch 0: rank 0 never starts "
                "sendF0.0, nor rank 1 recvF1.0");
}

TEST(Verify, Structure) {
  auto refuse = [](Schedule program, const std::string &message) {
    std::vector<Problem> problems = verify(program);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems.front().str(), message);
  };
  Schedule program = parse(std::string(header2) + good2);
  Schedule wrong = program;
  wrong.ranks[0][0] = Action(ActionKind::Forward, 1, 0);
  refuse(wrong, "rank 0, position 0: F1.0: stage 1 is on rank 1 in this topology (loop)");
  wrong = program;
  wrong.ranks[0][0] = Action(ActionKind::Forward, 2, 0);
  refuse(wrong, "rank 0, position 0: F2.0: stage 2 is out of range: there are 2 stages");
  wrong = program;
  wrong.ranks[0][0] = Action(ActionKind::Forward, 0, 1);
  refuse(wrong, "rank 0, position 0: F0.1: microbatch 1 is out of range: there are 1 microbatches");
  wrong = program;
  wrong.ranks[1].push_back(Action(ActionKind::SendForward, 1, 0));
  refuse(wrong, "rank 1, position 4: sendF1.0: the last stage has no next stage");
  wrong = program;
  wrong.ranks[0].push_back(Action(ActionKind::Compose, 0, 7));
  refuse(wrong, "rank 0, position 4: the group is not in the schedule's table");
  wrong = program;
  wrong.ranks.pop_back();
  refuse(wrong, "1 lists of actions for 2 ranks");
  wrong = program;
  wrong.numMicrobatches = 0;
  refuse(wrong, "the schedule has no microbatches");
  wrong = program;
  wrong.numMicrobatches = maxMicrobatches;
  refuse(wrong, "2 stages with 16777216 microbatches need at least 33554432 actions, found 8");
  wrong = program;
  wrong.ranks[0].push_back(wrong.addCustom({"a \"b\""}));
  refuse(wrong, "rank 0, position 4: its name must not be empty or contain '\"' or a line break");
  wrong = program;
  wrong.ranks[0].push_back(Action(ActionKind::ReduceGrad, 0, 70000));
  refuse(wrong,
         "rank 0, position 4: reduce0.70000: bucket 70000 is out of range: at most 65536 buckets");
  Schedule folded = orFail(buildSchedule("zbv", {2, 4}));
  folded.ranks[1].push_back(Action(ActionKind::SendForward, 1, 0));
  EXPECT_EQ(verify(folded).front().kind, ProblemKind::NeedlessP2P);
}

TEST(Verify, GradientsAndParameters) {
  const char *header = "ranks 1 stages 1 microbatches 1\n";
  EXPECT_EQ(problemsOf("rank 0: unshard0 F0.0 B0.0 reshard0 reduce0.0 reduce0.1 step0\n", header),
            "");
  EXPECT_EQ(problemsOf("rank 0: F0.0 unshard0 B0.0 reshard0\n", header),
            "rank 0, position 0: F0.0 needs the stage's parameters, which are sharded here\n");
  EXPECT_EQ(problemsOf("rank 0: unshard0 F0.0 B0.0 unshard0\n", header),
            "rank 0, position 3: unshard0: the parameters are unsharded already\n");
  EXPECT_EQ(problemsOf("rank 0: F0.0 reduce0.0 B0.0\n", header),
            "rank 0, position 1: reduce0.0 runs before the stage's last weight gradient\n"
            "  rank 0, position 2: which is here\n");
  EXPECT_EQ(problemsOf("rank 0: F0.0 B0.0 reduce0.0 reduce0.0\n", header),
            "rank 0, position 3: reduce0.0 reduces the bucket a second time\n"
            "  rank 0, position 2: here first\n");
  EXPECT_EQ(problemsOf("rank 0: F0.0 B0.0 reduce0.1\n", header),
            "rank 0 never reduces bucket 0 of stage 0 (reduce0.0)\n");
  EXPECT_EQ(problemsOf("rank 0: F0.0 B0.0 step0 reduce0.0\n", header),
            "rank 0, position 2: step0 runs before the stage's last gradient reduction\n"
            "  rank 0, position 3: which is here\n");
  Schedule program = parse(std::string(header) + "rank 0: F0.0 B0.0 reduce0.0\n");
  EXPECT_EQ(verifyText(program, {.models = {}, .buckets = {2}}),
            "rank 0 never reduces bucket 1 of stage 0 (reduce0.1)\n");
  EXPECT_EQ(verifyText(program, {.models = {}, .buckets = {0}}),
            "rank 0, position 2: reduce0.0: stage 0 has 0 buckets\n");
}

TEST(Verify, PyTorchIssue172668) {
  for (const char *trace : {issue172668Send, issue172668Swapped}) {
    Schedule program = parse(trace);
    for (CommModel model : {CommModel::gloo(), CommModel::nccl(StreamSharing::Direction)})
      EXPECT_EQ(verifyText(program, {.models = {model}, .buckets = {}}), "");
  }
  EXPECT_EQ(verifyText(parse(issue172668Send),
                       {.models = {CommModel::nccl(StreamSharing::Peer)}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 4: recvF2.0 is queued behind sendF0.1 of rank 0, position 3\n"
            "  rank 0, position 3: sendF0.1 waits for recvF1.1 of rank 1, position 3\n"
            "  rank 1, position 3: recvF1.1 is queued behind sendF1.0 of rank 1, position 2\n"
            "  rank 1, position 2: sendF1.0 waits for recvF2.0 of rank 0, position 4\n");
  EXPECT_EQ(verifyText(parse(issue172668Swapped),
                       {.models = {CommModel::nccl(StreamSharing::Peer)}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 12: recvB2.0 is queued behind sendF0.2 of rank 0, position 11\n"
            "  rank 0, position 11: sendF0.2 waits for recvF1.2 of rank 1, position 13\n"
            "  rank 1, position 13: recvF1.2 is queued behind sendB3.0 of rank 1, position 10\n"
            "  rank 1, position 10: sendB3.0 waits for recvB2.0 of rank 0, position 12\n");
  // The same compute order with our own transfers runs on one stream.
  Schedule repaired = orFail(insertP2P(removeP2P(parse(issue172668Swapped))));
  for (StreamSharing streams : {StreamSharing::World, StreamSharing::Peer}) {
    P2POptions options;
    options.model = CommModel::nccl(streams);
    repaired = orFail(insertP2P(removeP2P(parse(issue172668Swapped)), options));
    EXPECT_EQ(verifyText(repaired, {.models = {options.model}, .buckets = {}}), "");
  }
}

TEST(Verify, SwappedSendsAreWrongDataInOrderAndHarmlessByTag) {
  Schedule program = parse("ranks 2 stages 2 microbatches 2 forward_only\n"
                           "rank 0: F0.0 F0.1 sendF0.1 sendF0.0\n"
                           "rank 1: recvF1.0 F1.0 recvF1.1 F1.1\n");
  EXPECT_EQ(verifyText(program, {.models = {CommModel::gloo()}, .buckets = {}}), "");
  EXPECT_EQ(verifyText(program, {.models = {CommModel::nccl()}, .buckets = {}}),
            "rank 1, position 0: recvF1.0 would receive what sendF0.1 sends: their orders differ\n"
            "  rank 0, position 2: the send is here\n");
}

TEST(Verify, CyclicComputeOrder) {
  // Rank 0 wants a gradient of microbatch 1 before it runs what rank 1 needs for it.
  EXPECT_EQ(problemsOf("rank 0: F0.0 sendF0.0 recvB0.0 B0.0 F0.1 sendF0.1 recvB0.1 B0.1\n"
                       "rank 1: recvF1.0 F1.0 recvF1.1 F1.1 B1.0 sendB1.0 B1.1 sendB1.1\n",
                       "ranks 2 stages 2 microbatches 2\n"),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 3: B0.0 waits for recvB0.0 of rank 0, position 2\n"
            "  rank 0, position 2: recvB0.0 waits for sendB1.0 of rank 1, position 5\n"
            "  rank 1, position 3: F1.1 waits for recvF1.1 of rank 1, position 2\n"
            "  rank 1, position 2: recvF1.1 waits for sendF0.1 of rank 0, position 5\n");
  auto refused = insertP2P(parse("ranks 2 stages 2 microbatches 2\n"
                                 "rank 0: F0.0 B0.0 F0.1 B0.1\n"
                                 "rank 1: F1.0 F1.1 B1.0 B1.1\n"));
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(messageOf(refused.takeError()),
            "the compute schedule cannot progress:\n"
            "  rank 0, position 1: B0.0 waits for the input gradient of stage 1, microbatch 0 "
            "(B1.0 on rank 1, position 2)\n"
            "  rank 1, position 1: F1.1 waits for the output of stage 0, microbatch 1 (F0.1 on "
            "rank 0, position 2)");
}

TEST(Verify, SendSlotsBlock) {
  Schedule program =
      parse("ranks 2 stages 4 microbatches 4 forward_only\n"
            "rank 0: F0.0 sendF0.0 F0.1 sendF0.1 F0.2 sendF0.2 F0.3 sendF0.3\n"
            "        recvF2.0 F2.0 sendF2.0 recvF2.1 F2.1 sendF2.1\n"
            "        recvF2.2 F2.2 sendF2.2 recvF2.3 F2.3 sendF2.3\n"
            "rank 1: recvF1.0 F1.0 sendF1.0 recvF1.1 F1.1 sendF1.1 recvF1.2 F1.2 sendF1.2\n"
            "        recvF1.3 F1.3 sendF1.3 recvF3.0 F3.0 recvF3.1 F3.1 recvF3.2 F3.2\n"
            "        recvF3.3 F3.3\n");
  CommModel model = CommModel::gloo();
  model.sendSlots = 2;
  EXPECT_EQ(verifyText(program, {.models = {model}, .buckets = {}}), "");
  model.sendSlots = 1;
  EXPECT_EQ(verifyText(program, {.models = {model}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 7: sendF0.3 needs a send slot; all 1 are held, one by sendF0.2 of "
            "rank 0, position 5\n"
            "  rank 0, position 5: sendF0.2 waits for recvF1.2 of rank 1, position 6\n"
            "  rank 1, position 5: sendF1.1 needs a send slot; all 1 are held, one by sendF1.0 of "
            "rank 1, position 2\n"
            "  rank 1, position 2: sendF1.0 waits for recvF2.0 of rank 0, position 8\n");
}

TEST(Verify, ReceiveSlotsBlock) {
  CommModel model = CommModel::gloo();
  model.recvSlots = 1;
  EXPECT_EQ(verifyText(parse("ranks 2 stages 2 microbatches 2 forward_only\n"
                             "rank 0: F0.0 sendF0.0 F0.1 sendF0.1\n"
                             "rank 1: recvF1.0 recvF1.1 F1.0 F1.1\n"),
                       {.models = {model}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 1, position 1: recvF1.1 needs a receive slot; 1 of 1 are held until this rank "
            "runs later actions\n");
}

TEST(Verify, CollectivesInDifferentOrders) {
  const char *text = "ranks 2 stages 2 microbatches 1 forward_only\n"
                     "rank 0: F0.0 sendF0.0 collective \"a\"[0 1] collective \"b\"[0 1]\n"
                     "rank 1: recvF1.0 F1.0 collective \"b\"[0 1] collective \"a\"[0 1]\n";
  EXPECT_EQ(verifyText(parse(text), {.models = {CommModel::nccl()}, .buckets = {}}),
            "deadlock: each action waits for the next, the last for the first\n"
            "  rank 0, position 2: collective \"a\"[0 1] waits for rank 1 to enter it at position "
            "3\n"
            "  rank 1, position 2: collective \"b\"[0 1] waits for rank 0 to enter it at position "
            "3\n");
  EXPECT_EQ(verifyText(parse("ranks 2 stages 2 microbatches 1 forward_only\n"
                             "rank 0: F0.0 sendF0.0 collective \"a\"[0 1]\n"
                             "rank 1: recvF1.0 F1.0\n"),
                       {.models = {CommModel::nccl()}, .buckets = {}}),
            "stuck: the last of these actions waits for something that never happens\n"
            "  rank 0, position 2: collective \"a\"[0 1] waits for rank 1, which never enters it "
            "(again)\n");
}
} // namespace
