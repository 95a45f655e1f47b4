# cleave_precompiled_headers(NAME HEADERS... [LINKS target...])
#   Headers that are parsed once for all files of the targets that reuse them: in most files the
#   headers cost more than our code. What does not change from day to day belongs here.
#
# From the ground floor up, and each where the headers in it are known:
#   cleave_support_pch         the standard library and LLVM's Support: lib/schedule, runtime/io, ...
#   cleave_mlir_pch            and MLIR's IR: the dialects
#   cleave_dialects_pch        and the dialects that most passes read: lib, passes, compiler tools
#   cleave_kernels_pch         and the dialects that kernels are emitted in: lib/kernels/{cpu,gpu}
#   cleave_torch_pch           LibTorch's tensors and dispatcher: the runtime that calls them
#   cleave_{,dialects_,torch_}test_pch   for unit tests, with GoogleTest
#
# Headers still name what they need: those of `include` and `dialects` are compiled without any of these.
file(WRITE ${CMAKE_BINARY_DIR}/pch/pch.cpp.new "// Only carries a precompiled header.\n")
file(COPY_FILE ${CMAKE_BINARY_DIR}/pch/pch.cpp.new ${CMAKE_BINARY_DIR}/pch/pch.cpp ONLY_IF_DIFFERENT)

function(cleave_precompiled_headers name)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/pch/pch.cpp)
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
  target_precompile_headers(${name} PRIVATE ${arg_UNPARSED_ARGUMENTS})
endfunction()

set(CLEAVE_SUPPORT_HEADERS
  <algorithm> <functional> <map> <memory> <optional> <string> <vector>
  <llvm/ADT/ArrayRef.h> <llvm/ADT/DenseMap.h> <llvm/ADT/STLExtras.h> <llvm/ADT/SmallVector.h>
  <llvm/ADT/StringExtras.h> <llvm/ADT/StringMap.h> <llvm/Support/Error.h> <llvm/Support/FormatVariadic.h>
  <llvm/Support/JSON.h> <llvm/Support/MemoryBuffer.h> <llvm/Support/raw_ostream.h>)
set(CLEAVE_MLIR_HEADERS
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpImplementation.h> <mlir/IR/PatternMatch.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Interfaces/SideEffectInterfaces.h> <mlir/Interfaces/ViewLikeInterface.h> <mlir/Interfaces/CastInterfaces.h>
  <llvm/ADT/TypeSwitch.h> ${CLEAVE_SUPPORT_HEADERS})
set(CLEAVE_DIALECT_HEADERS
  ${CLEAVE_MLIR_HEADERS} <mlir/Pass/Pass.h> <llvm/Support/Debug.h>
  ${CMAKE_SOURCE_DIR}/dialects/dist/Dist.h ${CMAKE_SOURCE_DIR}/dialects/train/Program.h)

cleave_precompiled_headers(cleave_support_pch ${CLEAVE_SUPPORT_HEADERS} LINKS cleave_mlir_headers)
cleave_precompiled_headers(cleave_mlir_pch ${CLEAVE_MLIR_HEADERS} LINKS cleave_mlir_headers)
