#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// How the matrices of a folder hold floats of a few bits beside scales.
struct BlockFloats {
  enum class Kind : uint8_t {
    kFp8,    // E4M3 (Micikevicius et al. 2022), a scale for each block of rows and columns
    kNvFp4,  // E2M1, an E4M3 scale for sixteen columns of a row, and one of the whole matrix
    kMxFp4,  // E2M1, an E8M0 scale for 32 columns of a row (OCP's microscaling formats, 2023)
  };
  Kind kind = Kind::kFp8;
  uint64_t block_rows = 0, block_cols = 0;  // kFp8; 0: all of the matrix
  // compressed-tensors' names of the tensors of kNvFp4, where the matrix's scale divides, and of
  // kMxFp4.
  bool is_packed = false;

  bool operator==(const BlockFloats&) const = default;
};

// "quantization_config" of config.json where it names such floats: DeepSeek's "fp8", Modelopt's
// "NVFP4", compressed-tensors' of FP8; none where it does not. Errors: kUnsupported for another
// kind of them, naming the key.
Result<std::optional<BlockFloats>> read_block_floats(const JsonObject& config);

// The rows and columns of a block: two numbers under `key`. Errors: kCorrupt for anything else.
Result<BlockFloats> read_float_blocks(const JsonObject& config, std::string_view key);

// Makes each such matrix of the source, "NAME.weight" with ".weight_scale_inv" or ".weight_scale"
// (kFp8), or with ".weight_scale" and ".weight_scale_2" (kNvFp4), as one tensor "NAME.weight", made
// when it is read. compressed-tensors has ".weight_packed" and ".weight_global_scale" instead
// (is_packed); kMxFp4 is ".weight_packed" with ".weight_scale" and becomes mxfp4, exactly what the
// folder holds. kFp8 may be a stack of matrices, "NAME" with "NAME_scale_inv", and have its scales
// as floats or as E8M0: bytes that are exponents of two (OCP's microscaling formats, 2023). With a
// scale for every 128 or 32 columns, or for multiples of them, it is blocks of fp8 or fp8g32
// (tensor/float_blocks.h), and kNvFp4 of whole blocks of 64 columns is nvfp4, exactly what the
// folder holds; else it is bf16, every value times its scale, rounded once, as DeepSeek's own
// conversion does. What scales activations and pages is left
// out; all others stay as they are. Errors: kCorrupt, naming a tensor that is missing, or whose
// shape does not fit its neighbour, or that holds no number.
Result<void> join_block_floats(ModelSource& source, const BlockFloats& how);

}  // namespace kvik::hf
