# Flags that hold for every target of Cleave's own.
# Fields that an initializer leaves out have the defaults that their struct gives them.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-comment -Wno-missing-field-initializers)
# libstdc++ 12 has std::stable_sort on a function that C++ 17 deprecates, and clang says so at each use.
add_compile_options($<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
add_compile_options(-ffunction-sections -fdata-sections)
# Programs too, so that they share precompiled headers with libraries; CMake would compile them with -fPIE.
add_compile_options(-fPIC)
if(CLEAVE_SANITIZE)
  add_compile_options(-fsanitize=${CLEAVE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CLEAVE_SANITIZE})
endif()
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/include)

find_program(CLEAVE_LLD ld.lld HINTS /usr/lib/llvm-22/bin NO_DEFAULT_PATH)
if(CLEAVE_LLD)
  # -B: the compiler driver would otherwise pick an older lld from PATH.
  add_link_options(-fuse-ld=lld -B/usr/lib/llvm-22/bin)
endif()
# LLVM's libraries name Z3 as theirs; what nothing calls need not be there where a program is taken to.
add_link_options(LINKER:--as-needed)
find_program(CLEAVE_CCACHE ccache)
if(CLEAVE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the checkout, so that clones share what is built; the
  # sloppiness is what ccache asks for with precompiled headers.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CLEAVE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# Installed tools find libMLIR and LibTorch where they were found for the build.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
