# Files whose names end in an instruction set are compiled for that set and must contain only kernels: otherwise the linker might keep their
# copy of an inline function of the standard library for the whole program. The last flag is needed because GCC 12 warns about its own
# AVX-512 intrinsics (bug 105593).
set(isa_flags_avx2 -mavx2 -mfma -mf16c)
set(isa_flags_avxvnni ${isa_flags_avx2} -mavxvnni)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c)
set(isa_flags_avx512bf16 ${isa_flags_avx512} -mavx512bf16)
set(isa_flags_amx ${isa_flags_avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)
set(isa_flags_avx512vbmi ${isa_flags_avx512})  # the file adds its flag itself

function(kvik_compile_for isa)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "${isa_flags_${isa}};-O3;-Wno-maybe-uninitialized;${kvik_kernel_options}")
endfunction()
foreach(isa avx2 avxvnni avx512 avx512bf16 avx512vbmi amx)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/*_${isa}.cpp)
  kvik_compile_for(${isa} ${sources})
endforeach()

# kvik_kernels(FAMILY SETS sets… HEADERS headers…): compiles src/backend/cpu/FAMILY.inl for each set in its own unit, after these headers;
# "*" in a header's name stands for the set.
function(kvik_kernels family)
  cmake_parse_arguments(ARG "" "" "SETS;HEADERS" ${ARGN})
  get_filename_component(name ${family} NAME)
  foreach(isa ${ARG_SETS})
    list(TRANSFORM ARG_HEADERS REPLACE "(.*)\\*(.*)" "\\1${isa}\\2" OUTPUT_VARIABLE headers)
    list(TRANSFORM headers REPLACE "(.+)" "#include \"backend/cpu/\\1\"\n")
    string(JOIN "" headers ${headers})
    set(unit ${PROJECT_BINARY_DIR}/kernels/${name}_${isa}.cpp)
    configure_file(${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/unit.cpp.in ${unit} @ONLY)
    target_sources(kvik_backend PRIVATE ${unit})
    if(isa_flags_${isa})
      kvik_compile_for(${isa} ${unit})
    endif()
  endforeach()
endfunction()

set(sets scalar avx2 avxvnni avx512)
kvik_kernels(matmul/matmul SETS ${sets} HEADERS matmul/dot_*.h matmul/matmul_kernels.h isa/tiles.h)
foreach(types small low_bit groups)
  kvik_kernels(matmul/matmul_${types} SETS ${sets} HEADERS matmul/dot_small_*.h matmul/matmul_kernels.h isa/tiles.h)
endforeach()
kvik_kernels(matmul/matmul_codes SETS ${sets} HEADERS matmul/dot_codes_*.h matmul/matmul_kernels.h isa/tiles.h)
kvik_kernels(matmul/matmul_tables SETS ${sets} HEADERS matmul/dot_tables_*.h matmul/matmul_kernels.h isa/tiles.h)
kvik_kernels(matmul/matmul_fp8 SETS ${sets} HEADERS isa/vec_*.h matmul/matmul_kernels.h isa/tiles.h)
kvik_kernels(attention/attention SETS scalar avx2 avx512 amx HEADERS attention/attention_int8_*.h isa/kernels.h isa/tiles.h)
kvik_kernels(rows/rows SETS scalar avx2 avx512 HEADERS isa/vec_*.h isa/kernels.h)
kvik_kernels(state/state SETS scalar avx2 avx512 HEADERS isa/vec_*.h state/state_kernels.h)
kvik_kernels(low_rank/low_rank SETS scalar avx2 avx512 HEADERS isa/vec_*.h low_rank/low_rank_kernels.h)
kvik_kernels(indexer/indexer SETS scalar avx2 avx512 HEADERS isa/vec_*.h indexer/indexer_kernels.h)
