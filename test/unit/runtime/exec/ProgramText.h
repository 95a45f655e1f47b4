//===- ProgramText.h - programs of tests, from text ----------------*- C++ -*-===//
//
// Lowered programs beside the same not lowered, from one text: `LOWERED` stands where a function's
// plan comes, `memory = ...` where an op's does.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_EXEC_PROGRAMTEXT_H
#define CLEAVE_TEST_UNIT_RUNTIME_EXEC_PROGRAMTEXT_H

#include "cleave/Session.h"
#include "test/unit/LoadProgram.h"

#include <cmath>
#include <regex>

namespace cleave::runtime {

using cleave::test::load;

inline std::string edit(std::string text, const char *pattern, const char *replacement) {
  return std::regex_replace(text, std::regex(pattern), replacement);
}
inline std::string withoutPlan(const char *text) {
  std::string result = edit(text, "LOWERED", "");
  result = edit(result, ", memory = \\[[^\\]]*\\]", "");
  return edit(result, " ?\\{memory = \\[[^\\]]*\\]\\}", "");
}
/// `lowered`: the attribute of functions with a plan.
inline std::string withPlan(const char *text, const char *lowered) {
  std::string attribute = std::string(", exec.lowered = ") + lowered;
  return edit(edit(text, "LOWERED", attribute.c_str()), "memory = \\[", "exec.memory = [");
}

/// Values between -1 and 1, other ones for another `start`.
inline void fill(const TensorRef &tensor, float start) {
  float *data = reinterpret_cast<float *>(tensor.data);
  for (int64_t i = 0, e = tensor.type.numElements(); i < e; ++i)
    data[i] = std::sin(start + 0.1f * float(i));
}

} // namespace cleave::runtime

#endif // CLEAVE_TEST_UNIT_RUNTIME_EXEC_PROGRAMTEXT_H
