# cleave_add_pass_plugin(NAME SOURCES...)
#   A library of passes for `cleave-opt --load-pass-plugin=lib/NAME.so`. It uses Cleave's headers
#   and the shared libMLIR; Cleave's own symbols are the tool's, so that both see one copy of each
#   dialect.
function(cleave_add_pass_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_include_directories(${name} PRIVATE ${CLEAVE_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE MLIR LLVM)
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()
