#include "format/hf/compressed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik::hf {
namespace {

namespace json = boost::json;

using Scheme = std::variant<BlockFloats, Quantization>;

// A format that its name determines completely. The file may also state the columns per scale.
struct NamedFormat {
  std::string_view name;
  uint32_t group_size;
  BlockFloats floats;
};
constexpr NamedFormat kNamedFormats[] = {
    {"nvfp4-pack-quantized", 16, {.kind = BlockFloats::Kind::kNvFp4, .is_packed = true}},
    {"mxfp4-pack-quantized", 32, {.kind = BlockFloats::Kind::kMxFp4, .is_packed = true}},
    {"mxfp8-quantized", 32, {.block_rows = 1, .block_cols = 32}},
};

Result<BlockFloats> read_floats(const JsonObject& weights) {
  TRY_ASSIGN(const auto bits, weights.number("num_bits"));
  if (bits != 8u) return weights.unexpected_value("num_bits", "8", ErrorCode::kUnsupported);
  TRY_ASSIGN(const auto type, weights.text("type"));
  if (type != "float") {
    return weights.unexpected_value("type", "float", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto strategy, weights.text("strategy"));
  if (strategy == "tensor") return BlockFloats();
  if (strategy == "channel") return BlockFloats{.block_rows = 1};
  if (strategy == "block") return read_float_blocks(weights, "block_structure");
  return weights.unexpected_value("strategy", "tensor, channel or block", ErrorCode::kUnsupported);
}

// Returns whether columns are sorted by activation, so that there is a "weight_g_idx". The values
// "weight" and "static" only mean that the levels were computed in that order, which does not show
// in the file.
Result<bool> is_ordered(const JsonObject& weights) {
  const json::value* order = weights.find("actorder");
  if (!order || order->is_bool()) return order && order->get_bool();
  TRY_ASSIGN(const auto name, weights.text("actorder"));
  if (name == "group" || name == "dynamic") return true;
  if (name == "weight" || name == "static") return false;
  return weights.unexpected_value("actorder", "group, weight or none", ErrorCode::kUnsupported);
}

Result<Quantization> read_integers(const JsonObject& weights) {
  Quantization out;
  out.packing = Quantization::Packing::kRowByRow;
  TRY_ASSIGN(out.bits, read_bits(weights, "num_bits"));
  TRY_ASSIGN(const auto type, weights.text("type"));
  if (type.value_or("int") != "int") {
    return weights.unexpected_value("type", "int", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto strategy, weights.text("strategy"));
  if (strategy == "group") {
    TRY_ASSIGN(out.group_size, read_group_size(weights));
  } else if (strategy != "channel") {
    return weights.unexpected_value("strategy", "group or channel", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto is_symmetric, weights.flag("symmetric"));
  out.has_zeros = !is_symmetric.value_or(true);
  TRY_ASSIGN(out.is_ordered, is_ordered(weights));
  return out;
}

// Reads a group of matrices; std::nullopt if it quantizes activations only.
Result<std::optional<Scheme>> read_group(const JsonObject& group, const JsonObject& config) {
  TRY_ASSIGN(const auto weights, group.object("weights"));
  if (!weights) return std::nullopt;
  const JsonObject& stated = group.find("format") ? group : config;
  TRY_ASSIGN(const auto format, stated.text("format"));
  if (format == "float-quantized" || format == "naive-quantized") {
    TRY_ASSIGN(const BlockFloats floats, read_floats(*weights));
    return floats;
  }
  if (format == "pack-quantized") {
    TRY_ASSIGN(const Quantization integers, read_integers(*weights));
    return integers;
  }
  for (const NamedFormat& named : kNamedFormats) {
    if (format != named.name) continue;
    TRY_ASSIGN(const auto size, weights->number("group_size"));
    if (size.value_or(named.group_size) != named.group_size) {
      return weights->unexpected_value("group_size", fmt::format("{}", named.group_size),
                                       ErrorCode::kUnsupported);
    }
    return named.floats;
  }
  if (format == "int-quantized") {
    TRY_ASSIGN(Quantization integers, read_integers(*weights));
    if (integers.bits != 8) {
      return weights->unexpected_value("num_bits", "8", ErrorCode::kUnsupported);
    }
    if (integers.has_zeros) {
      return weights->unexpected_value("symmetric", "true", ErrorCode::kUnsupported);
    }
    integers.is_unpacked = true;
    return integers;
  }
  return stated.unexpected_value(
      "format",
      "float-quantized, naive-quantized, int-quantized, pack-quantized, mxfp8-quantized, "
      "nvfp4-pack-quantized or mxfp4-pack-quantized",
      ErrorCode::kUnsupported);
}

// Rejects transformations of the weights other than scales.
Result<void> check_nothing_else(const JsonObject& config) {
  TRY_ASSIGN(const auto sparsity, config.object("sparsity_config"));
  if (sparsity) {
    TRY_ASSIGN(const auto format, sparsity->text("format"));
    if (format.value_or("dense") != "dense") {
      return sparsity->unexpected_value("format", "dense", ErrorCode::kUnsupported);
    }
  }
  TRY_ASSIGN(const auto transforms, config.object("transform_config"));
  if (!transforms) return {};
  TRY_ASSIGN(const auto groups, transforms->object("config_groups"));
  if (!groups || groups->all().empty()) return {};
  return transforms->unexpected_value("config_groups", "none: weights as they are",
                                      ErrorCode::kUnsupported);
}

}  // namespace

Result<std::variant<BlockFloats, Quantization>> read_compressed_tensors(const JsonObject& config) {
  TRY(check_nothing_else(config));
  TRY_ASSIGN(const auto groups, config.object("config_groups"));
  std::optional<Scheme> scheme;
  if (groups) {
    for (const auto& member : groups->all()) {
      const std::string_view name(member.key().data(), member.key().size());
      TRY_ASSIGN(const auto group, groups->object(name));
      if (!group) continue;
      TRY_ASSIGN(const auto own, read_group(*group, config));
      if (own && scheme && *own != *scheme) {
        return groups->unexpected_value(name, "the scheme of the other groups",
                                        ErrorCode::kUnsupported);
      }
      if (own) scheme = own;
    }
  }
  if (scheme) return *scheme;
  return config.unexpected_value("config_groups", "a group with weights", ErrorCode::kUnsupported);
}

}  // namespace kvik::hf
