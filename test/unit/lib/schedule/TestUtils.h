// What the schedule tests share.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_TESTUTILS_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_TESTUTILS_H

#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Text.h"
#include "lib/schedule/model/Verify.h"

#include <gtest/gtest.h>

namespace cleave::schedule {

inline std::string messageOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

/// The value, or a failed test.
template <typename T> T orFail(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  ADD_FAILURE() << messageOf(value.takeError());
  return T();
}

inline Schedule parse(llvm::StringRef text) {
  return orFail(parseText(text, "test"));
}

/// All problems as one text; empty if there are none.
inline std::string verifyText(const Schedule &program, const VerifyOptions &options = {}) {
  std::string text;
  for (const Problem &problem : verify(program, options))
    text += problem.str() + "\n";
  return text;
}

/// Calls `fn(request)` for every builder and every request of the grid that it accepts: ranks
/// {1, 2, 3, 4, 8}, its chunks up to 4, microbatches 1 to 32. Returns how many there were.
template <typename Fn> unsigned forEachLegal(const ScheduleBuilder &builder, Fn fn) {
  unsigned count = 0;
  for (unsigned ranks : {1u, 2u, 3u, 4u, 8u})
    for (unsigned chunks = 1; chunks <= 4; ++chunks)
      for (unsigned microbatches = 1; microbatches <= 32; ++microbatches) {
        BuildRequest request{ranks, microbatches, chunks};
        auto program = builder.build(request);
        if (!program) {
          llvm::consumeError(program.takeError());
          continue;
        }
        ++count;
        fn(request, std::move(*program));
      }
  return count;
}

inline std::string describe(const ScheduleBuilder &builder, const BuildRequest &request) {
  return builder.name().str() + " ranks=" + std::to_string(request.ranks) +
         " chunks=" + std::to_string(request.chunks.value_or(0)) +
         " microbatches=" + std::to_string(request.microbatches);
}

// The two traces of pytorch issue 172668, with what its authors leave out ("...") filled in so that
// the programs are whole: both hang where a pair of ranks shares one stream for both directions,
// as in PyTorch's NCCL backend, and run where sends and receives have streams of their own.
inline constexpr const char *issue172668Send =
    "ranks 2 stages 4 microbatches 2 topology loop forward_only\n"
    "rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvF2.0 F2.0 sendF2.0 recvF2.1 F2.1 sendF2.1\n"
    "rank 1: recvF1.0 F1.0 sendF1.0 recvF1.1 F1.1 sendF1.1 recvF3.0 F3.0 recvF3.1 F3.1\n";
inline constexpr const char *issue172668Swapped =
    "ranks 2 stages 4 microbatches 3 topology loop\n"
    "rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvF2.0 F2.0 sendF2.0 recvF2.1 F2.1 sendF2.1 F0.2\n"
    "        sendF0.2 recvB2.0 B2.0 sendB2.0 recvB2.1 B2.1 sendB2.1 recvF2.2 F2.2 sendF2.2\n"
    "        recvB0.0 B0.0 recvB0.1 B0.1 recvB2.2 B2.2 sendB2.2 recvB0.2 B0.2\n"
    "rank 1: recvF1.0 F1.0 recvF1.1 sendF1.0 F1.1 recvF3.0 sendF1.1 F3.0 B3.0 recvF3.1 sendB3.0\n"
    "        F3.1 B3.1 recvF1.2 sendB3.1 F1.2 sendF1.2 recvB1.0 B1.0 sendB1.0 recvB1.1 B1.1\n"
    "        sendB1.1 recvF3.2 F3.2 B3.2 sendB3.2 recvB1.2 B1.2 sendB1.2\n";

} // namespace cleave::schedule

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_TESTUTILS_H
