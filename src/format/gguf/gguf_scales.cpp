#include "format/gguf/gguf_scales.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kScale = ".scale";
constexpr std::string_view kInputScale = ".input_scale";

bool is_scaled(const TensorInfo& info) {
  return info.type == ElementType::kNvFp4 && info.name.ends_with(kWeight);
}

bool is_known(std::string_view name, const Metadata& model) {
  const auto id = tensor_named(name);
  if (!id) return false;
  const auto config = read_config(model);
  return config && TensorTable(*config).find(*id);
}

std::string beside(const TensorInfo& weight, std::string_view ending) {
  return weight.name.substr(0, weight.name.size() - kWeight.size()) + std::string(ending);
}

}  // namespace

std::optional<TensorInfo> gguf_scales_of(const TensorInfo& weight, const Metadata& model) {
  if (!is_scaled(weight) || is_known(beside(weight, kScale), model)) return std::nullopt;
  const uint64_t n = weight.shape.size() == 3 ? weight.shape[0] : 1;
  return TensorInfo{beside(weight, kScale), ElementType::kF32, {n}, n * sizeof(float)};
}

Result<void> take_gguf_scales(ModelSource& source) {
  const auto all = source.tensors();
  if (std::ranges::none_of(all, is_scaled)) return {};
  std::vector<bool> is_left_out(all.size());
  std::vector<ArrangedTensor> tensors;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors.push_back(unchanged_tensor(source, i));
    const auto expected = gguf_scales_of(all[i], source.metadata());
    if (!expected) continue;
    if (const auto input = source.find(beside(all[i], kInputScale))) is_left_out[*input] = true;
    const auto found = source.find(expected->name);
    if (!found) continue;
    const TensorInfo& info = all[*found];
    if (info.type != ElementType::kF32 ||
        (info.shape != expected->shape && info.n_elements() != 1)) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}': tensor {} is of type {} and shape [{}], expected f32 and [{}]",
                              source.label(), quoted(info.name), name_of(info.type),
                              fmt::join(info.shape, ", "), fmt::join(expected->shape, ", ")));
    }
    is_left_out[*found] = true;
    tensors.back().scales = *found;
  }
  std::vector<ArrangedTensor> kept;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_left_out[i]) kept.push_back(std::move(tensors[i]));
  }
  arrange(source, std::move(kept));
  return {};
}

}  // namespace kvik
