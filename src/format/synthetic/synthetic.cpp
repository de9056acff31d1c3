#include "format/synthetic/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/synthetic/synthetic_layout.h"
#include "format/synthetic/synthetic_weights.h"

namespace kvik {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

class SyntheticSource final : public ModelSource {
 public:
  SyntheticSource(std::string label, const ModelPreset& preset, const SyntheticType& type)
      : label_(std::move(label)),
        metadata_(synthetic_metadata(preset, type)),
        plan_(synthetic_tensors(preset, type, metadata_)),
        bytes_(plan_.size()) {
    for (const SyntheticTensor& tensor : plan_) infos_.push_back(tensor.info);
  }

  const std::string& label() const override { return label_; }
  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return infos_; }

  Result<std::span<const std::byte>> read(size_t index) override {
    CHECK(index < infos_.size());
    const TensorInfo& info = infos_[index];
    if (!bytes_[index]) {
      bytes_[index].reset(new (std::nothrow) std::byte[info.n_bytes]);
      if (!bytes_[index]) {
        return fail(ErrorCode::kExhausted, fmt::format("'{}': no memory for the {} bytes of '{}'",
                                                       label_, info.n_bytes, info.name));
      }
      const uint64_t seed = SyntheticWeights::seed_of(fmt::format("{}:{}", label_, info.name));
      weights_.make(plan_[index], seed, {bytes_[index].get(), info.n_bytes});
    }
    return std::span<const std::byte>(bytes_[index].get(), info.n_bytes);
  }

  void release(size_t index) override {
    CHECK(index < infos_.size());
    bytes_[index].reset();
  }

 private:
  std::string label_;
  Metadata metadata_;
  std::vector<SyntheticTensor> plan_;
  std::vector<TensorInfo> infos_;
  std::vector<std::unique_ptr<std::byte[]>> bytes_;  // null where not read, or released
  SyntheticWeights weights_;
};

Result<const ModelPreset*> find_preset(std::string_view name) {
  std::string known;
  for (const ModelPreset& preset : model_presets()) {
    if (name == preset.name) return &preset;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", preset.name);
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no preset '{}', expected one of {}", name, known));
}

// The number behind the colon of "TYPE:LAYERS"; 0 where there is none.
uint32_t layers_behind(std::string_view type) {
  const size_t colon = type.find(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = type.substr(colon + 1);
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return error == std::errc() && end == digits.data() + digits.size() ? n : 0;
}

Result<const SyntheticType*> find_type(std::string_view name) {
  std::string known;
  for (const SyntheticType& type : synthetic_types()) {
    if (name == type.name) return &type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("random weights cannot be made as '{}', expected one of {}", name, known));
}

}  // namespace

Result<std::unique_ptr<ModelSource>> make_synthetic(std::string_view spec) {
  if (!spec.starts_with(kPrefix)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' names no synthetic model, expected synthetic:PRESET[:TYPE[:LAYERS]]",
                    spec));
  }
  const std::string_view rest = spec.substr(kPrefix.size());
  const size_t colon = rest.find(':');
  TRY_ASSIGN(const ModelPreset* known, find_preset(rest.substr(0, colon)));
  std::string_view type_name = colon == std::string_view::npos ? "q8_0" : rest.substr(colon + 1);
  ModelPreset preset = *known;
  const uint32_t n_layers = layers_behind(type_name);
  if (n_layers > 0 && n_layers <= preset.n_layers) {
    preset.kinds.n_sharing -= std::min(preset.kinds.n_sharing, preset.n_layers - n_layers);
    preset.n_layers = n_layers;
    type_name = type_name.substr(0, type_name.find(':'));
  }
  TRY_ASSIGN(const SyntheticType* type, find_type(type_name));
  std::string label = fmt::format("{}{}:{}", kPrefix, preset.name, type->name);
  if (n_layers > 0) label += fmt::format(":{}", n_layers);
  return std::make_unique<SyntheticSource>(std::move(label), preset, *type);
}

}  // namespace kvik
