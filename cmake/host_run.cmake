# kvik_host_run_kernels(TARGET): compiles the CUDA backend's kernels as host C++, which tests/host_run runs thread by thread.
# tests/host_run/cuda_words.h is included before each kernel file and defines CUDA's keywords and built-ins.
function(kvik_host_run_kernels target)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu)
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-x;c++;-include;host_run/cuda_words.h;-Wno-unknown-pragmas")
  target_sources(${target} PRIVATE ${kernels})
endfunction()
