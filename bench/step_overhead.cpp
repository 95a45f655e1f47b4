//===- step_overhead.cpp - time per op of tiny tensors -------------------------===//
//
// Runs a program of N ops (mm and add, alternating, as step_overhead.py writes it) ROUNDS times in
// a session, then the same calls without an executor: boxed, through the dispatcher's handles, and
// unboxed, as C++ code does. Prints nanoseconds per op, the median over repetitions.
//
//   step-overhead PROGRAM N ROUNDS
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "runtime/aten/Operator.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>

using namespace cleave::runtime;

/// Median nanoseconds per op of `body`, which runs `ops` ops.
template <typename Body> static double measure(int rounds, int64_t ops, Body body) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    Clock::time_point start = Clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / ops);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

static double measureSession(const char *path, int rounds, int64_t ops) {
  llvm::ExitOnError check("step-overhead: ");
  std::unique_ptr<Program> program = check(loadProgram(path));
  std::unique_ptr<Session> session = check(Session::create(*program));
  for (const ValueInfo &value : program->weights()) {
    TensorRef weight = check(session->weight(value.name));
    std::fill_n(reinterpret_cast<float *>(weight.data), weight.type.numElements(), 0.25f);
  }
  for (const ValueInfo &value : program->inputs()) {
    TensorRef input = check(session->input(value.name));
    std::fill_n(reinterpret_cast<float *>(input.data), input.type.numElements(), 0.25f);
  }
  return measure(rounds, ops, [&] { check(session->runMicrobatch(1, 0)); });
}

static double measureBoxed(int rounds, int64_t ops) {
  llvm::ExitOnError check("step-overhead: ");
  c10::InferenceMode inferenceMode;
  c10::OperatorHandle mm = check(findOperator("aten::mm")),
                      add = check(findOperator("aten::add.Tensor"));
  at::Tensor w = at::full({4, 4}, 0.25), x = w.clone();
  std::vector<c10::IValue> stack;
  stack.reserve(8);
  return measure(rounds, ops, [&] {
    at::Tensor y = x;
    for (int64_t i = 0; i < ops; i += 2) {
      stack.clear();
      stack.emplace_back(std::move(y));
      stack.emplace_back(w);
      mm.callBoxed(stack);
      c10::IValue product = std::move(stack.front());
      stack.clear();
      stack.push_back(std::move(product));
      stack.emplace_back(w);
      stack.emplace_back(1);
      add.callBoxed(stack);
      y = std::move(stack.front()).toTensor();
    }
  });
}

static double measureUnboxed(int rounds, int64_t ops) {
  c10::InferenceMode inferenceMode;
  at::Tensor w = at::full({4, 4}, 0.25), x = w.clone();
  return measure(rounds, ops, [&] {
    at::Tensor y = x;
    for (int64_t i = 0; i < ops; i += 2)
      y = at::add(at::mm(y, w), w);
  });
}

int main(int argc, char **argv) {
  if (argc != 4) {
    llvm::errs() << "expected PROGRAM N ROUNDS\n";
    return 1;
  }
  int64_t ops = std::atoll(argv[2]);
  int rounds = std::atoi(argv[3]);
  at::set_num_threads(1);
  double boxed = measureBoxed(rounds, ops), unboxed = measureUnboxed(rounds, ops);
  double session = measureSession(argv[1], rounds, ops);
  installCachingAllocator();
  double caching = measureSession(argv[1], rounds, ops);
  llvm::outs() << "{\"boxed\": " << boxed << ", \"unboxed\": " << unboxed
               << ", \"session\": " << session << ", \"cleave-run\": " << caching << "}\n";
}
