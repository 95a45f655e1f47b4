//===- Inputs.h - what a program reads ---------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_INPUTS_H
#define CLEAVE_RUNTIME_TRAIN_INPUTS_H

#include "cleave/Session.h"
#include "runtime/io/Data.h"
#include "runtime/ranks/RankGrid.h"

namespace cleave::runtime {

/// The program's inputs and targets as a data source reads them: whole, where each rank of a typed
/// program takes its part of them.
std::vector<ValueInfo> readInputs(const Program &program, const RankGrid &grid);

/// `inputs` of `program` for a data source. The vocabulary of an input is the number of rows of the
/// embedding that looks it up, that of a target the number of classes of its loss, which also says
/// what it ignores; 0 where neither is found.
std::vector<InputSpec> describeInputs(const Program &program, llvm::ArrayRef<ValueInfo> inputs,
                                      const RankGrid &grid);

/// Examples in one microbatch; an error where the batched inputs disagree or there are none.
llvm::Expected<int64_t> getMicrobatchSize(const Program &program, llvm::ArrayRef<ValueInfo> inputs);

/// Tokens that one microbatch trains on: the elements of an integer input [batch, time], else its
/// examples.
int64_t countTokens(llvm::ArrayRef<ValueInfo> inputs);

/// Copies this rank's parts of a microbatch, in the order of the program's inputs, to where the
/// session reads them.
llvm::Error fillInputs(Session &session, llvm::ArrayRef<HostTensor> tensors);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_INPUTS_H
