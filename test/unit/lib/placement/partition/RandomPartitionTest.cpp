//===- RandomPartitionTest.cpp - partitioned programs mean the same ----------===//
//
// Random programs, random placements and meshes of up to 8 ranks, which are threads: what
// --partition makes type-checks, and gives what the program gives on one device.
//
//===----------------------------------------------------------------------===//

#include "test/unit/LoadProgram.h"
#include "test/unit/lib/placement/partition/RandomGraph.h"
#include "test/unit/lib/placement/partition/RandomPlacements.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include "cleave/Session.h"
#include "dialects/aten/Aten.h"
#include "dialects/train/Train.h"
#include "lib/placement/partition/Partition.h"
#include "lib/typing/Check.h"
#include "runtime/ranks/WholeTensors.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// Tensors by file name.
using Results = std::map<std::string, std::vector<char>>;

struct Case {
  unsigned seed = 0;
  std::string global, placed;
  std::unique_ptr<Program> program, local;
  Results expected;
};

} // namespace

/// The program of a seed, partitioned; the local text is empty after a failure.
static void makeLocal(Case &test, const std::vector<int64_t> &mesh, mlir::MLIRContext &context) {
  std::mt19937 random(test.seed);
  test.global = makeGraph(random, mesh);
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream(messages) << diagnostic << "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(test.global, &context);
  ASSERT_TRUE(module) << messages << test.global;
  // Without the mesh, which stands in the first line, one rank runs it.
  test.program = load(test.global.substr(test.global.find('\n')));
  placeAtRandom(*module, random);
  llvm::raw_string_ostream(test.placed) << *module;
  cleave::placement::PartitionSettings settings{.fsdpReshard = bool(pick(random, 2)),
                                                .prefetch = 0};
  ASSERT_TRUE(succeeded(cleave::placement::partition(*module, settings)))
      << messages << test.placed;
  ASSERT_TRUE(succeeded(mlir::verify(*module)) &&
              succeeded(cleave::placement::checkSpmdTypes(*module)))
      << messages << test.placed;
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  test.local = load(text);
  ASSERT_TRUE(test.local) << text;
}

/// Numbers that depend on `salt`; indices are small.
static void fill(std::vector<char> &bytes, DType dtype, unsigned salt) {
  std::mt19937 random(salt);
  for (size_t i = 0; i < bytes.size() / 8; ++i) {
    unsigned drawn = random();
    if (dtype == DType::I64)
      reinterpret_cast<int64_t *>(bytes.data())[i] = drawn % 24;
    else
      reinterpret_cast<double *>(bytes.data())[i] = (int(drawn % 257) - 128) / 128.0;
  }
}

/// Evaluates the program on the ranks of `communicator` (null: on one) and returns whole tensors.
static llvm::Expected<Results> evaluate(const Program &program, Communicator *communicator) {
  SessionOptions options;
  options.communicator = communicator;
  options.seed = 7;
  auto session = Session::create(program, options);
  if (!session)
    return session.takeError();
  RankGrid &grid = (*session)->grid();
  for (auto [index, value] : llvm::enumerate(program.inputs())) {
    auto input = (*session)->input(value.name);
    if (!input)
      return input.takeError();
    TensorType whole = wholeType(value, grid);
    std::vector<char> bytes(whole.numBytes());
    fill(bytes, whole.dtype, 100 + index);
    readPart(value, {whole, bytes.data()}, grid, *input);
  }
  if (llvm::Error error = (*session)->runMicrobatch(1, 0))
    return error;
  Results results;
  for (const ValueInfo &value : program.outcomes()) {
    auto part = (*session)->result(value.fileName);
    if (!part)
      return part.takeError();
    auto whole = assemble(value, *part, grid);
    if (!whole)
      return whole.takeError();
    results[value.fileName] = whole->bytes;
  }
  return results;
}

static std::string compare(const Results &found, const Results &expected) {
  if (found.size() != expected.size())
    return "another number of results";
  for (const auto &[name, bytes] : expected) {
    auto it = found.find(name);
    if (it == found.end() || it->second.size() != bytes.size())
      return name + " is missing or of another size";
    auto *a = reinterpret_cast<const double *>(it->second.data());
    auto *b = reinterpret_cast<const double *>(bytes.data());
    double largest = 1e-3;
    for (size_t i = 0; i < bytes.size() / 8; ++i)
      largest = std::max(largest, std::abs(b[i]));
    for (size_t i = 0; i < bytes.size() / 8; ++i)
      if (!(std::abs(a[i] - b[i]) <= 1e-9 * largest))
        return llvm::formatv("{0}[{1}] is {2}, expected {3}", name, i, a[i], b[i]);
  }
  return "";
}

TEST(RandomPartition, MeansTheSameAsOneDevice) {
  unsigned seed = std::random_device()();
  if (const char *text = std::getenv("CLEAVE_TEST_SEED"))
    seed = unsigned(std::strtoul(text, nullptr, 10));
  std::printf("seed %u (CLEAVE_TEST_SEED repeats it)\n", seed);
  mlir::DialectRegistry registry;
  registry.insert<cleave::aten::AtenDialect, cleave::dist::DistDialect, cleave::train::TrainDialect,
                  mlir::func::FuncDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  struct Mesh {
    std::vector<int64_t> sizes;
    int cases;
  };
  const Mesh meshes[] = {{{2}, 180},   {{4}, 60}, {{3}, 40},    {{2, 2}, 140},
                         {{2, 3}, 20}, {{8}, 10}, {{2, 4}, 25}, {{2, 2, 2}, 25}};
  unsigned number = 0;
  for (const Mesh &mesh : meshes) {
    std::vector<Case> cases(mesh.cases);
    int ranks = 1;
    for (int64_t size : mesh.sizes)
      ranks *= size;
    for (Case &test : cases) {
      test.seed = seed + number++;
      SCOPED_TRACE("seed " + std::to_string(test.seed));
      makeLocal(test, mesh.sizes, context);
      if (HasFatalFailure())
        return;
      auto expected = evaluate(*test.program, nullptr);
      ASSERT_TRUE(bool(expected)) << llvm::toString(expected.takeError()) << test.global;
      test.expected = *expected;
    }
    std::vector<std::string> problems(ranks);
    for (const test::Outcome &outcome : test::runThreadRanks(
             ranks, std::chrono::seconds(60), [&](Communicator &communicator) -> llvm::Error {
               for (const Case &test : cases) {
                 auto found = evaluate(*test.local, &communicator);
                 if (!found)
                   return llvm::joinErrors(
                       llvm::createStringError("seed " + std::to_string(test.seed)),
                       found.takeError());
                 std::string problem = compare(*found, test.expected);
                 std::string &first = problems[communicator.rank()];
                 if (!problem.empty() && first.empty())
                   first =
                       "seed " + std::to_string(test.seed) + ": " + problem + "\n" + test.placed;
               }
               return communicator.finish();
             }))
      ASSERT_FALSE(outcome.failed) << outcome.message;
    for (const std::string &problem : problems)
      ASSERT_EQ(problem, "");
  }
}
