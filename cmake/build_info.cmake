# Writes a source file with the build information of `kvik --version`: version, commit, compiler. The file has two uses: when included, it
# defines the function that adds the generated file to a library; as a script (cmake -P) at build time, it writes the file. Only this one
# source is recompiled when the commit changes.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "")
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  # A copy without its own .git may lie inside another project's checkout.
  if(failed OR NOT EXISTS ${SOURCE_DIR}/.git)
    set(commit "unknown")
  endif()
  file(WRITE ${OUTPUT} "#include \"host/build_info.h\"\n\nnamespace kvik {\n\nconst BuildInfo& build_info() {\n"
    "  static constexpr BuildInfo kInfo{.version = \"${VERSION}\", .commit = \"${commit}\", .compiler = \"${COMPILER}\"};\n"
    "  return kInfo;\n}\n\n}  // namespace kvik\n")
  return()
endif()

# kvik_build_info(TARGET): adds the generated file to TARGET.
function(kvik_build_info target)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD OUTPUT_VARIABLE log
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  get_filename_component(log "${log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(NOT EXISTS ${log} OR IS_DIRECTORY ${log})  # not a checkout, or one without a reflog
    set(log "")
  endif()
  set(output ${PROJECT_BINARY_DIR}/build_info.cpp)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} "-DCOMPILER=${compiler}"
      -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/build_info.cmake
    DEPENDS ${log} ${PROJECT_SOURCE_DIR}/cmake/build_info.cmake
    VERBATIM COMMENT "Writing down the commit")
  target_sources(${target} PRIVATE ${output})
endfunction()
