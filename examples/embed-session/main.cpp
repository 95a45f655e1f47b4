//===- main.cpp - your own trainer ---------------------------------------------===//
//
// usage: embed-session PROGRAM.mlir
//
// Loads the program (line.mlir), makes a session and steps it, with generated data. Needs nothing
// of Cleave but the headers in include/cleave.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"

#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace cleave::runtime;

static constexpr int kSteps = 20;
static constexpr int kMicrobatches = 2;

/// Puts numbers into a float32 tensor of a session.
static void fill(const TensorRef &tensor, llvm::ArrayRef<float> values) {
  std::memcpy(tensor.data, values.data(), values.size() * sizeof(float));
}

static llvm::Error train(llvm::StringRef path) {
  auto program = loadProgram(path);
  if (!program)
    return program.takeError();
  SessionOptions options;
  options.microbatches = kMicrobatches;
  auto session = Session::create(**program, options);
  if (!session)
    return session.takeError();

  auto weight = (*session)->weight("w");
  if (!weight)
    return weight.takeError();
  fill(*weight, 0.0f);

  auto x = (*session)->input("x"), y = (*session)->input("y");
  if (!x || !y)
    return llvm::joinErrors(x.takeError(), y.takeError());
  for (int64_t step = 1; step <= kSteps; ++step) {
    double loss = 0.0;
    for (int64_t index = 0; index < kMicrobatches; ++index) {
      float inputs[4], targets[4];
      for (int i = 0; i < 4; ++i) {
        inputs[i] = 0.5f * (float)(4 * index + i);
        targets[i] = 3.0f * inputs[i];
      }
      fill(*x, inputs);
      fill(*y, targets);
      if (llvm::Error error = (*session)->runMicrobatch(step, index))
        return error;
      loss += (*session)->loss() / kMicrobatches;
    }
    if (llvm::Error error = (*session)->runUpdate(step))
      return error;
    std::printf("step %2d  loss %.6f\n", (int)step, loss);
  }

  auto result = (*session)->result("param.w");
  if (!result)
    return result.takeError();
  float w;
  std::memcpy(&w, result->data, sizeof(w));
  std::printf("w = %.4f\n", w);
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: embed-session PROGRAM.mlir\n");
    return 2;
  }
  if (llvm::Error error = train(argv[1])) {
    std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
    return 1;
  }
  return 0;
}
