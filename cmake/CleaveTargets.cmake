# cleave_library(NAME SOURCES... [DEPENDS target...] [LINKS target...] [PRECOMPILED target])
#   A static library that uses MLIR. It does not say which MLIR it links: the tool does.
#   DEPENDS: generated headers; LINKS: other Cleave libraries; PRECOMPILED: its precompiled headers,
#   by default MLIR's for a dialect and the dialects' for what lies above them.
# cleave_tool(NAME SOURCES... LINKS ...)        a compiler tool, on the shared libMLIR
# cleave_tablegen(TARGET TD OUT -gen-x [args])  one generated file below the build tree
function(cleave_reuse_headers name pch)
  if(NOT pch)
    set(pch cleave_mlir_pch)
    if(TARGET cleave_dialects_pch)
      set(pch cleave_dialects_pch)
    endif()
  endif()
  target_precompile_headers(${name} REUSE_FROM ${pch})
endfunction()

function(cleave_library name)
  cmake_parse_arguments(arg "" "PRECOMPILED" "DEPENDS;LINKS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC cleave_mlir_headers ${arg_LINKS})
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  cleave_reuse_headers(${name} "${arg_PRECOMPILED}")
endfunction()

function(cleave_tool name)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE cleave_mlir_headers ${arg_LINKS} cleave_mlir_shared)
  cleave_reuse_headers(${name} "")
  # Plugins resolve Cleave's own symbols (dialects, pass base classes) in the tool.
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
endfunction()

# cleave_tablegen(<stem.td> <args of mlir-tblgen>... ) collects into CLEAVE_TDOUT via mlir_tablegen;
# call cleave_tablegen_target(NAME) after the last one of a directory.
set(cleave_td_includes "")
foreach(dir IN LISTS MLIR_INCLUDE_DIRS LLVM_INCLUDE_DIRS)
  list(APPEND cleave_td_includes -I ${dir})
endforeach()
macro(cleave_tablegen td out)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${out} ${ARGN} -I ${CMAKE_SOURCE_DIR} ${cleave_td_includes})
endmacro()
macro(cleave_tablegen_target name)
  add_public_tablegen_target(${name})
endmacro()
