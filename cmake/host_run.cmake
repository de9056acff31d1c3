# kvik_host_run_kernels(TARGET): the CUDA backend's kernels as host C++, run thread by thread by tests/host_run: a file of
# kernels is compiled behind the words of CUDA that tests/host_run/cuda_words.h gives a meaning.
function(kvik_host_run_kernels target)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu)
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-x;c++;-include;host_run/cuda_words.h;-Wno-unknown-pragmas")
  target_sources(${target} PRIVATE ${kernels})
endfunction()
