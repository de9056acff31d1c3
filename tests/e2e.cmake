# The Python tests: each file is one CTest entry, and `./test` counts the cases inside.
file(GLOB python_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
  ${CMAKE_CURRENT_SOURCE_DIR}/e2e/*_test.py ${CMAKE_CURRENT_SOURCE_DIR}/tidy/*_test.py)
foreach(file ${python_tests})
  string(REGEX REPLACE "_test\\.py$" "" name ${file})
  get_filename_component(label ${file} DIRECTORY)
  add_test(NAME ${name} COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${file} -v)  # -v prints the reason of each skipped test
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 1200 ENVIRONMENT
    "KVIK_BINARY=${PROJECT_BINARY_DIR}/kvik;KVIK_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endforeach()
# Runs the GPU tests on the simulated device of the host run, as many of them as take a minute.
add_test(NAME e2e/gpu_on_host_run COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gpu_test.py
  Gpu.test_a_long_prompt_and_its_decoded_tokens Gpu.test_speculation_gives_the_same_tokens Gpu.test_pages_on_disk_are_shared_by_cpu_and_gpu)
set_tests_properties(e2e/gpu_on_host_run PROPERTIES LABELS e2e TIMEOUT 1200 ENVIRONMENT
  "KVIK_BINARY=$<TARGET_FILE:kvik_on_host_run>;KVIK_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
set_tests_properties(e2e/package e2e/installation PROPERTIES RESOURCE_LOCK packages)
set_tests_properties(e2e/page PROPERTIES PROCESSORS 2)  # a browser and a server
# These start engines with a thread per core, or measure time.
foreach(name agents adapter attack bfcl bits chat client_schemas clients disk exactness explain fleet frameworks ollama origins overload prefix
    server server_load threats_http trained threats_held threats_memory)
  set_tests_properties(e2e/${name} PROPERTIES PROCESSORS 2)
endforeach()
set_tests_properties(e2e/bfcl e2e/client_schemas e2e/frameworks PROPERTIES TIMEOUT 7200)  # with --models: hundreds of answers
set_tests_properties(e2e/attack PROPERTIES TIMEOUT 7200)  # with --long: an hour of attack, and the time before it
