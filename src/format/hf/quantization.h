#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"

namespace kvik::hf {

// Quantization of a folder's matrices: groups of integers with a common scale and zero point,
// packed into 32-bit words.
struct Quantization {
  enum class Packing : uint8_t {
    kAlongInputs,   // GPTQ: a word holds adjacent elements along the dimension summed over
    kAlongOutputs,  // AWQ's "gemm": a word holds eight rows in the order 0 2 4 6 1 3 5 7
    kRowByRow,      // compressed-tensors: as GPTQ, but the words of a row are contiguous
  };

  Packing packing = Packing::kAlongInputs;
  uint32_t bits = 4;                   // 4 or 8
  std::optional<uint32_t> group_size;  // std::nullopt: a whole row
  uint32_t added_to_zeros = 0;         // 1: zero points are stored minus one, as in GPTQ before v2
  bool is_ordered = false;   // columns are sorted by activation; "g_idx" has the group of each
  bool is_unpacked = false;  // kRowByRow: "NAME.weight" holds signed bytes
  bool has_zeros = true;     // otherwise the zero point is the middle of the levels

  bool operator==(const Quantization&) const = default;
};

// Reads "quantization_config" of config.json; std::nullopt if there is none, or if the model type
// has a storage format of its own (interleaved_experts.h). Errors: kUnsupported for another method,
// version or width, kCorrupt for impossible values; each names the key and what is supported.
// Sources: AutoGPTQ, BaseQuantizeConfig; AutoAWQ, WQLinear_GEMM; compressed_tensors.h.
Result<std::optional<Quantization>> read_quantization(const JsonObject& config,
                                                      const FolderType& type);

// Reads the bits of integer weights: 4 or 8.
Result<uint32_t> read_bits(const JsonObject& config, std::string_view key);
// Reads "group_size"; std::nullopt if a group is a whole row.
Result<std::optional<uint32_t>> read_group_size(const JsonObject& config);

// Returns whether a tensor of that name has scales of activations or of the KV cache. Kvik computes
// its own.
bool is_of_activations(std::string_view name);

}  // namespace kvik::hf
