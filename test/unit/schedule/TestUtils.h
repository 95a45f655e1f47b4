// What the schedule tests share.
#pragma once

#include "lib/schedule/Builder.h"
#include "lib/schedule/P2P.h"
#include "lib/schedule/Text.h"
#include "lib/schedule/Verify.h"

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

inline Program parse(llvm::StringRef text) {
  return orFail(parseText(text, "test"));
}

/// All problems as one text; empty where there are none.
inline std::string verifyText(const Program &program, const VerifyOptions &options = {}) {
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

} // namespace cleave::schedule
