#pragma once

#include <string_view>
#include <variant>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/floats/block_floats.h"
#include "format/hf/quantization.h"

namespace kvik::hf {

inline constexpr std::string_view kCompressedTensors = "compressed-tensors";

// Reads "quantization_config" of quant_method "compressed-tensors", as written by llm-compressor:
// E4M3 with a scale per matrix, per row or per block ("float-quantized", "naive-quantized",
// "mxfp8-quantized"), 4-bit floats ("nvfp4-pack-quantized", "mxfp4-pack-quantized"), or integers of
// 4 or 8 bits in groups of a row or whole rows ("pack-quantized", and "int-quantized" for 8 bits).
// The tensors of the folder determine which matrices are quantized; the lists of targets and
// exceptions are ignored, and so is the quantization of activations. Errors: kUnsupported for
// another format, several schemes, sparse weights and transforms, naming the key and its value.
// Source: compressed-tensors, QuantizationConfig and QuantizationArgs.
Result<std::variant<BlockFloats, Quantization>> read_compressed_tensors(const JsonObject& config);

}  // namespace kvik::hf
