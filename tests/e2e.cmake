# The Python tests: each file is one entry of CTest; `./test` counts the cases inside.
file(GLOB python_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
  ${CMAKE_CURRENT_SOURCE_DIR}/e2e/*_test.py ${CMAKE_CURRENT_SOURCE_DIR}/tidy/*_test.py)
foreach(file ${python_tests})
  string(REGEX REPLACE "_test\\.py$" "" name ${file})
  get_filename_component(label ${file} DIRECTORY)
  add_test(NAME ${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 1200 ENVIRONMENT
    "KVIK_BINARY=${PROJECT_BINARY_DIR}/kvik;KVIK_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endforeach()
set_tests_properties(e2e/page PROPERTIES PROCESSORS 2)  # a browser beside a server
# These start engines with a thread per core, or watch the clock.
foreach(name agents adapter attack bits chat clients disk exactness explain fleet origins overload prefix server server_load threats_http
    threats_held threats_memory)
  set_tests_properties(e2e/${name} PROPERTIES PROCESSORS 2)
endforeach()
set_tests_properties(e2e/attack PROPERTIES TIMEOUT 7200)  # under --long: an hour, and how it was before
