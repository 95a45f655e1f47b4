//===- Inputs.h - what a program reads ---------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_INPUTS_H
#define CLEAVE_RUNTIME_TRAIN_INPUTS_H

#include "cleave/Session.h"
#include "runtime/io/Data.h"

namespace cleave::runtime {

/// The program's inputs and targets, for a data source. The vocabulary of an input is the number of
/// rows of the embedding that looks it up, that of a target the number of classes of its loss; 0
/// where neither is found.
std::vector<InputSpec> describeInputs(const Program &program);

/// Examples in one microbatch; an error where the batched inputs disagree or there are none.
llvm::Expected<int64_t> getMicrobatchSize(const Program &program);

/// Tokens that one microbatch trains on: the elements of an integer input [batch, time], else its
/// examples.
int64_t countTokens(const Program &program);

/// Copies a microbatch, in the order of the program's inputs, to where the session reads it.
llvm::Error fillInputs(Session &session, llvm::ArrayRef<HostTensor> tensors);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_INPUTS_H
