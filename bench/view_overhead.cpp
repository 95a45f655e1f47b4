//===- view_overhead.cpp - what a view costs that is run as a reshape ----------===//
//
// `aten.view` runs as `aten::reshape`, which copies where strides forbid a view. On contiguous
// operands both give a view; this measures the boxed calls of either, alternating, and prints
// nanoseconds a call, the median over rounds, and the median of the rounds' ratios. Instructions,
// which no other load disturbs, are counted by
//
//   valgrind --tool=callgrind view-overhead view CALLS     (and reshape, and another number of
//   calls)
//
//   view-overhead [CALLS]
//   view-overhead view|reshape CALLS
//
//===----------------------------------------------------------------------===//

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/// Calls the operator on a tensor of 4x4 elements, to 16 and back.
static void run(const c10::OperatorHandle &op, int64_t calls) {
  c10::InferenceMode inferenceMode;
  at::Tensor value = at::full({4, 4}, 0.25);
  const c10::IValue flat(std::vector<int64_t>{16}), square(std::vector<int64_t>{4, 4});
  std::vector<c10::IValue> stack;
  stack.reserve(4);
  for (int64_t i = 0; i < calls; ++i) {
    stack.clear();
    stack.emplace_back(std::move(value));
    stack.push_back(i % 2 ? square : flat);
    op.callBoxed(stack);
    value = std::move(stack.front()).toTensor();
  }
}

static double timeOf(const c10::OperatorHandle &op, int64_t calls) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  run(op, calls);
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
}

static double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int main(int argc, char **argv) {
  at::set_num_threads(1);
  auto find = [](const char *name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  };
  if (argc == 3) {
    run(find(std::strcmp(argv[1], "view") ? "aten::reshape" : "aten::view"), std::atoll(argv[2]));
    return 0;
  }
  int64_t calls = argc > 1 ? std::atoll(argv[1]) : 2000;
  c10::OperatorHandle view = find("aten::view"), reshape = find("aten::reshape");
  std::vector<double> views, reshapes, ratios;
  for (int round = 0; round < 401; ++round) {
    double first = timeOf(round % 2 ? view : reshape, calls);
    double second = timeOf(round % 2 ? reshape : view, calls);
    views.push_back(round % 2 ? first : second);
    reshapes.push_back(round % 2 ? second : first);
    ratios.push_back(reshapes.back() / views.back());
  }
  std::printf("view %.0f ns, reshape %.0f ns, ratio %.3f\n", median(views), median(reshapes),
              median(ratios));
}
