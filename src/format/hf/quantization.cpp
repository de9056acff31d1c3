#include "format/hf/quantization.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <variant>

#include "base/check.h"
#include "format/hf/compressed_tensors.h"

namespace kvik::hf {
namespace {

constexpr double kMaxGroup = 1 << 20;
constexpr std::string_view kOfActivations[] = {
    "input_scale", "input_global_scale", "activation_scale", ".output_scale",
    ".q_scale",    ".k_scale",           ".v_scale"};

Result<void> check_is_same_everywhere(const JsonObject& config) {
  TRY_ASSIGN(const auto rules, config.object("dynamic"));
  if (!rules || rules->all().empty()) return {};
  return config.unexpected_value("dynamic", "none: all matrices quantized alike",
                                 ErrorCode::kUnsupported);
}

Result<Quantization> read_gptq(const JsonObject& config) {
  Quantization out;
  out.packing = Quantization::Packing::kAlongInputs;
  TRY_ASSIGN(out.bits, read_bits(config, "bits"));
  TRY_ASSIGN(out.group_size, read_group_size(config));
  TRY(check_is_same_everywhere(config));
  TRY_ASSIGN(const auto format, config.text("checkpoint_format"));
  if (format && *format != "gptq" && *format != "gptq_v2") {
    return config.unexpected_value("checkpoint_format", "gptq or gptq_v2", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto is_marlin, config.flag("is_marlin_format"));
  if (is_marlin.value_or(false)) {
    return config.unexpected_value("is_marlin_format", "false", ErrorCode::kUnsupported);
  }
  out.added_to_zeros = format == "gptq_v2" ? 0 : 1;
  TRY_ASSIGN(const auto is_ordered, config.flag("desc_act"));
  out.is_ordered = is_ordered.value_or(false);
  return out;
}

Result<Quantization> read_awq(const JsonObject& config) {
  Quantization out;
  out.packing = Quantization::Packing::kAlongOutputs;
  TRY_ASSIGN(const auto bits, config.number("bits"));
  if (bits != 4u) return config.unexpected_value("bits", "4", ErrorCode::kUnsupported);
  TRY_ASSIGN(out.group_size, read_group_size(config));
  TRY_ASSIGN(auto version, config.text("version"));
  std::string name = version.value_or("gemm");
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name != "gemm") {
    return config.unexpected_value("version", "gemm", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto has_zeros, config.flag("zero_point"));
  if (!has_zeros.value_or(true)) {
    return config.unexpected_value("zero_point", "true", ErrorCode::kUnsupported);
  }
  return out;
}

}  // namespace

Result<uint32_t> read_bits(const JsonObject& config, std::string_view key) {
  TRY_ASSIGN(const auto bits, config.number(key));
  if (bits == 4u || bits == 8u) return static_cast<uint32_t>(*bits);
  return config.unexpected_value(key, "4 or 8", ErrorCode::kUnsupported);
}

// The size must be a multiple of 32, the smallest block of the kernels.
Result<std::optional<uint32_t>> read_group_size(const JsonObject& config) {
  TRY_ASSIGN(const auto size, config.real("group_size"));
  if (size == -1.0) return std::nullopt;
  const bool is_known = size && *size >= 32 && *size <= kMaxGroup && std::fmod(*size, 32) == 0;
  if (is_known) return static_cast<uint32_t>(*size);
  return config.unexpected_value("group_size", "a multiple of 32, or -1 for whole rows",
                                 ErrorCode::kUnsupported);
}

bool is_of_activations(std::string_view name) {
  return std::ranges::any_of(kOfActivations,
                             [&](std::string_view end) { return name.ends_with(end); });
}

Result<std::optional<Quantization>> read_quantization(const JsonObject& config,
                                                      const FolderType& type) {
  TRY_ASSIGN(const auto quantization, config.object("quantization_config"));
  if (!quantization) return std::nullopt;
  TRY_ASSIGN(const auto method, quantization->text("quant_method"));
  if (method == "gptq") {
    TRY_ASSIGN(const Quantization out, read_gptq(*quantization));
    return out;
  }
  if (method == "awq") {
    TRY_ASSIGN(const Quantization out, read_awq(*quantization));
    return out;
  }
  if (method == kCompressedTensors) {
    TRY_ASSIGN(const auto weights, read_compressed_tensors(*quantization));
    CHECK(std::holds_alternative<Quantization>(weights));  // read_block_floats() reads the others
    return std::get<Quantization>(weights);
  }
  if (method == "mxfp4" && type.stacks == ExpertStacks::kInterleaved) return std::nullopt;
  return quantization->unexpected_value("quant_method",
                                        "gptq, awq, fp8, compressed-tensors, modelopt, or no "
                                        "quantization_config: F32, F16 and BF16 are read",
                                        ErrorCode::kUnsupported);
}

}  // namespace kvik::hf
