# LLVM and MLIR, pinned to 22.1 (Debian's packages, see ./dev).
#
# Two ways to link them. Compiler tools use the shared libMLIR and libLLVM, so that a user's pass
# plugin and the tool see one copy; cleave-run links the static archives and needs neither.
set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir CACHE PATH "Directory of MLIRConfig.cmake")
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# Only for mlir_tablegen(); add_mlir_library and friends are not used.
include(TableGen)
include(AddLLVM)
include(AddMLIR)
add_compile_definitions(${LLVM_DEFINITIONS_LIST})

add_library(cleave_mlir_headers INTERFACE)
target_include_directories(cleave_mlir_headers SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

add_library(cleave_mlir_shared INTERFACE)
target_link_libraries(cleave_mlir_shared INTERFACE MLIR LLVM)

include(CleaveMLIRArchives)
add_library(cleave_mlir_static INTERFACE)
target_link_libraries(cleave_mlir_static INTERFACE
  MLIRIR MLIRParser MLIRBytecodeReader MLIRArithDialect MLIRFuncDialect MLIRMathDialect MLIRFunctionInterfaces MLIRCallInterfaces
  MLIRControlFlowInterfaces MLIRSideEffectInterfaces MLIRInferTypeOpInterface MLIRViewLikeInterface MLIRSupport
  MLIRBytecodeOpInterface MLIRAsmParser LLVMSupport LLVMDemangle)
