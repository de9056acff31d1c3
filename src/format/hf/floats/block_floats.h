#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// Format of matrices of small floats with scales in a folder.
struct BlockFloats {
  enum class Kind : uint8_t {
    kFp8,    // E4M3 (Micikevicius et al. 2022), a scale per block of rows and columns
    kNvFp4,  // E2M1, an E4M3 scale per sixteen columns of a row, and one of the whole matrix
    kMxFp4,  // E2M1, an E8M0 scale per 32 columns of a row (OCP's microscaling formats, 2023)
  };
  Kind kind = Kind::kFp8;
  uint64_t block_rows = 0, block_cols = 0;  // kFp8; 0: the whole matrix
  // True if tensors have the names of compressed-tensors, as is always the case for kMxFp4. For
  // kNvFp4, the scale of the matrix is then a divisor.
  bool is_packed = false;
  // True if matrices whose names contain ".experts." are kMxFp4, as in DeepSeek V4. kFp8 only,
  // with its names.
  bool has_fp4_experts = false;

  bool operator==(const BlockFloats&) const = default;
};

// Reads "quantization_config" of config.json if it describes such floats: DeepSeek's "fp8", beside
// or in which "expert_dtype" may be "fp4", ModelOpt's "NVFP4", FP8 of compressed-tensors. Errors:
// kUnsupported for another variant, naming the key.
Result<std::optional<BlockFloats>> read_block_floats(const JsonObject& config);

// Reads the rows and columns of a block: two numbers under `key`. Errors: kCorrupt for anything
// else.
Result<BlockFloats> read_float_blocks(const JsonObject& config, std::string_view key);

// Combines each such matrix, "NAME.weight" with ".weight_scale_inv" or ".weight_scale" (kFp8), or
// with ".weight_scale" and ".weight_scale_2" (kNvFp4), into one tensor "NAME.weight", which is made
// when it is read. In compressed-tensors the names are ".weight_packed" and ".weight_global_scale"
// (is_packed); kMxFp4 is ".weight_packed" with ".weight_scale", or an expert of has_fp4_experts,
// and becomes mxfp4 without loss. kFp8 may be a stack of matrices, "NAME" with "NAME_scale_inv",
// have its scales in "NAME.scale" (DeepSeek V4), and have them as floats or as E8M0 bytes (OCP's
// microscaling formats, 2023).
//
// kFp8 with a scale per 128 or 32 columns, or per multiple of these, becomes fp8 or fp8g32
// (tensor/float_blocks.h), and kNvFp4 with whole blocks of 64 columns becomes nvfp4, both without
// loss. Otherwise the matrix becomes bf16, every value times its scale, rounded once, as in
// DeepSeek's own conversion. Scales of activations and pages are dropped; all other tensors are
// unchanged. Errors: kCorrupt, naming a tensor that is missing, has an unexpected shape, or
// contains a value that is not finite. Scales that are copied to nvfp4 blocks are checked later,
// when the model is loaded.
Result<void> join_block_floats(ModelSource& source, const BlockFloats& how);

}  // namespace kvik::hf
