# Files that end in an instruction set's name are compiled for it, and hold nothing but kernels: an
# inline function of the standard library in them could be the copy that the linker keeps for all.
# GCC 12 warns of its own AVX-512 intrinsics (bug 105593), hence the last flag.
set(isa_flags_avx2 -mavx2 -mfma -mf16c)
set(isa_flags_avxvnni ${isa_flags_avx2} -mavxvnni)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c)
set(isa_flags_avx512bf16 ${isa_flags_avx512} -mavx512bf16)
foreach(isa avx2 avxvnni avx512 avx512bf16)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/*_${isa}.cpp)
  set_source_files_properties(${sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${isa_flags_${isa}};-O3;-Wno-maybe-uninitialized")
endforeach()
