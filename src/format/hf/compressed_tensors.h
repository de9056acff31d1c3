#pragma once

#include <string_view>
#include <variant>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/block_floats.h"
#include "format/hf/quantization.h"

namespace kvik::hf {

inline constexpr std::string_view kCompressedTensors = "compressed-tensors";

// How the matrices of a folder of that "quant_method" are held, as llm-compressor writes them, from
// its "quantization_config": E4M3 under a scale for a matrix, for each row or for each block
// ("float-quantized", "naive-quantized"), or integers of 4 or 8 bits in groups of a row or in whole
// rows ("pack-quantized"). Which matrices are held so, their tensors tell, and not the lists of
// targets and exceptions; how activations were rounded is left out. Errors: kUnsupported for
// another format, several schemes, sparse weights and transforms, naming the key and its value.
// Source: compressed-tensors, QuantizationConfig and QuantizationArgs.
Result<std::variant<BlockFloats, Quantization>> read_compressed_tensors(const JsonObject& config);

}  // namespace kvik::hf
