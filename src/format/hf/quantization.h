#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"

namespace kvik::hf {

// How the matrices of a folder have been quantised: groups of integers that share a scale and a
// zero, as words of 32 bits.
struct Quantization {
  enum class Packing : uint8_t {
    kAlongInputs,   // GPTQ: a word is of neighbours along the dimension summed over
    kAlongOutputs,  // AWQ's "gemm": of eight rows of the matrix, 0 2 4 6 1 3 5 7
    kRowByRow,      // compressed-tensors: as GPTQ, but a row's words lie together
  };

  Packing packing = Packing::kAlongInputs;
  uint32_t bits = 4;                   // 4 or 8
  std::optional<uint32_t> group_size;  // none: a whole row of the matrix
  uint32_t added_to_zeros = 0;         // GPTQ's first files hold them less one
  bool is_ordered = false;             // by activation: each column's group is in "g_idx"
  bool is_unpacked = false;            // kRowByRow: "NAME.weight" holds signed bytes
  bool has_zeros = true;               // otherwise the middle of the levels is every zero

  bool operator==(const Quantization&) const = default;
};

// "quantization_config" of config.json; none where it has none, or where the type of models is
// stored in a way of its own (interleaved_experts.h). Errors: kUnsupported for another
// method, version or width, kCorrupt for what cannot be; each names the key and what is read.
// Sources: AutoGPTQ, BaseQuantizeConfig; AutoAWQ, WQLinear_GEMM; compressed_tensors.h.
Result<std::optional<Quantization>> read_quantization(const JsonObject& config,
                                                      const FolderType& type);

// 4 or 8, of integers that stand for weights.
Result<uint32_t> read_bits(const JsonObject& config, std::string_view key);
// "group_size" of such a config; none where a group is a whole row.
Result<std::optional<uint32_t>> read_group_size(const JsonObject& config);

// Whether a tensor of that name scales activations or pages: Kvik has scales of its own for them.
bool is_of_activations(std::string_view name);

}  // namespace kvik::hf
