#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// Placeholder for ggml's number of a type that GGUF files cannot contain.
inline constexpr uint32_t kNoGgufId = UINT32_MAX;
// "general.file_type" of a model whose matrices have one type (llama.cpp's llama_ftype).
// kGuessedFileType is llama.cpp's number for types without one; kNoFileType marks types of which no
// model is written.
inline constexpr uint32_t kGuessedFileType = 1024;
inline constexpr uint32_t kNoFileType = UINT32_MAX;

// All element types, with the members of ElementTraits. The list holds the types of GGUF, so that
// `kvik show` can name what a file holds, and integer groups and floats of 8 bits, which are made
// while folders are read (group_blocks.h, float_blocks.h). A type that can be read has a format as
// well (block_format.h); the backend says which types it computes with (Backend::can_compute).
// tools/oracle/gguf_file.py reads this list.
// clang-format off
#define KVIK_ELEMENT_TYPES(row) \
  /* type, name, GGUF's number, elements and bytes of a block, file type; bytes before a row */ \
  row(kF32, "f32", 0, 1, 4, 0) \
  row(kF16, "f16", 1, 1, 2, 1) \
  row(kQ4_0, "q4_0", 2, 32, 18, 2) \
  row(kQ4_1, "q4_1", 3, 32, 20, 3) \
  row(kQ5_0, "q5_0", 6, 32, 22, 8) \
  row(kQ5_1, "q5_1", 7, 32, 24, 9) \
  row(kQ8_0, "q8_0", 8, 32, 34, 7) \
  row(kQ8_1, "q8_1", 9, 32, 36, kNoFileType) \
  row(kQ2_K, "q2_k", 10, 256, 84, 10) \
  row(kQ3_K, "q3_k", 11, 256, 110, 11) \
  row(kQ4_K, "q4_k", 12, 256, 144, 14) \
  row(kQ5_K, "q5_k", 13, 256, 176, 16) \
  row(kQ6_K, "q6_k", 14, 256, 210, 18) \
  row(kQ8_K, "q8_k", 15, 256, 292, kNoFileType) \
  row(kIQ2_XXS, "iq2_xxs", 16, 256, 66, 19) \
  row(kIQ2_XS, "iq2_xs", 17, 256, 74, 20) \
  row(kIQ3_XXS, "iq3_xxs", 18, 256, 98, 23) \
  row(kIQ1_S, "iq1_s", 19, 256, 50, 24) \
  row(kIQ4_NL, "iq4_nl", 20, 32, 18, 25) \
  row(kIQ3_S, "iq3_s", 21, 256, 110, 26) \
  row(kIQ2_S, "iq2_s", 22, 256, 82, 28) \
  row(kIQ4_XS, "iq4_xs", 23, 256, 136, 30) \
  row(kI8, "i8", 24, 1, 1, kNoFileType) \
  row(kI16, "i16", 25, 1, 2, kNoFileType) \
  row(kI32, "i32", 26, 1, 4, kNoFileType) \
  row(kI64, "i64", 27, 1, 8, kNoFileType) \
  row(kF64, "f64", 28, 1, 8, kNoFileType) \
  row(kIQ1_M, "iq1_m", 29, 256, 56, 31) \
  row(kBF16, "bf16", 30, 1, 2, 32) \
  row(kTQ1_0, "tq1_0", 34, 256, 54, 36) \
  row(kTQ2_0, "tq2_0", 35, 256, 66, 37) \
  row(kMXFP4, "mxfp4", 39, 32, 17, 38) \
  row(kInt4G32, "int4g32", kNoGgufId, 32, 20, kNoFileType) \
  row(kInt4G64, "int4g64", kNoGgufId, 64, 36, kNoFileType) \
  row(kInt4G128, "int4g128", kNoGgufId, 128, 68, kGuessedFileType) \
  row(kInt8G32, "int8g32", kNoGgufId, 32, 36, kNoFileType) \
  row(kInt8G128, "int8g128", kNoGgufId, 128, 132, kGuessedFileType) \
  row(kFp8, "fp8", kNoGgufId, 128, 132, kGuessedFileType) \
  row(kFp8G32, "fp8g32", kNoGgufId, 32, 36, kNoFileType) \
  row(kNvFp4, "nvfp4", 40, 64, 36, 39) \
  row(kQ1_0, "q1_0", 41, 128, 18, 40) \
  row(kQ2_0, "q2_0", 42, 64, 18, 41) \
  /* ik_llama.cpp */ \
  row(kIQ2_K, "iq2_k", 137, 256, 76, 138) \
  row(kIQ3_K, "iq3_k", 138, 256, 110, 139) \
  row(kIQ4_K, "iq4_k", 139, 256, 144, 140) \
  row(kIQ5_K, "iq5_k", 140, 256, 176, 141) \
  row(kIQ6_K, "iq6_k", 141, 256, 212, 142) \
  row(kIQ4_KS, "iq4_ks", 144, 256, 136, 145, 4) \
  row(kIQ2_KS, "iq2_ks", 145, 256, 70, 147, 2) \
  row(kIQ4_KSS, "iq4_kss", 146, 256, 128, 148, 4) \
  row(kIQ5_KS, "iq5_ks", 152, 256, 168, 150, 4) \
  row(kIQ3_KS, "iq3_ks", 156, 256, 102, 154, 2) \
  row(kIQ2_KL, "iq2_kl", 157, 256, 86, 155, 2)
// clang-format on

enum class ElementType : uint8_t {
#define KVIK_ENUMERATOR(type, ...) type,
  KVIK_ELEMENT_TYPES(KVIK_ENUMERATOR)
#undef KVIK_ENUMERATOR
};

#define KVIK_ONE(...) +1
inline constexpr size_t kNumElementTypes = 0 KVIK_ELEMENT_TYPES(KVIK_ONE);
#undef KVIK_ONE

}  // namespace kvik
