# Writes a source file with a hash of everything that determines the bits of the forward pass: the sources of tensor, catalogue, backend and
# model, the compile options of kernels, the compiler and its flags. The hash is part of page keys, so that stored K and V are reused only
# by a program that would compute the same bits. The file has two uses: when included, it defines the function that adds the generated file
# to a library; as a script (cmake -P) at build time, it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR}
    ${SOURCE_DIR}/src/tensor/* ${SOURCE_DIR}/src/catalogue/* ${SOURCE_DIR}/src/backend/* ${SOURCE_DIR}/src/model/* ${SOURCE_DIR}/cmake/instruction_sets.cmake ${SOURCE_DIR}/cmake/cuda.cmake)
  list(SORT sources)
  set(all "${FLAGS}")
  foreach(source ${sources})
    file(SHA256 ${SOURCE_DIR}/${source} digest)
    string(APPEND all "\n${source} ${digest}")
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
  set(flags "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_CXX_STANDARD}")
  string(APPEND flags " ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}")
  foreach(isa avx2 avxvnni avx512 avx512bf16)
    string(APPEND flags " ${isa_flags_${isa}}")
  endforeach()
  string(REPLACE ";" " " flags "${flags}")  # a list would be split into several arguments on the command line
  set(output ${PROJECT_BINARY_DIR}/numerics.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} "-DFLAGS=${flags}" -DOUTPUT=${output}
      -P ${PROJECT_SOURCE_DIR}/cmake/numerics.cmake
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/numerics.cmake
    VERBATIM COMMENT "Hashing what decides the bits")
  target_sources(${target} PRIVATE ${output})
endfunction()
