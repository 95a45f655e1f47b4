//===- session_steps.cpp - what a step of a session takes from C++ --------------===//
//
// Runs a program's step, with an update, over and over as python_overhead.py does from Python: the
// inputs are copied in, a microbatch and the update run, the loss is read. Prints nanoseconds
// of the processor per step, the median over rounds.
//
//   session-steps PROGRAM STEPS ROUNDS
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstring>
#include <ctime>

using namespace cleave::runtime;

int main(int argc, char **argv) {
  if (argc != 4) {
    llvm::errs() << "expected PROGRAM STEPS ROUNDS\n";
    return 1;
  }
  int64_t steps = std::atoll(argv[2]);
  int rounds = std::atoi(argv[3]);
  llvm::ExitOnError check("session-steps: ");
  setNumThreads(1);
  std::unique_ptr<Program> program = check(loadProgram(argv[1]));
  std::unique_ptr<Session> session = check(Session::create(*program));
  for (const ValueInfo &value : program->weights()) {
    TensorRef weight = check(session->weight(value.name));
    std::fill_n(reinterpret_cast<float *>(weight.data), weight.type.numElements(), 0.25f);
  }
  std::vector<std::vector<char>> batch;
  for (const ValueInfo &value : program->inputs())
    batch.emplace_back(value.type.numBytes());
  auto fill = [&](int64_t) -> llvm::Error {
    for (auto [value, data] : llvm::zip_equal(program->inputs(), batch)) {
      llvm::Expected<TensorRef> input = session->input(value.name);
      if (!input)
        return input.takeError();
      std::memcpy(input->data, data.data(), data.size());
    }
    return llvm::Error::success();
  };
  auto done = [&](int64_t) { return session->noteLoss(); };

  std::vector<double> times;
  int64_t number = 0;
  for (int round = 0; round < rounds; ++round) {
    std::clock_t start = std::clock();
    for (int64_t step = 0; step < steps; ++step) {
      check(session->setLearningRate(0, 0.0));
      check(session->runStep(++number, fill, done));
      check(session->takeLosses());
    }
    times.push_back(double(std::clock() - start) / CLOCKS_PER_SEC * 1e9 / double(steps));
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  llvm::outs() << times[times.size() / 2] << "\n";
}
