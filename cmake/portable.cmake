# kvik_portable: the program for packages, linked from the same objects as `kvik`, so that it computes the same bits, and kvik_portable_shared, the
# shared library for packages. All libraries but glibc are
# static, and each function of glibc has the version that glibc 2.31 has (tools/make/glibc_stubs.py), so it runs on every distribution with that
# version or a later one: Debian 11, Ubuntu 20.04, RHEL 9, Fedora 32.
set(kvik_glibc 2.31)

function(kvik_portable)
  if(KVIK_SANITIZER)
    return()
  endif()
  set(archives "")
  get_property(floors GLOBAL PROPERTY kvik_floors)
  foreach(floor ${floors})
    list(APPEND archives $<TARGET_FILE:kvik_${floor}>)
  endforeach()
  foreach(library edit bsd md tinfo hiredis ssl crypto sqlite3 icuuc boost_json pcre2-8 xxhash)
    find_library(KVIK_STATIC_${library} NAMES lib${library}.a)
    if(NOT KVIK_STATIC_${library})
      message(STATUS "No target kvik_portable: lib${library}.a is missing")
      return()
    endif()
    list(APPEND archives ${KVIK_STATIC_${library}})
  endforeach()
  set(stubs ${PROJECT_BINARY_DIR}/glibc_stubs)
  set(script ${PROJECT_SOURCE_DIR}/tools/make/glibc_stubs.py)
  set(libraries ${stubs}/libc.so.6 ${stubs}/libm.so.6 ${stubs}/ld-linux-x86-64.so.2)
  set(moved ${stubs}/libpthread.so.0 ${stubs}/libdl.so.2 ${stubs}/librt.so.1)  # empty: until glibc 2.33 they hold functions that are in libc now
  add_custom_command(OUTPUT ${libraries} ${moved} COMMAND /usr/bin/python3 ${script} ${kvik_glibc} ${stubs} DEPENDS ${script}
    VERBATIM COMMENT "Writing stubs of glibc ${kvik_glibc}")
  add_custom_target(kvik_glibc_stubs DEPENDS ${libraries} ${moved})

  # ICU's data of languages, regions and converters are 30 of its 31 MB, and Kvik asks for none of them.
  find_library(KVIK_ICU_DATA NAMES libicudata.a REQUIRED)
  set(icu ${PROJECT_BINARY_DIR}/icu_data.S)
  set(script ${PROJECT_SOURCE_DIR}/tools/make/icu_data.py)
  add_custom_command(OUTPUT ${icu} COMMAND /usr/bin/python3 ${script} ${KVIK_ICU_DATA} ${icu} DEPENDS ${script} ${KVIK_ICU_DATA}
    VERBATIM COMMENT "Selecting ICU's data")

  set(own ${PROJECT_SOURCE_DIR}/cmake/portable/older_glibc.cpp ${PROJECT_SOURCE_DIR}/cmake/portable/formatting.cpp ${icu})
  add_executable(kvik_portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:kvik> ${own}
    ${PROJECT_SOURCE_DIR}/cmake/portable/constructors.cpp)
  set_target_properties(kvik_portable PROPERTIES OUTPUT_NAME portable/kvik POSITION_INDEPENDENT_CODE ON)
  add_library(kvik_portable_shared SHARED EXCLUDE_FROM_ALL ${own} ${PROJECT_SOURCE_DIR}/cmake/portable/icu_in_library.cpp)
  set_target_properties(kvik_portable_shared PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable)
  kvik_library_properties(kvik_portable_shared)
  target_link_libraries(kvik_portable_shared PRIVATE -Wl,--whole-archive $<TARGET_FILE:kvik_library> -Wl,--no-whole-archive)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/portable)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/cmake/portable/formatting.cpp PROPERTIES
    COMPILE_DEFINITIONS "SPDLOG_COMPILED_LIB;SPDLOG_FMT_EXTERNAL")
  add_dependencies(kvik_portable kvik kvik_glibc_stubs)
  add_dependencies(kvik_portable_shared kvik_library kvik_glibc_stubs)

  if(KVIK_CUDART)  # found only where the kernels for GPUs are compiled
    list(APPEND archives ${KVIK_CUDART})
  endif()
  foreach(file libstdc++.a libgcc.a libgcc_eh.a libc_nonshared.a)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${file} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND archives ${path})
  endforeach()
  # CMake would turn these paths into -lc and so on, but it passes options of the linker unchanged.
  list(TRANSFORM libraries PREPEND "-Wl,")
  list(TRANSFORM moved PREPEND "-Wl,")
  foreach(target kvik_portable kvik_portable_shared)
    target_link_options(${target} PRIVATE -nodefaultlibs -Wl,-z,relro,-z,now -Wl,--gc-sections -s)
    target_link_libraries(${target} PRIVATE -Wl,--start-group ${archives} ${libraries} -Wl,--end-group
      -Wl,--no-as-needed ${moved})
    set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
  endforeach()
  target_link_options(kvik_portable PRIVATE -pie -Wl,--wrap=__libc_start_main)
endfunction()
