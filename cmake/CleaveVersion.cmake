# cmake -D SOURCE=DIR -D VERSION=X -D OUTPUT=FILE -P CleaveVersion.cmake
# Writes the release and the commit for runtime/environment/Version.cpp, at each build, but only when they changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty=+
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
set(text ${VERSION})
if(status EQUAL 0)
  set(text "${VERSION} (${commit})")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define CLEAVE_VERSION \"${text}\"\n" @ONLY)
