# The install tree: tools, headers, archives, and a package that find_package(Cleave) finds.
#
#   bin/                  cleave-opt, cleave-run, cleave-sim, cleave-lsp-server, cleave-plan, cleave-reduce
#   include/              the public API, as "cleave/X.h"
#   include/cleave/       the source tree's headers, as "dialects/dist/Dist.h"
#   lib/, lib/cmake/Cleave/
#   share/cleave/devices/ descriptions of devices, links and clusters
#   lib/cleave/python/    the Python package with its extension module: for PYTHONPATH, or pip install
#
# What a build for one purpose (`./dev demo`) has left out is built first, so that no tree is left
# half installed.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(CLEAVE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Cleave)

# Every archive and tool below these directories; tests and examples are not installed.
function(cleave_collect_targets out dir)
  get_property(targets DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(children DIRECTORY ${dir} PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    cleave_collect_targets(more ${child})
    list(APPEND targets ${more})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

set(installed cleave_mlir_headers cleave_mlir_shared cleave_mlir_static)
foreach(area lib/support lib/solve lib/cost lib/schedule dialects lib passes runtime tools)
  if(area STREQUAL "runtime" AND NOT CLEAVE_ENABLE_RUNTIME)
    continue()
  endif()
  cleave_collect_targets(targets ${CMAKE_SOURCE_DIR}/${area})
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "STATIC_LIBRARY|SHARED_LIBRARY|MODULE_LIBRARY|INTERFACE_LIBRARY|EXECUTABLE")
      list(APPEND installed ${target})
    endif()
  endforeach()
endforeach()
# The carriers of precompiled headers have nothing in them; files of solver instances are for its tools.
list(FILTER installed EXCLUDE REGEX "_pch$|^cleave_solve_files$")
if(CLEAVE_ENABLE_RUNTIME)
  list(APPEND installed cleave_torch)
endif()

set(compiled ${installed})
list(FILTER compiled EXCLUDE REGEX "^(cleave_mlir_.*|cleave_torch)$")
add_custom_target(cleave_installed)
add_dependencies(cleave_installed ${compiled} cleave_typed_ops)
if(TARGET cleave_native)
  add_dependencies(cleave_installed cleave_native)
endif()
# Ninja and Make keep their own account of what is up to date: a whole build costs a second here.
install(CODE "
  message(STATUS \"Building what is installed and not built yet\")
  execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target cleave_installed
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR \"the build failed; nothing is installed\")
  endif()
")

install(TARGETS ${installed} EXPORT CleaveTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/cleave)
install(EXPORT CleaveTargets NAMESPACE Cleave:: DESTINATION ${CLEAVE_PACKAGE_DIR})

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
foreach(area dialects lib passes runtime)
  install(DIRECTORY ${area} ${CMAKE_BINARY_DIR}/${area} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cleave
    FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.h.inc" PATTERN "CMakeFiles" EXCLUDE)
endforeach()
install(DIRECTORY python/cleave DESTINATION ${CMAKE_INSTALL_LIBDIR}/cleave/python
  FILES_MATCHING PATTERN "*.py" PATTERN "*.json" PATTERN "*.html" PATTERN "__pycache__" EXCLUDE)
# Where cleave-sim looks for descriptions of clusters.
install(DIRECTORY examples/devices DESTINATION ${CMAKE_INSTALL_DATADIR}/cleave FILES_MATCHING PATTERN "*.json")
install(FILES python/pyproject.toml python/setup.py DESTINATION ${CMAKE_INSTALL_LIBDIR}/cleave/python)
install(FILES ${CMAKE_BINARY_DIR}/python/cleave/typed_ops.json DESTINATION ${CMAKE_INSTALL_LIBDIR}/cleave/python/cleave)
if(TARGET cleave_native)
  install(TARGETS cleave_native LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cleave/python/cleave)
  install(FILES ${CMAKE_BINARY_DIR}/python/cleave_native.json DESTINATION ${CMAKE_INSTALL_LIBDIR}/cleave/python/cleave)
endif()

configure_package_config_file(cmake/CleaveConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/CleaveConfig.cmake
  INSTALL_DESTINATION ${CLEAVE_PACKAGE_DIR}
  PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/CleaveConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_BINARY_DIR}/cmake/CleaveConfig.cmake ${CMAKE_BINARY_DIR}/cmake/CleaveConfigVersion.cmake
  cmake/CleaveMLIRArchives.cmake cmake/CleavePlugin.cmake
  DESTINATION ${CLEAVE_PACKAGE_DIR})
