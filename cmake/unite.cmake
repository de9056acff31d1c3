# kvik_unite(TARGET sources…): compiles the files of a folder in groups, so that their common headers are parsed once; parsing is most of
# the compile time. Therefore file-local names must be unique within a folder. Files with their own flags are compiled alone. Tests are
# too, because their names are short. -DKVIK_UNITE=OFF compiles each file alone.
option(KVIK_UNITE "Compile the files of a folder together" ON)
set(kvik_files_together 8)

function(kvik_unite target)
  if(NOT KVIK_UNITE)
    return()
  endif()
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${target} ${folder}" id)
    math(EXPR group "${n_files_${id}} + 0")
    math(EXPR n_files_${id} "${group} + 1")
    math(EXPR group "${group} / ${kvik_files_together}")
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE short)
    string(REPLACE "/" "_" short "${short}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${short}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # The warning is meant for headers, but a unity file includes sources.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
