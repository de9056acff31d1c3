# kvik_floor(NAME LINK targets…): adds the library kvik_NAME of all sources in src/NAME and its subfolders.
function(kvik_floor name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/backend/cuda/runtime/")  # cuda.cmake adds one file of this folder
  if(sources)
    set_property(GLOBAL APPEND PROPERTY kvik_floors ${name})  # for portable.cmake
    add_library(kvik_${name} STATIC ${sources})
    kvik_precompile(kvik_${name})
    kvik_unite(kvik_${name} ${sources})
    target_include_directories(kvik_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(kvik_${name} PUBLIC ${ARG_LINK})
  else()
    add_library(kvik_${name} INTERFACE)
    target_include_directories(kvik_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(kvik_${name} INTERFACE ${ARG_LINK})
  endif()
endfunction()

# kvik_floor_test(NAME LINK targets…): adds the executable test_NAME (with _ for each / of the name) of all *_test.cpp in tests/NAME and its
# subfolders, which mirror src/NAME.
function(kvik_floor_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*.cpp)
  if(name STREQUAL backend)
    list(FILTER sources EXCLUDE REGEX "/backend/cuda/")  # test_backend_cuda
  endif()
  if(sources)
    string(REPLACE "/" "_" target test_${name})
    add_executable(${target} ${sources})
    kvik_precompile_test(${target})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE ${ARG_LINK} GTest::gtest_main GTest::gmock)
    # Tests spend their time in the code under test, and optimization would take two thirds of the time to compile them.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    gtest_discover_tests(${target} TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 120)
  endif()
endfunction()
