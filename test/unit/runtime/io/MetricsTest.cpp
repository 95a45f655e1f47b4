//===- MetricsTest.cpp - metrics, event files, traces, progress -----------===//

#include "runtime/io/Metrics.h"
#include "runtime/io/Crc32c.h"
#include "runtime/io/Progress.h"
#include "runtime/io/Trace.h"
#include "test/unit/runtime/io/TemporaryDirectory.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace cleave::runtime;

namespace {

StepMetrics metricsOf(int64_t step, double loss) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.tokensPerSecond = 1234.56;
  metrics.milliseconds = 7.25;
  return metrics;
}

std::unique_ptr<MetricsFile> begin(const std::string &path, int64_t completedSteps) {
  auto file = llvm::cantFail(MetricsFile::open(path));
  llvm::cantFail(file->begin(completedSteps));
  return file;
}

TEST(Crc32c, KnownAnswers) {
  // RFC 3720, appendix B.4.
  std::vector<uint8_t> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  EXPECT_EQ(crc32c(llvm::arrayRefFromStringRef("123456789")), 0xe3069283u);
}

TEST(MetricsFile, WritesLossesThatReadBackExactly) {
  TemporaryDirectory directory;
  std::string path = directory / "m.jsonl";
  double loss = double(0.1f) * 1e-9;
  {
    auto file = begin(path, 0);
    llvm::cantFail(file->write(metricsOf(1, loss)));
    llvm::cantFail(file->write(metricsOf(2, std::nan(""))));
  }
  std::istringstream lines(readFile(path));
  std::string line;
  std::getline(lines, line);
  auto value = llvm::cantFail(llvm::json::parse(line));
  EXPECT_EQ(value.getAsObject()->getInteger("step"), 1);
  EXPECT_EQ(value.getAsObject()->getNumber("loss"), loss);
  EXPECT_EQ(value.getAsObject()->getNumber("tokens_per_s"), 1234.6);
  EXPECT_EQ(value.getAsObject()->getNumber("ms"), 7.25);
  std::getline(lines, line);
  auto second = llvm::cantFail(llvm::json::parse(line));
  EXPECT_EQ(second.getAsObject()->get("loss")->kind(), llvm::json::Value::Null) << line;
}

TEST(MetricsFile, ResumedRunDropsStepsThatRunAgain) {
  TemporaryDirectory directory;
  std::string path = directory / "m.jsonl";
  {
    auto file = begin(path, 0);
    for (int step = 1; step <= 5; ++step)
      llvm::cantFail(file->write(metricsOf(step, step)));
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"lo"; // killed here
  llvm::cantFail(begin(path, 3)->write(metricsOf(4, 40)));
  std::string text = readFile(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_NE(text.find("{\"step\": 4, \"loss\": 40,"), std::string::npos);
  // A new run starts an empty file.
  llvm::cantFail(begin(path, 0)->write(metricsOf(1, 1)));
  EXPECT_EQ(readFile(path).find("\"step\": 2"), std::string::npos);
}

TEST(MetricsFile, NothingChangesBeforeTheRunBegins) {
  TemporaryDirectory directory;
  std::string path = directory.write("m.jsonl", "old\n");
  llvm::cantFail(MetricsFile::open(path));
  EXPECT_EQ(readFile(path), "old\n");
  llvm::cantFail(MetricsFile::open(directory / "new.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(directory / "new.jsonl"));
}

TEST(MetricsFile, RatesAndNormWhereTheyAreKnown) {
  TemporaryDirectory directory;
  std::string path = directory / "m.jsonl";
  {
    auto file = begin(path, 0);
    StepMetrics metrics = metricsOf(1, 1);
    metrics.learningRates = {0.1};
    llvm::cantFail(file->write(metrics));
    metrics.learningRates = {0.001, 0.002};
    metrics.gradientNorm = 0.25;
    llvm::cantFail(file->write(metrics));
  }
  std::string text = readFile(path);
  EXPECT_NE(text.find("\"ms\": 7.25, \"lr\": 0.1}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\"lr\": [0.001, 0.002], \"gradient_norm\": 0.25}\n"), std::string::npos)
      << text;
}

TEST(MetricsFile, LinksAreFollowedAlsoByAResumedRun) {
  TemporaryDirectory directory;
  std::string path = directory.write("real", "{\"step\": 1}\n{\"step\": 2}\n");
  std::filesystem::create_symlink("real", directory / "link");
  llvm::cantFail(begin(directory / "link", 1)->write(metricsOf(2, 1)));
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  std::string text = readFile(path);
  EXPECT_EQ(text.find("{\"step\": 1}\n{\"step\": 2, \"loss\": 1,"), 0u) << text;
}

TEST(MetricsFile, UnwritablePathIsAnError) {
  TemporaryDirectory directory;
  auto file = MetricsFile::open(directory / "none/m.jsonl");
  ASSERT_FALSE(bool(file));
  EXPECT_NE(llvm::toString(file.takeError()).find("cannot write: No such file"), std::string::npos);
  auto events = EventWriter::open(directory.write("file", "x"));
  ASSERT_FALSE(bool(events));
  llvm::consumeError(events.takeError());
}

TEST(Trace, PartsMergeIntoOneJsonFile) {
  TemporaryDirectory directory;
  std::vector<std::string> parts = {directory / "t.0", directory / "t.1"};
  for (auto [rank, path] : llvm::enumerate(parts)) {
    auto trace = llvm::cantFail(TraceWriter::open(path, rank, wallTime(0)));
    int64_t now = 2'000'001;
    trace->nameTrack(0, "ops");
    trace->slice("aten.mm", "op", "gpt.py:57 \"c_attn\"", now, now + 1500);
    llvm::cantFail(trace->close());
  }
  auto joined = llvm::cantFail(OutputFile::open(directory / "t.json"));
  llvm::cantFail(mergeTraces(parts, *joined));
  auto value = llvm::cantFail(llvm::json::parse(readFile(directory / "t.json")));
  const llvm::json::Array &events = *value.getAsObject()->getArray("traceEvents");
  ASSERT_EQ(events.size(), 6u);
  const llvm::json::Object &slice = *events[5].getAsObject();
  EXPECT_EQ(slice.getString("ph"), "X");
  EXPECT_EQ(slice.getString("name"), "aten.mm");
  EXPECT_EQ(slice.getInteger("pid"), 1);
  EXPECT_EQ(slice.getNumber("ts"), 2000.001);
  EXPECT_EQ(slice.getNumber("dur"), 1.5);
  EXPECT_EQ(slice.getObject("args")->getString("location"), "gpt.py:57 \"c_attn\"");
  EXPECT_FALSE(std::filesystem::exists(parts[0]));
}

TEST(Progress, LineHasLossSpeedAndTimeLeft) {
  EXPECT_EQ(Progress::format(metricsOf(20, 3.14159), 100, 0.5),
            "step 20/100  loss 3.1416  1,235 tokens/s  ETA 0:40");
  EXPECT_EQ(Progress::format(metricsOf(0, 1), 7384, 0.5),
            "step 0/7384  loss 1.0000  1,235 tokens/s  ETA 1:01:32");
}

TEST(Progress, LineHasWhatIsKnown) {
  StepMetrics metrics = metricsOf(1, 1);
  metrics.learningRates = {3e-4, 1e-3};
  metrics.gradientNorm = 12.3456;
  EXPECT_EQ(Progress::format(metrics, 1, 1),
            "step 1/1  loss 1.0000  lr 0.0003, 0.001  norm 12.3  1,235 tokens/s  ETA 0:00");
  metrics.tensorBytes = int64_t(3) << 29;
  EXPECT_EQ(Progress::format(metrics, 1, 1),
            "step 1/1  loss 1.0000  lr 0.0003, 0.001  norm 12.3  memory 1.5 GiB  1,235 tokens/s  "
            "ETA 0:00");
  metrics = metricsOf(1, 1);
  metrics.tensorBytes = 1001 << 10;
  EXPECT_EQ(Progress::format(metrics, 1, 1),
            "step 1/1  loss 1.0000  memory 1.0 MiB  1,235 tokens/s  ETA 0:00");
}

TEST(Progress, LineIsCutToTheTerminal) {
  EXPECT_EQ(Progress::cut("step 1/100  loss", 10), "step 1/10");
  EXPECT_EQ(Progress::cut("step 1/100  loss", 17), "step 1/100  loss");
  EXPECT_EQ(Progress::cut("step", 0), "step"); // a terminal that does not say
}

TEST(Progress, LossThatIsNotFiniteHasItsName) {
  EXPECT_EQ(Progress::format(metricsOf(1, -std::nan("")), 1, 1),
            "step 1/1  loss nan  1,235 tokens/s  ETA 0:00");
}

TEST(Progress, TerminalLineIsRewrittenAndFileGetsFirstAndLast) {
  for (bool isTerminal : {true, false}) {
    char *text = nullptr;
    size_t size = 0;
    std::FILE *stream = ::open_memstream(&text, &size);
    {
      Progress progress(stream, isTerminal, 3);
      for (int step = 1; step <= 3; ++step)
        progress.update(metricsOf(step, 1));
    }
    std::fclose(stream);
    std::string found(text, size);
    ::free(text);
    // The terminal's line is ended on the terminal itself.
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), isTerminal ? 0 : 2) << found;
    EXPECT_EQ(std::count(found.begin(), found.end(), '\r'), isTerminal ? 3 : 0) << found;
  }
}

} // namespace
