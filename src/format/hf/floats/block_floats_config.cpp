#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "format/hf/compressed_tensors.h"
#include "format/hf/floats/block_floats.h"

// Reads the descriptions of small floats (block_floats.h) in config.json.
namespace kvik::hf {
namespace {

constexpr uint64_t kMaxBlock = 65536;

Result<BlockFloats> read_fp8(const JsonObject& config) {
  TRY_ASSIGN(const auto format, config.text("fmt"));
  if (format && *format != "e4m3" && *format != "float8_e4m3fn") {
    return config.unexpected_value("fmt", "e4m3", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const std::vector<uint64_t> block, config.numbers("weight_block_size"));
  if (block.empty()) return BlockFloats();
  return read_float_blocks(config, "weight_block_size");
}

// Reads the type of the experts. DeepSeek V4 states it beside "quantization_config", DeepSeek V4.1
// in it; otherwise it is that of the other matrices, as in Transformers.
Result<bool> has_fp4_experts(const JsonObject& config, const JsonObject& quantization) {
  const JsonObject& stated = quantization.find("expert_dtype") ? quantization : config;
  TRY_ASSIGN(const auto type, stated.text("expert_dtype"));
  if (!type || *type == "fp8") return false;
  if (*type == "fp4") return true;
  return stated.unexpected_value("expert_dtype", "fp4 or fp8", ErrorCode::kUnsupported);
}

}  // namespace

Result<std::optional<BlockFloats>> read_block_floats(const JsonObject& config) {
  TRY_ASSIGN(const auto quantization, config.object("quantization_config"));
  if (!quantization) return std::nullopt;
  TRY_ASSIGN(const auto method, quantization->text("quant_method"));
  if (method == "fp8") {
    TRY_ASSIGN(BlockFloats how, read_fp8(*quantization));
    TRY_ASSIGN(how.has_fp4_experts, has_fp4_experts(config, *quantization));
    return how;
  }
  if (method == kCompressedTensors) {
    TRY_ASSIGN(const auto weights, read_compressed_tensors(*quantization));
    const auto* floats = std::get_if<BlockFloats>(&weights);
    return floats ? std::optional(*floats) : std::nullopt;
  }
  if (method != "modelopt") return std::nullopt;
  TRY_ASSIGN(const auto algorithm, quantization->text("quant_algo"));
  if (algorithm == "NVFP4") return BlockFloats{.kind = BlockFloats::Kind::kNvFp4};
  return quantization->unexpected_value("quant_algo", "NVFP4", ErrorCode::kUnsupported);
}

Result<BlockFloats> read_float_blocks(const JsonObject& config, std::string_view key) {
  TRY_ASSIGN(const std::vector<uint64_t> block, config.numbers(key));
  const auto fits = [](uint64_t n) { return n >= 1 && n <= kMaxBlock; };
  if (block.size() == 2 && std::ranges::all_of(block, fits)) {
    return BlockFloats{.block_rows = block[0], .block_cols = block[1]};
  }
  return config.unexpected_value(key, fmt::format("two numbers from 1 to {}", kMaxBlock));
}

}  // namespace kvik::hf
