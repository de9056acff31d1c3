# The shared library libkvik.so, linked from the same objects as the program. The version script exports the functions of kvik.h and nothing
# else. Threads of the library may run until the process ends, so it is never unloaded.
set(kvik_abi 0)  # of libkvik.so.0: it grows when a function, a type or a value of kvik.h changes

# kvik_library_properties(TARGET): name, version and symbols of the library.
function(kvik_library_properties target)
  set(version_script ${PROJECT_SOURCE_DIR}/cmake/libkvik.map)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME kvik LINKER_LANGUAGE CXX LINK_DEPENDS ${version_script}
    VERSION ${kvik_abi}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION ${kvik_abi})
  target_link_options(${target} PRIVATE -Wl,--version-script=${version_script} -Wl,-z,nodelete,-z,relro)
  if(NOT KVIK_BUILD_FUZZERS)  # clang links the functions of a sanitizer into programs only
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

add_library(kvik_shared SHARED ${PROJECT_BINARY_DIR}/precompiled.cpp)  # an empty file: the objects come from the floors
kvik_library_properties(kvik_shared)
target_link_libraries(kvik_shared PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,kvik_library>)
target_include_directories(kvik_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
