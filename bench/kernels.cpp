//===- kernels.cpp - compiled kernels against the ATen calls that they replace ------===//
//
// For each compiled kernel of a module: runs its code, and the ops of its body one after another,
// on the same inputs. Operators write into memory that is there before, as far as ATen can: where
// an operator has no `out` overload that does, it allocates from the runtime's caching allocator.
// Rounds of both alternate. Prints a line of JSON for each kernel.
//
//   kernel-times MODULE TARGET THREADS ROUNDS
//
// Beside them it copies as many bytes as the kernel reads and writes, half of them read: what
// memory allows.
//
// With ROUNDS 0, under callgrind, instructions are counted instead: one run of each side, dumped
// under the names KERNEL:compiled and KERNEL:aten.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "dialects/Register.h"
#include "dialects/aten/Aten.h"
#include "lib/support/Buffer.h"
#include "runtime/aten/Operator.h"
#include "runtime/aten/OutVariant.h"
#include "runtime/kernels/CpuKernels.h"
#include "runtime/program/ProgramImpl.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"

#include <ctime>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

using namespace cleave;
using namespace cleave::runtime;

static llvm::ExitOnError check("kernel-times: ");

/// An operator with all its arguments.
struct Call {
  c10::OperatorHandle handle;
  std::vector<c10::IValue> arguments;
};

/// The ops of a kernel's body on given inputs.
class Ops {
public:
  Ops(exec::KernelOp kernel, llvm::ArrayRef<at::Tensor> inputs) {
    for (auto [argument, tensor] : llvm::zip(kernel.getBody().getArguments(), inputs))
      values[argument] = tensor;
    for (mlir::Operation &op : kernel.getBody().front().without_terminator())
      add(&op);
    for (mlir::Value result : kernel.getBody().front().getTerminator()->getOperands())
      results.push_back(values.lookup(result));
  }

  void run() {
    for (Call &call : calls) {
      stack = call.arguments;
      call.handle.callBoxed(stack);
    }
    stack.clear();
  }

  std::vector<at::Tensor> results;
  /// Ops that are not views, and how many of them write where they are told.
  unsigned numOps() const { return calls.size(); }
  unsigned numInPlace = 0;

private:
  c10::IValue argumentOf(const c10::Argument &declared, const aten::Argument *given) {
    if (!given)
      return check(defaultIValue(declared));
    if (given->kind == 'A')
      return check(toIValue(given->attribute, declared));
    if (given->kind == 'L') {
      c10::List<at::Tensor> tensors;
      for (mlir::Value element : given->values)
        tensors.push_back(values.lookup(element));
      return tensors;
    }
    return given->values.empty() ? c10::IValue() : values.lookup(given->values.front());
  }

  void add(mlir::Operation *op) {
    auto aten = mlir::cast<aten::AtenOpInterface>(op);
    c10::OperatorHandle handle = check(findOperator(aten.getSchemaName()));
    auto given = aten.getArguments();
    std::vector<c10::IValue> arguments;
    for (const c10::Argument &declared : handle.schema().arguments()) {
      auto *found = llvm::find_if(
          given, [&](const aten::Argument &argument) { return argument.name == declared.name(); });
      arguments.push_back(argumentOf(declared, found == given.end() ? nullptr : &*found));
    }
    std::vector<c10::IValue> made = arguments;
    handle.callBoxed(made);
    bool isView = false;
    for (const c10::IValue &input : arguments)
      isView |= input.isTensor() && made.front().toTensor().is_alias_of(input.toTensor());
    for (auto [result, value] : llvm::zip(op->getResults(), made))
      values[result] = value.toTensor();
    if (isView)
      return;
    OutVariant out = findOutVariant(handle);
    if (out.kind == OutVariantKind::Real) {
      arguments.insert(arguments.end(), made.begin(), made.end());
      calls.push_back({*out.handle, std::move(arguments)});
      ++numInPlace;
    } else {
      calls.push_back({handle, std::move(arguments)});
    }
  }

  llvm::DenseMap<mlir::Value, at::Tensor> values;
  std::vector<Call> calls;
  std::vector<c10::IValue> stack;
};

/// Numbers that every kernel takes: classes of the first matrix' columns, and floating-point ones
/// of which those for each row are positive, as scales are.
static std::vector<at::Tensor> makeInputs(exec::KernelOp kernel) {
  int64_t classes = 1;
  for (mlir::Type type : kernel.getArgumentTypes())
    if (auto tensor = mlir::cast<mlir::RankedTensorType>(type); tensor.getRank() > 1)
      classes = std::max(classes, tensor.getShape().back());
  std::vector<at::Tensor> inputs;
  for (mlir::Type type : kernel.getArgumentTypes()) {
    auto tensor = mlir::cast<mlir::RankedTensorType>(type);
    at::ScalarType element = toScalarType(toDType(tensor.getElementType()));
    if (!at::isFloatingType(element))
      inputs.push_back(at::randint(classes, tensor.getShape()).to(element));
    else if (tensor.getRank() == 0 || tensor.getShape().back() == 1)
      inputs.push_back(at::rand(tensor.getShape()).add(0.5).to(element));
    else
      inputs.push_back(at::randn(tensor.getShape()).to(element));
  }
  return inputs;
}

/// Of this thread alone, if it is the only one that works: then what else runs on the machine
/// counts only by what it does to caches.
static double now() {
  timespec time;
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e3 * time.tv_sec + 1e-6 * time.tv_nsec;
}

template <typename Body> static double milliseconds(Body body) {
  double start = now();
  body();
  return now() - start;
}

/// Largest |a - b| / max(max|b|, tiny) over the results.
static double compare(llvm::ArrayRef<at::Tensor> ours, llvm::ArrayRef<at::Tensor> theirs) {
  double worst = 0;
  for (auto [a, b] : llvm::zip(ours, theirs)) {
    at::Tensor expected = b.to(at::kDouble);
    double scale = std::max(expected.abs().max().item<double>(), 1e-30);
    worst = std::max(worst, (a.to(at::kDouble) - expected).abs().max().item<double>() / scale);
  }
  return worst;
}

static void measure(exec::KernelOp kernel, CpuKernels &source, int rounds) {
  std::unique_ptr<CompiledKernel> code = check(source.find(kernel));
  std::string name = kernel.getSymName().str();
  if (!code) {
    llvm::outs() << llvm::formatv("{0}\n", llvm::json::Value(llvm::json::Object{{"kernel", name}}));
    return;
  }
  std::vector<at::Tensor> inputs = makeInputs(kernel);
  Ops ops(kernel, inputs);
  std::vector<at::Tensor> made;
  std::vector<void *> pointers;
  int64_t bytes = 0;
  for (at::Tensor &input : inputs) {
    pointers.push_back(input.data_ptr());
    bytes += input.nbytes();
  }
  for (at::Tensor &result : ops.results) {
    made.push_back(at::empty_like(result, at::MemoryFormat::Contiguous));
    pointers.push_back(made.back().data_ptr());
    bytes += result.nbytes();
  }
  auto compiled = [&] { code->launch(pointers.data()); };
  auto separate = [&] { ops.run(); };
  compiled();
  separate();
  if (rounds == 0) {
    auto count = [&](const char *side, auto body) {
      std::string label = name + ":" + side;
      CALLGRIND_START_INSTRUMENTATION;
      CALLGRIND_ZERO_STATS;
      body();
      CALLGRIND_DUMP_STATS_AT(label.c_str());
      CALLGRIND_STOP_INSTRUMENTATION;
    };
    count("compiled", compiled);
    count("aten", separate);
    return;
  }
  llvm::json::Array times, theirTimes;
  for (int round = 0; round < rounds; ++round) {
    times.push_back(milliseconds(compiled));
    theirTimes.push_back(milliseconds(separate));
  }
  at::Tensor original = at::zeros(bytes / 2, at::kByte), copy = at::empty_like(original);
  llvm::json::Array copyTimes;
  for (int round = 0; round < rounds; ++round)
    copyTimes.push_back(milliseconds([&] { copy.copy_(original); }));
  llvm::json::Object line{{"kernel", name},
                          {"compiled", std::move(times)},
                          {"aten", std::move(theirTimes)},
                          {"copy", std::move(copyTimes)},
                          {"ops", ops.numOps()},
                          {"in_place", ops.numInPlace},
                          {"bytes", bytes},
                          {"difference", compare(made, ops.results)}};
  llvm::outs() << llvm::formatv("{0}\n", llvm::json::Value(std::move(line)));
}

int main(int argc, char **argv) {
  if (argc != 5) {
    llvm::errs() << "expected MODULE TARGET THREADS ROUNDS\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto sources = std::make_shared<llvm::SourceMgr>();
  auto buffer = check(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(argv[1])));
  sources->AddNewSourceBuffer(support::align(std::move(buffer)), llvm::SMLoc());
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return 1;
  at::set_num_threads(std::atoi(argv[3]));
  installCachingAllocator();
  c10::InferenceMode inferenceMode;
  std::unique_ptr<CpuKernels> source = check(CpuKernels::create(*module, argv[2]));
  for (auto kernel : module->getOps<exec::KernelOp>())
    measure(kernel, *source, std::atoi(argv[4]));
  return 0;
}
