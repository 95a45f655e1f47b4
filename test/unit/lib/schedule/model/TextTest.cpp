// The text form and torch's CSV: round trips, and what each error says.
#include "lib/schedule/model/ParseError.h"
#include "test/unit/lib/schedule/TestUtils.h"

#include <random>

using namespace cleave::schedule;

namespace {
std::string print(const Schedule &program) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printText(program, os);
  return text;
}
std::string csv(const Schedule &program, CsvOptions options = {}) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = printCsv(program, os, options))
    return "error: " + messageOf(std::move(error));
  return text;
}
std::string textError(llvm::StringRef text) {
  auto program = parseText(text, "f.sched");
  return program ? "accepted" : messageOf(program.takeError());
}
std::string csvError(llvm::StringRef text) {
  auto program = parseCsv(text, "f.csv");
  return program ? "accepted" : messageOf(program.takeError());
}

ParseError errorOf(llvm::Expected<Schedule> program) {
  ParseError found("accepted", "");
  llvm::handleAllErrors(program.takeError(), [&](const ParseError &error) { found = error; });
  return found;
}

TEST(Text, PrintsWhatTheDocumentationShows) {
  Schedule program = orFail(insertP2P(orFail(buildSchedule("1f1b", {2, 2}))));
  EXPECT_EQ(print(program), "schedule \"1f1b\"\n"
                            "ranks 2\n"
                            "stages 2\n"
                            "microbatches 2\n"
                            "topology loop\n"
                            "rank 0: recvB0.0 recvB0.1 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 B0.1\n"
                            "rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1\n");
}

TEST(Text, EveryKindOfActionSurvivesTheRoundTrip) {
  const char *text = "schedule \"all kinds\"\n"
                     "ranks 2\n"
                     "stages 3\n"
                     "microbatches 2\n"
                     "topology [0 1 1]\n"
                     "rank 0: unshard0 F0.0 sendF0.0 {F0.1 sendF0.1} recvB0.0 I0.0 W0.0 B0.1\n"
                     "    reshard0 reduce0.3 step0 call \"log\" call \"log\"(0) call \"log\"(0.1)\n"
                     "    collective \"tied\"[0 1]\n"
                     "rank 1: {recvF1.0 recvF1.1} F1.0 collective \"tied\"[0 1] sendB1.0\n";
  Schedule program = parse(text);
  Schedule again = parse(print(program));
  EXPECT_TRUE(sameActions(program, again));
  EXPECT_EQ(print(program), print(again));
  EXPECT_EQ(again.topology.style(), TopologyStyle::Custom);
  EXPECT_EQ(again.customTable().size(), 3u);
}

TEST(Text, RoundTripOfEveryBuilder) {
  for (const ScheduleBuilder *builder : ScheduleRegistry::global().all())
    for (unsigned microbatches : {3u, 8u, 16u}) {
      BuildRequest request{builder->name() == "offline" ? 1u : 4u, microbatches};
      auto built = builder->build(request);
      if (!built) {
        llvm::consumeError(built.takeError());
        continue;
      }
      Schedule program = orFail(insertP2P(*built));
      SCOPED_TRACE(builder->name().str());
      Schedule again = parse(print(program));
      EXPECT_TRUE(sameActions(program, again));
      Schedule fromCsv = orFail(parseCsv(csv(program), "csv"));
      EXPECT_TRUE(sameActions(program, fromCsv));
      Schedule compute = orFail(parseCsv(csv(program, {.computeOnly = true}), "csv"));
      EXPECT_TRUE(sameActions(*built, compute));
      EXPECT_TRUE(sameActions(*built, removeP2P(program)));
    }
}

TEST(Text, CommentsAndLayoutAreFree) {
  EXPECT_TRUE(sameActions(
      parse("ranks 1 stages 1 microbatches 1 rank 0: F0.0 B0.0"),
      parse(
          "# by hand\nmicrobatches 1\nstages 1 # one\n\nranks 1\nrank 0:\n  F0.0\n  B0.0 # end")));
}

TEST(Text, Errors) {
  const std::string header = "ranks 2 stages 2 microbatches 2\n";
  EXPECT_EQ(textError(""), "f.sched:1:1: the header has no 'ranks'");
  EXPECT_EQ(textError("ranks 2 stages 2\nrank 0:"),
            "f.sched:2:1: the header has no 'microbatches'");
  EXPECT_EQ(textError("ranks 0"), "f.sched:1:1: 'ranks' must be between 1 and 65536, found 0");
  EXPECT_EQ(textError("ranks 2 ranks 2"), "f.sched:1:9: 'ranks' is given twice");
  EXPECT_EQ(textError("ranks two"), "f.sched:1:7: expected a number, found 'two'");
  EXPECT_EQ(textError("ranks 99999999999"),
            "f.sched:1:7: expected a number, found 99999999999, which is too large");
  EXPECT_EQ(textError("stagez 2"),
            "f.sched:1:1: expected 'schedule', 'ranks', 'stages', 'microbatches', 'topology', "
            "'forward_only' or 'rank', found 'stagez'");
  EXPECT_EQ(
      textError("ranks 2 stages 3 microbatches 1 topology v\nrank 0:"),
      "f.sched:1:33: a v topology needs a multiple of the 2 ranks as the number of stages, found "
      "3");
  EXPECT_EQ(textError("ranks 3 stages 2 microbatches 1 topology loop\nrank 0:"),
            "f.sched:1:33: a loop topology needs a stage for each of the 3 ranks, found 2");
  EXPECT_EQ(textError("ranks 2 stages 3 microbatches 1 topology [0 1]\nrank 0:"),
            "f.sched:1:33: the topology places 2 stages, but there are 3");
  EXPECT_EQ(textError("ranks 2 stages 2 microbatches 1 topology [0 2]\nrank 0:"),
            "f.sched:1:33: stage 1 is placed on rank 2, but there are 2 ranks");
  EXPECT_EQ(textError("ranks 2 stages 2 microbatches 1 topology [0 0]\nrank 0:"),
            "f.sched:1:33: rank 1 holds no stage: 2 stages on 2 ranks");
  EXPECT_EQ(textError("ranks 2 stages 2 microbatches 1 topology ring\nrank 0:"),
            "f.sched:1:42: expected 'loop', 'v' or '[' and the rank of each stage, found 'ring'");
  EXPECT_EQ(textError("schedule \"x\nranks 1"),
            "f.sched:1:10: this string has no closing '\"' on its line");
  EXPECT_EQ(textError(header + "rank 2:"),
            "f.sched:2:1: rank 2 is out of range: there are 2 ranks");
  EXPECT_EQ(textError(header + "rank 0:\nrank 0:"), "f.sched:3:1: rank 0 has a list already");
  EXPECT_EQ(textError(header + "rank 0: F0.0"),
            "f.sched:2:13: expected the list of rank 1, found the end of the file");
  EXPECT_EQ(textError(header + "rank 0 F0.0"),
            "f.sched:2:8: expected ':' after the rank, found 'F0.0'");
  EXPECT_EQ(textError(header + "rank 0: F0.0 G0.1"),
            "f.sched:2:14: expected an action (F, B, I, W, sendF, recvF, sendB, recvB, unshard, "
            "reshard, reduce, step, call, collective, '{'), found 'G0.1'");
  EXPECT_EQ(textError(header + "rank 0: F2.0"),
            "f.sched:2:9: stage 2 is out of range: there are 2 stages");
  EXPECT_EQ(textError(header + "rank 0:\n  F0.2"),
            "f.sched:3:3: microbatch 2 is out of range: there are 2 microbatches");
  EXPECT_EQ(textError(header + "rank 0: F0"),
            "f.sched:2:11: expected '.' and a microbatch, found the end of the file");
  EXPECT_EQ(textError(header + "rank 0: F.0"), "f.sched:2:10: expected a stage, found '.0'");
  EXPECT_EQ(textError(header + "rank 0: {F0.0 {B0.0}}"), "f.sched:2:15: groups do not nest");
  EXPECT_EQ(textError(header + "rank 0: {F0.0 rank 1:"),
            "f.sched:2:9: this group has no closing brace");
  EXPECT_EQ(textError(header + "rank 0: {}"), "f.sched:2:9: a group needs at least one action");
  EXPECT_EQ(textError(header + "rank 0: call log"),
            "f.sched:2:14: expected the function's name in quotes, found 'log'");
  EXPECT_EQ(textError(header + "rank 0: collective \"x\"[5]\nrank 1:"),
            "f.sched: rank 0, position 0: is entered by a rank that it does not list");
  EXPECT_EQ(textError(header + "rank 0: reduce0.65536"),
            "f.sched:2:9: bucket 65536 is out of range: at most 65536 buckets");
  EXPECT_EQ(textError("ranks 1 stages 1 microbatches 16777216 rank 0: F0.0"),
            "f.sched: 1 stages with 16777216 microbatches need at least 16777216 actions, found 1");
  EXPECT_EQ(textError(header + "rank 0: F1.0\nrank 1:"),
            "f.sched: rank 0, position 0: F1.0: stage 1 is on rank 1 in this topology (loop)");
}

TEST(Text, ErrorsHaveAPlace) {
  ParseError error =
      errorOf(parseText("ranks 2 stages 2 microbatches 1\nrank 0: F0.0\n  B0.0 # last\n"
                        "rank 1: {F1.0 B1.0} W1.0 F1.7\n"));
  EXPECT_EQ(error.text(), "microbatch 7 is out of range: there are 1 microbatches");
  EXPECT_EQ(error.line(), 4u);
  EXPECT_EQ(error.column(), 26u);
  EXPECT_EQ(error.offset(), 84u);
  EXPECT_EQ(error.place()->rank, 1u);
  EXPECT_EQ(error.place()->position, 2u);

  error = errorOf(parseCsv("0F0\n1F0, 1X0"));
  EXPECT_EQ(error.offset(), 9u);
  EXPECT_EQ(error.place()->rank, 1u);
  EXPECT_EQ(error.place()->position, 1u);

  // An error of the whole has no line.
  error = errorOf(parseText("ranks 2 stages 2 microbatches 1 rank 0: F1.0 rank 1:", "f"));
  EXPECT_EQ(error.line(), 0u);
  EXPECT_EQ(error.message(), "f: rank 0, position 0: F1.0: stage 1 is on rank 1 in this "
                             "topology (loop)");
}

// Lists are stored as text: what the strict reader takes is what is printed, to the letter.
TEST(Text, StoredListsAreCanonical) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Schedule program = parse(
      "ranks 2 stages 3 microbatches 12 topology [0 1 1]\n"
      "rank 0: unshard0 F0.0 sendF0.10 {F0.1 recvB0.1} I0.0 W0.0 reduce0.3 step0 call \"a b\"\n"
      "  call \"log\"(0) call \"log\"(0.11) collective \"tied\"[0 1] {call \"x\"}\n"
      "rank 1: collective \"tied\"[0 1]\n");
  const std::string list = printList(program, 0);
  const char alphabet[] = "0012.{}[]()\"FBIWsendrecv # \\\t ";
  unsigned accepted = 0;
  for (unsigned round = 0; round < 20000; ++round) {
    std::string damaged = list;
    for (unsigned i = random() % 3; i-- > 0;) {
      size_t at = random() % damaged.size();
      if (random() % 2)
        damaged[at] = alphabet[random() % (sizeof(alphabet) - 1)];
      else
        damaged.insert(at, 1, alphabet[random() % (sizeof(alphabet) - 1)]);
    }
    Schedule read;
    read.topology = program.topology;
    read.numMicrobatches = program.numMicrobatches;
    read.ranks.resize(2);
    if (llvm::Error error = parseList(damaged, 0, read, {})) {
      EXPECT_NE(damaged, list) << messageOf(std::move(error));
      llvm::consumeError(std::move(error));
      continue;
    }
    ++accepted;
    EXPECT_EQ(printList(read, 0), damaged);
  }
  EXPECT_GT(accepted, 5000u);
}

TEST(Text, Csv) {
  EXPECT_EQ(csv(parse("ranks 2 stages 2 microbatches 2\n"
                      "rank 0: unshard0 F0.0 sendF0.0 recvB0.0 I0.0 W0.0 reshard0 reduce0.0\n"
                      "rank 1: recvF1.0 {F1.0 B1.1} sendB1.0\n")),
            "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0RESHARD,0REDUCE_GRAD\n"
            "1RECV_F0,(1F0;1B1)OVERLAP_F_B,1SEND_B0\n");
  // torch writes bubbles as empty cells.
  Schedule program = orFail(parseCsv("0F0,,0F1,,,0B0,0B1\r\n,1F0,1B0,1F1,1B1,\r\n"));
  EXPECT_EQ(program.ranks[0].size(), 4u);
  EXPECT_EQ(program.numMicrobatches, 2u);
  // torch reduces all of a stage's gradients at once, and leaves steps to its user.
  EXPECT_EQ(csv(parse("ranks 1 stages 2 microbatches 1 topology [0 0] rank 0: F0.0 F1.0 B1.0 "
                      "reduce1.0 B0.0 reduce0.0 reduce0.1 reduce1.1 step0 step1")),
            "0F0,1F0,1B0,0B0,0REDUCE_GRAD,1REDUCE_GRAD\n");
  EXPECT_EQ(csv(parse("ranks 1 stages 1 microbatches 1 rank 0: step0 F0.0")),
            "error: rank 0, position 0: step0 cannot be written as CSV: PyTorch's format has no "
            "such action");
  EXPECT_EQ(csv(parse("ranks 2 stages 2 microbatches 1 rank 0: {F0.0 sendF0.0} rank 1:")),
            "error: rank 0, position 0: {F0.0 sendF0.0} cannot be written as CSV: torch's groups "
            "hold compute actions only");
}

TEST(Text, CsvErrors) {
  EXPECT_EQ(csvError(""), "f.csv: the file has no rows: expected one row per rank");
  EXPECT_EQ(csvError("0F0,F1"),
            "f.csv:1:5: expected [stage][action][microbatch], as in 2F0, found 'F1'");
  EXPECT_EQ(csvError("0F0\n1F0, 1X0"),
            "f.csv:2:6: expected F, I, B, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD or "
            "REDUCE_GRAD after the stage, found '1X0'");
  EXPECT_EQ(csvError("0F"), "f.csv:1:1: expected a microbatch after F, found '0F'");
  EXPECT_EQ(csvError("0UNSHARD1"), "f.csv:1:1: expected nothing after UNSHARD, found '0UNSHARD1'");
  EXPECT_EQ(csvError("0F0\n0F1"), "f.csv:2:1: stage 0 is on rank 0 already, and here on rank 1");
  EXPECT_EQ(csvError("0F0\n2F0"), "f.csv: stage 1 occurs on no rank, but stage 2 does");
  EXPECT_EQ(csvError("(0F0;0B1"), "f.csv:1:1: expected ')' in '(0F0;0B1'");
  EXPECT_EQ(csvError("(0F0;0B1)BATCH"),
            "f.csv:1:10: expected 'OVERLAP_F_B' after the group, found 'BATCH'");
  EXPECT_EQ(csvError("(0F0;0Q1)OVERLAP_F_B").substr(0, 11), "f.csv:1:6: ");
  EXPECT_EQ(csvError("0F99999999"),
            "f.csv:1:1: microbatch 99999999 is out of range: at most 16777216 microbatches");
  EXPECT_EQ(csvError("99999F0"), "f.csv:1:1: stage 99999 is out of range: at most 65536 stages");
  EXPECT_EQ(csvError("0UNSHARD"), "f.csv: the schedule has no microbatches");
  EXPECT_EQ(csvError("0F0\n\n"), "f.csv: rank 1 holds no stage: 1 stages on 2 ranks");
}

// Whatever the bytes: an error or a program, never a crash.
TEST(Text, DamagedFilesAreRefusedOrRead) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::string text = print(orFail(insertP2P(orFail(buildSchedule("dualpipev", {2, 5})))));
  std::string sheet = csv(parse(text));
  const char alphabet[] = "0123456789.{}[]():;,\"FBIWsendrecv #\n\t\0_";
  for (unsigned round = 0; round < 4000; ++round) {
    std::string damaged = round % 2 ? text : sheet;
    for (unsigned i = 1 + random() % 4; i-- > 0;)
      damaged[random() % damaged.size()] = alphabet[random() % (sizeof(alphabet) - 1)];
    auto program = round % 2 ? parseText(damaged) : parseCsv(damaged);
    if (program)
      verify(*program);
    else
      EXPECT_FALSE(messageOf(program.takeError()).empty());
  }
}
} // namespace
