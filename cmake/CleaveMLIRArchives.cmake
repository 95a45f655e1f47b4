# Makes MLIR's static archives usable by themselves; also part of the installed package.
#
# Debian's export names the shared libraries as dependencies of the archives; without this a static
# tool would link both copies.
if(NOT TARGET zstd::libzstd_shared)
  add_library(zstd::libzstd_shared INTERFACE IMPORTED)
  target_link_libraries(zstd::libzstd_shared INTERFACE zstd)
endif()
get_property(archives GLOBAL PROPERTY MLIR_ALL_LIBS)
foreach(lib IN LISTS archives)
  if(TARGET ${lib})
    get_target_property(links ${lib} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(REMOVE_ITEM links LLVM MLIR)
      set_target_properties(${lib} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    endif()
  endif()
endforeach()
