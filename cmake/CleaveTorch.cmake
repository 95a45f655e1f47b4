# LibTorch from the torch wheel, without find_package(Torch), which insists on a CUDA toolkit.
find_program(CLEAVE_PYTHON python3 HINTS ${CMAKE_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH
  DOC "The Python that has torch (./dev makes it)")
if(NOT CLEAVE_PYTHON)
  message(FATAL_ERROR "no Python with torch: run ./dev build, or set CLEAVE_PYTHON")
endif()
if(NOT CLEAVE_TORCH_DIR)
  execute_process(COMMAND ${CLEAVE_PYTHON} -c
    "import importlib.util as u, os; print(os.path.realpath(u.find_spec('torch').submodule_search_locations[0]))"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(CLEAVE_TORCH_DIR ${torch_dir} CACHE PATH "The torch package" FORCE)
endif()
file(STRINGS ${CLEAVE_TORCH_DIR}/version.py version_line REGEX "^__version__")
# The default, and those with a list in python/ (./dev build --torch VERSION).
file(STRINGS ${CMAKE_SOURCE_DIR}/python/requirements.in torch_versions REGEX "^torch==")
file(GLOB torch_lists ${CMAKE_SOURCE_DIR}/python/torch-*-nodeps.lock)
list(TRANSFORM torch_versions REPLACE "^torch==" "")
list(TRANSFORM torch_lists REPLACE "^.*/torch-(.*)-nodeps\\.lock$" "\\1")
list(APPEND torch_versions ${torch_lists})
string(REGEX REPLACE "^[^0-9]*([0-9.]+).*$" "\\1" version "${version_line}")
if(NOT version IN_LIST torch_versions)
  list(JOIN torch_versions " or " torch_versions)
  message(FATAL_ERROR "expected torch ${torch_versions} in ${CLEAVE_TORCH_DIR}, found: ${version_line}")
endif()

foreach(lib c10 torch_cpu)
  add_library(cleave_${lib} SHARED IMPORTED)
  set_target_properties(cleave_${lib} PROPERTIES IMPORTED_LOCATION ${CLEAVE_TORCH_DIR}/lib/lib${lib}.so)
endforeach()
add_library(cleave_torch INTERFACE)
target_include_directories(cleave_torch SYSTEM INTERFACE
  ${CLEAVE_TORCH_DIR}/include ${CLEAVE_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(cleave_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(cleave_torch INTERFACE cleave_torch_cpu cleave_c10)
# The wheel is compiled with GCC. Since version 18 clang mangles templates with an enable_if otherwise.
target_compile_options(cleave_torch INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fclang-abi-compat=17>)
# The OpenMP that the wheel brings along: two of them in a process would be two sets of threads.
add_library(cleave_gomp SHARED IMPORTED)
set_target_properties(cleave_gomp PROPERTIES IMPORTED_LOCATION ${CLEAVE_TORCH_DIR}/lib/libgomp.so.1)
set(CLEAVE_TORCH_RPATH ${CLEAVE_TORCH_DIR}/lib)
