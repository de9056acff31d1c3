# Writes a source file with a hash of everything that determines the bits of the forward pass: the sources of tensor, catalogue, backend and
# model without comments and line breaks (code_tokens.cpp), the compile options of kernels, the compiler and its flags. The hash is part of
# page keys, so that stored K and V are reused only by a program that would compute the same bits. The file has two uses: when included, it
# defines the function that adds the generated file to a library; as a script (cmake -P) at build time, it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR}
    ${SOURCE_DIR}/src/tensor/* ${SOURCE_DIR}/src/catalogue/* ${SOURCE_DIR}/src/backend/* ${SOURCE_DIR}/src/model/*)
  list(SORT sources)
  execute_process(COMMAND ${CODE_TOKENS} ${OUTPUT}.tokens ${SOURCE_DIR} ${sources} RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "the tokens of the sources cannot be read (${result})")
  endif()
  file(SHA256 ${OUTPUT}.tokens all)
  string(APPEND all "\n${FLAGS}")
  foreach(options instruction_sets cuda)
    set(path ${SOURCE_DIR}/cmake/${options}.cmake)
    if(EXISTS ${path})
      file(READ ${path} text)
      string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" " " text "${text}")
      string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
      string(APPEND all "\n${text}")
    endif()
  endforeach()
  string(SHA256 hash "${all}")
  file(WRITE ${OUTPUT} "extern const char* const kvik_numerics_of_sources;\nconst char* const kvik_numerics_of_sources = \"${hash}\";\n")
  return()
endif()

# kvik_numerics(TARGET): adds the hash to TARGET.
function(kvik_numerics target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/tensor/* ${PROJECT_SOURCE_DIR}/src/catalogue/* ${PROJECT_SOURCE_DIR}/src/backend/* ${PROJECT_SOURCE_DIR}/src/model/*
    ${PROJECT_SOURCE_DIR}/cmake/instruction_sets.cmake ${PROJECT_SOURCE_DIR}/cmake/cuda.cmake)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  get_directory_property(options COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "^-fmacro-prefix-map=|^-fpch-preprocess$")  # these do not affect the bits
  list(REMOVE_ITEM options ${kvik_library_options})  # nor do these
  set(flags "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_CXX_STANDARD}")
  string(APPEND flags " ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}")
  foreach(isa avx2 avxvnni avx512 avx512bf16 amx)
    string(APPEND flags " ${isa_flags_${isa}}")
  endforeach()
  string(REPLACE ";" " " flags "${flags}")  # a list would be split into several arguments on the command line
  add_executable(code_tokens ${PROJECT_SOURCE_DIR}/cmake/code_tokens.cpp)
  set_target_properties(code_tokens PROPERTIES COMPILE_OPTIONS "" LINK_OPTIONS "")
  set(output ${PROJECT_BINARY_DIR}/numerics.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} "-DFLAGS=${flags}" -DCODE_TOKENS=$<TARGET_FILE:code_tokens> -DOUTPUT=${output}
      -P ${PROJECT_SOURCE_DIR}/cmake/numerics.cmake
    DEPENDS code_tokens ${sources} ${PROJECT_SOURCE_DIR}/cmake/numerics.cmake
    VERBATIM COMMENT "Hashing what decides the bits")
  target_sources(${target} PRIVATE ${output})
endfunction()
