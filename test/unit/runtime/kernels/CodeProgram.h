//===- CodeProgram.h - a program with compiled code -----------------*- C++ -*-===//

#ifndef CLEAVE_TEST_UNIT_RUNTIME_KERNELS_CODEPROGRAM_H
#define CLEAVE_TEST_UNIT_RUNTIME_KERNELS_CODEPROGRAM_H

#include <string>

namespace cleave::test {

/// A program with code for x86-64-v2 that nothing launches: six bytes in hexadecimal digits.
inline std::string codeProgram(const std::string &digits) {
  return "module @code {\n"
         "  exec.binary @v2 elf for \"x86-64-v2\" = dense_resource<v2> : tensor<6xi8>\n"
         "  func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input \"x\">})\n"
         "      -> (tensor<4xf32> {train.role = #train.role<output \"0\">})\n"
         "      attributes {train.phase = #train.phase<microbatch>} {\n"
         "    return %x : tensor<4xf32>\n"
         "  }\n"
         "}\n"
         "{-# dialect_resources: { builtin: { v2: \"0x01000000" +
         digits + "\" } } #-}\n";
}

} // namespace cleave::test

#endif // CLEAVE_TEST_UNIT_RUNTIME_KERNELS_CODEPROGRAM_H
