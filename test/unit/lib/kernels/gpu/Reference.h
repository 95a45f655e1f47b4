//===- Reference.h - what a row program means -----------------------*- C++ -*-===//
//
// Evaluates row programs node by node, row by row, in double precision: slow, plain, and without a
// line in common with the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_REFERENCE_H
#define CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_REFERENCE_H

#include "lib/kernels/program/RowProgram.h"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace cleave::gputest {

/// A tensor's elements as they are stored.
struct Tensor {
  mlir::Type dtype;
  int64_t size = 0;
  /// Aligned to 64 bytes.
  uint8_t *data = nullptr;
  std::vector<uint64_t> storage;

  Tensor(mlir::Type dtype, int64_t size);
  unsigned elementBytes() const;
  double get(int64_t index) const;
  void set(int64_t index, double value);
};

/// The program's tensors, as large as its accesses need; arguments have random numbers.
std::vector<Tensor> makeTensors(const kernels::RowProgram &program, std::mt19937 &random);

/// What the program stores: for each store, values by element of the tensor.
std::vector<std::map<int64_t, double>> evaluate(const kernels::RowProgram &program,
                                                const std::vector<Tensor> &tensors);

struct CheckOptions {
  std::string chip = "sm_90";
  std::string libdevice;
  unsigned seed = 0;
};

/// Compiles the program and executes it in the interpreter, twice with threads in different order;
/// the results are in `tensors` after the arguments. Empty, or what is wrong.
std::string execute(const kernels::RowProgram &program, const CheckOptions &options,
                    std::vector<Tensor> &tensors);

/// Executes the program on random numbers and compares with `evaluate`. Empty, or what is wrong.
std::string checkProgram(const kernels::RowProgram &program, const CheckOptions &options);

} // namespace cleave::gputest

#endif // CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_REFERENCE_H
