# Headers that nearly every unit includes are precompiled once for all floors, and once more, together with GoogleTest, for all tests.
# Sources must still include the headers that they use; -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without precompiled headers.
set(common_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstring>
  <expected> <functional> <iterator> <limits> <map> <memory> <mutex> <optional> <ranges> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>
  <base/format_once.h>)
set(json_headers <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/parse.hpp> <boost/json/serialize.hpp>
  <boost/json/string.hpp> <boost/json/value.hpp>)
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp.tmp "")
configure_file(${PROJECT_BINARY_DIR}/precompiled.cpp.tmp ${PROJECT_BINARY_DIR}/precompiled.cpp COPYONLY)

# A target that uses precompiled headers must have the flags with which they were compiled.
add_library(kvik_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_include_directories(kvik_precompiled PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(kvik_precompiled PRIVATE fmt::fmt)
target_precompile_headers(kvik_precompiled PRIVATE ${common_headers})

# For floors that read and write JSON in many units.
add_library(kvik_precompiled_json OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_include_directories(kvik_precompiled_json PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(kvik_precompiled_json PRIVATE fmt::fmt Boost::json)
target_precompile_headers(kvik_precompiled_json PRIVATE ${common_headers} ${json_headers})
set(floors_with_json kvik_server)

# kvik_precompile(TARGET): TARGET uses the precompiled headers of all floors.
function(kvik_precompile target)
  if(target IN_LIST floors_with_json)
    target_precompile_headers(${target} REUSE_FROM kvik_precompiled_json)
  else()
    target_precompile_headers(${target} REUSE_FROM kvik_precompiled)
  endif()
endfunction()

# kvik_precompile_test(TARGET): TARGET uses the precompiled headers of the tests.
function(kvik_precompile_test target)
  if(NOT TARGET kvik_precompiled_test)
    add_library(kvik_precompiled_test OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_include_directories(kvik_precompiled_test PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(kvik_precompiled_test PRIVATE fmt::fmt GTest::gtest GTest::gmock)
    target_precompile_headers(kvik_precompiled_test PRIVATE ${common_headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM kvik_precompiled_test)
endfunction()
