#include "format/synthetic/synthetic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text/nearest_name.h"
#include "format/synthetic/synthetic_layout.h"
#include "format/synthetic/synthetic_weights.h"

namespace kvik {
namespace {

constexpr std::string_view kPrefix = "synthetic:";

class SyntheticTensors final : public TensorSource {
 public:
  SyntheticTensors(std::string label, std::vector<SyntheticTensor> plan)
      : label_(std::move(label)), plan_(std::move(plan)), made_(plan_.size()) {
    for (const SyntheticTensor& tensor : plan_) infos_.push_back(tensor.info);
  }

  std::span<const TensorInfo> tensors() const override { return infos_; }

  Result<Bytes> read_range(size_t index, uint64_t begin_byte, uint64_t n_bytes) override {
    CHECK(index < infos_.size());
    const TensorInfo& info = infos_[index];
    Made& made = made_[index];
    if (begin_byte < made.begin || begin_byte + n_bytes > made.begin + made.n_bytes) {
      const uint64_t row_bytes = info.n_bytes / (info.n_elements() / info.shape.back());
      CHECK(begin_byte % row_bytes == 0 && n_bytes % row_bytes == 0);
      if (!made.take(n_bytes)) {
        return fail(ErrorCode::kExhausted, fmt::format("'{}': no memory for {} bytes of '{}'",
                                                       label_, n_bytes, info.name));
      }
      const uint64_t seed = SyntheticWeights::seed_of(fmt::format("{}:{}", label_, info.name));
      weights_.make(plan_[index], seed, begin_byte / row_bytes, {made.bytes.get(), n_bytes});
      made.begin = begin_byte;
    }
    return std::span<const std::byte>(made.bytes.get() + (begin_byte - made.begin), n_bytes);
  }

  void release(size_t index) override {
    CHECK(index < infos_.size());
    made_[index] = Made();
  }

 private:
  struct Made {
    std::unique_ptr<std::byte[]> bytes;
    uint64_t begin = 0, n_bytes = 0;  // range of the tensor in memory
    uint64_t n_taken = 0;

    // Returns false if there is no memory.
    bool take(uint64_t n) {
      n_bytes = 0;
      if (n > n_taken) {
        bytes.reset();
        bytes.reset(new (std::nothrow) std::byte[n]);
        n_taken = bytes ? n : 0;
      }
      n_bytes = n_taken < n ? 0 : n;
      return n_taken >= n;
    }
  };

  std::string label_;
  std::vector<SyntheticTensor> plan_;
  std::vector<TensorInfo> infos_;
  std::vector<Made> made_;  // range of each tensor that was read last
  SyntheticWeights weights_;
};

Result<const ModelPreset*> find_preset(std::string_view name) {
  std::vector<std::string> known;
  for (const ModelPreset& preset : model_presets()) {
    if (name == preset.name) return &preset;
    known.emplace_back(preset.name);
  }
  const std::string question = did_you_mean(name, known);
  if (!question.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("there is no preset '{}'{}", name, question));
  }
  return fail(ErrorCode::kNotFound, fmt::format("there is no preset '{}', expected one of {}", name,
                                                fmt::join(known, ", ")));
}

// Returns LAYERS of "TYPE:LAYERS"; 0 if there is none.
uint32_t layers_after_colon(std::string_view type) {
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
  const uint32_t n_layers = layers_after_colon(type_name);
  if (n_layers > 0 && n_layers <= preset.n_layers) {
    preset.kinds.n_sharing -= std::min(preset.kinds.n_sharing, preset.n_layers - n_layers);
    preset.n_layers = n_layers;
    type_name = type_name.substr(0, type_name.find(':'));
  }
  TRY_ASSIGN(const SyntheticType* type, find_type(type_name));
  std::string label = fmt::format("{}{}:{}", kPrefix, preset.name, type->name);
  if (n_layers > 0) label += fmt::format(":{}", n_layers);
  Metadata metadata = synthetic_metadata(preset, *type);
  auto tensors =
      std::make_unique<SyntheticTensors>(label, synthetic_tensors(preset, *type, metadata));
  return std::make_unique<ModelSource>(std::move(label), std::move(metadata), std::move(tensors));
}

}  // namespace kvik
