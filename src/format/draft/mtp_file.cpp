#include "format/draft/mtp_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/printable.h"
#include "base/quantity.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/mtp_copies.h"
#include "format/source_config.h"

namespace kvik {
namespace {

constexpr std::string_view kLayers = "block_count", kMtpLayers = "nextn_predict_layers";
constexpr std::string_view kDim = "embedding_length";

std::string architecture_of(const ModelSource& source) {
  return source.metadata().get_string("general.architecture").value_or(std::nullopt).value_or("");
}

// Returns the value of a key of the architecture; 0: there is none.
uint64_t count_of(const ModelSource& source, std::string_view key) {
  const std::string name = fmt::format("{}.{}", architecture_of(source), key);
  return source.metadata().get_uint(name).value_or(std::nullopt).value_or(0);
}

// Returns the number of layers before the MTP layers.
uint64_t n_layers_of(const ModelSource& source) {
  return count_of(source, kLayers) -
         std::min(count_of(source, kLayers), count_of(source, kMtpLayers));
}

bool is_list_value(const Metadata::Value& value) {
  return std::visit(
      [](const auto& of) {
        return requires { of.begin(); }
        &&!requires { of.c_str(); };
      },
      value);
}

// Returns the keys that the model gets: the numbers of layers, and lists with an entry per layer.
Metadata keys_of_layers(const ModelSource& model, const ModelSource& file) {
  const std::string prefix = architecture_of(model) + ".";
  Metadata keys;
  for (const auto& [key, value] : file.metadata().values()) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view own = std::string_view(key).substr(prefix.size());
    if (own == kLayers || own == kMtpLayers || is_list_value(value)) keys.insert(key, value);
  }
  return keys;
}

// Keeps the tensors of the MTP layers: the others are the model's.
void keep_layers(ModelSource& source, uint64_t n_layers) {
  std::vector<ArrangedTensor> kept;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const auto id = tensor_named(source.tensors()[i].name);
    if (id && is_of_layer(id->role) && id->layer >= n_layers) {
      kept.push_back(unchanged_tensor(source, i));
    }
  }
  arrange(source, std::move(kept));
}

Result<ModelConfig> config_with_layers(const ModelSource& model, const ModelSource& file,
                                       const Metadata& keys) {
  Metadata all = model.metadata();
  for (const auto& [key, value] : keys.values()) all.replace(key, value);
  TRY_ASSIGN(ModelConfig config, read_config(all));
  if (!config.has_mtp_head) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("MTP layers of architecture '{}' are ignored", config.architecture));
  }
  const auto has = [&](TensorRole role) {
    return file.find(name_of(TensorId{role, config.n_layers})).has_value();
  };
  config.has_mtp_embedding = has(TensorRole::kMtpEmbedding);
  config.has_mtp_output = has(TensorRole::kMtpHead);
  return config;
}

// Returns the number of the first layer of which the file has tensors.
std::optional<uint32_t> first_layer_of(const ModelSource& source) {
  std::optional<uint32_t> first;
  for (const TensorInfo& tensor : source.tensors()) {
    const auto id = tensor_named(tensor.name);
    if (id && is_of_layer(id->role)) first = std::min(first.value_or(UINT32_MAX), id->layer);
  }
  return first;
}

// Checks that the keys agree with the tensors.
Result<void> check_keys(const ModelSource& file) {
  const uint32_t first = first_layer_of(file).value_or(0);
  if (count_of(file, kMtpLayers) == 0 || n_layers_of(file) != first) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}.{}' is {} and '{}' is {}, expected {} layers before the MTP layers, "
                    "as the names of the tensors have it",
                    architecture_of(file), kLayers, count_of(file, kLayers), kMtpLayers,
                    count_of(file, kMtpLayers), first));
  }
  const auto projection = file.find(name_of(TensorId{TensorRole::kMtpProjection, first}));
  const std::vector<uint64_t>& shape = file.tensors()[*projection].shape;
  if (!shape.empty() && shape[0] == count_of(file, kDim)) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}.{}' is {}, expected the {} rows of tensor '{}'",
                          architecture_of(file), kDim, count_of(file, kDim),
                          shape.empty() ? 0 : shape[0], file.tensors()[*projection].name));
}

Result<void> check_model(const ModelSource& model, const ModelSource& file) {
  const auto describe = [](const ModelSource& source) {
    return fmt::format("'{}' with {} of {} dimensions", architecture_of(source),
                       counted(n_layers_of(source), "layer"), count_of(source, kDim));
  };
  if (describe(model) == describe(file)) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("the MTP layers are those of a model {}, expected {}", describe(file),
                          describe(model)));
}

}  // namespace

bool is_mtp_file(const ModelSource& source) {
  const auto first = first_layer_of(source);
  return first.value_or(0) > 0 &&
         source.find(name_of(TensorId{TensorRole::kMtpProjection, *first})).has_value();
}

bool lacks_mtp_layers_of(const ModelSource& model, const ModelSource& file) {
  const auto config = config_of(model);
  if (!config || config->has_mtp_head || architecture_of(model) != architecture_of(file)) {
    return false;
  }
  return !check_keys(file) || check_model(model, file).has_value();
}

Result<std::unique_ptr<ModelSource>> with_mtp_file(std::unique_ptr<ModelSource>& model,
                                                   std::unique_ptr<ModelSource> source,
                                                   const HeadLimits& limits) {
  const std::string label = source->label();
  const auto add = [&]() -> Result<std::unique_ptr<ModelSource>> {
    TRY(check_keys(*source));
    TRY(check_model(*model, *source));
    DraftHead head{.source = std::move(source),
                   .config = {},
                   .keys = {},
                   .prefix = architecture_of(*model) + ".",
                   .tensors = {}};
    head.keys = keys_of_layers(*model, *head.source);
    keep_layers(*head.source, n_layers_of(*model));
    TRY_ASSIGN(head.config, config_with_layers(*model, *head.source, head.keys));
    TRY_ASSIGN(auto joined, join_head(model, std::move(head), limits));
    const auto left_out = leave_out_mtp_copies(*joined);
    static_cast<void>(left_out);  // copies that stay cost memory only
    return joined;
  };
  auto joined = add();
  if (joined) return joined;
  return fail(joined.error().code,
              fmt::format("'{}' as MTP head: {}", Printable(label), joined.error().message));
}

}  // namespace kvik
